//! Plans the rotation of an authority that the issuer generates: a pure function of the Secret's
//! content and the time. Publishing its root announces an authority. Former roots are needed while
//! certificates that lead to them may be valid.

use policy_kube::rotation::{NextCertificate, RotationState, Step, step};
use std::time::{Duration, SystemTime};

/// Lifetimes and times of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Lifetime of an authority.
    pub lifetime: Duration,
    /// Percentage of its lifetime after which the next authority is generated.
    pub after: u8,
    /// Time for which a root is published before certificates are issued from it.
    pub settle: Duration,
    /// Lifetime of certificates, and tolerated clock skew.
    pub certificates: super::authority::Lifetime,
}

/// Maximum age of the last read of the Secret at which a replica may still issue.
pub(super) const MAX_READ_AGE: Duration = Duration::from_secs(60);

/// Time for which a former root is published beyond the validity of its certificates, to tolerate
/// clock skew and replicas that have not noticed the rotation yet.
const MARGIN: Duration = Duration::from_secs(600);

/// Maximum number of former roots: no rotation begins until they are retired.
const MAX_FORMER: usize = 4;

/// The times of the Secret's content that a step is planned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) begins: SystemTime,
    pub(super) ends: SystemTime,
    /// The staged authority: its expiry, and the time since which its root is published.
    pub(super) next: Option<NextCertificate>,
    /// Time until which the former roots are needed.
    pub(super) former_until: Option<SystemTime>,
    /// Number of former roots.
    pub(super) formers: usize,
    /// Maximum validity of certificates signed by the authority in use, clock skew included.
    pub(super) longest: Duration,
    /// True if an operator has requested a rotation that has not begun.
    pub(super) requested: bool,
}

/// The next change of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Record a longer validity of certificates before any is issued with it.
    Widen,
    /// A step of the rotation.
    Rotate(Step),
}

impl Rotation {
    /// Returns the maximum validity of certificates from now on.
    pub fn longest(&self) -> Duration {
        self.certificates.lifetime.saturating_add(self.certificates.skew)
    }

    /// Returns the time until which certificates signed before `now` may be valid.
    pub(super) fn former_until(&self, longest: Duration, now: SystemTime) -> SystemTime {
        let wait = longest.saturating_add(MAX_READ_AGE).saturating_add(MARGIN);
        now.checked_add(wait).unwrap_or(now)
    }

    /// Returns the time at which the next authority is generated.
    pub(super) fn due(&self, begins: SystemTime, ends: SystemTime) -> SystemTime {
        let life = ends.duration_since(begins).unwrap_or_default();
        let part = life.checked_div(100).unwrap_or_default().saturating_mul(u32::from(self.after));
        begins.checked_add(part).unwrap_or(ends)
    }

    /// Plans the next change. `published`: for how long every namespace has had the current roots
    /// without interruption.
    pub(super) fn plan(&self, held: Times, published: Option<Duration>, now: SystemTime) -> Change {
        let usable = held.ends > now;
        if usable && self.longest() > held.longest {
            return Change::Widen;
        }
        let due = held.requested || now >= self.due(held.begins, held.ends);
        let Times { next, former_until, .. } = held;
        let known =
            RotationState { usable, due: due && held.formers < MAX_FORMER, next, former_until };
        let seen = published.is_some_and(|published| published >= self.settle);
        // A namespace without the new root is better than an expired authority.
        let left = held.ends.duration_since(now).unwrap_or_default();
        let pressing = left <= self.longest();
        Change::Rotate(step(Some(known), self.settle, seen || pressing, now))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;
