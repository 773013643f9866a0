//! Input of the checks.

use crate::cluster::permissions::ListPermissions;
use policy_crds::Kind;
use policy_engine::Compiled;
use policy_engine::source::Severity;

/// Input of the checks.
pub(super) struct CheckContext<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) permissions: &'a ListPermissions,
    /// True for a cluster, which holds everything that there is. Manifests may be applied beside
    /// others, so a missing object is an error only in a cluster.
    pub(super) whole: bool,
    /// True if the suffix of this mesh's identities is known.
    pub(super) mesh_known: bool,
    /// True if workloads come from elsewhere.
    pub(super) policy_only: bool,
}

impl CheckContext<'_> {
    /// True if some object of this kind was read in the namespace.
    pub(super) fn declares(&self, kind: Kind, namespace: &str) -> bool {
        let mut keys = self.compiled.objects.iter().map(|object| &object.meta.key);
        keys.any(|key| key.kind == kind && *key.namespace == *namespace)
    }

    /// Severity of a dangling reference.
    pub(super) fn missing(&self) -> Severity {
        if self.whole { Severity::Error } else { Severity::Warning }
    }
}
