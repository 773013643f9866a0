//! Routes within a tree: their origin, and the conditions on their grants.

use super::consent::inbound_parent;
use super::kept::beside;
use policy_core::{
    Condition, DelegatedPath, HostPattern, IdentityMatch, Origin, Predicate, Route, RouteKind,
    Source,
};
use policy_crds::ObjectKey;
use policy_crds::resource::{ParentRef, PathPrefix, RequiredTls, VirtualHost};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The conditions that a root puts on every grant in its tree.
pub(super) fn constraints(root: &ObjectKey, own: &VirtualHost) -> Arc<[Condition]> {
    let networks = own.access_list.clone().map(Predicate::Network);
    let tls = match own.tls {
        RequiredTls::Optional => None,
        RequiredTls::Required => Some(Predicate::MeshTls),
        RequiredTls::MutualRequired => Some(Predicate::Identity(vec![IdentityMatch::Any])),
    };
    let condition = |test| Condition { source: Source::Object(root.to_ref()), test };
    networks.into_iter().chain(tls).map(condition).collect()
}

/// A route as a tree has it: for the hosts of the tree, and without matches inside what ancestors
/// keep.
pub(super) fn in_tree(
    route: &Route,
    path: &PathPrefix,
    chain: &[ObjectKey],
    (hosts, kept): (&[HostPattern], &BTreeSet<PathPrefix>),
) -> Route {
    Route {
        origin: Origin::Delegated(delegated_path(chain, path)),
        kind: route.kind,
        created: route.created,
        label: route.label.clone(),
        hosts: hosts.iter().cloned().collect(),
        rules: beside(&route.rules, kept),
        authorizations: route.authorizations.clone(),
        inherits_server: route.inherits_server,
        withheld: route.withheld.clone(),
    }
}

/// The origin of a rule that a chain leads to.
pub(super) fn delegated_path(chain: &[ObjectKey], path: &PathPrefix) -> Arc<DelegatedPath> {
    let chain: Vec<_> = chain.iter().map(ObjectKey::to_ref).collect();
    Arc::new(DelegatedPath { chain: chain.into(), prefix: path.as_str().into() })
}

/// True if a route is a child of InboundRoutes: then it counts on its Servers through them alone.
pub(crate) fn is_child(parents: &[ParentRef], key: &ObjectKey) -> bool {
    parents.iter().any(|parent| inbound_parent(parent, key).is_some())
}

/// The kind of a route whose object is an InboundRoute.
pub(super) const KIND: RouteKind = RouteKind::Http;
