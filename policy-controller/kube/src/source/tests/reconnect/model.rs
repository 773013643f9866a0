//! The storage, and a replica whose watches move one by one.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a test ends where it cannot go on"
)]

use crate::source::batcher::{Batcher, Epochs};
use crate::source::epoch::EpochLease;
use crate::source::epoch_tracker::{EpochAction, EpochState, decide};
use crate::source::latest_versions::LatestVersions;
use crate::source::pending_batch::WatchUpdate;
use crate::source::watch_status::WatchStatus;
use policy_core::WorkloadKey;
use policy_crds::{Kind, Object};
use policy_engine::publish::{PortPolicy, SourceProgress};
use policy_engine::source::Diagnostic;
use policy_engine::source::{Change, Health, Source, SourceContext, SourceError, WatchKey};
use policy_engine::testing::{self, object};
use policy_engine::{Controller, ControllerConfig, start};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Permissions that can be taken away: the even ones by an object in namespace `a`, the odd in `b`.
pub(super) const PERMISSIONS: usize = 6;

/// Worlds, each of which begins with a restore. Each permits something that was not permitted before.
pub(super) const WORLDS: usize = 4;

/// The watches: one kind in both namespaces, and kinds that do not change.
const WATCHES: [(Kind, &str); 5] = [
    (Kind::MeshTlsAuthentication, "a"),
    (Kind::MeshTlsAuthentication, "b"),
    (Kind::AuthorizationPolicy, "a"),
    (Kind::Server, "a"),
    (Kind::Pod, "a"),
];

/// The watches whose objects change.
pub(super) const CHANGING: usize = 2;

fn namespace(name: &str) -> &'static str {
    match name.strip_prefix('i').map(|number| number.parse::<usize>().unwrap() % 2) {
        Some(1) => "b",
        Some(_) | None => "a",
    }
}

/// The authentication of `NAME.x`.
fn authentication(name: &str) -> Arc<Object> {
    let namespace = namespace(name);
    object(&format!(
        "{{apiVersion: policy.linkerd.io/v1alpha1, kind: MeshTLSAuthentication, \
          metadata: {{name: {name}, namespace: {namespace}}}, spec: {{identities: [{name}.x]}}}}"
    ))
}

/// The policy that permits it.
fn policy(name: &str) -> Arc<Object> {
    let namespace = namespace(name);
    object(&format!(
        "{{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, \
          metadata: {{name: {name}, namespace: a}}, \
          spec: {{targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}, \
                  requiredAuthenticationRefs: [{{group: policy.linkerd.io, \
                  kind: MeshTLSAuthentication, name: {name}, namespace: {namespace}}}]}}}}"
    ))
}

fn names() -> impl Iterator<Item = String> {
    let permissions = (0..PERMISSIONS).map(|number| format!("i{number}"));
    permissions.chain((0..WORLDS).map(|number| format!("w{number}")))
}

/// The storage at one moment.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) world: usize,
    pub(super) revision: u64,
    /// Names of the permissions that exist.
    pub(super) there: BTreeSet<String>,
    /// The permissions that were revoked in this world, with the revision of each.
    pub(super) gone: Vec<(u64, String)>,
    /// Counter and version of the Lease.
    pub(super) lease: (u64, u64),
}

impl Store {
    pub(super) fn new() -> Self {
        let permissions = (0..PERMISSIONS).map(|number| format!("i{number}"));
        let there = permissions.chain(["w0".to_owned()]).collect();
        Self { world: 0, revision: 10, there, gone: Vec::new(), lease: (0, 10) }
    }

    pub(super) fn revoke(&mut self, name: String) {
        if self.there.remove(&name) {
            self.revision += 1;
            self.gone.push((self.revision, name));
        }
    }

    /// All of a watch's objects.
    fn list(&self, watch: usize) -> Vec<Arc<Object>> {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}, \
                    spec: {containers: [{name: c}]}}";
        match WATCHES[watch] {
            (Kind::AuthorizationPolicy, _) => names().map(|name| policy(&name)).collect(),
            (Kind::Server, _) => vec![testing::server("a", "web", 80)],
            (Kind::Pod, _) => vec![object(pod)],
            (_, of) => {
                let own = self.there.iter().filter(|name| namespace(name) == of);
                own.map(|name| authentication(name)).collect()
            }
        }
    }

    /// The deletions of a watch after a revision.
    fn after(&self, watch: usize, revision: u64) -> Vec<Change> {
        let gone = self.gone.iter().filter(|(at, _)| *at > revision).map(|(_, name)| name);
        let own = gone.filter(|name| namespace(name) == WATCHES[watch].1);
        own.map(|name| Change::Delete(authentication(name).meta.key.clone())).collect()
    }
}

/// The source of a replica, whose watches and Lease the test advances.
struct ScriptedSource {
    batcher: Batcher,
}

impl Source for ScriptedSource {
    fn epoch(&self) -> Arc<str> {
        EpochLease::for_test("lease", 0, 0).epoch()
    }

    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>> {
        watch::channel(Arc::from([])).1
    }

    fn health(&self) -> watch::Receiver<Arc<Health>> {
        watch::channel(Arc::default()).1
    }

    async fn run(self, context: SourceContext) -> Result<(), SourceError> {
        self.batcher.run(&context).await
    }
}

