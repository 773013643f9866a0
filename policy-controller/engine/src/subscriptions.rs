//! The subscribers of workloads and ports, and the value last published to each.

use crate::config::ControllerConfig;
use crate::engine::{Changes, Engine};
use crate::incremental::QueryKey;
use crate::incremental::content_hash;
use crate::index::KindSet;
use crate::latest::{self, Latest};
use crate::publish::{LookupError, PortPolicy, PublishedWorkload};
use crate::query::policy::PolicyOf;
use crate::query::workload::{ResolvedWorkload, WorkloadOf, WorkloadShape};
use hashbrown::HashMap;
use policy_core::{Revision, WorkloadKey};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Every channel there is.
pub(crate) struct Subscriptions {
    epoch: Arc<str>,
    /// True if an epoch has begun since the last publication.
    epoch_began: bool,
    port_cap: usize,
    workloads: BTreeMap<WorkloadKey, WorkloadChannels>,
    watchers: Watchers,
    /// The revision of the last workload published: most workloads share it.
    label: Arc<Revision>,
}

type Watchers = HashMap<PolicyOf, PolicyWatchers>;

/// The watchers of a policy.
#[derive(Default)]
struct PolicyWatchers {
    keys: BTreeSet<WorkloadKey>,
    /// The value last published. Watchers added later share it while the policy stays the same.
    newest: Weak<PortPolicy>,
}

impl PolicyWatchers {
    /// The value to publish to the watchers of `query`.
    fn published(
        &mut self,
        engine: &mut Engine,
        query: &PolicyOf,
        epoch: &Arc<str>,
    ) -> Arc<PortPolicy> {
        let (policy, kinds) = engine.policy(&query.shape, query.port);
        let versions = engine.versions(kinds, query.shape.kind);
        let newest = self.newest.upgrade().filter(|p| Arc::ptr_eq(&p.policy, &policy));
        let content = match newest {
            Some(newest)
                if newest.revision.versions == versions && newest.revision.epoch == *epoch =>
            {
                return newest;
            }
            Some(newest) => newest.revision.content,
            None => content_hash(&policy),
        };
        let revision = Revision { epoch: epoch.clone(), content, versions };
        let published = Arc::new(PortPolicy { policy, revision, published: Instant::now() });
        self.newest = Arc::downgrade(&published);
        published
    }
}

struct WorkloadChannels {
    shape: Arc<WorkloadShape>,
    state: latest::Sender<Arc<PublishedWorkload>>,
    ports: BTreeMap<NonZeroU16, latest::Sender<Arc<PortPolicy>>>,
}

impl WorkloadChannels {
    /// Number of ports with a channel that the workload does not declare.
    fn undeclared(&self) -> usize {
        let state = self.state.current();
        self.ports.keys().filter(|port| !state.declared.contains(*port)).count()
    }
}

impl Subscriptions {
    /// None yet.
    pub(crate) fn new(epoch: Arc<str>, config: &ControllerConfig) -> Self {
        Self {
            epoch,
            epoch_began: false,
            port_cap: config.limits.undeclared_ports_per_workload.get(),
            workloads: BTreeMap::new(),
            watchers: Watchers::new(),
            label: Arc::default(),
        }
    }

    /// Follows a workload.
    pub(crate) fn workload(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
    ) -> Result<Latest<Arc<PublishedWorkload>>, LookupError> {
        Ok(self.channels(engine, key)?.state.subscribe())
    }

    /// Follows a port.
    pub(crate) fn port(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
        port: NonZeroU16,
    ) -> Result<Latest<Arc<PortPolicy>>, LookupError> {
        let cap = self.port_cap;
        let channels = self.channels(engine, key)?;
        let state = channels.state.current();
        let key = &state.key;
        if let Some(sender) = channels.ports.get(&port) {
            return Ok(sender.subscribe());
        }
        let shape = channels.shape.clone();
        if !channels.state.current().declared.contains(&port) && channels.undeclared() >= cap {
            self.drop_idle(engine, key);
        }
        let channels = self.channels(engine, key)?;
        if !channels.state.current().declared.contains(&port) && channels.undeclared() >= cap {
            return Err(LookupError::TooManyPorts);
        }
        let sender = latest::channel(self.watch(engine, key, &PolicyOf { shape, port }));
        let receiver = sender.subscribe();
        self.channels(engine, key)?.ports.insert(port, sender);
        Ok(receiver)
    }

