//! What clients have in force, as their acknowledgements say.

use crate::publish::WorkloadKey;
use parking_lot::Mutex;
use policy_core::{
    Authorization, Effect, ObjectRef, Origin, Owner, Requirement, Revision, ServerPolicy, Source,
    Withheld,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU16;
use std::sync::Arc;
use tokio::sync::watch;

/// A handle on the acknowledgements of every native client of this replica; clones share them.
#[derive(Clone, Debug)]
pub struct Applied {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ports: Mutex<BTreeMap<(WorkloadKey, NonZeroU16), BTreeMap<u64, AppliedPort>>>,
    changes: watch::Sender<u64>,
}

/// What one client has in force on one port. Exists once the client has acknowledged or refused
/// something: clients that never do so (tools that only look) do not count.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedPort {
    /// The policy published last to this client.
    pub current: Arc<ServerPolicy>,
    /// The policy that it acknowledged last, and its revision as sent to it.
    pub in_force: Option<(Arc<ServerPolicy>, Revision)>,
    /// Why it refused the newest update, if it did.
    pub refused: Option<Refused>,
}

/// A client's refusal of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why, in the client's words.
    pub reason: String,
    /// Where in the update.
    pub field_path: String,
}

/// On how many workload ports of this replica's clients an object's current effect is in force.
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
    /// Whether what was published last is in force.
    pub fn is_current(&self) -> bool {
        self.in_force.as_ref().is_some_and(|(policy, _)| Arc::ptr_eq(policy, &self.current))
    }
}

impl Default for Applied {
    fn default() -> Self {
        let shared = Shared { ports: Mutex::default(), changes: watch::Sender::new(0) };
        Self { shared: Arc::new(shared) }
    }
}

impl Applied {
    /// Changes whenever anything here does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// What each client of a workload's port has in force.
    pub fn port(&self, workload: &WorkloadKey, port: NonZeroU16) -> Vec<AppliedPort> {
        let ports = self.shared.ports.lock();
        ports
            .get(&(workload.clone(), port))
            .map_or_else(Vec::new, |c| c.values().cloned().collect())
    }

    /// Per object that contributes to a policy published to a client of this replica, on how many
    /// workload ports it is in force. One pass over all ports, and one over each distinct policy.
    pub fn counts(&self) -> BTreeMap<ObjectRef, Counts> {
        let mut by_policy: HashMap<usize, (Arc<ServerPolicy>, Counts)> = HashMap::new();
        for clients in self.shared.ports.lock().values() {
            for client in clients.values() {
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
            for object in objects(&policy) {
                let sum = by_object.entry(object).or_default();
                sum.applied = sum.applied.saturating_add(counts.applied);
                sum.pending = sum.pending.saturating_add(counts.pending);
                sum.refused = sum.refused.saturating_add(counts.refused);
            }
        }
        by_object
    }

    /// Records what `client` (a number of its stream) has on a port.
    pub(crate) fn record(
        &self,
        workload: &WorkloadKey,
        port: NonZeroU16,
        client: u64,
        record: AppliedPort,
    ) {
        let at = (workload.clone(), port);
        self.shared.ports.lock().entry(at).or_default().insert(client, record);
        self.bump();
    }

    /// Forgets what `client` has on a port.
    pub(crate) fn forget(&self, workload: &WorkloadKey, port: NonZeroU16, client: u64) {
        let at = (workload.clone(), port);
        let mut ports = self.shared.ports.lock();
        if let Some(clients) = ports.get_mut(&at) {
            clients.remove(&client);
            if clients.is_empty() {
                ports.remove(&at);
            }
        }
        drop(ports);
        self.bump();
    }

    fn bump(&self) {
        self.shared.changes.send_modify(|n| *n = n.wrapping_add(1));
    }
}

/// Every object that contributes to `policy`, the ones that only fail to included.
pub(crate) fn objects(policy: &ServerPolicy) -> BTreeSet<ObjectRef> {
    let mut found = BTreeSet::new();
    match &policy.owner {
        Owner::Server(server) => {
            found.insert(server.clone());
        }
        Owner::Default(_) => {}
    }
    let exempt = policy.exemptions.iter().map(|exemption| &exemption.authorization);
    for authorization in policy.authorizations.iter().chain(exempt) {
        of_authorization(authorization, &mut found);
    }
    of_effects(&policy.effects, &mut found);
    of_withheld(&policy.withheld, &mut found);
    if let Some(limit) = &policy.rate_limit {
        of_source(&limit.source, &mut found);
    }
    for route in &policy.routes.routes {
        match &route.origin {
            Origin::Objects(chain) => found.extend(chain.iter().cloned()),
            Origin::Default | Origin::Probe | Origin::Guard | Origin::Deny(_) => {}
        }
        for authorization in route.authorizations.iter() {
            of_authorization(authorization, &mut found);
        }
        for rule in &route.rules {
            of_effects(&rule.effects, &mut found);
        }
        of_withheld(&route.withheld, &mut found);
    }
    found
}

fn of_source(source: &Source, found: &mut BTreeSet<ObjectRef>) {
    match source {
        Source::Object(object) => {
            found.insert(object.clone());
        }
        Source::Default(_) => {}
    }
}

fn of_authorization(authorization: &Authorization, found: &mut BTreeSet<ObjectRef>) {
    of_source(&authorization.source, found);
    match &authorization.requirement {
        Requirement::Nothing => {}
        Requirement::All(conditions) => {
            for condition in conditions {
                of_source(&condition.source, found);
            }
        }
    }
}

fn of_effects(effects: &[Effect], found: &mut BTreeSet<ObjectRef>) {
    for effect in effects {
        of_source(&effect.source, found);
    }
}

fn of_withheld(withheld: &[Withheld], found: &mut BTreeSet<ObjectRef>) {
    found.extend(withheld.iter().map(|withheld| withheld.source.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::testing::policy;

    fn record(current: &Arc<ServerPolicy>, in_force: Option<&Arc<ServerPolicy>>) -> AppliedPort {
        AppliedPort {
            current: current.clone(),
            in_force: in_force.map(|policy| (policy.clone(), Revision::default())),
            refused: None,
        }
    }

    #[test]
    fn an_object_counts_where_the_policy_it_is_part_of_is_in_force() {
        let applied = Applied::default();
        let changes = applied.changes();
        let (old, new) = (policy("web"), policy("web"));
        let port = NonZeroU16::new(80).unwrap();
        let pod = |n: u8| WorkloadKey::pod("ns", &format!("web-{n}"));
        applied.record(&pod(0), port, 1, record(&new, Some(&new)));
        applied.record(&pod(1), port, 2, record(&new, Some(&old)));
        let refused = Some(Refused { reason: "no".into(), field_path: String::new() });
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
