//! What a port of a Service leads to.

use super::usable::Choice;
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::publish::destination::{DestinationScope, PublishedDestination, ScopeKind};
use crate::query::destination::{EndpointAt, Front, ServicePortOf, ZoneOf};
use policy_core::{AddressFamily, Destination, Endpoint, ServiceDestination, ServiceName};
use policy_crds::resource::{EndpointSlice, Resource, Service};
use policy_crds::{Body, ObjectKey};
use std::sync::Arc;

query!(ServicePortOf, Arc<PublishedDestination>, service_port);

fn service_port(query: &ServicePortOf, cx: &mut Context<'_>) -> Arc<PublishedDestination> {
    let ObjectKey { namespace, name, .. } = query.service.clone();
    let name = ServiceName { namespace, name };
    let service = match cx.object(&query.service).map(|object| &object.body) {
        Some(Body::Valid(Resource::Service(service))) => service,
        Some(Body::Valid(_) | Body::Invalid(_)) => return for_all(unreadable(query, name)),
        None => return for_all(Destination::Unknown),
    };
    if service.is_external_name {
        return for_all(Destination::Unknown);
    }
    let Some(declared) = service.ports.iter().find(|port| port.port == query.port) else {
        return for_all(Destination::UndeclaredPort(name));
    };
    let slices = slices(cx, &query.service);
    let (node, zone) = place(cx, &query.scope);
    let choice = Choice {
        port: &declared.name,
        family: query.family,
        local_only: service.is_local && query.front == Front::Cluster,
        node: node.as_deref(),
        zone: zone.as_deref(),
    };
    let needs = choice.needs(&slices);
    let of = Some(name.clone());
    let endpoints = choice.usable(&slices).into_iter().filter_map(|(address, endpoint)| {
        cx.query(&EndpointAt { address, of: of.clone(), pod: endpoint.pod.clone() })
    });
    let endpoints: Vec<Endpoint> = endpoints.collect();
    let destination = ServiceDestination {
        service: name,
        port: query.port,
        affinity: service.affinity,
        endpoints: endpoints.into(),
    };
    let destination = Destination::Service(destination);
    Arc::new(PublishedDestination { destination, needs, is_pending: false })
}

/// An answer that is the same for all clients.
pub(super) fn for_all(destination: Destination) -> Arc<PublishedDestination> {
    Arc::new(PublishedDestination { destination, needs: ScopeKind::All, is_pending: false })
}

/// A Service that cannot be read keeps its address and has no endpoint.
fn unreadable(query: &ServicePortOf, service: ServiceName) -> Destination {
    let endpoints = Arc::from([]);
    Destination::Service(ServiceDestination {
        service,
        port: query.port,
        affinity: None,
        endpoints,
    })
}

/// The node and the zone of the clients of a scope.
fn place(cx: &mut Context<'_>, scope: &DestinationScope) -> (Option<Arc<str>>, Option<Arc<str>>) {
    match scope {
        DestinationScope::All => (None, None),
        DestinationScope::Zone(zone) => (None, Some(zone.clone())),
        DestinationScope::Node(node) => (Some(node.clone()), cx.query(&ZoneOf(node.clone()))),
    }
}

/// The slices of a Service, by name.
fn slices<'a>(cx: &mut Context<'a>, service: &ObjectKey) -> Vec<&'a EndpointSlice> {
    let edge = Edge::Slices(service.namespace.clone(), service.name.clone());
    let keys = cx.edge(edge).into_iter();
    let bodies = keys.filter_map(|key| match &cx.object(key)?.body {
        Body::Valid(Resource::EndpointSlice(slice)) => Some(slice),
        Body::Valid(_) | Body::Invalid(_) => None,
    });
    bodies.collect()
}

/// The family of the first address of a Service in the cluster. A Service without one is IPv4 if it
/// has any endpoint of IPv4, or none at all.
pub(super) fn family(cx: &mut Context<'_>, key: &ObjectKey) -> AddressFamily {
    let first = match cx.object(key).map(|object| &object.body) {
        Some(Body::Valid(Resource::Service(Service { cluster_addresses, .. }))) => {
            cluster_addresses.first()
        }
        Some(Body::Valid(_) | Body::Invalid(_)) | None => None,
    };
    if let Some(address) = first {
        return AddressFamily::of(*address);
    }
    let slices = slices(cx, key);
    let has = |family| {
        let of_family = |slice: &&EndpointSlice| slice.family == Some(family);
        slices.iter().any(|slice| of_family(slice) && !slice.endpoints.is_empty())
    };
    match has(AddressFamily::V6) && !has(AddressFamily::V4) {
        true => AddressFamily::V6,
        false => AddressFamily::V4,
    }
}
