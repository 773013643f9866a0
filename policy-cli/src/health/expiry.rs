//! Validity of certificates.

use crate::diagnostics::check::Check;
use crate::diagnostics::result::CheckResult;
use policy_tls::datetime::rfc3339_seconds;
use policy_tls::identity::{certificates, validity};
use std::time::{Duration, SystemTime};

/// A bundle of certificates. The latest expiry counts, because bundles keep former certificates for
/// as long as chains lead to them.
pub(super) struct Bundle<'a> {
    /// Name of the certificates, in words.
    pub(super) what: &'a str,
    /// PEM.
    pub(super) pem: &'a [u8],
    /// Hint for mending it.
    pub(super) hint: &'a str,
}

/// Checks that a bundle is valid now and does not expire soon.
pub(super) fn check_validity(check: Check, bundle: &Bundle<'_>, now: SystemTime) -> CheckResult {
    let Bundle { what, pem, hint } = bundle;
    let read = match certificates(pem) {
        Ok(read) => read,
        Err(words) => {
            return CheckResult::fail(check, format!("{what} cannot be read: {words}"), *hint);
        }
    };
    let times = read.iter().filter_map(|certificate| validity(certificate));
    let Some((begins, ends)) = times.max_by_key(|(_, ends)| *ends) else {
        return CheckResult::fail(
            check,
            format!("{what} has no certificate that can be read"),
            *hint,
        );
    };
    if ends <= now {
        return CheckResult::fail(
            check,
            format!("{what} expired at {}", rfc3339_seconds(ends)),
            *hint,
        );
    }
    if begins > now {
        let message = format!("{what} is not valid before {}", rfc3339_seconds(begins));
        return CheckResult::fail(check, message, "keep the clocks in step");
    }
    let life = ends.duration_since(begins).unwrap_or_default();
    let left = ends.duration_since(now).unwrap_or_default();
    // Automatic renewal happens long before.
    if left < life.checked_div(10).unwrap_or(Duration::ZERO) {
        return CheckResult::warn(
            check,
            format!("{what} expires soon, at {}", rfc3339_seconds(ends)),
            *hint,
        );
    }
    CheckResult::pass(check, format!("{what} is valid until {}", rfc3339_seconds(ends)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;
    use crate::diagnostics::result::CheckOutcome;

    /// A certificate of these days of 2026, PEM.
    fn pem(from: u8, to: u8) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["x".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, from);
        params.not_after = rcgen::date_time_ymd(2026, 1, to);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    fn at(pem: &str, hours: u64) -> CheckOutcome {
        let start = SystemTime::from("2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap());
        let bundle = Bundle { what: "it", pem: pem.as_bytes(), hint: "do" };
        check_validity(Check::Roots, &bundle, start + Duration::from_secs(hours * 3600)).outcome
    }

    #[test]
    fn a_certificate_lasts_ends_soon_or_has_expired() {
        let ten_days = pem(2, 12);
        assert_eq!(at(&ten_days, 0), CheckOutcome::Fail, "not valid yet");
        assert_eq!(at(&ten_days, 30), CheckOutcome::Pass);
        assert_eq!(at(&ten_days, 24 + 9 * 24 + 1), CheckOutcome::Warn);
        assert_eq!(at(&ten_days, 11 * 24), CheckOutcome::Fail);
        let with_next = format!("{ten_days}{}", pem(10, 30));
        assert_eq!(at(&with_next, 11 * 24), CheckOutcome::Pass, "the next one has begun");
        assert_eq!(at("nothing", 30), CheckOutcome::Fail);
    }
}
