//! As much of HTTP/1.1 as a load generator and an application need that trust each other.

/// A head of a message, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Bytes up to the body.
    pub length: usize,
    /// Of a response; zero of a request.
    pub status: u16,
    /// Bytes of the body; nothing where the head does not say it.
    pub body: Option<usize>,
    /// In chunks.
    pub chunked: bool,
    /// The sender closes after this message.
    pub close: bool,
}

/// The head at the start of what was received; nothing while it is not whole.
pub fn head(bytes: &[u8]) -> Option<Head> {
    let mut head = Head::default();
    let mut rest = bytes;
    let mut first = true;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, after) = rest.split_at(end + 1);
        head.length += end + 1;
        rest = after;
        let line = line.trim_ascii_end();
        if first {
            head.status = status(line);
            first = false;
        } else if line.is_empty() {
            return Some(head);
        } else {
            field(line, &mut head);
        }
    }
}

fn status(line: &[u8]) -> u16 {
    let Some(rest) = line.strip_prefix(b"HTTP/1.1 ") else { return 0 };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).take(3);
    digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
}

fn field(line: &[u8], head: &mut Head) {
    // The length of the name alone leaves few to compare.
    let value = |name: &[u8]| {
        let (start, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    };
    if let Some(value) = value(b"content-length") {
        let digits = value.iter().filter(|byte| byte.is_ascii_digit());
        head.body = Some(digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')));
    } else if let Some(value) = value(b"connection") {
        head.close = value.eq_ignore_ascii_case(b"close");
    } else if let Some(value) = value(b"transfer-encoding") {
        head.chunked = value.eq_ignore_ascii_case(b"chunked");
    }
}

/// Number of bytes that the client asks for: the number after the `?` of the path.
pub fn wanted(bytes: &[u8]) -> Option<usize> {
    let line = bytes.split(|byte| *byte == b'\r').next()?;
    let path = line.split(|byte| *byte == b' ').nth(1)?;
    let at = path.iter().position(|byte| *byte == b'?')?;
    let (_, digits) = path.split_at_checked(at + 1)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_whole_or_nothing() {
        let text = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 12\r\nConnection: close\r\n\r\nrest";
        let whole = Head { length: 65, status: 403, body: Some(12), chunked: false, close: true };
        assert_eq!(head(text), Some(whole));
        for end in 0..65 {
            assert_eq!(head(&text[..end]), None);
        }
        let chunked = head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
        assert!(chunked.chunked && chunked.body.is_none() && !chunked.close);
    }

    #[test]
    fn what_is_asked_for_is_in_the_query() {
        assert_eq!(wanted(b"GET /zz/x?4096 HTTP/1.1\r\nhost: a\r\n\r\n"), Some(4096));
        assert_eq!(wanted(b"GET /zz/x HTTP/1.1\r\nhost: a?1\r\n\r\n"), None);
    }
}
