//! The workloads that each object applies to, whether or not a sidecar runs there.
//!
//! Workloads are counted by shape. A shape knows which Servers claim and own its ports, a Server
//! knows which objects take effect through it. So an event of a pod changes one count, and only the
//! objects of the Servers that select its shape are examined again, never all objects or all pods.

use crate::enforcement::Enforcement;
use crate::engine::Engine;
use crate::findings::FindingKind;
use crate::incremental::QueryKey;
use crate::query::effective_servers::{EffectiveServers, EffectiveServersOf};
use crate::query::port_ownership::{PortOwners, displaced_message};
use crate::query::workload::{MAX_EXAMINED, WorkloadShape};
use crate::reach::{CONFLICTED, Gap, NO_TARGET, NOT_REFERENCED, Reach, Skipping};
use hashbrown::{HashMap, HashSet};
use policy_crds::{Body, Field, ObjectKey, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All that is counted.
#[derive(Debug, Default)]
pub(crate) struct ReachIndex {
    shapes: HashMap<Arc<WorkloadShape>, ShapeGroup>,
    /// The shapes that a Server selects.
    selected: HashMap<ObjectKey, HashSet<Arc<WorkloadShape>>>,
    /// The Servers through which an object takes effect.
    effective: BTreeMap<ObjectKey, Arc<EffectiveServers>>,
    /// The same from the far end.
    objects_of: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The policies that name an authentication.
    referring: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    dirty_shapes: HashSet<Arc<WorkloadShape>>,
    dirty_objects: BTreeSet<ObjectKey>,
    dirty: BTreeSet<ObjectKey>,
}

/// The workloads of one shape.
#[derive(Debug, Default)]
struct ShapeGroup {
    counts: WorkloadCounts,
    /// The counts that were last reported to the objects of its Servers.
    reported: WorkloadCounts,
    owners: Arc<PortOwners>,
}

/// Number of workloads by enforcement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WorkloadCounts {
    sidecar: u64,
    compatible: u64,
    bare: u64,
    idle: u64,
}

/// The workloads of some Servers.
#[derive(Debug, Default)]
struct Coverage {
    counts: WorkloadCounts,
    /// True if one of the Servers owns a port of any of them.
    owns: bool,
    /// Owners of ports that the Servers claim.
    owners: BTreeSet<ObjectKey>,
    skipping: Skipping,
}

impl ReachIndex {
    /// Counts a workload.
    pub(crate) fn add(&mut self, shape: &Arc<WorkloadShape>, enforcement: Enforcement) {
        let group = self.shapes.entry(shape.clone()).or_default();
        let count = group.counts.of(enforcement);
        *count = count.saturating_add(1);
        self.dirty_shapes.insert(shape.clone());
    }

    /// Counts a workload no more.
    pub(crate) fn remove(&mut self, shape: &Arc<WorkloadShape>, enforcement: Enforcement) {
        let Some(group) = self.shapes.get_mut(shape) else { return };
        let count = group.counts.of(enforcement);
        *count = count.saturating_sub(1);
        self.dirty_shapes.insert(shape.clone());
    }

    /// Notes that other Servers may claim or own ports of a shape; true if the shape is counted.
    pub(crate) fn owners_changed(&mut self, shape: &Arc<WorkloadShape>) -> bool {
        let known = self.shapes.contains_key(shape);
        if known {
            self.dirty_shapes.insert(shape.clone());
        }
        known
    }

    /// An object is not as it was, or takes effect through other Servers.
    pub(crate) fn object_changed(&mut self, key: &ObjectKey) {
        self.dirty_objects.insert(key.clone());
    }

    /// True if `update` has work to do.
    pub(crate) fn is_dirty(&self) -> bool {
        !(self.dirty_shapes.is_empty() && self.dirty_objects.is_empty())
    }

    /// The queries that this index depends on.
    pub(crate) fn roots(&self) -> impl Iterator<Item = QueryKey> {
        self.effective
            .keys()
            .map(|key| QueryKey::EffectiveServersOf(EffectiveServersOf(key.clone())))
    }

