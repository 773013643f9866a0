//! A workload's shape, which its policies depend on, and its facts, which they do not; and the
//! defaults of its Namespace.

use crate::enforcement::Enforcement;
use crate::publish::WorkloadState;
use policy_core::{DefaultPolicy, UndeclaredPorts, WorkloadKey, WorkloadKind};
use policy_crds::annotation::PortSet;
use policy_crds::resource::{PortRef, Probe};
use policy_crds::{Kind, ObjectKey};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::num::NonZeroU16;
use std::ops::Deref;
use std::sync::Arc;

/// The most workloads that are examined for the findings about a Server.
pub(crate) const MAX_EXAMINED: usize = 512;

/// Everything about a workload that its policies depend on. Workloads of equal shape share their
/// policies; a pod's name, addresses, node and ServiceAccount are no part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShapeContent {
    /// Pod or ExternalWorkload.
    pub(crate) kind: WorkloadKind,
    /// Namespace.
    pub(crate) namespace: Arc<str>,
    /// Labels that Servers of the namespace select by.
    pub(crate) labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Default policy by its own annotations.
    pub(crate) default_policy: Option<DefaultPolicy>,
    /// The annotations of its Namespace that count.
    pub(crate) inherited: Inherited,
    /// Undeclared ports by its own annotation.
    pub(crate) undeclared: Option<UndeclaredPorts>,
    /// Opaque ports, as ranges.
    pub(crate) opaque: Ports,
    /// Ports whose clients must have an identity, as ranges.
    pub(crate) require_identity: Ports,
    /// Ports that are not redirected to the sidecar, as ranges: nothing is in force there.
    pub(crate) skipped: Ports,
    /// Numbers by port name.
    pub(crate) named_ports: BTreeMap<Arc<str>, Vec<NonZeroU16>>,
    /// Ports that a container port, a probe, a hook or the proxy names.
    pub(crate) declared: BTreeSet<NonZeroU16>,
    /// Ports of the proxy itself, among those declared.
    pub(crate) proxy: BTreeSet<NonZeroU16>,
    /// True if the default policy holds on these, too.
    pub(crate) proxy_by_default: bool,
    /// Probes and hooks.
    pub(crate) probes: BTreeSet<Probe>,
    /// The TrafficTargets of its namespace that close it, by name.
    pub(crate) targets: BTreeSet<Arc<str>>,
}

impl NamespaceSettings {
    /// The default policy for workloads for which these annotations count.
    pub(crate) fn default_policy(&self, inherited: Inherited) -> Option<DefaultPolicy> {
        let [all, as_linkerd, own] = self.default_policy;
        match inherited {
            Inherited::All => all,
            Inherited::AsLinkerd => as_linkerd,
            Inherited::Own => own,
        }
    }
}

impl ShapeContent {
    /// The port numbers of a Server's port on these workloads, whether or not it owns them.
    pub(crate) fn ports_meant<'a>(&'a self, port: &'a PortRef) -> &'a [NonZeroU16] {
        match port {
            PortRef::Number(number) => std::slice::from_ref(number),
            PortRef::Name(name) => {
                self.named_ports.get(name).map(Vec::as_slice).unwrap_or_default()
            }
        }
    }
}

/// The annotations of a Namespace that count for a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Inherited {
    /// All.
    All,
    /// All, and the default policy is read as Linkerd reads it.
    AsLinkerd,
    /// Ours alone: Linkerd's injector has copied the others, or they do not concern the workload.
    Own,
}

/// A [`ShapeContent`] with its hash, made once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkloadShape {
    hash: u64,
    content: ShapeContent,
}

impl WorkloadShape {
    /// The shape of a workload with this content.
    pub(crate) fn new(content: ShapeContent) -> Self {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        Self { hash: hasher.finish(), content }
    }
}

impl Hash for WorkloadShape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Deref for WorkloadShape {
    type Target = ShapeContent;

    fn deref(&self) -> &ShapeContent {
        &self.content
    }
}

/// A set of ports as ordered ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ports(Vec<(u16, u16)>);

impl Ports {
    /// True if `port` is in it.
    pub(crate) fn contains(&self, port: NonZeroU16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&port.get()))
    }

    /// The ranges, first and last port.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u16, u16)> {
        self.0.iter().copied()
    }
}

impl From<&PortSet> for Ports {
    fn from(set: &PortSet) -> Self {
        let mut ranges: Vec<(u16, u16)> =
            set.ranges().iter().map(|range| (*range.start(), *range.end())).collect();
        ranges.sort_unstable();
        ranges.dedup();
        Self(ranges)
    }
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WorkloadOf(pub(crate) WorkloadKey);

/// See [`WorkloadOf`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResolvedWorkload {
    /// The part that its policies depend on.
    pub(crate) shape: Arc<WorkloadShape>,
    /// The rest.
    pub(crate) state: Arc<WorkloadState>,
    /// The proxy that enforces its policies.
    pub(crate) enforcement: Enforcement,
}

/// The object that a workload key names.
pub(crate) fn object_key(key: &WorkloadKey) -> ObjectKey {
    let kind = match key.kind {
        WorkloadKind::Pod => Kind::Pod,
        WorkloadKind::ExternalWorkload => Kind::ExternalWorkload,
    };
    ObjectKey { kind, namespace: key.namespace.clone(), name: key.name.clone() }
}

/// The workload that an object is, if it is one.
pub(crate) fn workload_key(key: &ObjectKey) -> Option<WorkloadKey> {
    let kind = if key.kind == Kind::Pod {
        WorkloadKind::Pod
    } else if key.kind == Kind::ExternalWorkload {
        WorkloadKind::ExternalWorkload
    } else {
        return None;
    };
    Some(WorkloadKey { namespace: key.namespace.clone(), kind, name: key.name.clone() })
}

/// The settings of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NamespaceDefaults(pub(crate) Arc<str>);

/// See [`NamespaceDefaults`]; absent where the namespace says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceSettings {
    /// Default policy, as each [`Inherited`] reads it.
    pub(crate) default_policy: [Option<DefaultPolicy>; 3],
    /// Undeclared ports.
    pub(crate) undeclared: Option<UndeclaredPorts>,
    /// Opaque ports, as annotated: names mean ports of each workload.
    pub(crate) opaque: Option<Arc<str>>,
    /// Ports whose clients must have an identity, as annotated.
    pub(crate) require_identity: Option<Arc<str>>,
    /// True if the Namespace cannot be read, or was not read yet: the other fields deny.
    pub(crate) is_unreadable: bool,
}
