//! From messages to the model. What is unset, unknown or out of range is an error.

use crate::error::{At, DecodeError, Result, required};
use crate::messages as m;
use crate::native::read::{address, bounded, duration, set, unknown};
use policy_core::destination::{
    Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, ServiceDestination, ServiceName,
};
use policy_core::network::fold_mapped;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Reads the address of a lookup.
///
/// # Errors
/// The number 0, or an address or port that is none, by its field.
pub fn decode_lookup(lookup: &m::Lookup) -> Result<SocketAddr, DecodeError> {
    let m::Lookup { id, address, port } = lookup;
    if *id == 0 {
        return Err(DecodeError::here("must not be 0")).at("id");
    }
    socket_address(address, *port)
}

pub(super) fn endpoint_address(from: &m::EndpointAddress) -> Result<SocketAddr> {
    let m::EndpointAddress { address, port } = from;
    socket_address(address, *port)
}

fn socket_address(bytes: &[u8], number: u32) -> Result<SocketAddr> {
    let ip = fold_mapped(address(bytes).at("address")?);
    Ok(SocketAddr::new(ip, port(number).at("port")?.get()))
}

fn port(number: u32) -> Result<NonZeroU16> {
    let number = bounded(number, 1, u16::MAX)?;
    NonZeroU16::new(number).ok_or_else(|| DecodeError::here("must not be 0"))
}

/// A Service whose endpoints are to follow.
pub(super) fn service(service: &m::Service) -> Result<ServiceDestination> {
    let m::Service { namespace: _, name: _, port: number, affinity } = service;
    Ok(ServiceDestination {
        service: named(service)?,
        port: port(*number).at("port")?,
        affinity: affinity.as_ref().map(duration).transpose().at("affinity")?,
        endpoints: Arc::from([]),
    })
}

/// A Service of which the name alone is said.
pub(super) fn service_name(service: &m::Service) -> Result<ServiceName> {
    let m::Service { namespace: _, name: _, port, affinity } = service;
    if *port != 0 {
        return Err(DecodeError::here("must not be set")).at("port");
    }
    if affinity.is_some() {
        return Err(DecodeError::here("must not be set")).at("affinity");
    }
    named(service)
}

fn named(service: &m::Service) -> Result<ServiceName> {
    Ok(ServiceName {
        namespace: text(&service.namespace).at("namespace")?,
        name: text(&service.name).at("name")?,
    })
}

/// A text that must not be empty.
fn text(text: &str) -> Result<Arc<str>> {
    if text.is_empty() { Err(DecodeError::missing()) } else { Ok(text.into()) }
}

pub(super) fn endpoint(endpoint: &m::Endpoint) -> Result<Endpoint> {
    let m::Endpoint { address, owner, namespace, mesh } = endpoint;
    Ok(Endpoint {
        address: required("address", address.as_ref(), endpoint_address)?,
        owner: owner.as_str().into(),
        namespace: namespace.as_str().into(),
        mesh: match set(mesh.as_ref()).at("mesh")? {
            m::endpoint::Mesh::Meshed(meshed) => {
                EndpointMesh::Meshed(mesh_endpoint(meshed).at("meshed")?)
            }
            m::endpoint::Mesh::Plaintext(reason) => {
                EndpointMesh::Plaintext(plaintext(*reason).at("plaintext")?)
            }
        },
    })
}

fn mesh_endpoint(meshed: &m::Meshed) -> Result<MeshEndpoint> {
    let m::Meshed { identity, server_name, inbound_port, opaque } = meshed;
    let inbound_port = bounded(*inbound_port, 0, u16::MAX).at("inbound_port")?;
    let inbound_port = NonZeroU16::new(inbound_port);
    if *opaque && inbound_port.is_none() {
        return Err(DecodeError::here("must be set for an opaque port")).at("inbound_port");
    }
    Ok(MeshEndpoint {
        identity: text(identity).at("identity")?,
        server_name: text(server_name).at("server_name")?,
        inbound_port,
        opaque: *opaque,
    })
}

fn plaintext(reason: i32) -> Result<PlaintextReason> {
    match m::PlaintextReason::try_from(reason) {
        Ok(m::PlaintextReason::Unmeshed) => Ok(PlaintextReason::Unmeshed),
        Ok(m::PlaintextReason::Skipped) => Ok(PlaintextReason::Skipped),
        Ok(m::PlaintextReason::ForeignMesh) => Ok(PlaintextReason::ForeignMesh),
        Ok(m::PlaintextReason::ApiServer) => Ok(PlaintextReason::ApiServer),
        Ok(m::PlaintextReason::Unspecified) | Err(_) => unknown(reason),
    }
}
