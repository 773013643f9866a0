//! No reconnect ever widens: a client that goes from replica to replica, while permissions are taken
//! away in two watched namespaces and backups are restored, is never sent what was in force before.
//!
//! Everything between the watches and the client is the controller's own. Watches and storage are a
//! model, so that each watch of each replica can lag by itself.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a test ends where it cannot go on"
)]

use super::epoch::Lease;
use super::gather::{Epochs, Gatherer};
use super::newest::Newest;
use super::news::Told;
use super::numbering::{Numbered, Step as Decided, decide};
use crate::publish::{PortPolicy, Seen};
use crate::serve::session::hold::Hold;
use crate::source::directory::Diagnostic;
use crate::source::{Change, Health, Source, SourceContext, SourceError};
use crate::testing::{self, object};
use crate::{Controller, ControllerConfig, WorkloadKey, start};
use policy_core::{Revision, Source as Origin};
use policy_crds::{Kind, Object};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Permissions that can be taken away: the even ones by an object in namespace `a`, the odd in `b`.
const PERMISSIONS: usize = 6;

/// Worlds, each of which a restore begins. In each something is permitted that was not before.
const WORLDS: usize = 4;

/// What is watched: one kind in both namespaces, and what does not change.
const WATCHES: [(Kind, &str); 5] = [
    (Kind::MeshTlsAuthentication, "a"),
    (Kind::MeshTlsAuthentication, "b"),
    (Kind::AuthorizationPolicy, "a"),
    (Kind::Server, "a"),
    (Kind::Pod, "a"),
];

/// The watches whose objects change.
const CHANGING: usize = 2;

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
struct Store {
    world: usize,
    revision: u64,
    /// Names of what permits.
    there: BTreeSet<String>,
    /// What was taken away in this world, and at which revision.
    gone: Vec<(u64, String)>,
    /// Counter and version of the Lease.
    lease: (u64, u64),
}

impl Store {
    fn new() -> Self {
        let permissions = (0..PERMISSIONS).map(|number| format!("i{number}"));
        let there = permissions.chain(["w0".to_owned()]).collect();
        Self { world: 0, revision: 10, there, gone: Vec::new(), lease: (0, 10) }
    }

    fn revoke(&mut self, name: String) {
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
        self.gatherer.run(&context).await;
        Ok(())
    }
}

/// How far a watch is.
#[derive(Clone, Copy, Default)]
struct At {
    world: usize,
    revision: u64,
    since: u64,
}

struct Replica {
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
    async fn start(store: &Store) -> Self {
        let (told, queue) = mpsc::channel(64);
        let (sender, refresh) = watch::channel(0);
        let lease = Lease::for_test("lease", store.lease.0, store.lease.1);
        let (epoch, number, looked) = (lease.epoch(), 0, u64::MAX);
        let (numbers, numbered) = watch::channel(Numbered { epoch, number, looked });
        let (noticed, older) = watch::channel(None);
        let newest = Arc::<Newest>::default();
        let epochs = Epochs { numbered, older: noticed, newest: newest.clone() };
        let kinds = WATCHES.map(|(kind, _)| kind);
        let gatherer = Gatherer::new(kinds, queue, sender, epochs);
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

    /// Lets every watch do what it would do now, twice: what lists anew then follows.
    async fn follow_all(&mut self, store: &Store) {
        for watch in (0..WATCHES.len()).chain(0..WATCHES.len()) {
            self.follow(store, watch).await;
        }
    }

    /// A watch lists where it has to, and hears what happened otherwise.
    async fn follow(&mut self, store: &Store, watch: usize) {
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
                    settle().await;
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
        settle().await;
    }

    /// Looks at the Lease, as the real one does, but for the requests.
    async fn look(&mut self, store: &mut Store) {
        let owes = *self.older.borrow() == Some(self.numbers.borrow().number);
        let (counter, version) = store.lease;
        let read = Lease::for_test("lease", counter, version);
        match decide(Some(&self.lease), &read, owes) {
            Decided::Keep => self.lease = read,
            Decided::Follow => self.begin(read),
            Decided::Raise(counter) => {
                store.revision += 1;
                store.lease = (counter, store.revision);
                self.begin(Lease::for_test("lease", counter, store.revision));
            }
        }
        settle().await;
    }

    fn begin(&mut self, lease: Lease) {
        let epoch = lease.epoch();
        self.lease = lease;
        self.numbers.send_modify(|told| (told.epoch, told.number) = (epoch, told.number + 1));
    }

    fn seen(&self) -> Arc<Seen> {
        self.controller.policies.seen().borrow().clone()
    }

    async fn policy(&self) -> Arc<PortPolicy> {
        let (key, port) = (WorkloadKey::pod("a", "p"), NonZeroU16::new(80).unwrap());
        self.controller.policies.port(&key, port).await.unwrap().current()
    }
}

/// Lets everything that was told arrive. The promise does not depend on it.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(8)).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// What a client has in force.
struct Client {
    replica: usize,
    hold: Option<Hold>,
    applied: Revision,
    world: usize,
    permitted: BTreeSet<String>,
}

impl Client {
    /// The world that a policy is of, and what it permits.
    fn read(policy: &PortPolicy) -> (usize, BTreeSet<String>) {
        let grants = policy.policy.authorizations.iter();
        let names = grants.filter_map(|grant| match &grant.source {
            Origin::Object(object) => Some(object.name().to_string()),
            Origin::Default(_) => None,
        });
        let (worlds, permitted): (BTreeSet<String>, BTreeSet<String>) =
            names.partition(|name| name.starts_with('w'));
        let world = worlds.iter().map(|name| name[1..].parse().unwrap()).max().unwrap_or(0);
        (world, permitted)
    }

