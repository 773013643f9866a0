//! The validity of an X.509 certificate: the one thing that is needed of certificates and that the
//! verifier keeps to itself.

use jiff::civil::DateTime;
use std::time::SystemTime;

/// The time after which the certificate `der` is not valid. `None` if there is no reading it.
pub(crate) fn not_after(der: &[u8]) -> Option<SystemTime> {
    validity(der).map(|(_, not_after)| not_after)
}

/// The times before and after which the certificate `der` is not valid (RFC 5280 section 4.1.2.5).
/// `None` if there is no reading it.
pub(crate) fn validity(der: &[u8]) -> Option<(SystemTime, SystemTime)> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut body, _) = element(certificate, SEQUENCE)?;
    // The version is left out where it is 1.
    if let Some((_, rest)) = element(body, VERSION) {
        body = rest;
    }
    let (_serial, body) = element(body, INTEGER)?;
    let (_algorithm, body) = element(body, SEQUENCE)?;
    let (_issuer, body) = element(body, SEQUENCE)?;
    let (validity, _) = element(body, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    time(rest).map(|(not_after, _)| (not_before, not_after))
}

/// The content of the element of this tag that `input` begins with, and what follows it.
fn element(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // So many bytes of length follow; four are more than any certificate has.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = bytes.iter().try_fold(0usize, |length, byte| {
                length.checked_mul(256)?.checked_add(usize::from(*byte))
            })?;
            (length, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

fn time(input: &[u8]) -> Option<(SystemTime, &[u8])> {
    let utc = element(input, UTC_TIME);
    let (text, rest) = utc.or_else(|| element(input, GENERALIZED_TIME))?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let full = match (utc, text.get(..2)?.parse::<u8>().ok()?) {
        (None, _) => text.to_owned(),
        // RFC 5280 section 4.1.2.5.1.
        (Some(_), 50..) => format!("19{text}"),
        (Some(_), _) => format!("20{text}"),
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%S", full).ok()?;
    // The end of the year 9999, which stands for no end (RFC 5280 section 4.1.2.5), is a day more than
    // there are timestamps for.
    let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC);
    let at = zoned.map_or(jiff::Timestamp::MAX, |zoned| zoned.timestamp());
    Some((at.into(), rest))
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use std::time::{Duration, UNIX_EPOCH};

    fn made(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, month, day);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn both_forms_of_time_are_read() {
        let seconds = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(not_after(&made(2030, 2, 1)), seconds(1_896_134_400));
        assert_eq!(not_after(&made(2049, 12, 31)), seconds(2_524_521_600));
        assert_eq!(not_after(&made(2060, 1, 1)), seconds(2_840_140_800));
    }

    #[test]
    fn a_certificate_without_end_is_valid_for_as_long_as_can_be_said() {
        assert_eq!(not_after(&made(9999, 12, 31)), Some(jiff::Timestamp::MAX.into()));
    }

    #[test]
    fn whatever_is_cut_off_or_changed_is_no_panic() {
        let certificate = made(2030, 2, 1);
        for length in 0..certificate.len() {
            not_after(&certificate[..length]);
        }
        for at in 0..certificate.len().min(200) {
            let mut changed = certificate.clone();
            changed[at] = changed[at].wrapping_add(0x7f);
            not_after(&changed);
        }
        assert_eq!(not_after(&certificate[..100]), None);
    }
}
