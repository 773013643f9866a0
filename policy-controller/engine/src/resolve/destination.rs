//! What an address and port lead to: a Service's address to its endpoints ([`service`]), any other
//! to who holds it ([`owner`], [`endpoint`]).

mod api_server;
mod endpoint;
mod owner;
mod service;
mod usable;

use crate::incremental::{Context, query};
use crate::publish::destination::{
    DestinationKey, DestinationQuestion, PublishedDestination, ScopeKind, ServicePortKey,
};
use crate::query::destination::{
    ApiServer, DestinationOf, EndpointAt, Front, OwnersOf, ServicePortOf, ZoneOf,
};
use policy_core::{AddressFamily, Destination, ServiceName};
use policy_crds::{Kind, Object, ObjectKey};
use service::for_all;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The label that states the zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";

query!(DestinationOf, Arc<PublishedDestination>, destination_of);
query!(ZoneOf, Option<Arc<str>>, zone);

fn destination_of(query: &DestinationOf, cx: &mut Context<'_>) -> Arc<PublishedDestination> {
    match &query.0 {
        DestinationQuestion::Address(key) => at_address(cx, key),
        DestinationQuestion::Service(key) => of_service(cx, key),
    }
}

/// Addresses in the cluster are assigned, pods report theirs, and machines count where the operator says
/// so. The other addresses of a Service are written by whoever may write Services: they take none of
/// these away, and of a node's only the ports that the Service declares.
fn at_address(cx: &mut Context<'_>, key: &DestinationKey) -> Arc<PublishedDestination> {
    let owners = cx.query(&OwnersOf(key.address));
    if let Some(service) = &owners.service {
        return cx.query(&front(key, service, Front::Cluster));
    }
    let address = SocketAddr::new(key.address, key.port.get());
    let is_api_server = cx.query(&ApiServer).contains(&address);
    if owners.pod.is_some() || owners.external.is_some() || is_api_server {
        let endpoint = cx.query(&EndpointAt { address, of: None, pod: None });
        return for_all(endpoint.map_or(Destination::Unknown, Destination::Workload));
    }
    let other = owners.front.as_ref().filter(|_| !owners.is_node);
    if let Some(service) = owners.fronts.get(&key.port).or(other) {
        return cx.query(&front(key, service, Front::External));
    }
    if owners.is_node {
        return for_all(Destination::Node);
    }
    let is_pending = awaits_pod(cx, key.address);
    let (destination, needs) = (Destination::Unknown, ScopeKind::All);
    Arc::new(PublishedDestination { destination, needs, is_pending })
}

/// True if a slice says that an address is a pod's, and the pods are not known up to the version of the
/// slice: whether the pod is in the mesh, nobody knows yet. Addresses that no sidecar looks up are not
/// waited for, so that a writer of slices cannot keep clients from what is outside the cluster.
fn awaits_pod(cx: &mut Context<'_>, address: IpAddr) -> bool {
    let networks = cx.config.looked_up_networks().unwrap_or(&cx.config.cluster_networks);
    networks.iter().any(|network| network.contains(&address)) && cx.awaits_pod(address)
}

fn front(key: &DestinationKey, service: &ObjectKey, front: Front) -> ServicePortOf {
    ServicePortOf {
        service: service.clone(),
        port: key.port,
        family: AddressFamily::of(key.address),
        front,
        scope: key.scope.clone(),
    }
}

/// By name, as if its first address in the cluster were dialled.
fn of_service(cx: &mut Context<'_>, key: &ServicePortKey) -> Arc<PublishedDestination> {
    let ServicePortKey { service, port, scope } = key;
    let ServiceName { namespace, name } = service.clone();
    let service = ObjectKey { kind: Kind::Service, namespace, name };
    let family = service::family(cx, &service);
    cx.query(&ServicePortOf {
        service,
        port: *port,
        family,
        front: Front::Cluster,
        scope: scope.clone(),
    })
}

fn zone(query: &ZoneOf, cx: &mut Context<'_>) -> Option<Arc<str>> {
    zone_of(cx.object(&node_key(&query.0))?)
}

/// The key of a Node.
pub(crate) fn node_key(name: &Arc<str>) -> ObjectKey {
    ObjectKey { kind: Kind::Node, namespace: "".into(), name: name.clone() }
}

/// The zone that a Node states.
pub(crate) fn zone_of(node: &Object) -> Option<Arc<str>> {
    node.meta.labels.get(ZONE).filter(|zone| !zone.is_empty()).cloned()
}
