//! From the model to messages. Every field of every type is named.

use super::bounds::MAX_ENDPOINTS;
use crate::messages as m;
use crate::messages::destination_response::Kind;
use crate::native::write::{address as address_bytes, duration};
use policy_core::destination::{
    Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, ServiceDestination,
    ServiceName,
};
use std::cmp::Ordering;
use std::net::SocketAddr;
use std::num::NonZeroU16;

/// Encodes a lookup.
pub fn encode_lookup(id: u32, address: SocketAddr) -> m::Lookup {
    m::Lookup { id, address: address_bytes(address.ip()), port: address.port().into() }
}

/// Encodes a destination: the messages of a complete answer, in order.
pub fn encode_destination(destination: &Destination) -> Vec<Kind> {
    use m::found::Kind as Found;
    let kind = match destination {
        Destination::Unknown => Found::Nobody(m::Nobody {}),
        Destination::Node => Found::Node(m::NodeAddress {}),
        Destination::UndeclaredPort(name) => Found::UndeclaredPort(service_name(name)),
        Destination::Service(destination) => Found::Service(service(destination)),
        Destination::Workload(_) => Found::Workload(m::WorkloadAddress {}),
    };
    let endpoints = destination.endpoints().iter().collect();
    in_portions(endpoints, |endpoints| {
        Kind::Found(m::Found { kind: Some(kind), endpoints: Some(endpoints) })
    })
}

/// Encodes the change from one destination to another; `None`: only the whole answer says it, or says
/// it with fewer endpoints.
pub fn change_of_destination(old: &Destination, new: &Destination) -> Option<Vec<Kind>> {
    let (Destination::Service(old), Destination::Service(new)) = (old, new) else { return None };
    let ServiceDestination { service, port, affinity, endpoints } = new;
    if (service, port, affinity) != (&old.service, &old.port, &old.affinity) {
        return None;
    }
    let (changed, removed) = compare(&old.endpoints, endpoints);
    if changed.len().saturating_add(removed.len()) >= endpoints.len()
        || removed.len() > MAX_ENDPOINTS
    {
        return None;
    }
    Some(in_portions(changed, |endpoints| {
        Kind::Changed(m::Changed { endpoints: Some(endpoints), removed })
    }))
}

/// The endpoints of `new` that `old` lacks or has otherwise, and the addresses that `new` lacks. Both
/// are ordered by address.
fn compare<'a>(
    old: &[Endpoint],
    new: &'a [Endpoint],
) -> (Vec<&'a Endpoint>, Vec<m::EndpointAddress>) {
    let (mut changed, mut removed) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return (changed, removed),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.address.cmp(&new.address),
        };
        let before = if order.is_le() { old.next() } else { None };
        let now = if order.is_ge() { new.next() } else { None };
        match (before, now) {
            (Some(before), None) => removed.push(endpoint_address(before.address)),
            (before, Some(now)) if before != Some(now) => changed.push(now),
            (_, _) => {}
        }
    }
}

/// The messages for these endpoints: `first` makes the first of them, whatever the number.
fn in_portions(endpoints: Vec<&Endpoint>, first: impl FnOnce(m::Endpoints) -> Kind) -> Vec<Kind> {
    let mut portions = endpoints.chunks(MAX_ENDPOINTS).peekable();
    let begin = portions.next().unwrap_or_default();
    let mut messages = vec![first(portion(begin, portions.peek().is_some()))];
    while let Some(next) = portions.next() {
        messages.push(Kind::More(portion(next, portions.peek().is_some())));
    }
    messages
}

fn portion(endpoints: &[&Endpoint], more: bool) -> m::Endpoints {
    m::Endpoints { endpoints: endpoints.iter().map(|each| endpoint(each)).collect(), more }
}

fn service(destination: &ServiceDestination) -> m::Service {
    let ServiceDestination { service, port, affinity, endpoints: _ } = destination;
    let ServiceName { namespace, name } = service;
    m::Service {
        namespace: namespace.to_string(),
        name: name.to_string(),
        port: port.get().into(),
        affinity: affinity.map(duration),
    }
}

fn service_name(ServiceName { namespace, name }: &ServiceName) -> m::Service {
    m::Service { namespace: namespace.to_string(), name: name.to_string(), port: 0, affinity: None }
}

fn endpoint(endpoint: &Endpoint) -> m::Endpoint {
    let Endpoint { address, owner, namespace, mesh } = endpoint;
    m::Endpoint {
        address: Some(endpoint_address(*address)),
        owner: owner.to_string(),
        namespace: namespace.to_string(),
        mesh: Some(match mesh {
            EndpointMesh::Meshed(meshed) => m::endpoint::Mesh::Meshed(mesh_endpoint(meshed)),
            EndpointMesh::Plaintext(reason) => {
                m::endpoint::Mesh::Plaintext(plaintext(*reason).into())
            }
        }),
    }
}

fn mesh_endpoint(meshed: &MeshEndpoint) -> m::Meshed {
    let MeshEndpoint { identity, server_name, inbound_port, opaque } = meshed;
    m::Meshed {
        identity: identity.to_string(),
        server_name: server_name.to_string(),
        inbound_port: inbound_port.map_or(0, NonZeroU16::get).into(),
        opaque: *opaque,
    }
}

/// A reason on the wire. What only the sidecar can find out is no reason of an endpoint; a client
/// refuses an answer that has none.
fn plaintext(reason: PlaintextReason) -> m::PlaintextReason {
    match reason {
        PlaintextReason::Unmeshed => m::PlaintextReason::Unmeshed,
        PlaintextReason::Skipped => m::PlaintextReason::Skipped,
        PlaintextReason::ForeignMesh => m::PlaintextReason::ForeignMesh,
        PlaintextReason::ApiServer => m::PlaintextReason::ApiServer,
        PlaintextReason::NodePort | PlaintextReason::Unknown | PlaintextReason::External => {
            m::PlaintextReason::Unspecified
        }
    }
}

fn endpoint_address(address: SocketAddr) -> m::EndpointAddress {
    m::EndpointAddress { address: address_bytes(address.ip()), port: address.port().into() }
}
