//! Progress of publishing roots: the namespaces that have them, and since when all have.

use super::publish_result::PublishResult;
use super::refusals::Refusals;
use std::time::{Duration, Instant};

/// The time since which every namespace has the roots.
#[derive(Debug, Default)]
pub(super) struct Propagation {
    pub(super) bundle: String,
    since: Option<Instant>,
    pub(super) refusals: Refusals,
    pub(super) pending: Vec<(String, String)>,
}

impl Propagation {
    /// Returns for how long every namespace has had these roots. `same`: the roots are those of the
    /// last call. A restored copy does not reset the time, because a client that may write in one
    /// namespace must not delay the rotation for all.
    pub(super) fn complete_for(
        &mut self,
        same: bool,
        published: &PublishResult,
        now: Instant,
    ) -> Option<Duration> {
        self.since = match (same && published.pending.is_empty(), self.since) {
            (true, since) => Some(since.unwrap_or(now)),
            (false, _) => None,
        };
        self.since.map(|since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_keeps_changing_a_copy_of_the_roots_does_not_hold_up_a_rotation() {
        let (mut propagation, now, hour) =
            (Propagation::default(), Instant::now(), Duration::from_secs(3600));
        let name = || "shop".to_owned();
        let changed = PublishResult { restored: vec![name()], ..PublishResult::default() };
        assert_eq!(propagation.complete_for(true, &changed, now), Some(Duration::ZERO));
        assert_eq!(propagation.complete_for(true, &changed, now + hour), Some(hour));
        let pending =
            PublishResult { pending: vec![(name(), "no".to_owned())], ..PublishResult::default() };
        assert_eq!(
            propagation.complete_for(true, &pending, now + hour),
            None,
            "a namespace has them not"
        );
        assert_eq!(propagation.complete_for(true, &changed, now + hour), Some(Duration::ZERO));
        assert_eq!(propagation.complete_for(false, &changed, now + hour), None, "these are new");
    }
}