/// Progress of a watch.
#[derive(Clone, Copy, Default)]
struct At {
    world: usize,
    revision: u64,
    since: u64,
}

pub(super) struct Replica {
    controller: Controller,
    updates: mpsc::Sender<WatchUpdate>,
    refresh: watch::Receiver<u64>,
    states: watch::Sender<EpochState>,
    regressions: watch::Receiver<Option<u64>>,
    latest_versions: Arc<LatestVersions>,
    lease: EpochLease,
    watches: [Option<At>; 5],
    /// The objects that each watch has sent.
    held: BTreeMap<usize, Vec<Arc<Object>>>,
}

impl Replica {
    pub(super) async fn start(store: &Store) -> Self {
        let (updates, queue) = mpsc::channel(64);
        let (sender, refresh) = watch::channel(0);
        let lease = EpochLease::for_test("lease", store.lease.0, store.lease.1);
        let (epoch, number, verified) = (lease.epoch(), 0, u64::MAX);
        let (states, state) =
            watch::channel(EpochState { epoch, number, verified, bump_due: false });
        let (noticed, regressions) = watch::channel(None);
        let latest = Arc::<LatestVersions>::default();
        let epochs = Epochs {
            state,
            regressions: noticed,
            latest_versions: latest.clone(),
            watch_status: Arc::new(WatchStatus::new([])),
        };
        let watches = WATCHES.map(|(kind, _)| WatchKey { kind, namespace: None });
        let batcher = Batcher::new(watches, queue, sender, epochs);
        let shared_namespaces = BTreeSet::from(["b".into()]);
        let config = ControllerConfig { shared_namespaces, ..ControllerConfig::default() };
        let controller = start(config, ScriptedSource { batcher });
        let (watches, held) = ([None; 5], BTreeMap::new());
        let mut replica = Self {
            controller,
            updates,
            refresh,
            states,
            regressions,
            latest_versions: latest,
            lease,
            watches,
            held,
        };
        replica.follow_all(store).await;
        let mut synced = replica.controller.policies.synced();
        synced.wait_for(|synced| *synced).await.unwrap();
        replica
    }

    /// Advances every watch, twice, so that one that relists watches from there. Waits until the
    /// updates have arrived.
    pub(super) async fn follow_all(&mut self, store: &Store) {
        for watch in (0..WATCHES.len()).chain(0..WATCHES.len()) {
            self.follow(store, watch).await;
        }
        settle().await;
    }

    /// Advances a watch: it relists if it has to, and else sends its events.
    pub(super) async fn follow(&mut self, store: &Store, watch: usize) {
        let refresh = *self.refresh.borrow();
        let kind = WATCHES[watch].0;
        let follows =
            self.watches[watch].filter(|at| at.world == store.world && at.since >= refresh);
        let (changes, listed) = match follows {
            Some(at) => (store.after(watch, at.revision), None),
            None => {
                let before = self.latest_versions.get(refresh, kind);
                if before.is_some_and(|before| store.revision < before) {
                    self.updates.send(WatchUpdate::regression(watch, kind, refresh)).await.unwrap();
                    return;
                }
                let now = store.list(watch);
                let before = self.held.insert(watch, now.clone()).unwrap_or_default();
                let gone = before.into_iter().filter(|object| !now.contains(object));
                let gone = gone.map(|object| Change::Delete(object.meta.key.clone()));
                (gone.chain(now.iter().cloned().map(Change::Apply)).collect(), Some(refresh))
            }
        };
        let since = follows.map_or(refresh, |at| at.since);
        self.watches[watch] = Some(At { world: store.world, revision: store.revision, since });
        self.latest_versions.record(since, kind, store.revision);
        let version = Some(store.revision);
        let update = WatchUpdate { watch, kind, changes, version, listed, since, regressed: false };
        self.updates.send(update).await.unwrap();
    }

    /// Reads the Lease as the epoch tracker does, without the requests.
    pub(super) async fn look(&mut self, store: &mut Store) {
        let bump_due = *self.regressions.borrow() == Some(self.states.borrow().number);
        let (counter, version) = store.lease;
        let read = EpochLease::for_test("lease", counter, version);
        match decide(Some(&self.lease), &read, bump_due) {
            EpochAction::Keep => self.lease = read,
            EpochAction::Follow => self.begin(read),
            EpochAction::Raise(counter) => {
                store.revision += 1;
                store.lease = (counter, store.revision);
                self.begin(EpochLease::for_test("lease", counter, store.revision));
            }
        }
    }

    fn begin(&mut self, lease: EpochLease) {
        let epoch = lease.epoch();
        self.lease = lease;
        self.states.send_modify(|state| (state.epoch, state.number) = (epoch, state.number + 1));
    }

    pub(super) fn seen(&self) -> Arc<SourceProgress> {
        self.controller.policies.seen().borrow().clone()
    }

    pub(super) async fn policy(&self) -> Arc<PortPolicy> {
        let (key, port) = (WorkloadKey::pod("a", "p"), NonZeroU16::new(80).unwrap());
        self.controller.policies.port(&key, port).await.unwrap().current()
    }
}

/// Waits until all updates have arrived. The promise does not depend on it.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(8)).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
