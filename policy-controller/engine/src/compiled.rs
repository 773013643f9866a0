//! The whole pipeline as one function call, for linting, explaining and testing.

use crate::config::ControllerConfig;
use crate::engine::Engine;
use crate::findings::Finding;
use crate::publish::WorkloadState;
use crate::query::claims::HostClaims;
use crate::query::condition::ConditionTable;
use crate::query::delegation::DelegationTree;
use crate::query::delegation_state::DelegationState;
use crate::query::grant::{PolicyGrant, ServerAuthorizationGrant};
use crate::query::reference::ForeignReference;
use crate::query::workload::{ResolvedWorkload, ShapeContent};
use crate::resolve::delegation::consents_to;
use crate::source::{Batch, Change, Diagnostic, SourceError, directory};
use hashbrown::HashMap;
use parking_lot::Mutex;
use policy_core::{
    Authorization, HostPattern, ServerPolicy, Undeclared, UndeclaredPorts, WorkloadKey,
    WorkloadPolicy,
};
use policy_crds::{Kind, Object, ObjectKey, pods_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The policies, conditions and diagnostics compiled from a set of objects.
pub struct Compiled {
    /// Every workload.
    pub workloads: BTreeMap<WorkloadKey, CompiledWorkload>,
    /// Conditions of every object.
    pub conditions: ConditionTable,
    /// Diagnostics of reading the manifests; empty if objects were passed in.
    pub diagnostics: Vec<Diagnostic>,
    /// The objects, as indexed.
    pub objects: Vec<Arc<Object>>,
    /// The places of the objects in their order, found when one is looked up.
    places: OnceLock<HashMap<ObjectKey, usize>>,
    engine: Mutex<Engine>,
}

/// The compiled policies of one workload.
#[derive(Clone, Debug)]
pub struct CompiledWorkload {
    /// Facts, declared ports, identity.
    pub state: Arc<WorkloadState>,
    /// Policies of its declared ports, and the policy of all others that no annotation names.
    pub policy: WorkloadPolicy,
    /// Ports that only annotations name, in order, each range with its policy; empty if undeclared
    /// ports are denied.
    pub annotated: Vec<(RangeInclusive<u16>, Arc<ServerPolicy>)>,
}

impl Compiled {
    /// The object of this name; the first of several.
    pub fn object(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        let places = self.places.get_or_init(|| {
            let places = self.objects.iter().enumerate().rev();
            places.map(|(place, object)| (object.meta.key.clone(), place)).collect()
        });
        self.objects.get(*places.get(key)?)
    }

    /// The policy of any port, declared or not, exactly as it would be published. `None`: no such
    /// workload.
    pub fn port(&self, key: &WorkloadKey, port: NonZeroU16) -> Option<Arc<ServerPolicy>> {
        let mut engine = self.engine.lock();
        let shape = engine.workload(key)?.shape.clone();
        Some(engine.policy(&shape, port).0)
    }

    /// References of all objects into other namespaces, in their order.
    pub fn foreign_references(&self) -> Vec<ForeignReference> {
        let mut engine = self.engine.lock();
        let keys = self.objects.iter().map(|object| &object.meta.key);
        keys.flat_map(|key| engine.foreign_references(key).to_vec()).collect()
    }

    /// References of an object into other namespaces.
    pub fn references_of(&self, key: &ObjectKey) -> Arc<[ForeignReference]> {
        self.engine.lock().foreign_references(key)
    }

    /// The state of an InboundRoute.
    pub fn delegation_state(&self, key: &ObjectKey) -> Arc<DelegationState> {
        self.engine.lock().delegation_state(key)
    }

    /// The claims on a host and on hosts that overlap with it.
    pub fn claims_on(&self, host: &HostPattern) -> Arc<HostClaims> {
        self.engine.lock().claims_on(host)
    }

    /// The tree of a root.
    pub fn tree_of(&self, root: &ObjectKey) -> Arc<DelegationTree> {
        self.engine.lock().tree_of(root)
    }

    /// True if an object consents that another delegates a host to it.
    pub fn consents(&self, child: &ObjectKey, parent: &ObjectKey, host: &HostPattern) -> bool {
        let engine = self.engine.lock();
        engine.object(child).is_some_and(|object| consents_to(object, parent, host))
    }

    /// The policy that a Server gives the ports that it owns, with any workload or without. `None`:
    /// there is no such Server.
    pub fn server_policy(&self, server: &ObjectKey) -> Option<Arc<ServerPolicy>> {
        let mut engine = self.engine.lock();
        engine.object(server)?;
        Some(engine.server_policy(server))
    }

    /// The grant of an AuthorizationPolicy or ServerAuthorization, or the reason why there is none; `None`
    /// of any other object.
    pub fn granted_by(&self, key: &ObjectKey) -> Option<Result<Arc<Authorization>, Arc<str>>> {
        let mut engine = self.engine.lock();
        if key.kind == Kind::AuthorizationPolicy {
            Some(engine.answer(&PolicyGrant(key.clone())).outcome)
        } else if key.kind == Kind::ServerAuthorization {
            Some(engine.answer(&ServerAuthorizationGrant(key.clone())).outcome)
        } else {
            None
        }
    }

    /// The same objects after an event that applies these. Only what depends on them is compiled anew.
    #[must_use]
    pub fn with(&self, objects: Vec<Object>) -> Self {
        let added: Vec<Arc<Object>> = objects.into_iter().map(Arc::new).collect();
        let changes = added.iter().cloned().map(Change::Apply).collect();
        let mut engine = self.engine.lock().clone();
        engine.apply(&Batch { changes, versions: BTreeMap::new(), ..Batch::default() });
        let is_kept =
            |own: &&Arc<Object>| added.iter().all(|object| object.meta.key != own.meta.key);
        let objects = self.objects.iter().filter(is_kept).chain(&added).cloned().collect();
        of_engine(engine, objects)
    }

    /// Findings about all objects, in their order.
    pub fn findings(&self) -> Vec<Finding> {
        let mut engine = self.engine.lock();
        let mut finder = engine.finder().naming_namespaces();
        let mut findings: Vec<Finding> =
            self.objects.iter().flat_map(|object| finder.of(object)).collect();
        findings.extend(finder.unused(&self.objects));
        findings.extend(finder.unused_grants(&self.objects));
        for object in &self.objects {
            let taken = finder.takes_away(object);
            // That more would be granted without a route is the reverse of what it takes away.
            let others = finder.only_route(object);
            let is_told = |found: &Finding| taken.iter().any(|other| other.other == found.other);
            findings.extend(others.into_iter().filter(|found| !is_told(found)));
            findings.extend(taken);
        }
        findings
    }

    /// Applies an object as an event does, executes the dirty queries, and returns the number of
    /// changed workloads and policies. The other fields keep their values: this is for the cost of an
    /// event, and for what [`Compiled::port`] answers after it.
    #[cfg(any(test, feature = "testing"))]
    pub fn update(&self, object: Object) -> usize {
        self.change(vec![Ok(object)])
    }

    /// The same of several objects, and of names of those that are deleted, as one event.
    #[cfg(any(test, feature = "testing"))]
    pub fn change(&self, changes: Vec<Result<Object, ObjectKey>>) -> usize {
        let changed = |change: Result<Object, ObjectKey>| match change {
            Ok(object) => Change::Apply(Arc::new(object)),
            Err(key) => Change::Delete(key),
        };
        let changes = changes.into_iter().map(changed).collect();
        let batch = Batch { changes, versions: BTreeMap::new(), ..Batch::default() };
        let changed = self.engine.lock().apply(&batch);
        changed.workloads.len().saturating_add(changed.policies.len())
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("workloads", &self.workloads)
            .field("conditions", &self.conditions)
            .field("diagnostics", &self.diagnostics)
            .finish_non_exhaustive()
    }
}

/// Compiles the manifests below `path`.
///
/// # Errors
/// If the directory itself cannot be read. Errors of a file are diagnostics.
pub fn compile_directory(path: &Path, config: &ControllerConfig) -> Result<Compiled, SourceError> {
    let loaded = directory::load(path, config.limits)?;
    let mut compiled = compile(loaded.objects, config);
    compiled.diagnostics = loaded.diagnostics;
    Ok(compiled)
}

/// Compiles objects. A Deployment or another workload kind stands for its pods.
pub fn compile_objects(objects: Vec<Object>, config: &ControllerConfig) -> Compiled {
    let expanded = objects.into_iter().flat_map(|object| {
        let pods = pods_of(&object);
        if pods.is_empty() { vec![object] } else { pods }
    });
    compile(expanded.map(Arc::new).collect(), config)
}

fn compile(objects: Vec<Arc<Object>>, config: &ControllerConfig) -> Compiled {
    let mut engine = Engine::new(Arc::new(config.clone()));
    let applied = objects.iter().cloned().map(Change::Apply);
    let changes = applied.chain([Change::Synced]).collect();
    engine.apply(&Batch { changes, versions: BTreeMap::new(), ..Batch::default() });
    of_engine(engine, objects)
}

/// The policies of every workload of an index.
fn of_engine(mut engine: Engine, objects: Vec<Arc<Object>>) -> Compiled {
    let workloads = engine
        .workloads()
        .into_iter()
        .filter_map(|key| {
            let resolved = engine.workload(&key)?;
            let policy = workload_policy(&mut engine, &resolved);
            let annotated = annotated(&mut engine, &resolved);
            Some((key, CompiledWorkload { state: resolved.state.clone(), policy, annotated }))
        })
        .collect();
    Compiled {
        workloads,
        conditions: engine.conditions().clone(),
        diagnostics: Vec::new(),
        objects,
        places: OnceLock::new(),
        engine: Mutex::new(engine),
    }
}

fn workload_policy(engine: &mut Engine, resolved: &ResolvedWorkload) -> WorkloadPolicy {
    let declared = resolved.state.declared.iter();
    let ports = declared.map(|port| (*port, engine.policy(&resolved.shape, *port).0)).collect();
    let undeclared = match (resolved.state.undeclared, unnamed(resolved)) {
        (UndeclaredPorts::Default, Some(port)) => {
            Undeclared::Policy(engine.policy(&resolved.shape, port).0)
        }
        (UndeclaredPorts::Default, None) | (UndeclaredPorts::Deny, _) => Undeclared::Deny,
    };
    WorkloadPolicy { ports, undeclared }
}

/// The policies of ports that nothing but annotations names.
fn annotated(
    engine: &mut Engine,
    resolved: &ResolvedWorkload,
) -> Vec<(RangeInclusive<u16>, Arc<ServerPolicy>)> {
    let mut found: Vec<(RangeInclusive<u16>, Arc<ServerPolicy>)> = Vec::new();
    if resolved.state.undeclared == UndeclaredPorts::Deny {
        return found;
    }
    // Between two neighbouring boundaries, all ports have the same annotations, or are declared.
    let ShapeContent { opaque, require_identity, .. } = &**resolved.shape;
    let mut edges: BTreeSet<u32> = BTreeSet::new();
    let declared = resolved.state.declared.iter().map(|port| (port.get(), port.get()));
    for (first, last) in opaque.ranges().chain(require_identity.ranges()).chain(declared) {
        edges.extend([u32::from(first), u32::from(last).saturating_add(1)]);
    }
    for (first, next) in edges.iter().zip(edges.iter().skip(1)) {
        let (Ok(first), Ok(last)) = (u16::try_from(*first), u16::try_from(next.saturating_sub(1)))
        else {
            continue;
        };
        let Some(port) = NonZeroU16::new(first) else { continue };
        let named = opaque.contains(port) || require_identity.contains(port);
        if named && !resolved.state.declared.contains(&port) {
            found.push((first..=last, engine.policy(&resolved.shape, port).0));
        }
    }
    found
}

/// A port that nothing names, not even an annotation.
fn unnamed(resolved: &ResolvedWorkload) -> Option<NonZeroU16> {
    (1..=u16::MAX).filter_map(NonZeroU16::new).find(|port| {
        !resolved.state.declared.contains(port)
            && !resolved.shape.opaque.contains(*port)
            && !resolved.shape.require_identity.contains(*port)
    })
}
