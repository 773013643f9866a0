//! Tells HTTP/1 and HTTP/2 from everything else by a connection's first bytes.
//!
//! Errs towards HTTP: bytes that some HTTP server would take for a request must not escape HTTP
//! policy as opaque bytes. So a known method and a path are HTTP even without a version (HTTP/0.9),
//! empty lines before the request line are skipped as servers skip them, and a line that is still
//! incomplete when the time is over is HTTP/1.

use super::io::ClientIo;
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// What a connection's first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
    Other,
}

/// How looking ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detected {
    /// The bytes tell.
    Told(Spoken),
    /// The client sent nothing in time.
    Silent,
    /// The client ended without a byte.
    Ended,
}

/// Reads until it can be told, bounded in bytes and by `within`. What was read is put back.
pub(super) async fn detect(io: &mut ClientIo, within: Duration) -> std::io::Result<Detected> {
    let mut seen = BytesMut::new();
    let told = match timeout(within, read(io, &mut seen)).await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => return Err(error),
        Err(_) if seen.is_empty() => Detected::Silent,
        // What may still become HTTP is judged as HTTP.
        Err(_) => Detected::Told(Spoken::Http1),
    };
    io.unread(seen.freeze());
    Ok(told)
}

async fn read(io: &mut ClientIo, seen: &mut BytesMut) -> std::io::Result<Detected> {
    loop {
        seen.reserve(FIRST_READ);
        let read = io.read_buf(seen).await?;
        if let Some(spoken) = tell(seen) {
            return Ok(Detected::Told(spoken));
        }
        match (read, seen.is_empty()) {
            (0, true) => return Ok(Detected::Ended),
            (0, false) => return Ok(Detected::Told(Spoken::Http1)),
            (_, _) => {}
        }
    }
}

/// What the bytes are; `None` while they may become either. Never `None` beyond [`MAX_LINE`] bytes.
pub(super) fn tell(bytes: &[u8]) -> Option<Spoken> {
    if bytes.starts_with(PREFACE) {
        return Some(Spoken::Http2);
    }
    if PREFACE.starts_with(bytes) {
        return None;
    }
    if bytes.len() > MAX_LINE {
        return Some(Spoken::Http1);
    }
    let blank = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    let rest = bytes.get(blank..).unwrap_or_default();
    let (line, complete) = match rest.iter().position(|b| *b == b'\n') {
        Some(end) => (rest.get(..end).unwrap_or_default(), true),
        None => (rest, false),
    };
    request_line(line, complete)
}

fn request_line(line: &[u8], complete: bool) -> Option<Spoken> {
    let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
    let Some(end) = line.iter().position(is_blank) else {
        let possible = line.len() <= MAX_METHOD && line.iter().copied().all(is_token);
        return if possible && !complete { None } else { Some(Spoken::Other) };
    };
    let (method, rest) = line.split_at_checked(end)?;
    if method.is_empty() || method.len() > MAX_METHOD || !method.iter().copied().all(is_token) {
        return Some(Spoken::Other);
    }
    let blank = rest.iter().take_while(|b| is_blank(b)).count();
    let target = rest.get(blank..).unwrap_or_default();
    let known = METHODS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(method));
    match target.first() {
        None if !complete => None,
        None => Some(Spoken::Other),
        // A path, `*`, or a full URL.
        Some(b'/' | b'*') if known => Some(Spoken::Http1),
        Some(_) => has_version(target, complete),
    }
}

