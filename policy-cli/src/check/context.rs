//! What is looked at.

use crate::cluster::permissions::ListPermissions;
use policy_crds::Kind;
use policy_engine::Compiled;
use policy_engine::source::Severity;

/// What is looked at.
pub(super) struct CheckContext<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) permissions: &'a ListPermissions,
    /// Whether this is everything that there is: a cluster, rather than manifests that may be
    /// applied beside others. What is missing then is an error.
    pub(super) whole: bool,
    /// Whether it is known what ends the identities of the mesh.
    pub(super) mesh_known: bool,
}

impl CheckContext<'_> {
    /// Whether some object of a kind in a namespace was read.
    pub(super) fn declares(&self, kind: Kind, namespace: &str) -> bool {
        let mut keys = self.compiled.objects.iter().map(|object| &object.meta.key);
        keys.any(|key| key.kind == kind && *key.namespace == *namespace)
    }

    /// The severity of what refers to nothing.
    pub(super) fn missing(&self) -> Severity {
        if self.whole { Severity::Error } else { Severity::Warning }
    }
}
