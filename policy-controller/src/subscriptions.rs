//! Who watches what, and what each was last told.

use crate::compile::PolicyOf;
use crate::config::ControllerConfig;
use crate::engine::{Changes, Engine, version_key};
use crate::index::KindSet;
use crate::publish::{LookupError, PortPolicy, WorkloadKey, WorkloadState};
use crate::resolve::Query;
use crate::resolve::memo::content_hash;
use crate::resolve::workload::{Resolved, Shape, WorkloadOf};
use hashbrown::HashMap;
use policy_core::{Revision, ServerPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::watch;

/// Every channel there is.
pub(crate) struct Subscriptions {
    epoch: Arc<str>,
    port_cap: usize,
    workloads: BTreeMap<WorkloadKey, Held>,
    watchers: Watchers,
}

type Watchers = HashMap<PolicyOf, Watching>;

/// Who watches a policy.
#[derive(Default)]
struct Watching {
    keys: BTreeSet<WorkloadKey>,
    /// What was published last to a new watcher. Those who come after it share it while it says
    /// what they are to be told.
    newest: Weak<PortPolicy>,
}

impl Watching {
    /// What a new watcher is told.
    fn published(
        &mut self,
        policy: &Arc<ServerPolicy>,
        epoch: Arc<str>,
        versions: BTreeMap<Arc<str>, u64>,
    ) -> Arc<PortPolicy> {
        let newest = self.newest.upgrade().filter(|p| Arc::ptr_eq(&p.policy, policy));
        let content = match newest {
            Some(newest) if newest.revision.versions == versions => return newest,
            Some(newest) => newest.revision.content,
            None => content_hash(policy),
        };
        let revision = Revision { epoch, content, versions };
        let (policy, published) = (policy.clone(), Instant::now());
        let published = Arc::new(PortPolicy { policy, revision, published });
        self.newest = Arc::downgrade(&published);
        published
    }
}

/// A policy on its way to its watchers. Those who had the same are given the same.
struct Telling<'a> {
    epoch: &'a Arc<str>,
    policy: &'a Arc<ServerPolicy>,
    content: u64,
    versions: Vec<(Arc<str>, u64)>,
    published: Instant,
    /// By the address of what they had, which is held so that no other gets it.
    told: HashMap<usize, (Arc<PortPolicy>, Arc<PortPolicy>)>,
}

impl<'a> Telling<'a> {
    fn new(
        engine: &Engine,
        epoch: &'a Arc<str>,
        policy: &'a Arc<ServerPolicy>,
        causes: KindSet,
    ) -> Self {
        let versions = causes.iter().filter_map(|k| Some((version_key(k), engine.version(k)?)));
        Self {
            epoch,
            policy,
            content: content_hash(policy),
            versions: versions.collect(),
            published: Instant::now(),
            told: HashMap::new(),
        }
    }

    /// What somebody is told who has `before`; nothing if that says the same.
    fn after(&mut self, before: &Arc<PortPolicy>) -> Option<Arc<PortPolicy>> {
        if Arc::ptr_eq(&before.policy, self.policy) || before.policy == *self.policy {
            return None;
        }
        let (_, after) = self.told.entry(Arc::as_ptr(before).addr()).or_insert_with(|| {
            let mut versions = before.revision.versions.clone();
            versions.extend(self.versions.iter().cloned());
            let revision = Revision { epoch: self.epoch.clone(), content: self.content, versions };
            let (policy, published) = (self.policy.clone(), self.published);
            (before.clone(), Arc::new(PortPolicy { policy, revision, published }))
        });
        Some(after.clone())
    }
}

struct Held {
    shape: Arc<Shape>,
    state: watch::Sender<Arc<WorkloadState>>,
    ports: BTreeMap<NonZeroU16, watch::Sender<Arc<PortPolicy>>>,
}

impl Held {
    /// How many ports there are channels for that the workload does not declare.
    fn undeclared(&self) -> usize {
        let state = self.state.borrow();
        self.ports.keys().filter(|port| !state.declared.contains(*port)).count()
    }
}