    /// Labels values published from now on with this epoch. The next batch publishes to every
    /// watcher, because clients that went on naming the epoch before would be compared by versions
    /// that are no longer valid.
    pub(crate) fn begin_epoch(&mut self, epoch: Arc<str>) {
        self.epoch = epoch;
        self.epoch_began = true;
    }

    /// Publishes the changes of a batch to the subscribers concerned.
    pub(crate) fn publish(&mut self, engine: &mut Engine, changes: &Changes) {
        let (every, workloads): (Vec<PolicyOf>, Vec<WorkloadKey>) =
            match std::mem::take(&mut self.epoch_began) {
                true => {
                    let questions = self.watchers.keys().cloned().collect();
                    (questions, self.workloads.keys().cloned().collect())
                }
                false => Default::default(),
            };
        for key in changes.workloads.iter().chain(&workloads) {
            if self.workloads.contains_key(key) {
                match engine.workload_and_kinds(key) {
                    Some((resolved, kinds)) => self.follow(engine, key, (&resolved, kinds)),
                    None => self.close(key),
                }
            }
        }
        for query in changes.policies.iter().chain(&every) {
            let Some(policy_watchers) = self.watchers.get_mut(query) else { continue };
            let published = policy_watchers.published(engine, query, &self.epoch);
            for key in &policy_watchers.keys {
                publish_policy(&self.workloads, key, query.port, &published);
            }
        }
    }

    /// Drops channels without receivers, and returns the queries that the others depend on.
    pub(crate) fn sweep(&mut self) -> Vec<QueryKey> {
        for (key, channels) in &mut self.workloads {
            let watchers = &mut self.watchers;
            let shape = channels.shape.clone();
            channels.ports.retain(|port, sender| {
                let live = sender.has_receivers();
                if !live {
                    unwatch(watchers, &shape, *port, key);
                }
                live
            });
        }
        self.workloads
            .retain(|_, channels| !channels.ports.is_empty() || channels.state.has_receivers());
        let workloads =
            self.workloads.keys().map(|key| QueryKey::WorkloadOf(WorkloadOf(key.clone())));
        workloads.chain(self.watchers.keys().cloned().map(QueryKey::PolicyOf)).collect()
    }

    /// Drops the undeclared ports of a workload that have no receivers, and their policies, so that
    /// a client that requests one port after the other is bounded like one that watches them all.
    /// The desired policies of declared ports may be tracked without a channel.
    fn drop_idle(&mut self, engine: &mut Engine, key: &WorkloadKey) {
        let Some(WorkloadChannels { shape, state, ports }) = self.workloads.get_mut(key) else {
            return;
        };
        let declared = state.current().declared.clone();
        let idle = |port: &NonZeroU16, sender: &mut latest::Sender<Arc<PortPolicy>>| {
            !sender.has_receivers() && !declared.contains(port)
        };
        let idle: Vec<NonZeroU16> = ports.extract_if(.., idle).map(|(port, _)| port).collect();
        for port in idle {
            unwatch(&mut self.watchers, shape, port, key);
            let query = PolicyOf { shape: shape.clone(), port };
            if !self.watchers.contains_key(&query) {
                engine.forget_policy(query);
            }
        }
    }

    fn channels(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
    ) -> Result<&mut WorkloadChannels, LookupError> {
        if !engine.is_synced() {
            return Err(LookupError::NotSynced);
        }
        let (resolved, kinds) = engine.workload_and_kinds(key).ok_or(LookupError::NotFound)?;
        let key = resolved.state.key.clone();
        if !self.workloads.contains_key(&key) {
            let published = self.published(engine, &resolved, kinds);
            let state = latest::channel(published);
            let channels =
                WorkloadChannels { shape: resolved.shape.clone(), state, ports: BTreeMap::new() };
            self.workloads.insert(key.clone(), channels);
        }
        self.workloads.get_mut(&key).ok_or(LookupError::NotFound)
    }

