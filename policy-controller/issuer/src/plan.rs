//! When the authority that the issuer makes for itself is replaced: a pure function of what its Secret
//! holds and of the time.
//!
//! ```text
//! steady ──Stage──▶ staged ──Promote──▶ overlap ──Retire──▶ steady
//! tls, ca           next waits;         next is tls;        nothing is left that the
//!                   its root is         the former root     former one signed
//!                   published           is published
//! ```
//! Each step is one write of the Secret, so that a process that ends between two leaves a state from
//! which any replica goes on.

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
    pub(super) next: Option<Next>,
    /// Until when the former roots are needed.
    pub(super) former_until: Option<SystemTime>,
    /// How many there are.
    pub(super) formers: usize,
    /// The longest that anything signed by the authority in use may be valid, skew included.
    pub(super) longest: Duration,
    /// Whether an operator has asked for a rotation that has not begun.
    pub(super) asked: bool,
}

/// The authority that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) ends: SystemTime,
    pub(super) since: SystemTime,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Keep,
    /// Make an authority and use it at once: there is none that could be used.
    Create,
    /// Note that certificates may be valid for longer than before, before any is.
    Widen,
    /// Make the next authority, and publish its root.
    Stage,
    /// Use the next authority. What the former signed stays trusted.
    Promote,
    /// Publish the former roots no longer.
    Retire,
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

    /// What is to be done now. `held`: what the Secret holds, if it can be used. `published`: for how
    /// long every namespace has had the roots that are held, without a gap.
    pub(super) fn plan(
        &self,
        held: Option<Times>,
        published: Option<Duration>,
        now: SystemTime,
    ) -> Step {
        let Some(held) = held else { return Step::Create };
        let next = held.next.filter(|next| next.ends > now);
        if held.ends <= now {
            return if next.is_some() { Step::Promote } else { Step::Create };
        }
        if self.longest() > held.longest {
            return Step::Widen;
        }
        if let Some(next) = next {
            return self.promote(held, next, published, now);
        }
        let due = held.asked || now >= self.due(held.begins, held.ends);
        if held.former_until.is_some_and(|until| until <= now) {
            Step::Retire
        } else if due && held.formers < MAX_FORMER {
            Step::Stage
        } else {
            Step::Keep
        }
    }

    fn promote(
        &self,
        held: Times,
        next: Next,
        published: Option<Duration>,
        now: SystemTime,
    ) -> Step {
        let waited = match now.duration_since(next.since) {
            Ok(waited) => waited >= self.settle,
            // From the future: somebody's clock was wrong, and the wait must not be for ever.
            Err(ahead) if ahead.duration() > self.settle => return Step::Stage,
            Err(_) => false,
        };
        let seen = published.is_some_and(|published| published >= self.settle);
        // Better a namespace that has not the new root yet than one authority less.
        let left = held.ends.duration_since(now).unwrap_or_default();
        let pressing = left <= self.longest();
        if waited && (seen || pressing) { Step::Promote } else { Step::Keep }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;