    /// Recomputes the reach of all objects for which it may have changed.
    pub(crate) fn update(&mut self, engine: &mut Engine) -> Vec<(ObjectKey, Arc<Reach>)> {
        for shape in std::mem::take(&mut self.dirty_shapes) {
            self.refresh_shape(engine, &shape);
        }
        for key in std::mem::take(&mut self.dirty_objects) {
            self.refresh_object(engine, key);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        let effective = dirty.iter().filter_map(|key| self.effective.get(key));
        let named: Vec<ObjectKey> =
            effective.flat_map(|effective| effective.authentications.iter().cloned()).collect();
        dirty.extend(named);
        let exists = dirty.into_iter().filter(|key| engine.object(key).is_some());
        let exists: Vec<ObjectKey> = exists.collect();
        exists.into_iter().map(|key| (key.clone(), Arc::new(self.reach(engine, &key)))).collect()
    }

    /// Updates the Servers that claim the ports of a shape.
    fn refresh_shape(&mut self, engine: &mut Engine, shape: &Arc<WorkloadShape>) {
        let Some(group) = self.shapes.get_mut(shape) else { return };
        let gone = group.counts == WorkloadCounts::default();
        let owners = if gone { Arc::default() } else { engine.owners(shape) };
        let before = std::mem::replace(&mut group.owners, owners.clone());
        let reported = std::mem::replace(&mut group.reported, group.counts.reportable());
        let object_changed = reported != group.reported;
        if gone {
            self.shapes.remove(shape);
        }
        let differs = !Arc::ptr_eq(&before, &owners);
        for server in before.claimants.keys().filter(|_| differs) {
            if let Some(shapes) = self.selected.get_mut(server) {
                shapes.remove(shape);
                if shapes.is_empty() {
                    self.selected.remove(server);
                }
            }
            self.dirty.extend(self.objects_of.get(server).into_iter().flatten().cloned());
        }
        for server in owners.claimants.keys() {
            if differs {
                self.selected.entry(server.clone()).or_default().insert(shape.clone());
            }
            if differs || object_changed {
                self.dirty.extend(self.objects_of.get(server).into_iter().flatten().cloned());
            }
        }
    }

    /// Updates the Servers through which an object takes effect.
    fn refresh_object(&mut self, engine: &mut Engine, key: ObjectKey) {
        let exists = engine.object(&key).is_some() && !is_authentication(&key);
        let now = exists.then(|| engine.effective_servers(&key));
        let before = match now.clone() {
            Some(now) => self.effective.insert(key.clone(), now),
            None => self.effective.remove(&key),
        };
        let unless_empty = |map: &mut BTreeMap<_, BTreeSet<_>>, at: &ObjectKey| {
            if let Some(set) = map.get_mut(at) {
                set.remove(&key);
                if set.is_empty() {
                    map.remove(at);
                }
            }
        };
        if let Some(effective) = before {
            effective.servers.iter().for_each(|server| unless_empty(&mut self.objects_of, server));
            for authentication in &effective.authentications {
                unless_empty(&mut self.referring, authentication);
                self.dirty.insert(authentication.clone());
            }
        }
        if let Some(effective) = now {
            for server in &effective.servers {
                self.objects_of.entry(server.clone()).or_default().insert(key.clone());
            }
            for authentication in &effective.authentications {
                self.referring.entry(authentication.clone()).or_default().insert(key.clone());
            }
        }
        // The findings of a Server are reported for the objects that take effect through it.
        self.dirty.extend(self.objects_of.get(&key).into_iter().flatten().cloned());
        self.dirty.insert(key);
    }

    fn reach(&self, engine: &mut Engine, key: &ObjectKey) -> Reach {
        let mut servers: BTreeSet<&ObjectKey> = BTreeSet::new();
        let mut missing: Option<Arc<str>> = None;
        if is_authentication(key) {
            let Some(policies) = self.referring.get(key) else {
                return Reach::nowhere(NOT_REFERENCED, "no AuthorizationPolicy refers to it");
            };
            for effective in policies.iter().filter_map(|policy| self.effective.get(policy)) {
                servers.extend(&effective.servers);
                let words = |missing: &Arc<str>| {
                    format!("no AuthorizationPolicy that refers to it has a target: {missing}")
                };
                missing = missing.or_else(|| effective.missing.as_ref().map(words).map(Arc::from));
            }
        } else if let Some(effective) = self.effective.get(key) {
            servers.extend(&effective.servers);
            missing = effective.missing.clone();
        }
        let Some(first) = servers.first() else {
            // A route of a Gateway has no Server.
            return missing
                .map_or_else(Reach::default, |missing| Reach::nowhere(NO_TARGET, missing));
        };
        let coverage = self.coverage(servers.iter().copied());
        let gap = if coverage.owns { None } else { self.gap(engine, key, first, &coverage) };
        let Coverage { counts, owns, owners, skipping } = coverage;
        let counts = counts.reportable();
        let elsewhere = owns && key == *first && !owners.is_empty();
        let words = || displaced_message("takes no effect on some workloads", &owners).into();
        Reach {
            gap,
            compatible: counts.compatible,
            bare: counts.bare,
            idle: counts.idle,
            skipping: (skipping.workloads > 0).then_some(skipping),
            elsewhere: elsewhere.then(words),
        }
    }

    /// The workloads on which one of the Servers owns a port.
    fn coverage<'a>(&'a self, servers: impl Iterator<Item = &'a ObjectKey>) -> Coverage {
        let mut coverage = Coverage::default();
        let mut owned: HashMap<&Arc<WorkloadShape>, BTreeSet<_>> = HashMap::new();
        for server in servers {
            for shape in self.selected.get(server).into_iter().flatten() {
                let Some(group) = self.shapes.get(shape) else { continue };
                let Some(claim) = group.owners.claimants.get(server) else { continue };
                let mut own = |owner: &ObjectKey, skipped| match owner == server {
                    true => owned.entry(shape).or_default().extend(skipped),
                    false => _ = coverage.owners.insert(owner.clone()),
                };
                match claim {
                    Some(port) => {
                        for port in shape.ports_meant(port) {
                            let skipped = Some(*port).filter(|port| shape.skipped.contains(*port));
                            group.owners.of(*port).into_iter().for_each(|o| own(o, skipped));
                        }
                    }
                    None => group.owners.rest.iter().for_each(|owner| own(owner, None)),
                }
            }
        }
        coverage.owns = !owned.is_empty();
        for (shape, skipped) in owned {
            let Some(ShapeGroup { counts, .. }) = self.shapes.get(shape) else { continue };
            coverage.counts.add(*counts);
            if !skipped.is_empty() && counts.sidecar > 0 {
                let Skipping { workloads, ports } = &mut coverage.skipping;
                *workloads = workloads.saturating_add(counts.sidecar);
                ports.extend(skipped);
            }
        }
        coverage
    }

