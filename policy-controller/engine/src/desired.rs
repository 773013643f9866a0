//! The policies that ought to be in force on each workload. The task that owns the index tracks
//! them and reports changes incrementally.
//!
//! Nothing is tracked until the first request. From then on the changes of each batch mark shapes,
//! ports and objects dirty; the next request recomputes them, once per shape and port, however many
//! workloads share them.

mod reach_index;

use crate::enforcement::Enforcement;
use crate::engine::{Changes, Engine};
use crate::incremental::QueryKey;
use crate::incremental::content_hash;
use crate::publish::WorkloadState;
use crate::query::policy::PolicyOf;
use crate::query::workload::{WorkloadOf, WorkloadShape, object_key, workload_key};
use crate::reach::Reach;
use hashbrown::HashMap;
use policy_core::{ObjectRef, ServerPolicy, WorkloadKey};
use policy_crds::{Kind, ObjectKey};
use reach_index::ReachIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// The policy that ought to be in force on a port.
#[derive(Debug, PartialEq, Eq)]
pub struct DesiredPolicy {
    /// Hash of the policy.
    pub content: u64,
    /// The objects it is made from.
    pub objects: Arc<[ObjectRef]>,
}

/// A version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The uid, if the source states one.
    pub uid: Option<Arc<str>>,
    /// The generation, if the source states one.
    pub generation: Option<i64>,
}

/// Numbers a shape; numbers are not used twice.
pub type ShapeId = u64;

/// The ports that workloads of a shape declare.
pub type DesiredPorts = BTreeMap<NonZeroU16, Arc<DesiredPolicy>>;

/// Changes since the last request; the first time, everything.
#[derive(Debug)]
pub struct DesiredDelta {
    /// Time at which the first of the changes was published.
    pub since: Instant,
    /// Shapes that are new or changed, before the workloads that have them.
    pub shapes: Vec<(ShapeId, DesiredPorts)>,
    /// Workloads that are expected to answer, each with its shape; nothing: not any more.
    pub workloads: Vec<(WorkloadKey, Option<ShapeId>)>,
    /// Objects that can contribute to a policy, each as it is; nothing: it is gone.
    pub objects: Vec<(ObjectKey, Option<Version>)>,
    /// The new reach of objects for which it may have changed.
    pub reaches: Vec<(ObjectKey, Arc<Reach>)>,
}

/// The state that the owning task keeps.
#[derive(Debug)]
pub(crate) struct DesiredTracker {
    changed: watch::Sender<u64>,
    active: Option<Tracking>,
}

/// The tracked workloads and shapes, and the changes not yet reported.
#[derive(Debug, Default)]
struct Tracking {
    since: Option<Instant>,
    dirty_workloads: BTreeSet<WorkloadKey>,
    dirty_policies: BTreeSet<PolicyOf>,
    dirty_objects: BTreeSet<ObjectKey>,
    workloads: BTreeMap<WorkloadKey, TrackedWorkload>,
    shapes: HashMap<Arc<WorkloadShape>, ShapeEntry>,
    next: ShapeId,
    reach: ReachIndex,
    /// Namespaces with a Server. In other namespaces only workloads with a sidecar are tracked.
    with_server: BTreeSet<Arc<str>>,
}

/// A workload that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TrackedWorkload {
    shape: Arc<WorkloadShape>,
    enforcement: Enforcement,
}

#[derive(Debug, Default)]
struct ShapeEntry {
    number: ShapeId,
    workloads: usize,
    ports: BTreeMap<NonZeroU16, (Arc<ServerPolicy>, Arc<DesiredPolicy>)>,
}

impl DesiredTracker {
    /// Creates a tracker that tracks nothing yet. The counter is incremented when there are changes
    /// to report.
    pub(crate) fn new() -> (Self, watch::Receiver<u64>) {
        let (changed, receiver) = watch::channel(0);
        (Self { changed, active: None }, receiver)
    }

    /// Changes since the last request; `None` before all objects have been listed.
    pub(crate) fn delta(&mut self, engine: &mut Engine) -> Option<DesiredDelta> {
        if !engine.is_synced() {
            return None;
        }
        Some(self.active.get_or_insert_with(|| Tracking::everything(engine)).delta(engine))
    }

    /// Drops all tracked state.
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