    fn new(policy: &PortPolicy) -> Self {
        let (world, permitted) = Self::read(policy);
        let applied = policy.revision.clone();
        Self { replica: 0, hold: None, applied, world, permitted }
    }

    /// Connects to a replica, which decides whether it is held.
    fn connect(&mut self, number: usize, seen: &Seen) {
        self.replica = number;
        self.hold = seen.is_behind(&self.applied).then(|| Hold::new(&self.applied, seen, None));
    }

    /// Takes what the replica has, unless it holds it.
    fn take(&mut self, seen: &Seen, policy: &PortPolicy) -> Result<(), TestCaseError> {
        if self.hold.as_ref().is_some_and(|hold| !hold.has_ended(seen)) {
            return Ok(());
        }
        self.hold = None;
        let (world, permitted) = Self::read(policy);
        prop_assert!(world >= self.world, "world {world} after {}", self.world);
        let (old, new) = (&self.applied, &policy.revision);
        if world == self.world {
            let wider: Vec<_> = permitted.difference(&self.permitted).collect();
            prop_assert!(wider.is_empty(), "{wider:?} again: {old:?}, then {new:?}");
        }
        (self.world, self.permitted, self.applied) = (world, permitted, new.clone());
        Ok(())
    }
}

/// What happens next.
#[derive(Clone, Debug)]
enum Happens {
    Revoke(usize),
    /// Something that concerns nobody is written.
    Noise,
    Backup,
    Restore,
    Follow(usize, usize),
    FollowAll(usize),
    Look(usize),
    Connect(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0..PERMISSIONS).prop_map(Happens::Revoke),
        2 => Just(Happens::Noise),
        1 => Just(Happens::Backup),
        1 => Just(Happens::Restore),
        6 => (0..2_usize, 0..CHANGING).prop_map(|(replica, watch)| Happens::Follow(replica, watch)),
        2 => (0..2_usize).prop_map(Happens::FollowAll),
        2 => (0..2_usize).prop_map(Happens::Look),
        6 => (0..2_usize).prop_map(Happens::Connect),
    ]
}

struct Stage {
    store: Store,
    backup: Store,
    replicas: [Replica; 2],
    client: Client,
}

impl Stage {
    async fn new() -> Self {
        let store = Store::new();
        let replicas = [Replica::start(&store).await, Replica::start(&store).await];
        let client = Client::new(&*replicas[0].policy().await);
        Self { backup: store.clone(), store, replicas, client }
    }

    /// Brings the backup back. Each replica has read something since it was made: one that has not
    /// cannot notice, and has nothing that the storage does not have.
    async fn restore(&mut self) {
        if self.store.world + 1 == WORLDS {
            return;
        }
        self.store.revision += 1_000;
        self.store.lease.1 = self.store.revision;
        for replica in &mut self.replicas {
            replica.follow_all(&self.store).await;
            replica.look(&mut self.store).await;
            replica.follow_all(&self.store).await;
        }
        let world = self.store.world + 1;
        self.store = Store { world, gone: Vec::new(), ..self.backup.clone() };
        self.store.there.insert(format!("w{world}"));
        self.store.revision += 1;
        self.backup = self.store.clone();
    }

    async fn step(&mut self, happens: Happens) -> Result<(), TestCaseError> {
        match happens {
            Happens::Revoke(number) => self.store.revoke(format!("i{number}")),
            Happens::Noise => self.store.revision += 3,
            Happens::Backup => self.backup = self.store.clone(),
            Happens::Restore => self.restore().await,
            Happens::Follow(replica, watch) => {
                self.replicas[replica].follow(&self.store, watch).await;
            }
            Happens::FollowAll(replica) => self.replicas[replica].follow_all(&self.store).await,
            Happens::Look(replica) => self.replicas[replica].look(&mut self.store).await,
            Happens::Connect(replica) => {
                let seen = self.replicas[replica].seen();
                self.client.connect(replica, &seen);
            }
        }
        let replica = &self.replicas[self.client.replica];
        // In this order, as a session does: the policy is not older than what was seen.
        let seen = replica.seen();
        self.client.take(&seen, &*replica.policy().await)
    }

    /// Nothing happens any more: both replicas come to be current, and the client with them.
    async fn ends_well(mut self) -> Result<(), TestCaseError> {
        for _ in 0..3 {
            for replica in &mut self.replicas {
                replica.follow_all(&self.store).await;
                replica.look(&mut self.store).await;
                replica.follow_all(&self.store).await;
            }
        }
        let epochs = self.replicas.each_ref().map(|replica| replica.seen().revision.epoch.clone());
        prop_assert_eq!(&epochs[0], &epochs[1]);
        for number in 0..2 {
            let (seen, policy) =
                (self.replicas[number].seen(), self.replicas[number].policy().await);
            let (_, permitted) = Client::read(&policy);
            let mut expected = self.store.there.clone();
            expected.retain(|name| name.starts_with('i'));
            prop_assert_eq!(permitted, expected);
            self.client.connect(number, &seen);
            self.client.take(&seen, &policy)?;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn no_reconnect_ever_widens(steps in prop::collection::vec(happens(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut stage = Stage::new().await;
            for happens in steps {
                stage.step(happens).await?;
            }
            stage.ends_well().await
        })?;
    }
}
