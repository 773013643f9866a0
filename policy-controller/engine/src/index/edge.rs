//! Who names whom: references found from their far end.

use super::kind_set::KindSet;
use policy_crds::resource::{ParentRef, PolicyTarget, ServerRef};
use policy_crds::{Body, Claims, Invalid, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The far end of a reference. On it are the objects that refer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Edge {
    /// Routes of this namespace that name this Server as a parent, valid or not. Apart by namespace,
    /// so that who was not asked is not looked through.
    Parent(ObjectKey, Arc<str>),
    /// Routes of this namespace that may name any of its Servers, because a parent cannot be read.
    AnyParent(Arc<str>),
    /// The route of this name, compared without case: the name is in lower case.
    Named(ObjectKey),
    /// Policies, ServerAuthorizations and rate limits that name this object. Route names are in
    /// lower case (controller-semantics 2.5).
    Target(ObjectKey),
    /// ServerAuthorizations of this namespace that select Servers by label.
    Selects(Arc<str>),
}

impl Edge {
    /// The kinds whose objects can be on it.
    pub(crate) fn kinds(&self) -> KindSet {
        let kinds: &[Kind] = match self {
            Self::Parent(..) | Self::AnyParent(_) => {
                &[Kind::PolicyHttpRoute, Kind::GatewayHttpRoute, Kind::GrpcRoute]
            }
            Self::Named(route) => return KindSet::of(route.kind),
            Self::Target(_) => &[
                Kind::AuthorizationPolicy,
                Kind::ServerAuthorization,
                Kind::HttpLocalRateLimitPolicy,
            ],
            Self::Selects(_) => &[Kind::ServerAuthorization],
        };
        let mut set = KindSet::default();
        for kind in kinds {
            set.insert(*kind);
        }
        set
    }

    /// The edge of policies that target a route.
    pub(crate) fn route(key: &ObjectKey) -> Self {
        Self::Target(without_case(key))
    }

    /// The edge of the route that a name means.
    pub(crate) fn named(key: &ObjectKey) -> Self {
        Self::Named(without_case(key))
    }
}

/// The same key with its name in lower case.
fn without_case(key: &ObjectKey) -> ObjectKey {
    let name = key.name.to_ascii_lowercase().into();
    ObjectKey { kind: key.kind, namespace: key.namespace.clone(), name }
}

/// Whether a kind is one of routes.
fn is_route(kind: Kind) -> bool {
    matches!(kind, Kind::PolicyHttpRoute | Kind::GatewayHttpRoute | Kind::GrpcRoute)
}

/// The Server that a parent reference names, seen from a route's namespace.
pub(crate) fn server_of(parent: &ParentRef, namespace: &Arc<str>) -> Option<ObjectKey> {
    parent.is_server().then(|| ObjectKey {
        kind: Kind::Server,
        namespace: parent.namespace.clone().unwrap_or_else(|| namespace.clone()),
        name: parent.name.clone(),
    })
}

/// The parents of a route, valid or not.
pub(crate) fn parents(object: &Object) -> &[ParentRef] {
    match &object.body {
        Body::Valid(Resource::Route(route)) => &route.parents,
        Body::Invalid(invalid) => match &invalid.claims {
            Claims::Route { parents, .. } => parents,
            Claims::Nothing
            | Claims::Server { .. }
            | Claims::AuthorizationPolicy { .. }
            | Claims::ServerAuthorization { .. }
            | Claims::RateLimit { .. } => &[],
        },
        Body::Valid(_) => &[],
    }
}

/// Whether a parent of a route cannot be read.
fn has_unread_parent(object: &Object) -> bool {
    let claims = match &object.body {
        Body::Invalid(invalid) => &invalid.claims,
        Body::Valid(_) => return false,
    };
    matches!(claims, Claims::Route { unread: true, .. })
}

/// What an AuthorizationPolicy is for, valid or not.
fn policy_target(object: &Object) -> Option<&PolicyTarget> {
    match &object.body {
        Body::Valid(Resource::AuthorizationPolicy(policy)) => Some(&policy.target),
        Body::Invalid(Invalid { claims: Claims::AuthorizationPolicy { target }, .. }) => {
            target.as_ref()
        }
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The Servers that a ServerAuthorization is for, valid or not.
pub(crate) fn authorized_servers(object: &Object) -> Option<&ServerRef> {
    match &object.body {
        Body::Valid(Resource::ServerAuthorization(authorization)) => Some(&authorization.server),
        Body::Invalid(Invalid { claims: Claims::ServerAuthorization { server }, .. }) => {
            server.as_ref()
        }
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The edges that an object is on.
pub(super) fn edges(object: &Object) -> BTreeSet<Edge> {
    let namespace = &object.meta.key.namespace;
    let local = |kind, name: &Arc<str>| ObjectKey {
        kind,
        namespace: namespace.clone(),
        name: name.clone(),
    };
    let mut edges: BTreeSet<Edge> = parents(object)
        .iter()
        .filter_map(|parent| server_of(parent, namespace))
        .map(|server| Edge::Parent(server, namespace.clone()))
        .collect();
    if is_route(object.meta.key.kind) {
        edges.insert(Edge::named(&object.meta.key));
    }
    if has_unread_parent(object) {
        edges.insert(Edge::AnyParent(namespace.clone()));
    }
    edges.extend(policy_target(object).map(|target| match target {
        PolicyTarget::Server(name) => Edge::Target(local(Kind::Server, name)),
        PolicyTarget::Namespace => Edge::Target(ObjectKey {
            kind: Kind::Namespace,
            namespace: "".into(),
            name: namespace.clone(),
        }),
        PolicyTarget::Route { kind, name } => Edge::route(&local(*kind, name)),
    }));
    edges.extend(authorized_servers(object).map(|servers| match servers {
        ServerRef::Name(name) => Edge::Target(local(Kind::Server, name)),
        ServerRef::Labels(_) => Edge::Selects(namespace.clone()),
    }));
    if let Body::Valid(Resource::RateLimit(limit)) = &object.body {
        edges.insert(Edge::Target(local(Kind::Server, &limit.server)));
    }
    edges
}
