//! Policies kept up to date through a history of changes, without tasks. Property tests and
//! simulations compare them with a fresh start.

use crate::config::ControllerConfig;
use crate::destination_channels::DestinationChannels;
use crate::destination_shares::DestinationClient;
use crate::engine::Engine;
use crate::latest::Latest;
use crate::publish::destination::{DestinationQuestion, PublishedDestination};
use crate::publish::{LookupError, PortPolicy, PublishedWorkload, WorkloadState};
use crate::query::claims::HostClaims;
use crate::query::condition::ConditionTable;
use crate::query::delegation::DelegationTree;
use crate::query::delegation_state::DelegationState;
use crate::source::{Batch, Change};
use crate::subscriptions::Subscriptions;
use policy_core::{HostPattern, ServerPolicy, WorkloadKey};
use policy_crds::{Object, ObjectKey};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;

/// An index and its subscribers. Whatever was queried once is followed from then on.
pub struct History {
    engine: Engine,
    subscriptions: Subscriptions,
    destinations: DestinationChannels,
    states: BTreeMap<WorkloadKey, Latest<Arc<PublishedWorkload>>>,
    ports: BTreeMap<(WorkloadKey, NonZeroU16), Latest<Arc<PortPolicy>>>,
    version: u64,
}

impl History {
    /// An empty index that counts as complete.
    pub fn new(config: &ControllerConfig) -> Self {
        let config = Arc::new(config.clone());
        let subscriptions = Subscriptions::new("history".into(), &config);
        let destinations = DestinationChannels::new(config.limits.destinations);
        let mut engine = Engine::new(config);
        engine.apply(&Batch {
            changes: vec![Change::Synced],
            versions: BTreeMap::new(),
            ..Batch::default()
        });
        Self {
            engine,
            subscriptions,
            destinations,
            states: BTreeMap::new(),
            ports: BTreeMap::new(),
            version: 0,
        }
    }

    /// Applies objects and deletes names, in order, as one transaction.
    pub fn apply(&mut self, changes: Vec<Result<Object, ObjectKey>>) {
        self.version = self.version.saturating_add(1);
        let kind = |change: &Result<Object, ObjectKey>| match change {
            Ok(object) => object.meta.key.kind,
            Err(key) => key.kind,
        };
        let versions = changes.iter().map(|change| (kind(change), self.version)).collect();
        let changes = changes
            .into_iter()
            .map(|change| match change {
                Ok(object) => Change::Apply(Arc::new(object)),
                Err(key) => Change::Delete(key),
            })
            .collect();
        let changes = self.engine.apply(&Batch { changes, versions, ..Batch::default() });
        self.subscriptions.publish(&mut self.engine, &changes);
        self.destinations.publish(&mut self.engine, &changes.destinations);
    }

    /// Drops answers without subscribers.
    pub fn sweep(&mut self) {
        let roots = self.subscriptions.sweep().into_iter();
        self.engine.retain(roots.chain(self.destinations.sweep()));
    }

    /// Conditions of every object.
    pub fn conditions(&self) -> &ConditionTable {
        self.engine.conditions()
    }

    /// The state of a workload in its channel; `None` if the channel is closed or there is no
    /// workload.
    pub fn followed_state(&mut self, key: &WorkloadKey) -> Option<Arc<WorkloadState>> {
        if let Some(receiver) = self.states.get(key)
            && !receiver.is_closed()
        {
            return Some(receiver.current().state.clone());
        }
        let receiver = self.subscriptions.workload(&mut self.engine, key).ok()?;
        let state = receiver.current().state.clone();
        self.states.insert(key.clone(), receiver);
        Some(state)
    }

    /// A policy as its channel says; none if the channel is closed or there is no workload.
    pub fn followed_port(
        &mut self,
        key: &WorkloadKey,
        port: NonZeroU16,
    ) -> Option<Arc<ServerPolicy>> {
        Some(self.followed(key, port)?.policy.clone())
    }

    /// The same with its revision.
    pub fn followed(&mut self, key: &WorkloadKey, port: NonZeroU16) -> Option<Arc<PortPolicy>> {
        let name = (key.clone(), port);
        if let Some(receiver) = self.ports.get(&name)
            && !receiver.is_closed()
        {
            return Some(receiver.current());
        }
        let receiver = self.subscriptions.port(&mut self.engine, key, port).ok()?;
        let policy = receiver.current();
        self.ports.insert(name, receiver);
        Some(policy)
    }

