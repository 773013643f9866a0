//! Authentications that no policy refers to, and groups and services that nothing binds.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::resolve::reference::content;
use policy_crds::spec::{ObjectReference, ReferenceTarget};
use policy_crds::{Body, Field, Kind, Object, ObjectKey};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Finder<'_> {
    /// The authentications, groups and services among all objects that none of them refers to. Not
    /// reported while one is applied alone, because its policy or binding may follow.
    pub(crate) fn unused(&mut self, objects: &[Arc<Object>]) -> Vec<Finding> {
        let used: BTreeSet<ObjectKey> =
            objects.iter().flat_map(|object| Self::used(object)).collect();
        // What an invalid object refers to is not known.
        let invalid = objects.iter().filter(|object| matches!(object.body, Body::Invalid(_)));
        let invalid: BTreeSet<(Kind, &str)> =
            invalid.map(|object| (object.meta.key.kind, &*object.meta.key.namespace)).collect();
        let may_be_used = |key: &ObjectKey| {
            users(key.kind).iter().any(|kind| invalid.contains(&(*kind, &*key.namespace)))
        };
        let keys = objects.iter().map(|object| &object.meta.key);
        let unused = keys.filter_map(|key| Some((key, without_use(key.kind)?)));
        let unused = unused.filter(|(key, _)| !used.contains(*key) && !may_be_used(key));
        unused
            .map(|(key, message)| {
                let kind = match self.is_offered(key) {
                    true => FindingKind::UnusedOffered,
                    false => FindingKind::Unused,
                };
                finding(key, kind, "metadata.name", message.to_owned())
            })
            .collect()
    }

    /// The authentications, groups and services that an object refers to. One of another namespace that
    /// it may not use counts, too: what is lacking is a ReferenceGrant, and a finding of its own says so.
    fn used(object: &Object) -> Vec<ObjectKey> {
        let named = object.references().into_iter();
        let keys = named.filter_map(|ObjectReference { field, what }| match (field, what) {
            // Labels select InboundRoutes alone.
            (
                Field::Authentication | Field::Include | Field::Delegate,
                ReferenceTarget::One(key),
            ) => Some(key),
            _ => None,
        });
        keys.collect()
    }

    /// True if policies of other namespaces may refer to an object. A grant that breaks a rule may
    /// have been meant for them.
    fn is_offered(&self, key: &ObjectKey) -> bool {
        let mut grants = self.index.list(Kind::ReferenceGrant, &key.namespace);
        self.config.shared_namespaces.contains(&key.namespace)
            || grants.any(|object| {
                content(object).is_none_or(|grant| {
                    grant
                        .to
                        .iter()
                        .any(|to| to.offers(key.kind.group(), key.kind.as_str(), &key.name))
                })
            })
    }
}

/// The kinds whose objects may refer to those of this kind.
fn users(kind: Kind) -> &'static [Kind] {
    if matches!(kind, Kind::MeshTlsAuthentication | Kind::NetworkAuthentication) {
        &[Kind::AuthorizationPolicy]
    } else if kind == Kind::HttpRouteGroup {
        &[Kind::HttpRouteBinding, Kind::HttpRouteGroup, Kind::InboundRoute]
    } else if kind == Kind::GrpcService {
        &[Kind::GrpcServiceBinding]
    } else {
        &[]
    }
}

/// The finding about an object of this kind that nothing refers to; `None` where that says nothing.
fn without_use(kind: Kind) -> Option<&'static str> {
    if matches!(kind, Kind::MeshTlsAuthentication | Kind::NetworkAuthentication) {
        Some("no AuthorizationPolicy refers to it: it grants nothing by itself")
    } else if kind == Kind::HttpRouteGroup {
        Some(
            "no HttpRouteBinding, no group and no InboundRoute refers to it: no Server has its routes",
        )
    } else if kind == Kind::GrpcService {
        Some("no GrpcServiceBinding refers to it: no Server has its methods as routes")
    } else {
        None
    }
}
