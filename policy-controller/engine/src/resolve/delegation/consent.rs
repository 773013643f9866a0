//! Consent: the hosts and delegators that an object names as those by which it is reached.

use crate::index::parents;
use policy_core::HostPattern;
use policy_crds::resource::{Consent, ParentRef, RouteResource};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};

/// True if an object consents that another delegates a host to it.
pub(crate) fn consents_to(object: &Object, parent: &ObjectKey, host: &HostPattern) -> bool {
    match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => consents(&route.delegated_from, parent, host),
        Body::Valid(Resource::HttpRouteGroup(group)) => {
            consents(&group.delegated_from, parent, host)
        }
        Body::Valid(Resource::Route(route)) => agrees(route, &object.meta.key, parent, host),
        Body::Valid(_) | Body::Invalid(_) => false,
    }
}

/// True if an object lists a host, and the delegator if it lists one with it.
pub(super) fn consents(listed: &[Consent], parent: &ObjectKey, host: &HostPattern) -> bool {
    listed.iter().any(|consent| {
        consent.host == *host
            && consent.parent.as_ref().is_none_or(|named| {
                named.name == parent.name && named.namespace.as_ref() == Some(&parent.namespace)
            })
    })
}

/// The host below a wildcard to which an object without consent to the wildcard consents.
pub(super) fn below<'o>(
    object: &'o Object,
    parent: &ObjectKey,
    wide: &HostPattern,
) -> Option<&'o HostPattern> {
    let listed = match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => &route.delegated_from,
        Body::Valid(Resource::HttpRouteGroup(group)) => &group.delegated_from,
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    let mut hosts = listed.iter().map(|consent| &consent.host);
    hosts.find(|own| *own != wide && wide.covers(own) && consents(listed, parent, own))
}

/// True if an HTTPRoute or GRPCRoute names the delegator as a parent and the host as one of its own.
fn agrees(route: &RouteResource, key: &ObjectKey, parent: &ObjectKey, host: &HostPattern) -> bool {
    let names = |reference: &ParentRef| inbound_parent(reference, key).as_ref() == Some(parent);
    route.parents.iter().any(names) && route.hostnames.iter().any(|own| own.covers(host))
}

/// The InboundRoute that a reference to a parent names.
pub(crate) fn inbound_parent(reference: &ParentRef, route: &ObjectKey) -> Option<ObjectKey> {
    let kind = Kind::find(&reference.group, &reference.kind);
    (kind == Some(Kind::InboundRoute)).then(|| ObjectKey {
        kind: Kind::InboundRoute,
        namespace: reference.namespace.clone().unwrap_or_else(|| route.namespace.clone()),
        name: reference.name.clone(),
    })
}

/// The InboundRoutes among the parents of a route.
pub(crate) fn inbound_parents(object: &Object) -> Vec<ObjectKey> {
    let own = parents(object).iter();
    own.filter_map(|parent| inbound_parent(parent, &object.meta.key)).collect()
}