    /// The reason why `key` is in force nowhere: the first finding of its first Server.
    fn gap(
        &self,
        engine: &mut Engine,
        key: &ObjectKey,
        server: &ObjectKey,
        coverage: &Coverage,
    ) -> Option<Gap> {
        let own = key == server;
        if !coverage.owners.is_empty() {
            let effect =
                if own { "takes no effect".into() } else { format!("{server} takes no effect") };
            let message = displaced_message(&effect, &coverage.owners).into();
            return Some(Gap { reason: CONFLICTED, message });
        }
        let object = engine.object(server)?.clone();
        let Body::Valid(Resource::Server(spec)) = &object.body else { return None };
        let shapes: BTreeSet<Arc<WorkloadShape>> =
            self.selected.get(server).into_iter().flatten().cloned().collect();
        let mut finder = engine.finder_within(MAX_EXAMINED);
        let finding = match shapes.is_empty() {
            true => finder.selects_nothing(server, spec),
            false => finder.finding_on(server, spec, &shapes)?,
        };
        let displaced = finding.kind == FindingKind::Displaced;
        let reason = if displaced { CONFLICTED } else { NO_TARGET };
        let message = match own {
            true => finding.message.into(),
            false => format!("{server}: {}", finding.message).into(),
        };
        Some(Gap { reason, message })
    }
}

impl WorkloadCounts {
    fn of(&mut self, enforcement: Enforcement) -> &mut u64 {
        match enforcement {
            Enforcement::Sidecar => &mut self.sidecar,
            Enforcement::Compatible => &mut self.compatible,
            Enforcement::Bare => &mut self.bare,
            Enforcement::Idle => &mut self.idle,
        }
    }

    /// The counts to report: workloads that do not run count only if none runs.
    fn reportable(self) -> Self {
        let running = self.sidecar > 0 || self.compatible > 0 || self.bare > 0;
        Self { idle: if running { 0 } else { self.idle }, ..self }
    }

    fn add(&mut self, more: Self) {
        let Self { sidecar, compatible, bare, idle } = more;
        self.sidecar = self.sidecar.saturating_add(sidecar);
        self.compatible = self.compatible.saturating_add(compatible);
        self.bare = self.bare.saturating_add(bare);
        self.idle = self.idle.saturating_add(idle);
    }
}

/// True if policies name objects of this kind as clients, so that the object takes effect through
/// these policies.
fn is_authentication(key: &ObjectKey) -> bool {
    policy_crds::Kind::AuthorizationPolicy.reference(Field::Authentication, key.kind).is_some()
}

#[cfg(test)]
mod tests;