impl Subscriptions {
    /// None yet.
    pub(crate) fn new(epoch: Arc<str>, config: &ControllerConfig) -> Self {
        Self {
            epoch,
            port_cap: config.limits.undeclared_ports_per_workload.get(),
            workloads: BTreeMap::new(),
            watchers: Watchers::new(),
        }
    }

    /// Follows a workload.
    pub(crate) fn workload(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
    ) -> Result<watch::Receiver<Arc<WorkloadState>>, LookupError> {
        Ok(self.held(engine, key)?.state.subscribe())
    }

    /// Follows a port.
    pub(crate) fn port(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
        port: NonZeroU16,
    ) -> Result<watch::Receiver<Arc<PortPolicy>>, LookupError> {
        let (cap, epoch) = (self.port_cap, self.epoch.clone());
        let held = self.held(engine, key)?;
        if let Some(sender) = held.ports.get(&port) {
            return Ok(sender.subscribe());
        }
        let shape = held.shape.clone();
        if !held.state.borrow().declared.contains(&port) && held.undeclared() >= cap {
            self.drop_idle(engine, key);
        }
        let held = self.held(engine, key)?;
        if !held.state.borrow().declared.contains(&port) && held.undeclared() >= cap {
            return Err(LookupError::TooManyPorts);
        }
        let (policy, kinds) = engine.policy(&shape, port);
        let versions = engine.versions(kinds, key.kind);
        let watching = self.watchers.entry(PolicyOf { shape, port }).or_default();
        watching.keys.insert(key.clone());
        let (sender, receiver) = watch::channel(watching.published(&policy, epoch, versions));
        self.held(engine, key)?.ports.insert(port, sender);
        Ok(receiver)
    }

    /// Tells whoever is concerned what a batch changed.
    pub(crate) fn publish(&mut self, engine: &mut Engine, changes: &Changes) {
        for (key, causes) in &changes.workloads {
            if self.workloads.contains_key(key) {
                match engine.workload(key) {
                    Some(resolved) => self.follow(engine, key, &resolved, *causes),
                    None => self.close(key),
                }
            }
        }
        for (question, causes) in &changes.policies {
            let Some(watching) = self.watchers.get(question) else { continue };
            let (policy, _) = engine.policy(&question.shape, question.port);
            let mut telling = Telling::new(engine, &self.epoch, &policy, *causes);
            for key in &watching.keys {
                self.tell(key, question.port, &mut telling);
            }
        }
    }

    /// Forgets channels that nobody listens to, and says what the others depend on.
    pub(crate) fn sweep(&mut self) -> Vec<Query> {
        for (key, held) in &mut self.workloads {
            let watchers = &mut self.watchers;
            let shape = held.shape.clone();
            held.ports.retain(|port, sender| {
                let live = sender.receiver_count() > 0;
                if !live {
                    unwatch(watchers, &shape, *port, key);
                }
                live
            });
        }
        self.workloads.retain(|_, held| !held.ports.is_empty() || held.state.receiver_count() > 0);
        let workloads = self.workloads.keys().map(|key| Query::WorkloadOf(WorkloadOf(key.clone())));
        workloads.chain(self.watchers.keys().cloned().map(Query::PolicyOf)).collect()
    }

    /// Forgets the ports of a workload that nobody listens to, and what was found out for them: who
    /// asks for one port after the other is held to the same bound as who watches them all.
    fn drop_idle(&mut self, engine: &mut Engine, key: &WorkloadKey) {
        let Some(held) = self.workloads.get_mut(key) else { return };
        let shape = held.shape.clone();
        let idle: Vec<NonZeroU16> = held
            .ports
            .extract_if(.., |_, s| s.receiver_count() == 0)
            .map(|(port, _)| port)
            .collect();
        for port in idle {
            unwatch(&mut self.watchers, &shape, port, key);
            let question = PolicyOf { shape: shape.clone(), port };
            if !self.watchers.contains_key(&question) {
                engine.forget_policy(question);
            }
        }
    }

