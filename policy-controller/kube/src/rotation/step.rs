//! The steps of rotation: issue, announce, promote and retire, as a pure function of the state and
//! the time.
//!
//! ```text
//! steady ──Stage──▶ staged ──Promote──▶ overlap ──Retire──▶ steady
//! one               next waits;         next is in use;     nothing former is
//!                   it is announced     former roots        still served or
//!                                       stay                still valid
//! ```
//!
//! Each step is one write of the Secret, so that a process that ends between two leaves a state from
//! which any replica continues.

use std::time::{Duration, SystemTime};

/// The state of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationState {
    /// True if the certificate in use can be used now.
    pub usable: bool,
    /// True if it is time to make the next one.
    pub due: bool,
    /// The staged certificate.
    pub next: Option<NextCertificate>,
    /// The time until which former certificates or roots are needed; `None` if there are none.
    pub former_until: Option<SystemTime>,
}

/// A staged certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextCertificate {
    /// Its expiry.
    pub ends: SystemTime,
    /// The time since which it is announced.
    pub since: SystemTime,
}

/// The next step of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Keep,
    /// Make one and put it in use at once, because there is none that could be used.
    Create,
    /// Make the next one and announce it.
    Stage,
    /// Put the next one in use.
    Promote,
    /// Remove former ones that are not needed any more.
    Retire,
}

/// Returns the step to take now. `held` is `None` if nothing usable is stored. `settle` is the
/// minimum time that a staged certificate waits; `announced` is true if every component that
/// has to know it does.
pub fn step(
    held: Option<RotationState>,
    settle: Duration,
    announced: bool,
    now: SystemTime,
) -> Step {
    let Some(held) = held else { return Step::Create };
    let next = held.next.filter(|next| next.ends > now);
    match next {
        Some(_) if !held.usable => Step::Promote,
        None if !held.usable => Step::Create,
        Some(next) => match now.duration_since(next.since) {
            Ok(waited) if waited >= settle && announced => Step::Promote,
            // From the future: a clock was wrong, and the wait must not be for ever.
            Err(ahead) if ahead.duration() > settle => Step::Stage,
            Ok(_) | Err(_) => Step::Keep,
        },
        None if held.former_until.is_some_and(|until| until <= now) => Step::Retire,
        None if held.due => Step::Stage,
        None => Step::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_secs(600);

    fn at(seconds: u64) -> SystemTime {
        let since = Duration::from_secs(1_800_000_000).saturating_add(Duration::from_secs(seconds));
        SystemTime::UNIX_EPOCH.checked_add(since).unwrap()
    }

    /// The state at 10,000 s. `next`: its expiry and since when it is announced.
    fn held(
        usable: bool,
        due: bool,
        next: Option<(u64, u64)>,
        former: Option<u64>,
    ) -> Option<RotationState> {
        let next = next.map(|(ends, since)| NextCertificate { ends: at(ends), since: at(since) });
        Some(RotationState { usable, due, next, former_until: former.map(at) })
    }

    #[track_caller]
    fn check(held: Option<RotationState>, announced: bool, want: Step) {
        assert_eq!(step(held, SETTLE, announced, at(10_000)), want);
    }

    #[test]
    fn what_cannot_be_used_is_replaced_at_once() {
        check(None, false, Step::Create);
        check(held(false, true, None, None), true, Step::Create);
        check(held(false, true, Some((10_001, 9_999)), None), false, Step::Promote);
        check(held(false, true, Some((10_000, 1)), None), true, Step::Create);
    }

    #[test]
    fn the_next_one_waits_until_it_has_been_announced_for_a_while() {
        let next = |since| held(true, true, Some((20_000, since)), None);
        check(next(9_400), true, Step::Promote);
        check(next(9_401), true, Step::Keep);
        check(next(9_400), false, Step::Keep);
        check(next(10_600), true, Step::Keep);
        check(next(10_601), true, Step::Stage);
        check(held(true, true, Some((10_000, 1)), None), true, Step::Stage);
    }

    #[test]
    fn former_ones_are_forgotten_before_the_next_is_made() {
        check(held(true, false, None, None), true, Step::Keep);
        check(held(true, true, None, None), true, Step::Stage);
        check(held(true, true, None, Some(10_000)), true, Step::Retire);
        check(held(true, true, None, Some(10_001)), true, Step::Stage);
        check(held(true, false, None, Some(10_001)), true, Step::Keep);
        check(held(true, false, Some((20_000, 9_000)), Some(1)), true, Step::Promote);
    }
}
