//! The inputs of queries, which a change can touch: objects, lists of them, and references by their
//! target; and sets of kinds, whose objects can touch them.

use policy_core::{HostPattern, fold_mapped};
use policy_crds::resource::{EndpointSlice, ParentRef, ServerRef};
use policy_crds::spec::{ObjectReference, ReferenceTarget};
use policy_crds::{Body, Claims, Field, Invalid, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

/// Something that can be read from the index, and that a change can touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Input {
    /// The object of this name, present or not.
    Object(ObjectKey),
    /// The objects of a kind in a namespace, and their content.
    List(Kind, Arc<str>),
    /// The objects on an edge, and their content.
    Edge(Edge),
}

impl Input {
    /// The kinds whose objects can touch it.
    pub(crate) fn kinds(&self) -> KindSet {
        match self {
            Self::Object(key) => KindSet::of(key.kind),
            Self::List(kind, _) => KindSet::of(*kind),
            Self::Edge(edge) => edge.kinds(),
        }
    }
}

/// The far end of a reference. On it are the objects that refer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Edge {
    /// Routes of this namespace that name this Server as a parent, valid or not. Keyed by
    /// namespace, so that routes of namespaces without a grant are not examined.
    Parent(ObjectKey, Arc<str>),
    /// Routes of this namespace that may name any of its Servers, because a parent cannot be read.
    AnyParent(Arc<str>),
    /// The route of this name, compared without case: the name is in lower case.
    Named(ObjectKey),
    /// Policies, ServerAuthorizations, rate limits, bindings, classes and groups that name this object.
    /// Route names are in lower case (docs/spec/controller.md 2.5).
    Target(ObjectKey),
    /// ServerAuthorizations of this namespace that select Servers by label.
    Selects(Arc<str>),
    /// Roots that claim this host, or are invalid and keep it.
    Host(HostPattern),
    /// Roots with a host below this name: `a.b` and `*.a.b` are below `b`.
    HostBelow(Arc<str>),
    /// Routes with this hostname.
    Hostname(HostPattern),
    /// Routes with a hostname below this name: `a.b` and `*.a.b` are below `b`.
    HostnameBelow(Arc<str>),
    /// InboundRoutes of this namespace with this label and value, valid or not.
    Label(Arc<str>, Arc<str>, Arc<str>),
    /// InboundRoutes that name this Server, valid or not.
    Serves(ObjectKey),
    /// InboundRoutes of this namespace that may name any of its Servers, because a name cannot be
    /// read.
    AnyServes(Arc<str>),
    /// What states this address as its own: Services, live pods with a network of their own,
    /// ExternalWorkloads and nodes.
    Address(IpAddr),
    /// The EndpointSlices that say that this address is a pod's, and whether pods of that time are known.
    PodEndpoint(IpAddr),
    /// The EndpointSlices of the Service of this namespace and name.
    Slices(Arc<str>, Arc<str>),
}

impl Edge {
    /// The kinds whose objects can be on it.
    pub(crate) fn kinds(&self) -> KindSet {
        match self {
            Self::Parent(..) | Self::AnyParent(_) | Self::Hostname(_) | Self::HostnameBelow(_) => {
                *WITH_PARENTS
            }
            Self::Named(route) => KindSet::of(route.kind),
            Self::Target(_) => *WITH_TARGETS,
            Self::Selects(_) => *WITH_SELECTORS,
            Self::Host(_)
            | Self::HostBelow(_)
            | Self::Label(..)
            | Self::Serves(_)
            | Self::AnyServes(_) => KindSet::of(Kind::InboundRoute),
            Self::Address(_) => *WITH_ADDRESSES,
            Self::Slices(..) | Self::PodEndpoint(_) => KindSet::of(Kind::EndpointSlice),
        }
    }

