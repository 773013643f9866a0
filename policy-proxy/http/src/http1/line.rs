//! Header lines of a head.

use http::header::HeaderName;

/// Appends a field with CR LF.
pub(super) fn line(name: &HeaderName, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a `content-length` field.
pub(super) fn sized(bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"content-length: ");
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
    fn numbers_are_written_whole() {
        for number in [0, 9, 10, 1_048_576, u64::MAX] {
            let mut out = Vec::new();
            decimal(number, &mut out);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
