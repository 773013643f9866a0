//! Follows the health of the source's watches, reports it at `/ready`, and ends streams when a
//! watch becomes stale so that clients look for a current replica.
//!
//! A watch that falls behind is no reason to be unready. What makes a watch fail, a right that is
//! withdrawn or a conversion webhook that is broken, makes it fail at every replica, and what a replica
//! has listed is as good for admission and injection as before.

use crate::admin::Readiness;
use policy_discovery::serve::StaleNotice;
use policy_engine::source::{Health, WatchKey};
use policy_kube::source::Freshness;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Interval at which staleness is checked; reports of watches are read as they come.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Watches that became late since the last look.
#[derive(Debug, PartialEq, Eq)]
struct NewlyStale {
    /// Names of the watches.
    names: Vec<String>,
    /// True if the controller requires one of them.
    required: bool,
}

/// The watches that are stale.
#[derive(Debug, Default)]
pub(super) struct StaleWatches {
    known: BTreeSet<WatchKey>,
    /// Time at which streams were ended last.
    ended: Option<Instant>,
}

impl StaleWatches {
    /// The watches that became late since the last look.
    fn update(&mut self, health: &Health, freshness: Freshness, now: Instant) -> NewlyStale {
        let stale_watches = || health.stale(now, freshness.bound);
        let new = stale_watches().filter(|(key, _)| !self.known.contains(key));
        let (names, optional): (Vec<String>, Vec<bool>) =
            new.map(|(key, watch)| (key.to_string(), watch.optional)).unzip();
        self.known = stale_watches().map(|(key, _)| key.clone()).collect();
        NewlyStale { names, required: optional.contains(&false) }
    }

    /// True if streams are to end because of the newly stale watches. Watches that one failure
    /// makes stale become so at different times, each by its last message: streams end once for all
    /// of them.
    fn ends_streams(&mut self, freshness: Freshness, now: Instant) -> bool {
        let ended = self.ended.map(|ended| now.saturating_duration_since(ended));
        let again = ended.is_none_or(|ago| ago > freshness.bound);
        if again {
            self.ended = Some(now);
        }
        again
    }
}

/// Follows `health` for as long as there is a source. `became_stale` is called with the watches that
/// fell behind, once each time they do.
pub(super) async fn follow(
    mut health: watch::Receiver<Arc<Health>>,
    freshness: Freshness,
    readiness: Readiness,
    stale: watch::Sender<StaleNotice>,
    became_stale: impl Fn(&[String]) + Send,
) {
    let (mut stale_watches, mut complete) = (StaleWatches::default(), false);
    loop {
        let now = Instant::now();
        let current = health.borrow_and_update().clone();
        let unlisted = Freshness::unlisted(&current);
        // Once is enough: what is listed anew later takes the place of what is known and served.
        complete |= unlisted.is_empty();
        let (missing, relisting) = if complete { (vec![], unlisted) } else { (unlisted, vec![]) };
        readiness.report("watches", missing);
        readiness.remark("watches", [relisting, freshness.stale(&current, now)].concat());
        let NewlyStale { names: new, required } = stale_watches.update(&current, freshness, now);
        if !new.is_empty() {
            let names = new.join(", ");
            let ends = required && stale_watches.ends_streams(freshness, now);
            tracing::warn!(watches = %names, streams_end = ends, "watch is stale; serving the last snapshot");
            if ends {
                stale.send_modify(|stale| {
                    stale.times = stale.times.saturating_add(1);
                    stale.watch = names.into();
                });
            }
            became_stale(&new);
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            changed = health.changed() => if changed.is_err() { return },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_crds::Kind;
    use policy_engine::source::{WatchHealth, WatchState};
    use std::collections::BTreeMap;

    #[test]
    fn a_watch_is_told_of_once_each_time_it_falls_behind() {
        let start = Instant::now();
        let freshness = Freshness { bound: Duration::from_secs(100) };
        let heard = |seconds| {
            let heard = start + Duration::from_secs(seconds);
            let health =
                WatchHealth { state: WatchState::Following, listed: true, optional: false, heard };
            let key = WatchKey { kind: Kind::Pod, namespace: None };
            Health { watches: BTreeMap::from([(key, health)]) }
        };
        let mut stale_watches = StaleWatches::default();
        let mut look = |heard_at, now| {
            stale_watches
                .update(&heard(heard_at), freshness, start + Duration::from_secs(now))
                .names
        };
        assert_eq!(look(0, 100), Vec::<String>::new());
        assert_eq!(look(0, 101), ["pods"]);
        assert_eq!(look(0, 102), Vec::<String>::new());
        assert_eq!(look(102, 103), Vec::<String>::new());
        assert_eq!(look(102, 203), ["pods"]);
    }

    #[test]
    fn streams_end_once_for_all_watches_that_one_failure_makes_late() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let freshness = Freshness { bound: Duration::from_secs(100) };
        let health = |heard: [u64; 3]| {
            let kinds = [Kind::Pod, Kind::Server, Kind::Namespace].into_iter();
            let watches = kinds.zip(heard).map(|(kind, heard)| {
                let state = WatchState::Failing { error: "gone".into() };
                let health = WatchHealth { state, listed: true, optional: false, heard: at(heard) };
                (WatchKey { kind, namespace: None }, health)
            });
            Health { watches: watches.collect() }
        };
        let mut stale_watches = StaleWatches::default();
        let mut look = |heard, now| {
            let new = stale_watches.update(&health(heard), freshness, at(now)).names.len();
            (new, new > 0 && stale_watches.ends_streams(freshness, at(now)))
        };
        // Each watch had its last message at another time, within the minute between bookmarks.
        let lost = [0, 30, 59];
        let looks = [100, 101, 131, 160, 161, 300].map(|now| look(lost, now));
        let expected = [(0, false), (1, true), (1, false), (1, false), (0, false), (0, false)];
        assert_eq!(looks, expected);
        // It came back, and one watch is lost again.
        assert_eq!(look([301, 301, 301], 302), (0, false));
        assert_eq!(look([301, 400, 400], 402), (1, true));
    }
}
