//! The validity of an X.509 certificate: read, which verifiers keep to themselves, and written.

use crate::der::{GENERALIZED_TIME, INTEGER, SEQUENCE, UTC_TIME, context, element};
use jiff::civil::DateTime;
use rcgen::{CertificateParams, date_time_ymd};
use std::time::{Duration, SystemTime};

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
    if let Some((_, rest)) = element(body, context(0)) {
        body = rest;
    }
    let (_serial, body) = element(body, INTEGER)?;
    let (_algorithm, body) = element(body, SEQUENCE)?;
    let (_issuer, body) = element(body, SEQUENCE)?;
    let (validity, _) = element(body, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    time(rest).map(|(not_after, _)| (not_before, not_after))
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

/// Makes what is made of `params` valid from `now` for `lifetime`, and a little before.
///
/// # Errors
/// If these times cannot be written.
pub(crate) fn valid(
    params: &mut CertificateParams,
    now: SystemTime,
    lifetime: Duration,
) -> Result<(), rcgen::Error> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    let at = |since: Duration| {
        let whole = Duration::from_secs(since.as_secs());
        whole.try_into().ok().and_then(|span| epoch.checked_add(span)).ok_or(rcgen::Error::Time)
    };
    params.not_before = at(since.saturating_sub(BACKDATED))?;
    params.not_after = at(since.saturating_add(lifetime))?;
    Ok(())
}

/// How long before it is made a certificate is valid, for clocks that are behind.
const BACKDATED: Duration = Duration::from_secs(3600);

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;
    use rcgen::KeyPair;
    use std::time::UNIX_EPOCH;

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
