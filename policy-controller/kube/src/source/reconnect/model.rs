//! The storage, and a replica whose watches move one by one.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a test ends where it cannot go on"
)]

use crate::source::board::Board;
use crate::source::epoch::Lease;
use crate::source::gather::{Epochs, Gatherer};
use crate::source::newest::Newest;
use crate::source::news::Told;
use crate::source::numbering::{Numbered, Step, decide};
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

/// Worlds, each of which a restore begins. In each something is permitted that was not before.
pub(super) const WORLDS: usize = 4;

/// What is watched: one kind in both namespaces, and what does not change.
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

/// What permits `NAME.x`.
fn authentication(name: &str) -> Arc<Object> {
    let namespace = namespace(name);
    object(&format!(
        "{{apiVersion: policy.linkerd.io/v1alpha1, kind: MeshTLSAuthentication, \
          metadata: {{name: {name}, namespace: {namespace}}}, spec: {{identities: [{name}.x]}}}}"
    ))
}

/// What makes a permission of it.
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
    /// Names of what permits.
    pub(super) there: BTreeSet<String>,
    /// What was taken away in this world, and at which revision.
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

    /// What was taken away of a watch's objects after a revision.
    fn after(&self, watch: usize, revision: u64) -> Vec<Change> {
        let gone = self.gone.iter().filter(|(at, _)| *at > revision).map(|(_, name)| name);
        let own = gone.filter(|name| namespace(name) == WATCHES[watch].1);
        own.map(|name| Change::Delete(authentication(name).meta.key.clone())).collect()
    }
}

/// The source of a replica, whose watches and Lease the test moves.
struct Moved {
    gatherer: Gatherer,
}

impl Source for Moved {
    fn epoch(&self) -> Arc<str> {
        Lease::for_test("lease", 0, 0).epoch()
    }

    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>> {
        watch::channel(Arc::from([])).1
    }

    fn health(&self) -> watch::Receiver<Arc<Health>> {
        watch::channel(Arc::default()).1
    }

    async fn run(self, context: SourceContext) -> Result<(), SourceError> {
        self.gatherer.run(&context).await
    }
}

/// How far a watch is.
#[derive(Clone, Copy, Default)]
struct At {
    world: usize,
    revision: u64,
    since: u64,
}

pub(super) struct Replica {
    controller: Controller,
    told: mpsc::Sender<Told>,
    refresh: watch::Receiver<u64>,
    numbers: watch::Sender<Numbered>,
    older: watch::Receiver<Option<u64>>,
    newest: Arc<Newest>,
    lease: Lease,
    watches: [Option<At>; 5],
    /// What each watch has told of there being.
    held: BTreeMap<usize, Vec<Arc<Object>>>,
}

impl Replica {
    pub(super) async fn start(store: &Store) -> Self {
        let (told, queue) = mpsc::channel(64);
        let (sender, refresh) = watch::channel(0);
        let lease = Lease::for_test("lease", store.lease.0, store.lease.1);
        let (epoch, number, looked) = (lease.epoch(), 0, u64::MAX);
        let (numbers, numbered) = watch::channel(Numbered { epoch, number, looked, owes: false });
        let (noticed, older) = watch::channel(None);
        let newest = Arc::<Newest>::default();
        let epochs = Epochs {
            numbered,
            older: noticed,
            newest: newest.clone(),
            board: Arc::new(Board::new([])),
        };
        let watches = WATCHES.map(|(kind, _)| WatchKey { kind, namespace: None });
        let gatherer = Gatherer::new(watches, queue, sender, epochs);
        let shared_namespaces = BTreeSet::from(["b".into()]);
        let config = ControllerConfig { shared_namespaces, ..ControllerConfig::default() };
        let controller = start(config, Moved { gatherer });
        let (watches, held) = ([None; 5], BTreeMap::new());
        let mut replica =
            Self { controller, told, refresh, numbers, older, newest, lease, watches, held };
        replica.follow_all(store).await;
        let mut synced = replica.controller.policies.synced();
        synced.wait_for(|synced| *synced).await.unwrap();
        replica
    }

    /// Lets every watch do what it would do now, twice: what lists anew then follows. Waits until that
    /// has arrived.
    pub(super) async fn follow_all(&mut self, store: &Store) {
        for watch in (0..WATCHES.len()).chain(0..WATCHES.len()) {
            self.follow(store, watch).await;
        }
        settle().await;
    }

    /// A watch lists where it has to, and hears what happened otherwise.
    pub(super) async fn follow(&mut self, store: &Store, watch: usize) {
        let refresh = *self.refresh.borrow();
        let kind = WATCHES[watch].0;
        let follows =
            self.watches[watch].filter(|at| at.world == store.world && at.since >= refresh);
        let (changes, listed) = match follows {
            Some(at) => (store.after(watch, at.revision), None),
            None => {
                let before = self.newest.of(refresh, kind);
                if before.is_some_and(|before| store.revision < before) {
                    self.told.send(Told::older(watch, kind, refresh)).await.unwrap();
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
        self.newest.note(since, kind, store.revision);
        let version = Some(store.revision);
        let told = Told { watch, kind, changes, version, listed, since, older: false };
        self.told.send(told).await.unwrap();
    }

    /// Looks at the Lease, as the real one does, but for the requests.
    pub(super) async fn look(&mut self, store: &mut Store) {
        let owes = *self.older.borrow() == Some(self.numbers.borrow().number);
        let (counter, version) = store.lease;
        let read = Lease::for_test("lease", counter, version);
        match decide(Some(&self.lease), &read, owes) {
            Step::Keep => self.lease = read,
            Step::Follow => self.begin(read),
            Step::Raise(counter) => {
                store.revision += 1;
                store.lease = (counter, store.revision);
                self.begin(Lease::for_test("lease", counter, store.revision));
            }
        }
    }

    fn begin(&mut self, lease: Lease) {
        let epoch = lease.epoch();
        self.lease = lease;
        self.numbers.send_modify(|told| (told.epoch, told.number) = (epoch, told.number + 1));
    }

    pub(super) fn seen(&self) -> Arc<SourceProgress> {
        self.controller.policies.seen().borrow().clone()
    }

    pub(super) async fn policy(&self) -> Arc<PortPolicy> {
        let (key, port) = (WorkloadKey::pod("a", "p"), NonZeroU16::new(80).unwrap());
        self.controller.policies.port(&key, port).await.unwrap().current()
    }
}

/// Lets everything that was told arrive. The promise does not depend on it.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(8)).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
