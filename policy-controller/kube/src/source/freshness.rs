//! Staleness of the watches.

use policy_engine::source::{Health, WatchState};
use std::time::{Duration, Instant};

/// The staleness bound of a watch. A watch without changes receives a bookmark about once a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// The bound.
    pub bound: Duration,
}

impl Freshness {
    /// The watches that have never been listed completely, one text for each. Nothing is served
    /// before all of them have been: a kind that grants nothing may still narrow what others grant.
    pub fn unlisted(health: &Health) -> Vec<String> {
        let texts = health.unlisted().map(|(key, watch)| match &watch.state {
            WatchState::Failing { error } => format!("{key} cannot be listed: {error}"),
            WatchState::Listing | WatchState::Following | WatchState::Absent => {
                format!("{key} have not been listed completely")
            }
        });
        texts.collect()
    }

    /// The watches that are older than the bound, one text for each.
    pub fn stale(&self, health: &Health, now: Instant) -> Vec<String> {
        let texts = health.stale(now, self.bound).map(|(key, watch)| {
            let silent = now.saturating_duration_since(watch.heard).as_secs();
            let bound = self.bound.as_secs();
            let stale =
                format!("{key}: no list, event or bookmark for {silent} s, the bound is {bound} s");
            match &watch.state {
                WatchState::Failing { error } => format!("{stale}: {error}"),
                WatchState::Listing | WatchState::Following | WatchState::Absent => stale,
            }
        });
        texts.collect()
    }

    /// The idle timeout of a watch. It is above the minute between bookmarks, and short enough for
    /// the relist to complete within the bound.
    pub(super) fn idle_timeout(&self) -> Duration {
        let minute = Duration::from_secs(60);
        let half = self.bound.saturating_add(minute).checked_div(2).unwrap_or(minute);
        half.min(Duration::from_secs(105))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_crds::Kind;
    use policy_engine::source::{WatchHealth, WatchKey};
    use std::collections::BTreeMap;

    #[test]
    fn texts_name_the_watch_how_late_it_is_and_the_last_error() {
        let start = Instant::now();
        let key = |kind| WatchKey { kind, namespace: Some("a".into()) };
        let watch = |state, listed| WatchHealth { state, listed, optional: false, heard: start };
        let failing = || WatchState::Failing { error: "no".into() };
        let watches = BTreeMap::from([
            (key(Kind::Server), watch(failing(), true)),
            (key(Kind::NetworkAuthentication), watch(WatchState::Following, true)),
            (key(Kind::Pod), watch(WatchState::Listing, false)),
            (key(Kind::ServiceAccount), watch(failing(), false)),
        ]);
        let health = Health { watches };
        let freshness = Freshness { bound: Duration::from_secs(150) };
        let unlisted = [
            "pods of namespace a have not been listed completely",
            "serviceaccounts of namespace a cannot be listed: no",
        ];
        assert_eq!(Freshness::unlisted(&health), unlisted);
        assert_eq!(freshness.stale(&health, start + Duration::from_secs(150)), [""; 0]);
        let stale = [
            "servers.policy.linkerd.io of namespace a: no list, event or bookmark for 151 s, the bound \
             is 150 s: no",
            "networkauthentications.policy.linkerd.io of namespace a: no list, event or bookmark for \
             151 s, the bound is 150 s",
        ];
        assert_eq!(freshness.stale(&health, start + Duration::from_secs(151)), stale);
    }

    #[test]
    fn a_silent_watch_is_given_up_between_a_bookmark_and_the_bound() {
        for seconds in [61, 90, 150, 3600] {
            let freshness = Freshness { bound: Duration::from_secs(seconds) };
            let timeout = freshness.idle_timeout();
            assert!(timeout > Duration::from_secs(60) && timeout < freshness.bound, "{seconds}");
        }
    }
}
