//! When the authority that the issuer makes for itself is replaced: a pure function of what its Secret
//! holds and of the time. An authority is announced by publishing its root, and former roots are
//! needed while anything that they vouch for may be valid.

use policy_kube::rotation::{NextCertificate, RotationState, Step, step};
use std::time::{Duration, SystemTime};

/// How the authority is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// How long an authority is valid.
    pub lifetime: Duration,
    /// After how much of its life, in percent, the next one is made.
    pub after: u8,
    /// How long every root is published before anything is issued from it.
    pub settle: Duration,
    /// How long certificates are valid, and how far clocks may differ.
    pub certificates: super::authority::Lifetime,
}

/// For how long a replica may issue from what it read last: its look at the Secret is never older.
pub(super) const STALE: Duration = Duration::from_secs(60);

/// How much longer a former root is published than what it signed can be valid, for clocks that
/// differ and replicas that have not noticed yet.
const MARGIN: Duration = Duration::from_secs(600);

/// Former roots at most: no further rotation begins before they are retired.
const MAX_FORMER: usize = 4;

/// What the Secret holds, as far as planning is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) begins: SystemTime,
    pub(super) ends: SystemTime,
    /// The authority that waits: its end, and since when its root is published.
    pub(super) next: Option<NextCertificate>,
    /// Until when the former roots are needed.
    pub(super) former_until: Option<SystemTime>,
    /// How many there are.
    pub(super) formers: usize,
    /// The longest that anything signed by the authority in use may be valid, skew included.
    pub(super) longest: Duration,
    /// Whether an operator has asked for a rotation that has not begun.
    pub(super) asked: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Note that certificates may be valid for longer than before, before any is.
    Widen,
    /// A step of the rotation.
    Rotate(Step),
}

impl Rotation {
    /// The longest that a certificate may be valid from now on.
    pub fn longest(&self) -> Duration {
        self.certificates.lifetime.saturating_add(self.certificates.skew)
    }

    /// Until when what was signed before `now` may be valid.
    pub(super) fn former_until(&self, longest: Duration, now: SystemTime) -> SystemTime {
        let wait = longest.saturating_add(STALE).saturating_add(MARGIN);
        now.checked_add(wait).unwrap_or(now)
    }

    /// When the next authority is made.
    pub(super) fn due(&self, begins: SystemTime, ends: SystemTime) -> SystemTime {
        let life = ends.duration_since(begins).unwrap_or_default();
        let part = life.checked_div(100).unwrap_or_default().saturating_mul(u32::from(self.after));
        begins.checked_add(part).unwrap_or(ends)
    }

    /// What is to be done now. `published`: for how long every namespace has had the roots that are
    /// held, without a gap.
    pub(super) fn plan(&self, held: Times, published: Option<Duration>, now: SystemTime) -> Change {
        let usable = held.ends > now;
        if usable && self.longest() > held.longest {
            return Change::Widen;
        }
        let due = held.asked || now >= self.due(held.begins, held.ends);
        let Times { next, former_until, .. } = held;
        let known =
            RotationState { usable, due: due && held.formers < MAX_FORMER, next, former_until };
        let seen = published.is_some_and(|published| published >= self.settle);
        // Better a namespace that has not the new root yet than one authority less.
        let left = held.ends.duration_since(now).unwrap_or_default();
        let pressing = left <= self.longest();
        Change::Rotate(step(Some(known), self.settle, seen || pressing, now))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;
