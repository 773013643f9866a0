//! The status of an InboundRoute or a route, as far as later decisions depend on it: claims are ordered by
//! the times that it records, and a route keeps a hostname that is claimed after it was attached.

use crate::key::ObjectKey;
use crate::path::PathPrefix;
use policy_core::HostPattern;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Times that the status of an InboundRoute or a route records, in seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// `claims`: the time of each claim, by host and path.
    pub claims: BTreeMap<(HostPattern, PathPrefix), i64>,
    /// True if the object was invalid when the status was written, or had a claim that was not
    /// admitted: then no claim of it began with the object.
    pub postponed: bool,
    /// The entries `connected` of `delegationStatuses`.
    pub connected: Vec<RecordedConnection>,
    /// The entries `orphaned` of `delegationStatuses`.
    pub orphaned: Vec<RecordedOrphan>,
    /// `parents` of a route: the time since which each hostname is attached to a Server of its namespace,
    /// by the name of the controller and that of the Server. An entry of the status that records no time is
    /// here without hostnames.
    pub attached: BTreeMap<(Arc<str>, Arc<str>), BTreeMap<HostPattern, i64>>,
}

/// A place in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedConnection {
    /// The InboundRoute that delegates.
    pub parent: ObjectKey,
    /// The path that it delegates.
    pub prefix: PathPrefix,
    /// The time since when.
    pub since: i64,
}

/// A parent that delegates no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedOrphan {
    /// The InboundRoute that delegated.
    pub last_parent: ObjectKey,
    /// The time since when it does not, if readable.
    pub since: Option<i64>,
}

impl Recorded {
    /// The time of a claim.
    pub fn claimed_at(&self, host: &HostPattern, path: &PathPrefix) -> Option<i64> {
        self.claims.get(&(host.clone(), path.clone())).copied()
    }

    /// The times since which a route is attached to a Server of its namespace, by hostname; `None` if this
    /// controller has written no status about the Server.
    pub fn attached(
        &self,
        controller: &Arc<str>,
        server: &Arc<str>,
    ) -> Option<&BTreeMap<HostPattern, i64>> {
        self.attached.get(&(controller.clone(), server.clone()))
    }

    /// The latest time of a claim.
    pub fn latest_claim(&self) -> Option<i64> {
        self.claims.values().copied().max()
    }

    /// The time since which a parent delegates a path.
    pub fn connected_at(&self, parent: &ObjectKey, prefix: &PathPrefix) -> Option<i64> {
        let same = |own: &&RecordedConnection| own.parent == *parent && own.prefix == *prefix;
        self.connected.iter().find(same).map(|own| own.since)
    }

    /// Every parent that is named, each once: those that delegated already before, with the time
    /// since when they do not, then those that delegate.
    pub fn former_parents(&self) -> impl Iterator<Item = (ObjectKey, Option<i64>)> {
        let orphaned = self.orphaned.iter().map(|own| (own.last_parent.clone(), own.since));
        let connected = self.connected.iter().map(|own| (own.parent.clone(), None));
        let mut seen = BTreeSet::new();
        orphaned.chain(connected).filter(move |(parent, _)| seen.insert(parent.clone()))
    }
}
