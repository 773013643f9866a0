//! How long certificates last.

use crate::checkup::check::Check;
use crate::checkup::finding::Finding;
use policy_tls::datetime::rfc3339_seconds;
use policy_tls::identity::{certificates, validity};
use std::time::{Duration, SystemTime};

/// Certificates that are looked at together: the last of them to end counts, because bundles hold
/// former ones for as long as something leads to them.
pub(super) struct Bundle<'a> {
    /// What they are, in words.
    pub(super) what: &'a str,
    /// PEM.
    pub(super) pem: &'a [u8],
    /// What mends it.
    pub(super) mend: &'a str,
}

/// Whether a bundle is good now and for a while.
pub(super) fn lasting(check: Check, bundle: &Bundle<'_>, now: SystemTime) -> Finding {
    let Bundle { what, pem, mend } = bundle;
    let read = match certificates(pem) {
        Ok(read) => read,
        Err(words) => {
            return Finding::fail(check, format!("{what} cannot be read: {words}"), *mend);
        }
    };
    let times = read.iter().filter_map(|certificate| validity(certificate));
    let Some((begins, ends)) = times.max_by_key(|(_, ends)| *ends) else {
        return Finding::fail(check, format!("{what} has no certificate that can be read"), *mend);
    };
    if ends <= now {
        return Finding::fail(check, format!("{what} expired at {}", rfc3339_seconds(ends)), *mend);
    }
    if begins > now {
        let message = format!("{what} is not valid before {}", rfc3339_seconds(begins));
        return Finding::fail(check, message, "keep the clocks in step");
    }
    let life = ends.duration_since(begins).unwrap_or_default();
    let left = ends.duration_since(now).unwrap_or_default();
    // What renews itself does so long before.
    if left < life.checked_div(10).unwrap_or(Duration::ZERO) {
        return Finding::warn(
            check,
            format!("{what} ends soon, at {}", rfc3339_seconds(ends)),
            *mend,
        );
    }
    Finding::pass(check, format!("{what} lasts until {}", rfc3339_seconds(ends)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;
    use crate::checkup::finding::Outcome;

    /// A certificate of these days of 2026, PEM.
    fn pem(from: u8, to: u8) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["x".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, from);
        params.not_after = rcgen::date_time_ymd(2026, 1, to);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    fn at(pem: &str, hours: u64) -> Outcome {
        let start = SystemTime::from("2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap());
        let bundle = Bundle { what: "it", pem: pem.as_bytes(), mend: "do" };
        lasting(Check::Roots, &bundle, start + Duration::from_secs(hours * 3600)).outcome
    }

    #[test]
    fn a_certificate_lasts_ends_soon_or_has_expired() {
        let ten_days = pem(2, 12);
        assert_eq!(at(&ten_days, 0), Outcome::Fail, "not valid yet");
        assert_eq!(at(&ten_days, 30), Outcome::Pass);
        assert_eq!(at(&ten_days, 24 + 9 * 24 + 1), Outcome::Warn);
        assert_eq!(at(&ten_days, 11 * 24), Outcome::Fail);
        let with_next = format!("{ten_days}{}", pem(10, 30));
        assert_eq!(at(&with_next, 11 * 24), Outcome::Pass, "the next one has begun");
        assert_eq!(at("nothing", 30), Outcome::Fail);
    }
}
