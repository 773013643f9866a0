//! Workloads, to which policies apply: a pod, or a machine outside the cluster.

use std::fmt;
use std::sync::Arc;

/// The name of a workload, unique in its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadKey {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Its kind.
    pub kind: WorkloadKind,
    /// Name within its namespace.
    pub name: Arc<str>,
}

/// The kinds of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// A pod.
    Pod,
    /// A machine outside the cluster.
    ExternalWorkload,
}

impl WorkloadKey {
    /// The key of a pod.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), kind: WorkloadKind::Pod, name: name.into() }
    }

    /// The key of an ExternalWorkload.
    pub fn external(namespace: &str, name: &str) -> Self {
        let kind = WorkloadKind::ExternalWorkload;
        Self { namespace: namespace.into(), kind, name: name.into() }
    }
}

/// `namespace/name`, with `externalworkload/` between them where it is one.
impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            WorkloadKind::Pod => write!(f, "{}/{}", self.namespace, self.name),
            WorkloadKind::ExternalWorkload => {
                write!(f, "{}/externalworkload/{}", self.namespace, self.name)
            }
        }
    }
}

/// The choice for ports that no container port, probe, hook, proxy or Server names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UndeclaredPorts {
    /// The workload's default policy holds.
    #[default]
    Default,
    /// They are refused as `port_undeclared`.
    Deny,
}
