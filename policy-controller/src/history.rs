//! Policies kept up to date through a history of changes, without tasks: what property tests and
//! simulations compare with a fresh start.

use crate::config::ControllerConfig;
use crate::engine::Engine;
use crate::publish::{PortPolicy, WorkloadKey, WorkloadState};
use crate::resolve::condition::ConditionTable;
use crate::source::{Batch, Change};
use crate::subscriptions::Subscriptions;
use policy_core::ServerPolicy;
use policy_crds::{Object, ObjectKey};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use tokio::sync::watch;

/// An index and its subscribers. Whatever was asked for once is followed from then on.
pub struct History {
    engine: Engine,
    subscriptions: Subscriptions,
    states: BTreeMap<WorkloadKey, watch::Receiver<Arc<WorkloadState>>>,
    ports: BTreeMap<(WorkloadKey, NonZeroU16), watch::Receiver<Arc<PortPolicy>>>,
    version: u64,
}

impl History {
    /// An empty index that counts as complete.
    pub fn new(config: &ControllerConfig) -> Self {
        let config = Arc::new(config.clone());
        let subscriptions = Subscriptions::new("history".into(), &config);
        let mut engine = Engine::new(config);
        engine.apply(&Batch {
            changes: vec![Change::Synced],
            versions: BTreeMap::new(),
            ..Batch::default()
        });
        Self { engine, subscriptions, states: BTreeMap::new(), ports: BTreeMap::new(), version: 0 }
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
    }

    /// Forgets what nobody follows.
    pub fn sweep(&mut self) {
        let roots = self.subscriptions.sweep();
        self.engine.retain(roots);
    }

    /// Conditions of every object.
    pub fn conditions(&self) -> &ConditionTable {
        self.engine.conditions()
    }

    /// A workload as its channel says; none if the channel is closed or there is no workload.
    pub fn followed_state(&mut self, key: &WorkloadKey) -> Option<Arc<WorkloadState>> {
        if let Some(receiver) = self.states.get(key)
            && receiver.has_changed().is_ok()
        {
            return Some(receiver.borrow().clone());
        }
        let receiver = self.subscriptions.workload(&mut self.engine, key).ok()?;
        let state = receiver.borrow().clone();
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
            && receiver.has_changed().is_ok()
        {
            return Some(receiver.borrow().clone());
        }
        let receiver = self.subscriptions.port(&mut self.engine, key, port).ok()?;
        let policy = receiver.borrow().clone();
        self.ports.insert(name, receiver);
        Some(policy)
    }

    /// How many answers are kept, and how many times a question was answered anew.
    pub fn effort(&self) -> (usize, u64) {
        self.engine.effort()
    }
}