/// Any other line is HTTP if `HTTP/` follows the target.
fn has_version(rest: &[u8], complete: bool) -> Option<Spoken> {
    let target = rest.iter().take_while(|b| !matches!(b, b' ' | b'\t')).count();
    let after = rest.get(target..).unwrap_or_default();
    let blank = after.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let version = after.get(blank..).unwrap_or_default();
    let name = version.get(..version.len().min(VERSION.len())).unwrap_or_default();
    let fits = VERSION.get(..name.len()).is_some_and(|want| want.eq_ignore_ascii_case(name));
    if fits && name.len() == VERSION.len() {
        return Some(Spoken::Http1);
    }
    let absolute = [&b"http://"[..], b"https://"];
    let url = absolute.iter().any(|scheme| {
        rest.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    });
    match (url, fits && !complete) {
        (true, _) => Some(Spoken::Http1),
        (false, true) => None,
        (false, false) => Some(Spoken::Other),
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const VERSION: &[u8] = b"HTTP/";
const FIRST_READ: usize = 2048;
/// A request line longer than this is judged as HTTP/1, which then refuses it for its length.
const MAX_LINE: usize = 8 * 1024;
const MAX_METHOD: usize = 32;

/// The methods that HTTP servers know; for these a target is enough.
const METHODS: [&str; 34] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "SEARCH",
    "BIND",
    "REBIND",
    "UNBIND",
    "ACL",
    "REPORT",
    "MKACTIVITY",
    "CHECKOUT",
    "MERGE",
    "M-SEARCH",
    "NOTIFY",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PURGE",
    "LINK",
    "UNLINK",
    "MKCALENDAR",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(bytes: &[u8], want: Option<Spoken>) {
        assert_eq!(tell(bytes), want, "{:?}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn a_request_line_is_http_1() {
        check(b"GET / HTTP/1.1\r\n", Some(Spoken::Http1));
        check(b"GET /a", Some(Spoken::Http1));
        check(b"BREW coffee HTTP/1.1\r\n", Some(Spoken::Http1));
        check(b"get /a", Some(Spoken::Http1));
        check(b"GET http://a/b", Some(Spoken::Http1));
        check(b"CONNECT a:80 HTTP/1.1\r\n", Some(Spoken::Http1));
    }

    #[test]
    fn the_preface_is_http_2_and_nothing_less() {
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Spoken::Http2));
        check(b"PRI * HTTP/2.0\r\n\r\nS", None);
        check(b"P", None);
        check(b"PRI * HTTP/2.0\r\nHost: a\r\n", Some(Spoken::Http1));
    }

    #[test]
    fn a_short_first_segment_is_not_yet_told() {
        check(b"", None);
        check(b"G", None);
        check(b"GET ", None);
        check(b"\r\n", None);
        check(b"BREW coffee HT", None);
    }

    #[test]
    fn what_a_lenient_server_would_take_for_a_request_is_http() {
        check(b"GET /admin\r\n", Some(Spoken::Http1));
        check(b"\r\n\r\nGET /admin HTTP/1.0\r\n", Some(Spoken::Http1));
        check(b"GET  /admin", Some(Spoken::Http1));
        check(b"GET\t/admin", Some(Spoken::Http1));
        check(&[b"GET ".as_slice(), &[b'x'; 9000]].concat(), Some(Spoken::Http1));
    }

    #[test]
    fn other_protocols_are_not_http() {
        check(b"EHLO mail.example\r\n", Some(Spoken::Other));
        check(b"PING\r\n", Some(Spoken::Other));
        check(b"SET key value\r\n", Some(Spoken::Other));
        check(b"GET key\r\n", Some(Spoken::Other));
        check(b"*1\r\n$4\r\nPING\r\n", Some(Spoken::Other));
        check(&[0, 0, 0, 8, 4, 210, 22, 47], Some(Spoken::Other));
        check(&[22, 3, 1, 2, 0], Some(Spoken::Other));
        check(b"SSH-2.0-OpenSSH_9\r\n", Some(Spoken::Other));
        check(&[b'a'; 40], Some(Spoken::Other));
    }

    proptest! {
        #[test]
        fn once_told_more_bytes_change_nothing(
            line in "(GET|POST|BREW|PRI|x{0,40}|\r\n)[ \t]{0,2}[ -~]{0,20}[ ]?(HTTP/1.1)?(\r\n)?",
            cut in 0_usize..60,
        ) {
            let bytes = line.as_bytes();
            let part = &bytes[..cut.min(bytes.len())];
            if let Some(told) = tell(part) {
                prop_assert_eq!(tell(bytes), Some(told), "{:?} then {:?}", part, bytes);
            }
        }

        #[test]
        fn it_is_always_told_within_the_bound(
            bytes in prop::collection::vec(any::<u8>(), 8193..9000),
        ) {
            prop_assert!(tell(&bytes).is_some());
        }
    }
}