    /// A workload with its revision.
    fn published(
        &mut self,
        engine: &Engine,
        resolved: &ResolvedWorkload,
        kinds: KindSet,
    ) -> Arc<PublishedWorkload> {
        let versions = engine.versions(kinds, resolved.shape.kind);
        if self.label.versions != versions || self.label.epoch != self.epoch {
            let epoch = self.epoch.clone();
            self.label = Arc::new(Revision { epoch, content: 0, versions });
        }
        let (state, revision) = (resolved.state.clone(), self.label.clone());
        Arc::new(PublishedWorkload { state, revision })
    }

    fn follow(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
        (resolved, kinds): (&ResolvedWorkload, KindSet),
    ) {
        let epoch = self.epoch.clone();
        let differs =
            |now: &PublishedWorkload| *now.state != *resolved.state || now.revision.epoch != epoch;
        if self.workloads.get(key).is_some_and(|channels| differs(&channels.state.current())) {
            let published = self.published(engine, resolved, kinds);
            if let Some(channels) = self.workloads.get(key) {
                channels.state.send(published);
            }
        }
        let Some(channels) = self.workloads.get_mut(key) else { return };
        if channels.shape == resolved.shape {
            return;
        }
        let before = std::mem::replace(&mut channels.shape, resolved.shape.clone());
        let ports: Vec<NonZeroU16> = channels.ports.keys().copied().collect();
        for port in ports {
            unwatch(&mut self.watchers, &before, port, key);
            let query = PolicyOf { shape: resolved.shape.clone(), port };
            let published = self.watch(engine, key, &query);
            publish_policy(&self.workloads, key, port, &published);
        }
    }

    /// Adds a workload to the watchers of a policy. Returns the value to publish.
    fn watch(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
        query: &PolicyOf,
    ) -> Arc<PortPolicy> {
        let policy_watchers = self.watchers.entry(query.clone()).or_default();
        policy_watchers.keys.insert(key.clone());
        policy_watchers.published(engine, query, &self.epoch)
    }

    fn close(&mut self, key: &WorkloadKey) {
        if let Some(channels) = self.workloads.remove(key) {
            for port in channels.ports.keys() {
                unwatch(&mut self.watchers, &channels.shape, *port, key);
            }
        }
    }
}

/// Publishes a policy if it differs from the last one published.
fn publish_policy(
    workloads: &BTreeMap<WorkloadKey, WorkloadChannels>,
    key: &WorkloadKey,
    port: NonZeroU16,
    published: &Arc<PortPolicy>,
) {
    if let Some(sender) = workloads.get(key).and_then(|channels| channels.ports.get(&port)) {
        sender.send_if_modified(|current| {
            let differs = current.policy != published.policy
                || current.revision.epoch != published.revision.epoch;
            if differs {
                *current = published.clone();
            }
            differs
        });
    }
}

