//! Which workloads each object is about, whatever runs there.
//!
//! Workloads are counted by shape. A shape knows which Servers claim and own its ports, a Server which
//! objects take effect through it. So an event of a pod moves one count, and the objects that are
//! looked at again are those of the Servers that select its shape: never all objects, never all pods.

use crate::engine::Engine;
use crate::findings::FindingKind;
use crate::incremental::QueryKey;
use crate::query::host::{Hosted, Hosts};
use crate::query::owner::{Owners, displaced_words};
use crate::query::workload::{EXAMINED, Shape};
use crate::reach::{CONFLICTED, Gap, NO_TARGET, NOT_REFERENCED, Reach, Skipping};
use crate::standing::Standing;
use hashbrown::{HashMap, HashSet};
use policy_crds::{Body, Field, ObjectKey, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All that is counted.
#[derive(Debug, Default)]
pub(crate) struct Census {
    shapes: HashMap<Arc<Shape>, Group>,
    /// The shapes that a Server selects.
    selected: HashMap<ObjectKey, HashSet<Arc<Shape>>>,
    /// The Servers through which an object takes effect.
    hosted: BTreeMap<ObjectKey, Arc<Hosted>>,
    /// The same from the far end.
    guests: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The policies that name an authentication.
    referring: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    unlearned: HashSet<Arc<Shape>>,
    unasked: BTreeSet<ObjectKey>,
    dirty: BTreeSet<ObjectKey>,
}

/// The workloads of one shape.
#[derive(Debug, Default)]
struct Group {
    heads: Heads,
    /// Those by which its Servers' guests were told last.
    told: Heads,
    owners: Arc<Owners>,
}

/// How many workloads stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Heads {
    sidecar: u64,
    compatible: u64,
    bare: u64,
    idle: u64,
}

/// The workloads of some Servers.
#[derive(Debug, Default)]
struct Found {
    heads: Heads,
    /// Whether one of the Servers owns a port of any of them.
    owns: bool,
    /// Who owns ports that the Servers claim.
    owners: BTreeSet<ObjectKey>,
    skipping: Skipping,
}

impl Census {
    /// Counts a workload.
    pub(crate) fn enter(&mut self, shape: &Arc<Shape>, standing: Standing) {
        let group = self.shapes.entry(shape.clone()).or_default();
        let count = group.heads.of(standing);
        *count = count.saturating_add(1);
        self.unlearned.insert(shape.clone());
    }

    /// Counts a workload no more.
    pub(crate) fn leave(&mut self, shape: &Arc<Shape>, standing: Standing) {
        let Some(group) = self.shapes.get_mut(shape) else { return };
        let count = group.heads.of(standing);
        *count = count.saturating_sub(1);
        self.unlearned.insert(shape.clone());
    }

    /// The Servers that claim or own ports of a shape may be others; true if the shape is counted.
    pub(crate) fn reclaimed(&mut self, shape: &Arc<Shape>) -> bool {
        let known = self.shapes.contains_key(shape);
        if known {
            self.unlearned.insert(shape.clone());
        }
        known
    }

    /// An object is not as it was, or takes effect through other Servers.
    pub(crate) fn moved(&mut self, key: &ObjectKey) {
        self.unasked.insert(key.clone());
    }

    /// Whether something is to be found out.
    pub(crate) fn is_dirty(&self) -> bool {
        !(self.unlearned.is_empty() && self.unasked.is_empty())
    }

    /// What is to be kept because it is asked about here.
    pub(crate) fn roots(&self) -> impl Iterator<Item = QueryKey> {
        self.hosted.keys().map(|key| QueryKey::Hosts(Hosts(key.clone())))
    }

    /// Finds out which workloads the objects are about that something changed about.
    pub(crate) fn settle(&mut self, engine: &mut Engine) -> Vec<(ObjectKey, Arc<Reach>)> {
        for shape in std::mem::take(&mut self.unlearned) {
            self.learn(engine, &shape);
        }
        for key in std::mem::take(&mut self.unasked) {
            self.ask(engine, key);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        let hosted = dirty.iter().filter_map(|key| self.hosted.get(key));
        let named: Vec<ObjectKey> =
            hosted.flat_map(|hosted| hosted.authentications.iter().cloned()).collect();
        dirty.extend(named);
        let there = dirty.into_iter().filter(|key| engine.object(key).is_some());
        let there: Vec<ObjectKey> = there.collect();
        there.into_iter().map(|key| (key.clone(), Arc::new(self.reach(engine, &key)))).collect()
    }

    /// Finds out who claims the ports of a shape.
    fn learn(&mut self, engine: &mut Engine, shape: &Arc<Shape>) {
        let Some(group) = self.shapes.get_mut(shape) else { return };
        let gone = group.heads == Heads::default();
        let owners = if gone { Arc::default() } else { engine.owners(shape) };
        let before = std::mem::replace(&mut group.owners, owners.clone());
        let told = std::mem::replace(&mut group.told, group.heads.seen());
        let moved = told != group.told;
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
            self.dirty.extend(self.guests.get(server).into_iter().flatten().cloned());
        }
        for server in owners.claimants.keys() {
            if differs {
                self.selected.entry(server.clone()).or_default().insert(shape.clone());
            }
            if differs || moved {
                self.dirty.extend(self.guests.get(server).into_iter().flatten().cloned());
            }
        }
    }

