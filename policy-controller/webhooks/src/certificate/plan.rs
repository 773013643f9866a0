//! Plans when the certificate is issued, announced and put in use: a pure function of the Secret's
//! content and the time.
//!
//! A new certificate is staged until its authority has been in the webhook configuration for a
//! while; only then do all API servers accept it. The previous authority stays in the CA bundle
//! until its certificate has expired, because a replica that has not noticed the change may serve
//! that certificate until then.

use policy_kube::rotation::{NextCertificate, RotationState, Step, step};
use std::time::{Duration, SystemTime};

/// Lifetime of a certificate.
pub(super) const LIFETIME: Duration = Duration::from_secs(90 * DAY);
/// Time before its expiry at which the next certificate is issued.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * DAY);
/// Time for which the next certificate is staged, so that every API server has read its authority.
const SETTLE: Duration = Duration::from_secs(600);

const DAY: u64 = 86_400;

/// The times of the Secret's content that a step is planned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Begin of the validity of the certificate in use.
    pub(super) begins: SystemTime,
    /// Expiry of the certificate in use.
    pub(super) serving: SystemTime,
    /// The staged certificate.
    pub(super) next: Option<NextCertificate>,
    /// Earliest expiry of an authority in the CA bundle.
    pub(super) oldest_authority: SystemTime,
}

/// Plans the next step. `held` is absent if nothing usable is stored; `published` is true if the
/// webhook configuration has the stored CA bundle.
pub(super) fn plan(held: Option<Times>, published: bool, now: SystemTime) -> Step {
    let held = held.map(|Times { begins, serving, next, oldest_authority }| RotationState {
        // A certificate that is not valid yet was issued by a replica whose clock was far ahead.
        usable: serving > now && begins <= now,
        due: serving.duration_since(now).unwrap_or_default() <= RENEW_BEFORE,
        next,
        former_until: Some(oldest_authority),
    });
    step(held, SETTLE, published, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH
            .checked_add(
                Duration::from_secs(1_800_000_000).saturating_add(Duration::from_secs(seconds)),
            )
            .unwrap()
    }

    fn held(serving: u64, next: Option<(u64, u64)>) -> Option<Times> {
        let next = next
            .map(|(not_after, since)| NextCertificate { ends: at(not_after), since: at(since) });
        let begins = at(serving.saturating_sub(90 * DAY));
        Some(Times { begins, serving: at(serving), next, oldest_authority: at(serving) })
    }

    #[test]
    fn what_cannot_be_served_is_made_anew() {
        assert_eq!(plan(None, false, at(0)), Step::Create);
        assert_eq!(plan(held(90 * DAY, None), true, at(91 * DAY)), Step::Create);
    }

    #[test]
    fn a_certificate_is_replaced_in_two_steps_long_before_its_end() {
        let fresh = held(90 * DAY, None);
        assert_eq!(plan(fresh, true, at(60 * DAY - 1)), Step::Keep);
        assert_eq!(plan(fresh, true, at(60 * DAY)), Step::Stage);
        let staged = held(90 * DAY, Some((150 * DAY, 60 * DAY)));
        assert_eq!(plan(staged, true, at(60 * DAY + 599)), Step::Keep, "nobody has seen it yet");
        assert_eq!(plan(staged, true, at(60 * DAY + 600)), Step::Promote);
    }

    #[test]
    fn nothing_is_put_in_use_whose_authority_nobody_knows() {
        let staged = held(90 * DAY, Some((150 * DAY, 60 * DAY)));
        assert_eq!(plan(staged, false, at(89 * DAY)), Step::Keep);
        assert_eq!(plan(staged, false, at(90 * DAY)), Step::Promote, "the other one has expired");
    }

    #[test]
    fn an_authority_stays_until_its_certificate_has_expired() {
        let times = |oldest| {
            let (begins, serving) = (at(60 * DAY), at(150 * DAY));
            Some(Times { begins, serving, next: None, oldest_authority: at(oldest) })
        };
        assert_eq!(plan(times(90 * DAY), true, at(90 * DAY - 1)), Step::Keep);
        assert_eq!(plan(times(90 * DAY), true, at(90 * DAY)), Step::Retire);
        assert_eq!(plan(times(150 * DAY), true, at(90 * DAY)), Step::Keep);
    }

    #[test]
    fn what_a_clock_far_ahead_has_made_is_not_kept_until_it_becomes_valid() {
        assert_eq!(plan(held(190 * DAY, None), true, at(0)), Step::Create);
        assert_eq!(plan(held(190 * DAY, None), true, at(100 * DAY)), Step::Keep);
    }

    #[test]
    fn a_wrong_clock_delays_but_does_not_stop_the_renewal() {
        let soon = held(90 * DAY, Some((150 * DAY, 60 * DAY + 300)));
        assert_eq!(plan(soon, true, at(60 * DAY)), Step::Keep);
        let far = held(90 * DAY, Some((150 * DAY, 80 * DAY)));
        assert_eq!(plan(far, true, at(60 * DAY)), Step::Stage);
    }

    #[test]
    fn a_year_of_hourly_looks_never_serves_what_the_bundle_does_not_vouch_for() {
        // A replica serves what it read an hour ago; the bundle is the current one.
        let (mut serving, mut next) = (at(90 * DAY), None::<NextCertificate>);
        let mut bundle = vec![serving];
        let mut read = serving;
        let mut renewals = 0;
        for hour in 0..366 * 24 {
            let now = at(hour * HOUR);
            assert!(bundle.contains(&read) && read > now, "hour {hour}");
            read = serving;
            let oldest = bundle.iter().min().copied();
            let begins = serving - LIFETIME;
            let oldest_authority = oldest.unwrap_or(serving);
            let times = Times { begins, serving, next, oldest_authority };
            match plan(Some(times), true, now) {
                Step::Keep => {}
                Step::Create => panic!("hour {hour}: had nothing to serve"),
                Step::Stage => {
                    next = Some(NextCertificate { ends: now + LIFETIME, since: now });
                    bundle.push(now + LIFETIME);
                }
                Step::Promote => {
                    serving = next.take().unwrap().ends;
                    renewals += 1;
                }
                Step::Retire => bundle.retain(|end| *end > now),
            }
        }
        assert_eq!(renewals, 6);
        assert!(bundle.len() <= 2, "{bundle:?}");
    }
}