    /// Follows the answer to a question about a destination.
    ///
    /// # Errors
    /// `OutboundOff` and `TooManyDestinations`.
    pub fn follow_destination(
        &mut self,
        question: &DestinationQuestion,
    ) -> Result<Latest<Arc<PublishedDestination>>, LookupError> {
        let address = std::net::Ipv4Addr::UNSPECIFIED.into();
        self.follow_destination_of(question, DestinationClient { group: "".into(), address })
    }

    /// The same for a client.
    ///
    /// # Errors
    /// `OutboundOff` and `TooManyDestinations`.
    pub fn follow_destination_of(
        &mut self,
        question: &DestinationQuestion,
        client: DestinationClient,
    ) -> Result<Latest<Arc<PublishedDestination>>, LookupError> {
        let followed = self.destinations.follow(&mut self.engine, question.clone(), client);
        if self.destinations.is_full() {
            self.sweep();
        }
        followed
    }

    /// The claims on a host and on hosts that overlap with it.
    pub fn claims_on(&mut self, host: &HostPattern) -> Arc<HostClaims> {
        self.engine.claims_on(host)
    }

    /// The tree of a root.
    pub fn tree_of(&mut self, root: &ObjectKey) -> Arc<DelegationTree> {
        self.engine.tree_of(root)
    }

    /// The state of an InboundRoute.
    pub fn delegation_state(&mut self, key: &ObjectKey) -> Arc<DelegationState> {
        self.engine.delegation_state(key)
    }

    /// Number of memoized answers, and number of query executions so far.
    pub fn effort(&self) -> (usize, u64) {
        self.engine.effort()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "a test")]
mod tests {
    use super::*;
    use crate::testing;
    use policy_crds::Kind;

    /// Pods, and Servers that select by labels of which every pod has a value of its own, so that
    /// each pod has a new shape.
    fn edits(round: usize) -> Vec<Result<Object, ObjectKey>> {
        let namespace = format!("n{}", round % 3);
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p{}, namespace: {namespace}, \
              labels: {{app: web, version: v{round}}}}}, \
              spec: {{containers: [{{name: c, ports: [{{containerPort: 80}}]}}]}}}}",
            round % 50
        );
        let selector = if round.is_multiple_of(7) { "app: web" } else { "version: none" };
        let server = format!(
            "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
              metadata: {{name: s{}, namespace: {namespace}}}, \
              spec: {{podSelector: {{matchLabels: {{{selector}}}}}, port: 80}}}}",
            round % 4
        );
        let policy = testing::policy_on_server(&namespace, &format!("a{round}"), "s0");
        let before = |back| format!("a{}", round.saturating_sub(back));
        let mut edits: Vec<_> = [pod, server]
            .iter()
            .flat_map(|text| testing::objects(text))
            .chain([Object::clone(&policy)])
            .map(Ok)
            .collect();
        edits.push(Err(testing::key(Kind::AuthorizationPolicy, &namespace, &before(9))));
        edits.push(Err(testing::key(Kind::Server, &namespace, &format!("s{}", (round + 2) % 4))));
        edits.push(Err(testing::key(Kind::Pod, &namespace, &format!("p{}", (round + 25) % 50))));
        edits
    }

    #[test]
    fn what_is_kept_does_not_grow_however_long_objects_come_and_go() {
        let mut history = History::new(&ControllerConfig::default());
        let mut names = std::collections::BTreeSet::new();
        let mut most = [[0; 3]; 2];
        for round in 0..1500 {
            let edits = edits(round);
            names.extend(edits.iter().map(|edit| match edit {
                Ok(object) => object.meta.key.clone(),
                Err(key) => key.clone(),
            }));
            history.apply(edits);
            let pod = WorkloadKey::pod(&format!("n{}", round % 3), &format!("p{}", round % 50));
            for port in [80, 9000] {
                assert!(history.followed_port(&pod, NonZeroU16::new(port).unwrap()).is_some());
            }
            if round.is_multiple_of(10) {
                history.sweep();
                let most = &mut most[usize::from(round >= 750)];
                for (most, kept) in most.iter_mut().zip(history.engine.sizes()) {
                    *most = (*most).max(kept);
                }
            }
        }
        let [early, late] = most;
        for (early, late) in early.into_iter().zip(late) {
            assert!(early > 10 && late <= early + early / 5, "{most:?}");
        }
        history.apply(names.into_iter().map(Err).collect());
        history.states.clear();
        history.ports.clear();
        history.sweep();
        assert_eq!((history.engine.sizes(), history.effort().0), ([0; 3], 0));
        assert!(history.conditions().is_empty());
    }
}