    /// The edge of an object of `namespace` for one of its references. `None` for authentications,
    /// which are looked up by key, and for what is not read.
    fn of(named: ObjectReference, namespace: &Arc<str>) -> Option<Self> {
        match (named.field, named.what) {
            (Field::Serving, ReferenceTarget::One(server)) => Some(Self::Serves(server)),
            (Field::Serving, ReferenceTarget::AnyOf(..)) => {
                Some(Self::AnyServes(namespace.clone()))
            }
            (Field::Parent, ReferenceTarget::One(parent)) => {
                Some(Self::Parent(parent, namespace.clone()))
            }
            (Field::Parent, ReferenceTarget::AnyOf(..)) => Some(Self::AnyParent(namespace.clone())),
            (Field::Target | Field::Server, ReferenceTarget::One(key)) if key.kind.is_route() => {
                Some(Self::route(&key))
            }
            (Field::Target | Field::Server | Field::Include, ReferenceTarget::One(key)) => {
                Some(Self::Target(key))
            }
            (Field::Target | Field::Server, ReferenceTarget::AnyOf(_, within)) => {
                Some(Self::Selects(within))
            }
            (_, ReferenceTarget::Unread(_))
            | (Field::Authentication | Field::Client | Field::Backend | Field::Delegate, _)
            | (Field::Include, ReferenceTarget::AnyOf(..)) => None,
        }
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

/// The kinds of routes.
static WITH_PARENTS: LazyLock<KindSet> = LazyLock::new(|| KindSet::referring(&[Field::Parent]));

/// The kinds with a target.
static WITH_TARGETS: LazyLock<KindSet> =
    LazyLock::new(|| KindSet::referring(&[Field::Target, Field::Server, Field::Include]));

/// The kinds of what may be for objects by their labels, or for any of a namespace.
static WITH_SELECTORS: LazyLock<KindSet> = LazyLock::new(|| {
    let mut set = KindSet::referring(&[Field::Server]);
    set.insert(Kind::HttpLocalRateLimitPolicy);
    set
});

/// The kinds of what states addresses.
static WITH_ADDRESSES: LazyLock<KindSet> = LazyLock::new(|| {
    let mut set = KindSet::default();
    for kind in [Kind::Service, Kind::Pod, Kind::ExternalWorkload, Kind::Node] {
        set.insert(kind);
    }
    set
});

/// The same key with its name in lower case.
fn without_case(key: &ObjectKey) -> ObjectKey {
    let name = key.name.to_ascii_lowercase().into();
    ObjectKey { kind: key.kind, namespace: key.namespace.clone(), name }
}

/// The parents of a route, valid or not.
pub(crate) fn parents(object: &Object) -> &[ParentRef] {
    match &object.body {
        Body::Valid(Resource::Route(route)) => &route.parents,
        Body::Invalid(Invalid { claims: Claims::Route(claims), .. }) => &claims.parents,
        Body::Valid(_) | Body::Invalid(_) => &[],
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
    let key = &object.meta.key;
    let named = object.references().into_iter();
    let mut edges: BTreeSet<Edge> =
        named.filter_map(|named| Edge::of(named, &key.namespace)).collect();
    if key.kind.is_route() {
        edges.insert(Edge::named(key));
    }
    if key.kind == Kind::InboundRoute {
        let labels = object.meta.labels.iter();
        edges.extend(labels.map(|(label, value)| {
            Edge::Label(key.namespace.clone(), label.clone(), value.clone())
        }));
    }
    for host in object.claimed_hosts() {
        edges.extend(host.names_above().map(|above| Edge::HostBelow(above.into())));
        edges.insert(Edge::Host(host));
    }
    if let Body::Valid(Resource::Route(route)) = &object.body {
        for host in &route.hostnames {
            edges.extend(host.names_above().map(|above| Edge::HostnameBelow(above.into())));
            edges.insert(Edge::Hostname(host.clone()));
        }
    }
    edges.extend(addresses(object).map(|address| Edge::Address(fold_mapped(address))));
    if let Body::Valid(Resource::EndpointSlice(slice)) = &object.body {
        let EndpointSlice { service, endpoints, .. } = slice;
        let of = service.iter();
        edges.extend(of.map(|service| Edge::Slices(key.namespace.clone(), service.clone())));
        let pods = endpoints.iter().filter(|endpoint| endpoint.pod.is_some());
        edges.extend(pods.map(|endpoint| Edge::PodEndpoint(fold_mapped(endpoint.address))));
    }
    edges
}

/// The addresses that an object states as its own. Those of a pod that has ended may belong to
/// another one by now, and those of a pod in its node's network are the node's.
fn addresses(object: &Object) -> impl Iterator<Item = IpAddr> {
    let (first, second): (&[IpAddr], &[IpAddr]) = match &object.body {
        Body::Valid(Resource::Pod(pod)) if !pod.has_ended && !pod.uses_host_network => {
            (&pod.addresses, &[])
        }
        Body::Valid(Resource::Service(service)) => {
            (&service.cluster_addresses, &service.external_addresses)
        }
        Body::Invalid(Invalid {
            claims: Claims::Service { addresses } | Claims::ExternalWorkload { addresses },
            ..
        }) => (addresses, &[]),
        Body::Valid(Resource::ExternalWorkload(workload)) => (&workload.addresses, &[]),
        Body::Valid(Resource::Node(node)) => (&node.addresses, &[]),
        Body::Valid(_) | Body::Invalid(_) => (&[], &[]),
    };
    first.iter().chain(second).copied()
}

/// A kind is a bit of a `u64`.
const _: () = assert!(Kind::ALL.len() <= 64);

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindSet(u64);

impl KindSet {
    pub(crate) fn of(kind: Kind) -> Self {
        let mut set = Self::default();
        set.insert(kind);
        set
    }

    /// The kinds with one of these reference fields.
    pub(crate) fn referring(fields: &[Field]) -> Self {
        let mut set = Self::default();
        for kind in Kind::ALL.into_iter().filter(|kind| kind.spec().reference(fields).is_some()) {
            set.insert(kind);
        }
        set
    }

    pub(crate) fn insert(&mut self, kind: Kind) {
        self.0 |= bit(kind);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.0 & bit(*kind) != 0)
    }
}

fn bit(kind: Kind) -> u64 {
    1_u64.checked_shl(kind as u32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_bit_of_its_own() {
        for kind in Kind::ALL {
            let set = KindSet::of(kind);
            assert_eq!(set.iter().collect::<Vec<_>>(), [kind]);
        }
        let mut set = KindSet::of(Kind::Pod);
        set.extend(KindSet::of(Kind::Server));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Kind::Server, Kind::Pod]);
    }
}