    fn held(&mut self, engine: &mut Engine, key: &WorkloadKey) -> Result<&mut Held, LookupError> {
        if !engine.is_synced() {
            return Err(LookupError::NotSynced);
        }
        let resolved = engine.workload(key).ok_or(LookupError::NotFound)?;
        Ok(self.workloads.entry(key.clone()).or_insert_with(|| Held {
            shape: resolved.shape.clone(),
            state: watch::Sender::new(resolved.state.clone()),
            ports: BTreeMap::new(),
        }))
    }

    fn follow(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
        resolved: &Resolved,
        causes: KindSet,
    ) {
        let Some(held) = self.workloads.get_mut(key) else { return };
        held.state.send_if_modified(|state| {
            let differs = **state != *resolved.state;
            if differs {
                *state = resolved.state.clone();
            }
            differs
        });
        if held.shape == resolved.shape {
            return;
        }
        let before = std::mem::replace(&mut held.shape, resolved.shape.clone());
        let ports: Vec<NonZeroU16> = held.ports.keys().copied().collect();
        for port in ports {
            unwatch(&mut self.watchers, &before, port, key);
            let question = PolicyOf { shape: resolved.shape.clone(), port };
            self.watchers.entry(question).or_default().keys.insert(key.clone());
            let (policy, _) = engine.policy(&resolved.shape, port);
            let mut telling = Telling::new(engine, &self.epoch, &policy, causes);
            self.tell(key, port, &mut telling);
        }
    }

    /// Publishes a policy if it differs from what was published.
    fn tell(&self, key: &WorkloadKey, port: NonZeroU16, telling: &mut Telling<'_>) {
        let held = self.workloads.get(key).and_then(|held| held.ports.get(&port));
        if let Some(sender) = held {
            sender.send_if_modified(|current| match telling.after(current) {
                Some(after) => {
                    *current = after;
                    true
                }
                None => false,
            });
        }
    }

    fn close(&mut self, key: &WorkloadKey) {
        if let Some(held) = self.workloads.remove(key) {
            for port in held.ports.keys() {
                unwatch(&mut self.watchers, &held.shape, *port, key);
            }
        }
    }
}

fn unwatch(watchers: &mut Watchers, shape: &Arc<Shape>, port: NonZeroU16, key: &WorkloadKey) {
    let question = PolicyOf { shape: shape.clone(), port };
    if let Some(watching) = watchers.get_mut(&question) {
        watching.keys.remove(key);
        if watching.keys.is_empty() {
            watchers.remove(&question);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Batch, Change};
    use crate::testing;

    #[test]
    fn ports_asked_for_and_let_go_are_bounded_like_those_watched() {
        let config = ControllerConfig::default();
        let cap = config.limits.undeclared_ports_per_workload.get();
        let mut engine = Engine::new(Arc::new(config.clone()));
        let pod = testing::object(
            "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, \
              spec: {containers: [{name: c}]}}",
        );
        let changes = vec![Change::Apply(pod), Change::Synced];
        engine.apply(&Batch { changes, versions: BTreeMap::new(), ..Batch::default() });
        let mut subscriptions = Subscriptions::new("e".into(), &config);
        let key = WorkloadKey::pod("ns", "p");
        for port in (1..=2000).filter_map(NonZeroU16::new) {
            drop(subscriptions.port(&mut engine, &key, port).unwrap());
            assert!(subscriptions.workloads[&key].ports.len() <= cap);
            assert!(subscriptions.watchers.len() <= cap);
            assert!(engine.effort().0 <= cap + 10, "{}", engine.effort().0);
        }
        let watched: Vec<_> = (3000..=u16::MAX)
            .filter_map(NonZeroU16::new)
            .map_while(|port| subscriptions.port(&mut engine, &key, port).ok())
            .collect();
        assert_eq!(watched.len(), cap);
    }
}
