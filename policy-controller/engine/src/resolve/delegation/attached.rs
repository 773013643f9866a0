//! The times since which routes are attached to Servers of their own namespaces with their hostnames.
//!
//! They count as the times of claims do: what the status records, or else the creation of a route that was
//! never edited and of which this controller has written no status yet. A status without a time says that the
//! route was not attached. A route without a time keeps nothing that somebody claims.

use super::origin::is_child;
use crate::incremental::{Context, query};
use crate::index::{Edge, parents};
use crate::query::hostnames::{AttachedRoute, AttachedTo};
use crate::resolve::carried::{Pairing, pairing};
use policy_core::HostPattern;
use policy_crds::{Body, Object, ObjectKey, ObjectMeta, Resource};
use std::collections::BTreeMap;
use std::sync::Arc;

query!(AttachedTo, Arc<[AttachedRoute]>, attached_to);

/// The time since which a route is attached to a Server of its namespace with a hostname, if it is known.
pub(super) fn attached_at(
    controller: &Arc<str>,
    route: &ObjectMeta,
    server: &ObjectKey,
    host: &HostPattern,
) -> Option<i64> {
    let recorded = route.recorded.as_ref();
    let Some(times) = recorded.and_then(|recorded| recorded.attached(controller, &server.name))
    else {
        let unedited = route.generation.is_none_or(|generation| generation == 1);
        return route.created.filter(|_| unedited);
    };
    // Nothing is attached before it exists.
    let exists = |time: &i64| route.created.is_none_or(|created| *time >= created);
    times.get(host).copied().filter(exists)
}

/// The Servers of its namespace that a route names as a whole.
fn own_servers(route: &Object) -> Vec<ObjectKey> {
    let key = &route.meta.key;
    let named = parents(route).iter();
    let whole = named.filter(|parent| parent.port.is_none() && parent.section.is_none());
    let servers = whole.filter_map(|parent| ObjectKey::server_of(parent, &key.namespace));
    servers.filter(|server| server.namespace == key.namespace).collect()
}

/// The namespaces whose routes are attached with a host, or with one that overlaps with it: of each the
/// earliest time. A child of a tree has its hosts through the tree.
fn attached_to(query: &AttachedTo, cx: &mut Context<'_>) -> Arc<[AttachedRoute]> {
    let host = &query.0;
    let mut keys = cx.edge(Edge::Hostname(host.clone()));
    for above in host.names_above() {
        keys.extend(cx.edge(Edge::Hostname(HostPattern::Suffix(above.into()))));
    }
    if let HostPattern::Suffix(name) = host {
        keys.extend(cx.edge(Edge::HostnameBelow(name.clone())));
    }
    let mut found: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    for key in keys {
        let Some(object) = cx.object(key) else { continue };
        let Body::Valid(Resource::Route(route)) = &object.body else { continue };
        if is_child(&route.parents, key) {
            continue;
        }
        let servers = own_servers(object).into_iter();
        let servers: Vec<ObjectKey> = servers.filter(|one| is_effective(cx, key, one)).collect();
        let hosts = route.hostnames.iter().filter(|own| own.overlaps(host));
        let times = hosts.flat_map(|own| {
            servers.iter().filter_map(|server| {
                attached_at(&cx.config.controller_name, &object.meta, server, own)
            })
        });
        if let Some(first) = times.min() {
            let earliest = found.entry(key.namespace.clone()).or_insert(first);
            *earliest = first.min(*earliest);
        }
    }
    found.into_iter().map(|(namespace, since)| AttachedRoute { namespace, since }).collect()
}

/// True if a Server is valid and carries routes of the kind of this one.
fn is_effective(cx: &mut Context<'_>, route: &ObjectKey, server: &ObjectKey) -> bool {
    let Some(Body::Valid(Resource::Server(spec))) = cx.object(server).map(|object| &object.body)
    else {
        return false;
    };
    matches!(pairing(spec.protocol, route.kind, cx.config), Pairing::Effective)
}