    /// The queries that the tracked state depends on.
    pub(crate) fn roots(&self) -> impl Iterator<Item = QueryKey> {
        self.active.iter().flat_map(|active| {
            let workloads = active.workloads.keys().cloned();
            let policies = active.shapes.iter().flat_map(|(shape, entry)| {
                let of = |port: &NonZeroU16| PolicyOf { shape: shape.clone(), port: *port };
                entry.ports.keys().map(of).map(QueryKey::PolicyOf)
            });
            let workloads = workloads.map(|key| QueryKey::WorkloadOf(WorkloadOf(key)));
            workloads.chain(policies).chain(active.reach.roots())
        })
    }
}

impl Tracking {
    /// Tracks everything that exists; all of it is unreported.
    fn everything(engine: &Engine) -> Self {
        Self {
            dirty_workloads: engine.workloads().into_iter().collect(),
            dirty_objects: engine.keys(Kind::ALL.into_iter().filter(contributes)).collect(),
            ..Self::default()
        }
    }

    /// Marks what a batch changed as dirty; true if there are changes to report.
    fn note(&mut self, changes: &Changes) -> bool {
        let contributing = |key: &&ObjectKey| contributes(&key.kind);
        self.dirty_objects.extend(changes.objects.iter().filter(contributing).cloned());
        let touched = changes.objects.iter().filter_map(workload_key);
        self.dirty_workloads.extend(touched.chain(changes.workloads.iter().cloned()));
        let policies =
            changes.policies.iter().filter(|of| self.shapes.contains_key(&of.shape)).cloned();
        self.dirty_policies.extend(policies);
        changes.effective_servers.iter().for_each(|key| self.reach.object_changed(key));
        for shape in &changes.port_owners {
            self.reach.owners_changed(shape);
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
            && !self.reach.is_dirty())
    }

    /// Changes since the last request.
    fn delta(&mut self, engine: &mut Engine) -> DesiredDelta {
        let since = self.since.take().unwrap_or_else(Instant::now);
        self.track_servers(engine);
        let mut changed = BTreeMap::new();
        let mut workloads = Vec::new();
        for key in std::mem::take(&mut self.dirty_workloads) {
            if let Some(shape) = self.track(engine, &key, &mut changed) {
                workloads.push((key, shape));
            }
        }
        // One policy is often that of many shapes and ports.
        let mut cache = HashMap::new();
        let mut shapes = BTreeMap::new();
        for (shape, state) in changed {
            shapes.extend(self.follow(engine, &shape, &state.declared, &mut cache));
        }
        for of in std::mem::take(&mut self.dirty_policies) {
            let Some(entry) = self.shapes.get_mut(&of.shape) else { continue };
            if entry.ports.contains_key(&of.port) && entry.refresh(engine, &of, &mut cache) {
                shapes.insert(entry.number, entry.desired());
            }
        }
        let objects = std::mem::take(&mut self.dirty_objects);
        objects.iter().for_each(|key| self.reach.object_changed(key));
        let reaches = self.reach.update(engine);
        let objects = objects.into_iter().map(|key| {
            let meta = engine.object(&key).map(|object| &object.meta);
            let version =
                meta.map(|meta| Version { uid: meta.uid.clone(), generation: meta.generation });
            (key, version)
        });
        let objects = objects.collect();
        DesiredDelta { since, shapes: shapes.into_iter().collect(), workloads, objects, reaches }
    }

    /// Updates the set of namespaces that have a Server.
    fn track_servers(&mut self, engine: &Engine) {
        let servers = self.dirty_objects.iter().filter(|key| key.kind == Kind::Server);
        let namespaces: BTreeSet<Arc<str>> = servers.map(|key| key.namespace.clone()).collect();
        for namespace in namespaces {
            let has = engine.index().list(Kind::Server, &namespace).next().is_some();
            let changed = match has {
                true => self.with_server.insert(namespace.clone()),
                false => self.with_server.remove(&namespace),
            };
            for kind in [Kind::Pod, Kind::ExternalWorkload].into_iter().filter(|_| changed) {
                let inside = engine.index().list(kind, &namespace);
                let keys = inside.filter_map(|object| workload_key(&object.meta.key));
                self.dirty_workloads.extend(keys);
            }
        }
    }

    /// The shape and enforcement of a workload, and its declared ports; `None` if it is not
    /// tracked.
    fn tracked(
        &self,
        engine: &mut Engine,
        key: &WorkloadKey,
    ) -> Option<(TrackedWorkload, Arc<WorkloadState>)> {
        let enforcement = Enforcement::of(engine.object(&object_key(key))?);
        if enforcement != Enforcement::Sidecar && !self.with_server.contains(&key.namespace) {
            return None;
        }
        let resolved = engine.workload(key)?;
        let shape = resolved.shape.clone();
        Some((TrackedWorkload { shape, enforcement: resolved.enforcement }, resolved.state.clone()))
    }

