//! What ought to be in force on which workload, kept by the task that owns the index and told bit by
//! bit.
//!
//! Nothing is kept until somebody asks. From then on what a batch touched is noted, and found out
//! when it is asked for: once per shape and port, however many workloads share them.

mod census;

use crate::engine::{Changes, Engine};
use crate::incremental::QueryKey;
use crate::incremental::content_hash;
use crate::publish::WorkloadState;
use crate::query::policy::PolicyOf;
use crate::query::workload::{Shape, WorkloadOf, object_key, workload_key};
use crate::reach::Reach;
use crate::standing::Standing;
use census::Census;
use hashbrown::HashMap;
use policy_core::{ObjectRef, ServerPolicy, WorkloadKey};
use policy_crds::{Kind, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// What ought to be in force on a port.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Hash of the policy.
    pub content: u64,
    /// The objects it is made from.
    pub objects: Arc<[ObjectRef]>,
}

/// Which version of an object is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The uid, if the source states one.
    pub uid: Option<Arc<str>>,
    /// The generation, if the source states one.
    pub generation: Option<i64>,
}

/// Numbers a shape; numbers are not used twice.
pub type ShapeNumber = u64;

/// The ports that workloads of a shape declare.
pub type WantedPorts = BTreeMap<NonZeroU16, Arc<Wanted>>;

/// What changed since it was last asked for; at first, everything.
#[derive(Debug)]
pub struct News {
    /// When the first of the changes was published.
    pub since: Instant,
    /// Shapes that are new or changed, before the workloads that have them.
    pub shapes: Vec<(ShapeNumber, WantedPorts)>,
    /// Workloads that are expected to answer, each with its shape; nothing: not any more.
    pub workloads: Vec<(WorkloadKey, Option<ShapeNumber>)>,
    /// Objects that can contribute to a policy, each as it is; nothing: it is gone.
    pub objects: Vec<(ObjectKey, Option<Version>)>,
    /// Which other workloads objects are about, where that may have changed.
    pub reaches: Vec<(ObjectKey, Arc<Reach>)>,
}

/// What the owning task keeps.
#[derive(Debug)]
pub(crate) struct Demand {
    changed: watch::Sender<u64>,
    active: Option<Active>,
}

/// What is followed, and what of it has not been told.
#[derive(Debug, Default)]
struct Active {
    since: Option<Instant>,
    dirty_workloads: BTreeSet<WorkloadKey>,
    dirty_policies: BTreeSet<PolicyOf>,
    dirty_objects: BTreeSet<ObjectKey>,
    workloads: BTreeMap<WorkloadKey, Placed>,
    shapes: HashMap<Arc<Shape>, Held>,
    next: ShapeNumber,
    census: Census,
    /// Namespaces with a Server: of others, only workloads with a sidecar concern anybody.
    policed: BTreeSet<Arc<str>>,
}

/// A workload that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    shape: Arc<Shape>,
    standing: Standing,
}

#[derive(Debug, Default)]
struct Held {
    number: ShapeNumber,
    workloads: usize,
    ports: BTreeMap<NonZeroU16, (Arc<ServerPolicy>, Arc<Wanted>)>,
}

impl Demand {
    /// Nobody asks yet. The counter moves when there is something to tell.
    pub(crate) fn new() -> (Self, watch::Receiver<u64>) {
        let (changed, receiver) = watch::channel(0);
        (Self { changed, active: None }, receiver)
    }

    /// What changed since this was last asked; nothing while objects have not been listed.
    pub(crate) fn news(&mut self, engine: &mut Engine) -> Option<News> {
        if !engine.is_synced() {
            return None;
        }
        Some(self.active.get_or_insert_with(|| Active::everything(engine)).news(engine))
    }

    /// Forgets everything: nobody asks any more.
    pub(crate) fn stop(&mut self) {
        self.active = None;
    }

