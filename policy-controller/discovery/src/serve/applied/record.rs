//! The policies that clients have in force, by their acknowledgements.

use super::followers::{FeedState, Feeds, InForce, WorkloadPort};
use super::omissions::Omissions;
use parking_lot::Mutex;
use policy_core::{ObjectRef, Revision, ServerPolicy, WorkloadKey};
use policy_engine::unsent::Unsent;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// A handle on the acknowledgements of every native client of this replica; clones share them.
#[derive(Clone, Debug)]
pub struct AckRegistry {
    shared: Arc<AppliedInner>,
}

#[derive(Debug)]
struct AppliedInner {
    ports: Mutex<BTreeMap<WorkloadPort, Clients>>,
    changes: watch::Sender<u64>,
    feeds: Feeds,
    /// Omissions of all open streams, each with the number of its streams. Streams of one shape
    /// share them.
    omitting: Mutex<HashMap<Arc<Omissions>, usize>>,
}

/// The clients of one port, and the policy that all of them have in force.
#[derive(Debug)]
struct Clients {
    /// Records by the number of the client's stream; mostly one.
    by_number: Vec<(u64, AppliedPort)>,
    in_force: InForce,
}

/// The policy that one client has in force on one port. Exists once the client has acknowledged or
/// refused an update: clients that never do so (tools that only read) are not counted.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedPort {
    /// The policy published last to this client.
    pub current: Arc<ServerPolicy>,
    /// The policy that it acknowledged last, and its revision as sent to it.
    pub in_force: Option<(Arc<ServerPolicy>, Arc<Revision>)>,
    /// Hash of that policy as published, comparable with other replicas' of the same build; 0 where
    /// there is none, or where the client could not be sent all of it.
    pub content: u64,
    /// The refusal of the newest update, if the client refused it.
    pub refused: Option<Rejection>,
}

/// A client's refusal of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The reason that the client gave.
    pub reason: String,
    /// Path of the field in the update.
    pub field_path: String,
}

/// Number of workload ports of this replica's clients on which an object's current effect is in
/// force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acknowledged.
    pub applied: usize,
    /// Sent or about to be sent, not answered yet.
    pub pending: usize,
    /// Refused.
    pub refused: usize,
}

impl AppliedPort {
    /// True if the policy that was published last is in force.
    pub fn is_current(&self) -> bool {
        self.in_force.as_ref().is_some_and(|(policy, _)| Arc::ptr_eq(policy, &self.current))
    }
}

impl Default for AckRegistry {
    fn default() -> Self {
        let (ports, feeds) = (Mutex::default(), Feeds::default());
        let omitting = Mutex::default();
        let shared = AppliedInner { ports, changes: watch::Sender::new(0), feeds, omitting };
        Self { shared: Arc::new(shared) }
    }
}

impl AckRegistry {
    /// Changes whenever anything here does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Returns the records of all clients of a workload's port.
    pub fn port(&self, workload: &WorkloadKey, port: NonZeroU16) -> Vec<AppliedPort> {
        let ports = self.shared.ports.lock();
        ports
            .get(&(workload.clone(), port))
            .map_or_else(Vec::new, |clients| clients.applied().cloned().collect())
    }

    /// Adds a follower, for which every port is pending.
    pub(super) fn add_follower(&self) -> Arc<FeedState> {
        let ports = self.shared.ports.lock();
        let dirty = ports.keys().cloned().collect();
        self.shared.feeds.add(dirty)
    }

    /// Returns the number of followers.
    #[cfg(test)]
    pub(super) fn followers(&self) -> usize {
        self.shared.feeds.len()
    }

    /// Returns what all clients of a port have in force; `None` if none of them ever acknowledged
    /// or refused.
    pub(super) fn in_force(&self, at: &WorkloadPort) -> Option<InForce> {
        self.shared.ports.lock().get(at).map(|clients| clients.in_force.clone())
    }

    /// Per object that contributes to a policy published to a client of this replica, on how many
    /// workload ports it is in force. One pass over all ports, and one over each distinct policy.
    pub fn counts(&self) -> BTreeMap<ObjectRef, Counts> {
        let mut by_policy: HashMap<usize, (Arc<ServerPolicy>, Counts)> = HashMap::new();
        for clients in self.shared.ports.lock().values() {
            for client in clients.applied() {
                let at = Arc::as_ptr(&client.current).addr();
                let (_, counts) = by_policy
                    .entry(at)
                    .or_insert_with(|| (client.current.clone(), Counts::default()));
                let count = if client.is_current() {
                    &mut counts.applied
                } else if client.refused.is_some() {
                    &mut counts.refused
                } else {
                    &mut counts.pending
                };
                *count = count.saturating_add(1);
            }
        }
        let mut by_object = BTreeMap::<ObjectRef, Counts>::new();
        for (policy, counts) in by_policy.into_values() {
            for object in policy.objects() {
                let sum = by_object.entry(object).or_default();
                sum.applied = sum.applied.saturating_add(counts.applied);
                sum.pending = sum.pending.saturating_add(counts.pending);
                sum.refused = sum.refused.saturating_add(counts.refused);
            }
        }
        by_object
    }

    /// Returns the omissions of all open streams, by object.
    pub(super) fn unsent(&self) -> BTreeMap<ObjectRef, Unsent> {
        let mut all = BTreeMap::<ObjectRef, Unsent>::new();
        for omissions in self.shared.omitting.lock().keys() {
            for (object, unsent) in omissions.by_object() {
                all.entry(object.clone()).or_default().add(unsent);
            }
        }
        all
    }

