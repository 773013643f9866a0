//! Authentications that no policy refers to.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use policy_crds::spec::{ObjectReference, ReferenceTarget};
use policy_crds::{Body, Field, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Finder<'_> {
    /// The authentications among all objects that none of them refers to. Not reported while one is
    /// applied alone, because its policy may follow.
    pub(crate) fn unused(&self, objects: &[Arc<Object>]) -> Vec<Finding> {
        let used: BTreeSet<ObjectKey> = objects.iter().flat_map(|object| used(object)).collect();
        let kinds = [Kind::MeshTlsAuthentication, Kind::NetworkAuthentication];
        let keys = objects.iter().map(|object| &object.meta.key);
        let unused = keys.filter(|key| kinds.contains(&key.kind) && !used.contains(*key));
        unused
            .map(|key| {
                let kind = match self.is_offered(key) {
                    true => FindingKind::UnusedOffered,
                    false => FindingKind::Unused,
                };
                let message = "no AuthorizationPolicy refers to it: it grants nothing by itself";
                finding(key, kind, "metadata.name", message.to_owned())
            })
            .collect()
    }

    /// True if policies of other namespaces may refer to an object.
    fn is_offered(&self, key: &ObjectKey) -> bool {
        let mut grants = self.index.list(Kind::ReferenceGrant, &key.namespace);
        self.config.shared_namespaces.contains(&key.namespace)
            || grants.any(|object| match &object.body {
                Body::Valid(Resource::ReferenceGrant(grant)) => {
                    grant.to.iter().any(|to| Kind::find(&to.group, &to.kind) == Some(key.kind))
                }
                Body::Valid(_) | Body::Invalid(_) => true,
            })
    }
}

/// The authentications that an object refers to.
fn used(object: &Object) -> Vec<ObjectKey> {
    let named = object.references().into_iter();
    let keys = named.filter_map(|ObjectReference { field, what }| match (field, what) {
        (Field::Authentication, ReferenceTarget::One(key)) => Some(key),
        (Field::Authentication, ReferenceTarget::AnyOf(..))
        | (Field::Parent | Field::Target | Field::Client | Field::Server, _) => None,
    });
    keys.collect()
}