    /// Updates the shape of a workload that is expected to acknowledge. `None` if it has not
    /// changed. Adds shapes to `changed` that may declare other ports.
    fn track(
        &mut self,
        engine: &mut Engine,
        key: &WorkloadKey,
        changed: &mut BTreeMap<Arc<WorkloadShape>, Arc<WorkloadState>>,
    ) -> Option<Option<ShapeId>> {
        let (now, state) = self.tracked(engine, key).unzip();
        let before = self.workloads.get(key).cloned();
        if before != now {
            if let Some(TrackedWorkload { shape, enforcement }) = &before {
                self.reach.remove(shape, *enforcement);
            }
            if let Some(TrackedWorkload { shape, enforcement }) = &now {
                self.reach.add(shape, *enforcement);
            }
            match now.clone() {
                Some(now) => self.workloads.insert(key.clone(), now),
                None => self.workloads.remove(key),
            };
        }
        let answering = |tracked: TrackedWorkload| {
            (tracked.enforcement == Enforcement::Sidecar).then_some(tracked.shape)
        };
        let (before, now) = (before.and_then(answering), now.and_then(answering));
        // What workloads declare follows from their shape.
        changed.extend(now.clone().zip(state));
        if before == now {
            return None;
        }
        if let Some(before) = before
            && let Some(entry) = self.shapes.get_mut(&before)
        {
            entry.workloads = entry.workloads.saturating_sub(1);
            if entry.workloads == 0 {
                self.shapes.remove(&before);
            }
        }
        let Some(shape) = now else { return Some(None) };
        let entry = self.shapes.entry(shape).or_insert_with(|| {
            self.next = self.next.wrapping_add(1);
            ShapeEntry { number: self.next, ..ShapeEntry::default() }
        });
        entry.workloads = entry.workloads.saturating_add(1);
        Some(Some(entry.number))
    }

    /// Updates the declared ports of a shape and their desired policies; `None` if nothing has
    /// changed.
    fn follow(
        &mut self,
        engine: &mut Engine,
        shape: &Arc<WorkloadShape>,
        declared: &BTreeSet<NonZeroU16>,
        cache: &mut PolicyCache,
    ) -> Option<(ShapeId, DesiredPorts)> {
        let entry = self.shapes.get_mut(shape)?;
        let before = entry.ports.len();
        // What is not redirected reaches no sidecar, whatever that has in force.
        let counts = |port: &NonZeroU16| !shape.skipped.contains(*port);
        entry.ports.retain(|port, _| declared.contains(port));
        let mut news = entry.ports.len() != before || before == 0;
        for port in declared.iter().filter(|port| counts(port)) {
            news |= entry.refresh(engine, &PolicyOf { shape: shape.clone(), port: *port }, cache);
        }
        news.then(|| (entry.number, entry.desired()))
    }
}

/// Hashes of policies by their address, while they are held.
type PolicyCache = HashMap<usize, (Arc<ServerPolicy>, Arc<DesiredPolicy>)>;

impl ShapeEntry {
    /// Updates the desired policy of a port; true if it has changed.
    fn refresh(&mut self, engine: &mut Engine, of: &PolicyOf, cache: &mut PolicyCache) -> bool {
        let (policy, _) = engine.policy(&of.shape, of.port);
        if self.ports.get(&of.port).is_some_and(|(before, _)| Arc::ptr_eq(before, &policy)) {
            return false;
        }
        let at = Arc::as_ptr(&policy).addr();
        let (_, desired) = cache.entry(at).or_insert_with(|| {
            let objects = policy.objects().into_iter().collect();
            let content = content_hash(&policy);
            (policy.clone(), Arc::new(DesiredPolicy { content, objects }))
        });
        self.ports.insert(of.port, (policy, desired.clone()));
        true
    }

    fn desired(&self) -> DesiredPorts {
        self.ports.iter().map(|(port, (_, desired))| (*port, desired.clone())).collect()
    }
}

/// True if policies list objects of this kind among those that they are made from.
fn contributes(kind: &Kind) -> bool {
    kind.spec().contributes
}

#[cfg(test)]
mod tests;