    /// Counts one more stream with these omissions.
    pub(super) fn add_omissions(&self, omissions: &Arc<Omissions>) {
        let mut omitting = self.shared.omitting.lock();
        let streams = omitting.entry(omissions.clone()).or_default();
        *streams = streams.saturating_add(1);
        let first = *streams == 1;
        drop(omitting);
        if first {
            self.shared.feeds.mark_unsent();
        }
    }

    /// Counts one stream less with these omissions.
    pub(super) fn remove_omissions(&self, omissions: &Arc<Omissions>) {
        let mut omitting = self.shared.omitting.lock();
        let Some(streams) = omitting.get_mut(omissions) else { return };
        *streams = streams.saturating_sub(1);
        if *streams > 0 {
            return;
        }
        omitting.remove(omissions);
        drop(omitting);
        self.shared.feeds.mark_unsent();
    }

    /// Records the policy that `client` (the number of its stream) has in force on a port.
    pub(crate) fn record(
        &self,
        workload: &WorkloadKey,
        port: NonZeroU16,
        client: u64,
        record: AppliedPort,
    ) {
        let at = (workload.clone(), port);
        let mut ports = self.shared.ports.lock();
        let clients = ports.entry(at.clone()).or_insert_with(Clients::none);
        match clients.by_number.iter_mut().find(|(number, _)| *number == client) {
            Some((_, known)) => *known = record,
            None => clients.by_number.push((client, record)),
        }
        let changed = clients.settle();
        drop(ports);
        self.bump(changed.then_some(&at));
    }

    /// Removes the record of `client` for a port.
    pub(crate) fn forget(&self, workload: &WorkloadKey, port: NonZeroU16, client: u64) {
        let at = (workload.clone(), port);
        let mut ports = self.shared.ports.lock();
        let Some(clients) = ports.get_mut(&at) else { return };
        clients.by_number.retain(|(number, _)| *number != client);
        let changed = if clients.by_number.is_empty() {
            ports.remove(&at);
            true
        } else {
            clients.settle()
        };
        drop(ports);
        self.bump(changed.then_some(&at));
    }

    fn bump(&self, changed: Option<&WorkloadPort>) {
        if let Some(at) = changed {
            self.shared.feeds.mark_dirty(at);
        }
        self.shared.changes.send_modify(|n| *n = n.wrapping_add(1));
    }
}

impl Clients {
    fn none() -> Self {
        let in_force = InForce { content: 0, refused: None, since: Instant::now() };
        Self { by_number: Vec::with_capacity(1), in_force }
    }

    fn applied(&self) -> impl Iterator<Item = &AppliedPort> {
        self.by_number.iter().map(|(_, applied)| applied)
    }

    /// Updates what all clients of the port have in force; true if it changed. One client that
    /// lacks it decides for all, so that a port is in force only if it is for every client.
    fn settle(&mut self) -> bool {
        let mut contents = self.by_number.iter().map(|(_, client)| client.content);
        let first = contents.next().unwrap_or_default();
        let content = if contents.all(|content| content == first) { first } else { 0 };
        let refused = self.by_number.iter().find_map(|(_, client)| client.refused.as_ref());
        let refused = refused.map(Rejection::to_string);
        let before = &self.in_force;
        let first_answer = self.by_number.len() == 1;
        if before.content == content && before.refused.as_deref() == refused.as_deref() {
            // Nothing was in force before the first answer, and nothing was reported.
            return first_answer && before.content == 0;
        }
        let since = if before.content == content { before.since } else { Instant::now() };
        self.in_force = InForce { content, refused: refused.map(Arc::from), since };
        true
    }
}

/// `field: reason`, or the reason alone.
impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.field_path.as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "{path}: {}", self.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::policy;

    fn record(current: &Arc<ServerPolicy>, in_force: Option<&Arc<ServerPolicy>>) -> AppliedPort {
        AppliedPort {
            current: current.clone(),
            in_force: in_force.map(|policy| (policy.clone(), Arc::default())),
            content: in_force.map_or(0, |policy| if Arc::ptr_eq(policy, current) { 2 } else { 1 }),
            refused: None,
        }
    }

    #[test]
    fn an_object_counts_where_the_policy_it_is_part_of_is_in_force() {
        let applied = AckRegistry::default();
        let changes = applied.changes();
        let (old, new) = (policy("web"), policy("web"));
        let port = NonZeroU16::new(80).unwrap();
        let pod = |n: u8| WorkloadKey::pod("ns", &format!("web-{n}"));
        applied.record(&pod(0), port, 1, record(&new, Some(&new)));
        applied.record(&pod(1), port, 2, record(&new, Some(&old)));
        let refused = Some(Rejection { reason: "no".into(), field_path: String::new() });
        applied.record(&pod(2), port, 3, AppliedPort { refused, ..record(&new, Some(&old)) });
        let server = ObjectRef::new("policy.linkerd.io", "Server", "ns", "web");
        let counts = applied.counts();
        assert_eq!(counts.get(&server), Some(&Counts { applied: 1, pending: 1, refused: 1 }));
        assert!(changes.has_changed().unwrap());
        for (n, client) in [(0, 1), (1, 2), (2, 3)] {
            applied.forget(&pod(n), port, client);
        }
        assert_eq!(applied.counts(), BTreeMap::new());
        assert!(applied.shared.ports.lock().is_empty());
    }
}