fn unwatch(
    watchers: &mut Watchers,
    shape: &Arc<WorkloadShape>,
    port: NonZeroU16,
    key: &WorkloadKey,
) {
    let query = PolicyOf { shape: shape.clone(), port };
    if let Some(policy_watchers) = watchers.get_mut(&query) {
        policy_watchers.keys.remove(key);
        if policy_watchers.keys.is_empty() {
            watchers.remove(&query);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Batch, Change};
    use crate::testing;
    use policy_crds::{Kind, Object};

    #[test]
    fn of_workloads_that_do_not_exist_nothing_is_remembered() {
        let config = ControllerConfig::default();
        let mut engine = Engine::new(Arc::new(config.clone()));
        let changes = vec![Change::Synced];
        engine.apply(&Batch { changes, versions: BTreeMap::new(), ..Batch::default() });
        let mut subscriptions = Subscriptions::new("e".into(), &config);
        for number in 0..1000 {
            let key = WorkloadKey::pod("ns", &format!("p{number}"));
            let answer = subscriptions.workload(&mut engine, &key).map(|_| ());
            assert_eq!(answer, Err(LookupError::NotFound));
            let answer = subscriptions.port(&mut engine, &key, NonZeroU16::MIN).map(|_| ());
            assert_eq!(answer, Err(LookupError::NotFound));
        }
        assert_eq!(engine.effort().0, 0);
    }

    /// A revocation that is irrelevant when it arrives, and becomes relevant by a later event of
    /// another kind.
    #[test]
    fn a_revision_reflects_every_kind_that_its_policy_is_made_from() {
        let config = ControllerConfig::default();
        let mut engine = Engine::new(Arc::new(config.clone()));
        let mut subscriptions = Subscriptions::new("e".into(), &config);
        let mut apply = |subscriptions: &mut Subscriptions, objects: &[Arc<Object>], version| {
            let versions = objects.iter().map(|object| (object.meta.key.kind, version)).collect();
            let changes = objects.iter().cloned().map(Change::Apply);
            let changes = changes.chain([Change::Synced]).collect();
            let changes = engine.apply(&Batch { changes, versions, ..Batch::default() });
            subscriptions.publish(&mut engine, &changes);
            let (key, port) = (WorkloadKey::pod("ns", "p"), NonZeroU16::new(80).unwrap());
            subscriptions.port(&mut engine, &key, port).unwrap()
        };
        let pod = testing::object(
            "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, \
              spec: {containers: [{name: c}]}}",
        );
        let mut watched = apply(&mut subscriptions, &[pod], 1);
        let grant = testing::policy_on_server("ns", "grant", "a");
        apply(&mut subscriptions, &[grant], 2);
        apply(&mut subscriptions, &[testing::server("ns", "b", 81)], 3);
        assert!(!watched.has_changed());
        apply(&mut subscriptions, &[testing::server("ns", "a", 80)], 4);
        let published = watched.read();
        assert_eq!(published.policy.authorizations.len(), 1);
        let lagging = |grants| Revision {
            versions: [(Kind::Pod, 9), (Kind::Server, 9), (Kind::AuthorizationPolicy, grants)]
                .map(|(kind, version)| (crate::engine::version_key(kind), version))
                .into(),
            ..published.revision.clone()
        };
        assert!(!lagging(1).has_caught_up_with(&published.revision), "{:?}", published.revision);
        assert!(lagging(2).has_caught_up_with(&published.revision), "{:?}", published.revision);
    }

    /// A client that went on naming the epoch before would have to wait wherever it reconnects.
    #[test]
    fn an_epoch_that_begins_is_told_to_every_watcher() {
        let config = ControllerConfig::default();
        let mut engine = Engine::new(Arc::new(config.clone()));
        let mut subscriptions = Subscriptions::new("first".into(), &config);
        let pod = testing::object(
            "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, \
              spec: {containers: [{name: c}]}}",
        );
        let mut apply = |subscriptions: &mut Subscriptions, version, epoch: Option<&str>| {
            let changes = vec![Change::Apply(pod.clone()), Change::Synced];
            let (versions, epoch) = ([(Kind::Pod, version)].into(), epoch.map(Arc::from));
            let batch = Batch { changes, versions, epoch, ..Batch::default() };
            let changes = engine.apply(&batch);
            batch.epoch.into_iter().for_each(|epoch| subscriptions.begin_epoch(epoch));
            subscriptions.publish(&mut engine, &changes);
            let (key, port) = (WorkloadKey::pod("ns", "p"), NonZeroU16::new(80).unwrap());
            subscriptions.port(&mut engine, &key, port).unwrap()
        };
        let mut watched = apply(&mut subscriptions, 90, None);
        let first = watched.read();
        apply(&mut subscriptions, 91, None);
        assert!(!watched.has_changed());
        apply(&mut subscriptions, 7, Some("second"));
        assert!(watched.has_changed());
        let second = watched.read();
        assert!(Arc::ptr_eq(&first.policy, &second.policy));
        assert_eq!(&*second.revision.epoch, "second");
        assert_eq!(second.revision.versions, [(crate::engine::version_key(Kind::Pod), 7)].into());
        apply(&mut subscriptions, 8, None);
        assert!(!watched.has_changed(), "once is enough");
    }

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
