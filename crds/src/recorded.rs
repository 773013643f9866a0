//! The status of an InboundRoute, as far as later decisions depend on it.
//!
//! Claims are ordered by the times that their objects' status records. The status is read
//! leniently: an entry that cannot be read counts as if it were not there, so that a damaged status
//! can postpone a claim and never advance it.

use crate::inbound::PathPrefix;
use crate::kind::Kind;
use crate::object::ObjectKey;
use crate::parse::host;
use crate::parse::name::{is_dns_label, is_dns_name};
use policy_core::HostPattern;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Times that the status of an InboundRoute records, in seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// `claims`: the time of each claim, by host and path.
    pub claims: BTreeMap<(HostPattern, PathPrefix), i64>,
    /// The entries `connected` of `delegationStatuses`.
    pub connected: Vec<RecordedConnection>,
    /// The entries `orphaned` of `delegationStatuses`.
    pub orphaned: Vec<RecordedOrphan>,
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

    /// Reads a `status`; `None` if it records nothing.
    pub(crate) fn read(status: &Value) -> Option<Arc<Self>> {
        let mut recorded = Self::default();
        for entry in entries(status, "claims") {
            recorded.claims.extend(claim(entry));
        }
        for entry in entries(status, "delegationStatuses") {
            let Some(state) = entry.get("state") else { continue };
            recorded.connected.extend(state.get("connected").and_then(connection));
            recorded.orphaned.extend(state.get("orphaned").and_then(orphan));
        }
        (recorded != Self::default()).then(|| Arc::new(recorded))
    }
}

fn entries<'a>(status: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    status.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn claim(entry: &Value) -> Option<((HostPattern, PathPrefix), i64)> {
    let host = host::pattern(text(entry, "host")?).ok()?;
    let path = PathPrefix::parse(text(entry, "path")?).ok()?;
    Some(((host, path), time(entry, "claimedAt")?))
}

fn connection(entry: &Value) -> Option<RecordedConnection> {
    let parent = entry.get("parent")?;
    let prefix = PathPrefix::parse(text(parent, "prefix")?).ok()?;
    Some(RecordedConnection { parent: key(parent)?, prefix, since: time(entry, "connectedAt")? })
}

fn orphan(entry: &Value) -> Option<RecordedOrphan> {
    let last_parent = key(entry.get("lastParent")?)?;
    Some(RecordedOrphan { last_parent, since: time(entry, "since") })
}

/// The InboundRoute of a `namespace` and a `name`.
fn key(parent: &Value) -> Option<ObjectKey> {
    let namespace = text(parent, "namespace").filter(|text| is_dns_label(text))?;
    let name = text(parent, "name").filter(|text| is_dns_name(text))?;
    Some(ObjectKey { kind: Kind::InboundRoute, namespace: namespace.into(), name: name.into() })
}

fn text<'a>(entry: &'a Value, name: &str) -> Option<&'a str> {
    entry.get(name)?.as_str()
}

fn time(entry: &Value, name: &str) -> Option<i64> {
    text(entry, name)?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}