    /// Notes what a batch changed.
    pub(crate) fn note(&mut self, changes: &Changes) {
        if let Some(active) = &mut self.active
            && active.note(changes)
        {
            self.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// What is to be kept because it is asked about here.
    pub(crate) fn roots(&self) -> impl Iterator<Item = QueryKey> {
        self.active.iter().flat_map(|active| {
            let workloads = active.workloads.keys().cloned();
            let policies = active.shapes.iter().flat_map(|(shape, held)| {
                let of = |port: &NonZeroU16| PolicyOf { shape: shape.clone(), port: *port };
                held.ports.keys().map(of).map(QueryKey::PolicyOf)
            });
            let workloads = workloads.map(|key| QueryKey::WorkloadOf(WorkloadOf(key)));
            workloads.chain(policies).chain(active.census.roots())
        })
    }
}

impl Active {
    /// Follows everything there is, of which nothing has been told yet.
    fn everything(engine: &Engine) -> Self {
        Self {
            dirty_workloads: engine.workloads().into_iter().collect(),
            dirty_objects: engine.keys(Kind::ALL.into_iter().filter(contributes)).collect(),
            ..Self::default()
        }
    }

    /// Notes what a batch changed; true if there is something to tell.
    fn note(&mut self, changes: &Changes) -> bool {
        let contributing = |key: &&ObjectKey| contributes(&key.kind);
        self.dirty_objects.extend(changes.objects.iter().filter(contributing).cloned());
        let touched = changes.objects.iter().filter_map(workload_key);
        self.dirty_workloads.extend(touched.chain(changes.workloads.iter().cloned()));
        let policies =
            changes.policies.iter().filter(|of| self.shapes.contains_key(&of.shape)).cloned();
        self.dirty_policies.extend(policies);
        changes.hosts.iter().for_each(|key| self.census.moved(key));
        for shape in &changes.owners {
            self.census.reclaimed(shape);
        }
        let dirty = self.is_dirty();
        if dirty {
            self.since.get_or_insert_with(Instant::now);
        }
        dirty
    }

    fn is_dirty(&self) -> bool {
        !(self.dirty_workloads.is_empty()
            && self.dirty_policies.is_empty()
            && self.dirty_objects.is_empty()
            && !self.census.is_dirty())
    }

    /// What changed since this was last asked.
    fn news(&mut self, engine: &mut Engine) -> News {
        let since = self.since.take().unwrap_or_else(Instant::now);
        self.police(engine);
        let mut changed = BTreeMap::new();
        let mut workloads = Vec::new();
        for key in std::mem::take(&mut self.dirty_workloads) {
            if let Some(shape) = self.place(engine, &key, &mut changed) {
                workloads.push((key, shape));
            }
        }
        // One policy is often that of many shapes and ports.
        let mut known = HashMap::new();
        let mut shapes = BTreeMap::new();
        for (shape, state) in changed {
            shapes.extend(self.follow(engine, &shape, &state.declared, &mut known));
        }
        for of in std::mem::take(&mut self.dirty_policies) {
            let Some(held) = self.shapes.get_mut(&of.shape) else { continue };
            if held.ports.contains_key(&of.port) && held.learn(engine, &of, &mut known) {
                shapes.insert(held.number, held.wanted());
            }
        }
        let objects = std::mem::take(&mut self.dirty_objects);
        objects.iter().for_each(|key| self.census.moved(key));
        let reaches = self.census.settle(engine);
        let objects = objects.into_iter().map(|key| {
            let meta = engine.object(&key).map(|object| &object.meta);
            let version =
                meta.map(|meta| Version { uid: meta.uid.clone(), generation: meta.generation });
            (key, version)
        });
        let objects = objects.collect();
        News { since, shapes: shapes.into_iter().collect(), workloads, objects, reaches }
    }

    /// Takes note of namespaces that have a Server, or none, since this was last asked.
    fn police(&mut self, engine: &Engine) {
        let servers = self.dirty_objects.iter().filter(|key| key.kind == Kind::Server);
        let namespaces: BTreeSet<Arc<str>> = servers.map(|key| key.namespace.clone()).collect();
        for namespace in namespaces {
            let has = engine.index().list(Kind::Server, &namespace).next().is_some();
            let changed = match has {
                true => self.policed.insert(namespace.clone()),
                false => self.policed.remove(&namespace),
            };
            for kind in [Kind::Pod, Kind::ExternalWorkload].into_iter().filter(|_| changed) {
                let inside = engine.index().list(kind, &namespace);
                let keys = inside.filter_map(|object| workload_key(&object.meta.key));
                self.dirty_workloads.extend(keys);
            }
        }
    }

    /// How a workload stands and which shape it has, if it concerns anybody; with what it declares.
    fn placed(
        &self,
        engine: &mut Engine,
        key: &WorkloadKey,
    ) -> Option<(Placed, Arc<WorkloadState>)> {
        let standing = Standing::of(engine.object(&object_key(key))?);
        if standing != Standing::Sidecar && !self.policed.contains(&key.namespace) {
            return None;
        }
        let resolved = engine.workload(key)?;
        let shape = resolved.shape.clone();
        Some((Placed { shape, standing: resolved.standing }, resolved.state.clone()))
    }

    /// Finds out which shape a workload has that is expected to answer. `None`: the same as before.
    /// What is `changed` is what may declare other ports.
    fn place(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
        changed: &mut BTreeMap<Arc<Shape>, Arc<WorkloadState>>,
    ) -> Option<Option<ShapeNumber>> {
        let (now, state) = self.placed(engine, key).unzip();
        let before = self.workloads.get(key).cloned();
        if before != now {
            if let Some(Placed { shape, standing }) = &before {
                self.census.leave(shape, *standing);
            }
            if let Some(Placed { shape, standing }) = &now {
                self.census.enter(shape, *standing);
            }
            match now.clone() {
                Some(now) => self.workloads.insert(key.clone(), now),
                None => self.workloads.remove(key),
            };
        }
        let answering =
            |placed: Placed| (placed.standing == Standing::Sidecar).then_some(placed.shape);
        let (before, now) = (before.and_then(answering), now.and_then(answering));
        // What workloads declare follows from their shape.
        changed.extend(now.clone().zip(state));
        if before == now {
            return None;
        }
        if let Some(before) = before
            && let Some(held) = self.shapes.get_mut(&before)
        {
            held.workloads = held.workloads.saturating_sub(1);
            if held.workloads == 0 {
                self.shapes.remove(&before);
            }
        }
        let Some(shape) = now else { return Some(None) };
        let held = self.shapes.entry(shape).or_insert_with(|| {
            self.next = self.next.wrapping_add(1);
            Held { number: self.next, ..Held::default() }
        });
        held.workloads = held.workloads.saturating_add(1);
        Some(Some(held.number))
    }

    /// Finds out which ports workloads of a shape declare, and what ought to be in force there, if
    /// that is news.
    fn follow(
        &mut self,
        engine: &mut Engine,
        shape: &Arc<Shape>,
        declared: &BTreeSet<NonZeroU16>,
        known: &mut Known,
    ) -> Option<(ShapeNumber, WantedPorts)> {
        let held = self.shapes.get_mut(shape)?;
        let before = held.ports.len();
        // What is not redirected reaches no sidecar, whatever that has in force.
        let counts = |port: &NonZeroU16| !shape.skipped.contains(*port);
        held.ports.retain(|port, _| declared.contains(port));
        let mut news = held.ports.len() != before || before == 0;
        for port in declared.iter().filter(|port| counts(port)) {
            news |= held.learn(engine, &PolicyOf { shape: shape.clone(), port: *port }, known);
        }
        news.then(|| (held.number, held.wanted()))
    }
}

/// What is known of policies by their addresses, while they are held.
type Known = HashMap<usize, (Arc<ServerPolicy>, Arc<Wanted>)>;

impl Held {
    /// Finds out what ought to be in force on a port; true if that is news.
    fn learn(&mut self, engine: &mut Engine, of: &PolicyOf, known: &mut Known) -> bool {
        let (policy, _) = engine.policy(&of.shape, of.port);
        if self.ports.get(&of.port).is_some_and(|(before, _)| Arc::ptr_eq(before, &policy)) {
            return false;
        }
        let at = Arc::as_ptr(&policy).addr();
        let (_, wanted) = known.entry(at).or_insert_with(|| {
            let objects = policy.objects().into_iter().collect();
            let content = content_hash(&policy);
            (policy.clone(), Arc::new(Wanted { content, objects }))
        });
        self.ports.insert(of.port, (policy, wanted.clone()));
        true
    }

    fn wanted(&self) -> WantedPorts {
        self.ports.iter().map(|(port, (_, wanted))| (*port, wanted.clone())).collect()
    }
}

/// Whether policies name objects of a kind among those that they are made from.
fn contributes(kind: &Kind) -> bool {
    kind.spec().contributes
}

#[cfg(test)]
mod tests;
