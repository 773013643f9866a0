//! Health of the watches of a source: kinds that have been listed, and watches that are stale.

use policy_crds::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One watch: a kind, in one namespace or in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchKey {
    /// The watched kind.
    pub kind: Kind,
    /// The watched namespace; absent: all namespaces.
    pub namespace: Option<Arc<str>>,
}

/// The state of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// The first list has not ended yet.
    Listing,
    /// It has been listed completely, and is being followed.
    Following,
    /// The cluster does not have this kind, which counts as empty.
    Absent,
    /// The last attempt failed; what was seen before stays.
    Failing {
        /// The API server's words.
        error: Arc<str>,
    },
}

/// One watch's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchHealth {
    /// Its state.
    pub state: WatchState,
    /// True if it has ever been listed completely (or found absent).
    pub listed: bool,
    /// True if the controller can work without the kind.
    pub optional: bool,
    /// Time of the last response of the API server in this watch: a list, an event, a bookmark. An
    /// API server that is cut off from its storage goes on sending bookmarks for what it has
    /// cached, and these look the same as those of a cluster in which nothing happens.
    pub heard: Instant,
}

/// All watches of a source. Empty for a source that has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// By what they watch.
    pub watches: BTreeMap<WatchKey, WatchHealth>,
}

impl Health {
    /// The watches that have never been listed completely, in order.
    pub fn unlisted(&self) -> impl Iterator<Item = (&WatchKey, &WatchHealth)> {
        self.watches.iter().filter(|(_, health)| !health.listed)
    }

    /// The watches whose last response came more than `bound` before `now`, in order. Each
    /// discovery that finds a kind absent counts as a response.
    pub fn stale(
        &self,
        now: Instant,
        bound: Duration,
    ) -> impl Iterator<Item = (&WatchKey, &WatchHealth)> {
        self.watches.iter().filter(move |(_, health)| {
            health.listed && now.saturating_duration_since(health.heard) > bound
        })
    }
}

impl std::fmt::Display for WatchKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = self.kind.group();
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{group}", self.kind.plural())?;
        match &self.namespace {
            Some(namespace) => write!(f, " of namespace {namespace}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_what_was_listed_once_and_not_heard_of_since() {
        let start = Instant::now();
        let key = |kind| WatchKey { kind, namespace: None };
        let watch = |state, listed| WatchHealth { state, listed, optional: false, heard: start };
        // Its last discovery was later.
        let heard = start + Duration::from_secs(1);
        let absent = WatchHealth { heard, ..watch(WatchState::Absent, true) };
        let watches = BTreeMap::from([
            (key(Kind::Server), watch(WatchState::Following, true)),
            (key(Kind::Pod), watch(WatchState::Listing, false)),
            (key(Kind::GrpcRoute), absent),
        ]);
        let health = Health { watches };
        let bound = Duration::from_secs(120);
        let names = |now| health.stale(now, bound).map(|(k, _)| k.to_string()).collect::<Vec<_>>();
        assert_eq!(names(start + bound), Vec::<String>::new());
        assert_eq!(names(start + bound + Duration::from_secs(1)), ["servers.policy.linkerd.io"]);
        assert_eq!(
            names(start + bound + Duration::from_secs(2)),
            ["servers.policy.linkerd.io", "grpcroutes.gateway.networking.k8s.io"]
        );
        assert_eq!(health.unlisted().map(|(k, _)| k.to_string()).collect::<Vec<_>>(), ["pods"]);
    }
}