    /// Finds out through which Servers an object takes effect.
    fn ask(&mut self, engine: &mut Engine, key: ObjectKey) {
        let there = engine.object(&key).is_some() && !is_authentication(&key);
        let now = there.then(|| engine.hosts(&key));
        let before = match now.clone() {
            Some(now) => self.hosted.insert(key.clone(), now),
            None => self.hosted.remove(&key),
        };
        let unless_empty = |map: &mut BTreeMap<_, BTreeSet<_>>, at: &ObjectKey| {
            if let Some(set) = map.get_mut(at) {
                set.remove(&key);
                if set.is_empty() {
                    map.remove(at);
                }
            }
        };
        if let Some(hosted) = before {
            hosted.servers.iter().for_each(|server| unless_empty(&mut self.guests, server));
            for authentication in &hosted.authentications {
                unless_empty(&mut self.referring, authentication);
                self.dirty.insert(authentication.clone());
            }
        }
        if let Some(hosted) = now {
            for server in &hosted.servers {
                self.guests.entry(server.clone()).or_default().insert(key.clone());
            }
            for authentication in &hosted.authentications {
                self.referring.entry(authentication.clone()).or_default().insert(key.clone());
            }
        }
        // What a Server lacks is what its guests are told.
        self.dirty.extend(self.guests.get(&key).into_iter().flatten().cloned());
        self.dirty.insert(key);
    }

    fn reach(&self, engine: &mut Engine, key: &ObjectKey) -> Reach {
        let mut servers: BTreeSet<&ObjectKey> = BTreeSet::new();
        let mut missing: Option<Arc<str>> = None;
        if is_authentication(key) {
            let Some(policies) = self.referring.get(key) else {
                return Reach::nowhere(NOT_REFERENCED, "no AuthorizationPolicy refers to it");
            };
            for hosted in policies.iter().filter_map(|policy| self.hosted.get(policy)) {
                servers.extend(&hosted.servers);
                let words = |missing: &Arc<str>| {
                    format!("no AuthorizationPolicy that refers to it has a target: {missing}")
                };
                missing = missing.or_else(|| hosted.missing.as_ref().map(words).map(Arc::from));
            }
        } else if let Some(hosted) = self.hosted.get(key) {
            servers.extend(&hosted.servers);
            missing = hosted.missing.clone();
        }
        let Some(first) = servers.first() else {
            // A route of a Gateway has no Server to look for.
            return missing
                .map_or_else(Reach::default, |missing| Reach::nowhere(NO_TARGET, missing));
        };
        let found = self.found(servers.iter().copied());
        let gap = if found.owns { None } else { self.gap(engine, key, first, &found) };
        let Found { heads, owns, owners, skipping } = found;
        let heads = heads.seen();
        let elsewhere = owns && key == *first && !owners.is_empty();
        let words = || displaced_words("takes no effect on some workloads", &owners).into();
        Reach {
            gap,
            compatible: heads.compatible,
            bare: heads.bare,
            idle: heads.idle,
            skipping: (skipping.workloads > 0).then_some(skipping),
            elsewhere: elsewhere.then(words),
        }
    }

    /// The workloads on which one of the Servers owns a port.
    fn found<'a>(&'a self, servers: impl Iterator<Item = &'a ObjectKey>) -> Found {
        let mut found = Found::default();
        let mut owned: HashMap<&Arc<Shape>, BTreeSet<_>> = HashMap::new();
        for server in servers {
            for shape in self.selected.get(server).into_iter().flatten() {
                let Some(group) = self.shapes.get(shape) else { continue };
                let Some(claim) = group.owners.claimants.get(server) else { continue };
                let mut own = |owner: &ObjectKey, skipped| match owner == server {
                    true => owned.entry(shape).or_default().extend(skipped),
                    false => _ = found.owners.insert(owner.clone()),
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
        found.owns = !owned.is_empty();
        for (shape, skipped) in owned {
            let Some(Group { heads, .. }) = self.shapes.get(shape) else { continue };
            found.heads.add(*heads);
            if !skipped.is_empty() && heads.sidecar > 0 {
                let Skipping { workloads, ports } = &mut found.skipping;
                *workloads = workloads.saturating_add(heads.sidecar);
                ports.extend(skipped);
            }
        }
        found
    }

    /// Why `key` is in force nowhere: what its first Server lacks.
    fn gap(
        &self,
        engine: &mut Engine,
        key: &ObjectKey,
        server: &ObjectKey,
        found: &Found,
    ) -> Option<Gap> {
        let own = key == server;
        if !found.owners.is_empty() {
            let effect =
                if own { "takes no effect".into() } else { format!("{server} takes no effect") };
            let message = displaced_words(&effect, &found.owners).into();
            return Some(Gap { reason: CONFLICTED, message });
        }
        let object = engine.object(server)?.clone();
        let Body::Valid(Resource::Server(spec)) = &object.body else { return None };
        let shapes: BTreeSet<Arc<Shape>> =
            self.selected.get(server).into_iter().flatten().cloned().collect();
        let mut finder = engine.finder_within(EXAMINED);
        let finding = match shapes.is_empty() {
            true => finder.selects_nothing(server, spec),
            false => finder.lacks_on(server, spec, &shapes)?,
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

impl Heads {
    fn of(&mut self, standing: Standing) -> &mut u64 {
        match standing {
            Standing::Sidecar => &mut self.sidecar,
            Standing::Compatible => &mut self.compatible,
            Standing::Bare => &mut self.bare,
            Standing::Idle => &mut self.idle,
        }
    }

    /// Those that are told of: what does not run is of interest where nothing does.
    fn seen(self) -> Self {
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

/// Whether policies name objects of this kind as whom they admit, so that it takes effect through
/// them.
fn is_authentication(key: &ObjectKey) -> bool {
    policy_crds::Kind::AuthorizationPolicy.reference(Field::Authentication, key.kind).is_some()
}

#[cfg(test)]
mod tests;
