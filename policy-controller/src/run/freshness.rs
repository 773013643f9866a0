//! Follows how the source's watches are doing: what `/ready` says of them, and when streams are told
//! to look for a replica that is current.

use crate::admin::Readiness;
use crate::serve::Stale;
use crate::source::Health;
use crate::source::kubernetes::Freshness;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often lateness is looked at; reports of watches are looked at as they come.
const LOOK: Duration = Duration::from_secs(1);

/// Which watches are late.
#[derive(Debug, Default)]
pub(super) struct Late {
    known: BTreeSet<String>,
}

impl Late {
    /// The watches that became late since the last look, in words.
    fn became(&mut self, health: &Health, freshness: Freshness, now: Instant) -> Vec<String> {
        let late: BTreeSet<String> =
            health.stale(now, freshness.bound).map(|(key, _)| key.to_string()).collect();
        let new = late.difference(&self.known).cloned().collect();
        self.known = late;
        new
    }
}

/// Follows `health` for as long as there is a source. `became_stale` is called with the watches that
/// fell behind, once each time they do.
pub(super) async fn follow(
    mut health: watch::Receiver<Arc<Health>>,
    freshness: Freshness,
    readiness: Readiness,
    stale: watch::Sender<Stale>,
    became_stale: impl Fn(&[String]) + Send,
) {
    let mut late = Late::default();
    loop {
        let now = Instant::now();
        let current = health.borrow_and_update().clone();
        readiness.report("watches", freshness.reasons(&current, now));
        let new = late.became(&current, freshness, now);
        if !new.is_empty() {
            let names = new.join(", ");
            tracing::warn!(watches = %names, "stale: streams end once, the snapshot stays");
            stale.send_modify(|stale| {
                stale.times = stale.times.saturating_add(1);
                stale.watch = names.into();
            });
            became_stale(&new);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            changed = health.changed() => if changed.is_err() { return },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{WatchHealth, WatchKey, WatchState};
    use policy_crds::Kind;
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
        let mut late = Late::default();
        let mut look = |heard_at, now| {
            late.became(&heard(heard_at), freshness, start + Duration::from_secs(now))
        };
        assert_eq!(look(0, 100), Vec::<String>::new());
        assert_eq!(look(0, 101), ["pods"]);
        assert_eq!(look(0, 102), Vec::<String>::new());
        assert_eq!(look(102, 103), Vec::<String>::new());
        assert_eq!(look(102, 203), ["pods"]);
    }
}
