//! Endpoints and profiles.
//!
//! A client of Linkerd's API uses mesh TLS if and only if it can read the endpoint's identity; one
//! that it cannot read makes it a plaintext endpoint. So an endpoint in the mesh that this API
//! cannot describe is left out of a set, and where an address stands for it alone, it is sent with
//! an identity that nobody can prove.

use super::network;
use crate::linkerd::destination::protocol_hint::{H2, Opaque, OpaqueTransport, Protocol};
use crate::linkerd::destination::tls_identity::{DnsLikeIdentity, Strategy, UriLikeIdentity};
use crate::linkerd::destination::{DestinationProfile, ProtocolHint, TlsIdentity, WeightedAddr};
use crate::linkerd::meta::{Metadata, Resource, metadata::Kind};
use crate::linkerd::net::TcpAddress;
use policy_core::destination::{Destination, Endpoint, EndpointMesh, MeshEndpoint, ServiceName};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;

/// Share of each endpoint: Linkerd's own, so that endpoints of several sources share alike.
const WEIGHT: u32 = 10_000;

/// Name that no certificate bears: its top-level domain is reserved (RFC 2606).
const NOBODY: &str = "unreachable.invalid";

/// Group that Linkerd's clients expect of kinds of the core group: they refuse an empty one.
const CORE: &str = "core";

/// Longest DNS name, in bytes.
const MAX_NAME: usize = 253;

/// Longest label of a DNS name, in bytes.
const MAX_LABEL: usize = 63;

/// Says what an address stands for. `domain` ends the names of Services, without leading dot.
pub fn profile(destination: &Destination, port: NonZeroU16, domain: &str) -> DestinationProfile {
    match destination {
        Destination::Unknown | Destination::Node => DestinationProfile::default(),
        Destination::UndeclaredPort(name) => service_profile(name, port, domain),
        Destination::Service(service) => DestinationProfile {
            opaque_protocol: is_opaque(destination),
            ..service_profile(&service.service, port, domain)
        },
        Destination::Workload(endpoint) => {
            let sent = encode(endpoint).unwrap_or_else(|| unreachable_endpoint(endpoint));
            let opaque_protocol = is_opaque(destination);
            DestinationProfile { opaque_protocol, endpoint: Some(sent), ..Default::default() }
        }
    }
}

/// Returns true if connections to the destination are carried as bytes: an endpoint says so. The
/// others carry bytes, too.
pub fn is_opaque(destination: &Destination) -> bool {
    destination.endpoints().iter().any(|endpoint| match &endpoint.mesh {
        EndpointMesh::Meshed(meshed) => meshed.opaque,
        EndpointMesh::Plaintext(_) => false,
    })
}

fn service_profile(name: &ServiceName, port: NonZeroU16, domain: &str) -> DestinationProfile {
    DestinationProfile {
        fully_qualified_name: service_host(name, domain),
        parent_ref: Some(service_reference(name, port)),
        ..Default::default()
    }
}

/// The DNS name of a Service.
pub(super) fn service_host(name: &ServiceName, domain: &str) -> String {
    format!("{}.{}.svc.{domain}", name.name, name.namespace)
}

/// The reference to a Service's port.
pub(super) fn service_reference(name: &ServiceName, port: NonZeroU16) -> Metadata {
    let resource = Resource {
        group: CORE.to_owned(),
        kind: "Service".to_owned(),
        name: name.name.to_string(),
        namespace: name.namespace.to_string(),
        section: String::new(),
        port: u32::from(port.get()),
    };
    Metadata { kind: Some(Kind::Resource(resource)) }
}

/// The message of an endpoint; none if such a client could not reach it as it must be.
pub(super) fn encode(endpoint: &Endpoint) -> Option<WeightedAddr> {
    let (tls_identity, protocol_hint) = match &endpoint.mesh {
        EndpointMesh::Meshed(meshed) => (Some(identity(meshed)?), Some(hint(meshed)?)),
        EndpointMesh::Plaintext(_) => (None, None),
    };
    Some(WeightedAddr { tls_identity, protocol_hint, ..bare(endpoint) })
}

/// The same address, which every connection fails to.
fn unreachable_endpoint(endpoint: &Endpoint) -> WeightedAddr {
    let strategy = Some(Strategy::DnsLikeIdentity(dns(NOBODY)));
    let tls_identity = Some(TlsIdentity { strategy, server_name: Some(dns(NOBODY)) });
    WeightedAddr { tls_identity, ..bare(endpoint) }
}

fn bare(endpoint: &Endpoint) -> WeightedAddr {
    WeightedAddr {
        addr: Some(tcp_address(endpoint.address)),
        weight: WEIGHT,
        metric_labels: labels(endpoint),
        ..Default::default()
    }
}

/// An address and port.
pub(super) fn tcp_address(address: SocketAddr) -> TcpAddress {
    let port = u32::from(address.port());
    TcpAddress { ip: Some(network::address(address.ip())), port }
}

/// The namespace, and the owner by its kind: `deployment="web"`.
fn labels(endpoint: &Endpoint) -> BTreeMap<String, String> {
    let namespace = (!endpoint.namespace.is_empty()).then(|| ("namespace", &*endpoint.namespace));
    let owner = endpoint.owner.split_once('/');
    let pairs = namespace.into_iter().chain(owner);
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn identity(meshed: &MeshEndpoint) -> Option<TlsIdentity> {
    if !is_dns_name(&meshed.server_name) {
        return None;
    }
    let strategy = if meshed.identity.starts_with("spiffe://") {
        Strategy::UriLikeIdentity(UriLikeIdentity { uri: meshed.identity.to_string() })
    } else if is_dns_name(&meshed.identity) {
        Strategy::DnsLikeIdentity(dns(&meshed.identity))
    } else {
        return None;
    };
    Some(TlsIdentity { strategy: Some(strategy), server_name: Some(dns(&meshed.server_name)) })
}

fn dns(name: &str) -> DnsLikeIdentity {
    DnsLikeIdentity { name: name.to_owned() }
}

/// Names that clients can read: one that they cannot means plaintext to them.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let edges = !label.starts_with('-') && !label.ends_with('-');
        !label.is_empty() && label.len() <= MAX_LABEL && inner && edges
    };
    // An IP address is no name to them.
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= MAX_NAME
        && name.split('.').all(is_label)
        && !name.rsplit('.').next().is_some_and(is_number)
}

/// An opaque port is reached at the sidecar's own, with a transport header; every other one at its
/// own port. A client that is given the sidecar's port uses it whatever the protocol.
fn hint(meshed: &MeshEndpoint) -> Option<ProtocolHint> {
    if !meshed.opaque {
        // The receiver undoes what the client does to HTTP/1 then.
        return Some(ProtocolHint { protocol: Some(Protocol::H2(H2 {})), opaque_transport: None });
    }
    // Clients ignore the highest port, and would then speak TLS to the application.
    let port = meshed.inbound_port.map(NonZeroU16::get).filter(|port| *port != u16::MAX)?;
    Some(ProtocolHint {
        protocol: Some(Protocol::Opaque(Opaque {})),
        opaque_transport: Some(OpaqueTransport { inbound_port: u32::from(port) }),
    })
}
