//! Header lines of a head.
//!
//! Names of fields have no case (RFC 9110 section 5.1), and a header map holds them in lower case. Some
//! old programs compare them by case all the same, so a name is written as it was received. A value is
//! a part of the received head, in which its name stands in front of it: nothing has to be kept but the
//! head itself.

use http::header::HeaderName;

/// Appends a field with CR LF.
pub(super) fn line(name: &HeaderName, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field with CR LF, its name as it is spelt in the received head `text`, if its value is a
/// part of that.
pub(super) fn line_as_received(name: &HeaderName, value: &[u8], text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(spelling(name, value, text));
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Returns `name` as it is spelt in front of `value` in `text`, and in lower case if `value` is no part
/// of `text`, or is another field's.
pub(super) fn spelling<'a>(name: &'a HeaderName, value: &[u8], text: &'a [u8]) -> &'a [u8] {
    let lower = name.as_str().as_bytes();
    let place = value.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    let Some(before) = text.get(..place) else { return lower };
    let before = match before {
        [before @ .., b':', b' '] | [before @ .., b':'] => before,
        _ => return lower,
    };
    let spelt = before.len().checked_sub(lower.len()).and_then(|start| before.get(start..));
    spelt.filter(|spelt| spelt.eq_ignore_ascii_case(lower)).unwrap_or(lower)
}

/// Appends a `content-length` field, whose name is spelt like this.
pub(super) fn sized(name: &[u8], bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    decimal(bytes, out);
    out.extend_from_slice(b"\r\n");
}

fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut used: usize = 0;
    for place in digits.iter_mut().rev() {
        *place = b'0'.saturating_add(u8::try_from(number.rem_euclid(10)).unwrap_or(0));
        used = used.saturating_add(1);
        number = number.div_euclid(10);
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(digits.len().saturating_sub(used)..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_as_it_was_received_and_never_as_another() {
        let text = b"GET / HTTP/1.1\r\nX-ReQuest-ID: 1\r\nX-b:2\r\nX-c:\t3\r\n\r\n";
        let value = |byte: u8| {
            let at = text.iter().rposition(|own| *own == byte).unwrap();
            text.get(at..=at).unwrap()
        };
        let spelt = |name: &'static str, value: &[u8]| {
            let name = HeaderName::from_static(name);
            String::from_utf8(spelling(&name, value, text).to_vec()).unwrap()
        };
        assert_eq!(spelt("x-request-id", text.get(30..31).unwrap()), "X-ReQuest-ID");
        assert_eq!(spelt("x-b", value(b'2')), "X-b");
        // More than one blank: as if it were not received.
        assert_eq!(spelt("x-c", value(b'3')), "x-c");
        // A value that was moved to another name, one of the proxy's own, and none.
        assert_eq!(spelt("x-a", value(b'2')), "x-a");
        assert_eq!(spelt("x-b", b"2"), "x-b");
        assert_eq!(spelt("b", value(b'2')), "b");
        assert_eq!(spelt("x-b", &[]), "x-b");
    }

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 9, 10, 1_048_576, u64::MAX] {
            let mut out = Vec::new();
            decimal(number, &mut out);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
