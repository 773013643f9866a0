//! How the bytes of a connection get to an endpoint.

use super::settings::{OutboundSettings, Transport};
use policy_core::{Endpoint, EndpointMesh, Identity, MeshEndpoint, PlaintextReason};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;

/// The way of a connection's bytes to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// As they are.
    Plaintext {
        /// The address that is connected to.
        address: SocketAddr,
        /// The reason.
        reason: PlaintextReason,
    },
    /// In mesh TLS.
    Mesh(MeshCarrier),
}

/// The way through mesh TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshCarrier {
    /// The address that is connected to.
    pub address: SocketAddr,
    /// The identity that the server must prove.
    pub identity: Arc<str>,
    /// The server name that is sent.
    pub server_name: Arc<str>,
    /// The port that the transport header names; absent: no header is sent.
    pub header: Option<NonZeroU16>,
}

impl Carrier {
    /// True if there is a carrier to an endpoint.
    pub fn exists(endpoint: &Endpoint, is_own: impl Fn(IpAddr) -> bool) -> bool {
        match &endpoint.mesh {
            EndpointMesh::Plaintext(_) => true,
            EndpointMesh::Meshed(mesh) => {
                // On its own port nobody looks for TLS.
                mesh.inbound_port.is_some() || !(mesh.opaque || is_own(endpoint.address.ip()))
            }
        }
    }

    /// The carrier to an endpoint; `None` if there is none, so that the endpoint cannot be used.
    /// `is_own`: true of this pod's addresses. They are not redirected to the sidecar, so that its
    /// inbound half is reached at its own port alone.
    pub fn to(
        endpoint: &Endpoint,
        settings: &OutboundSettings,
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Option<Self> {
        match &endpoint.mesh {
            EndpointMesh::Plaintext(reason) => {
                Some(Self::Plaintext { address: endpoint.address, reason: *reason })
            }
            EndpointMesh::Meshed(mesh) => {
                let header = mesh.opaque || is_own(endpoint.address.ip());
                mesh_carrier(endpoint.address, mesh, header, settings.transport).map(Self::Mesh)
            }
        }
    }
}

fn mesh_carrier(
    address: SocketAddr,
    mesh: &MeshEndpoint,
    needs_header: bool,
    transport: Transport,
) -> Option<MeshCarrier> {
    let wants_header = match transport {
        Transport::Original => needs_header,
        Transport::Header => true,
    };
    let direct = |inbound: NonZeroU16| {
        let header = NonZeroU16::new(address.port())?;
        Some((SocketAddr::new(address.ip(), inbound.get()), Some(header)))
    };
    let (address, header) = match mesh.inbound_port {
        Some(inbound) if wants_header => direct(inbound)?,
        None if needs_header => return None,
        Some(_) | None => (address, None),
    };
    let (identity, server_name) = (Arc::clone(&mesh.identity), Arc::clone(&mesh.server_name));
    Some(MeshCarrier { address, identity, server_name, header })
}

/// The identity that a name stands for.
pub(super) fn identity(name: &Arc<str>) -> Identity {
    if name.starts_with("spiffe://") {
        Identity::Spiffe(Arc::clone(name))
    } else {
        Identity::Dns(Arc::clone(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn meshed(opaque: bool, inbound_port: Option<u16>) -> Endpoint {
        let inbound_port = inbound_port.and_then(NonZeroU16::new);
        let mesh = MeshEndpoint {
            identity: "web".into(),
            server_name: "sni".into(),
            inbound_port,
            opaque,
        };
        Endpoint {
            address: address("10.1.0.1:80"),
            owner: "".into(),
            namespace: "".into(),
            mesh: EndpointMesh::Meshed(mesh),
        }
    }

    /// The address that a meshed endpoint is connected at, and the port of the header.
    fn mesh(endpoint: &Endpoint, transport: Transport, own: bool) -> Option<(String, Option<u16>)> {
        let settings = OutboundSettings { transport, ..OutboundSettings::default() };
        let carrier = Carrier::to(endpoint, &settings, |_| own)?;
        let Carrier::Mesh(MeshCarrier { address, identity, server_name, header }) = carrier else {
            panic!("never plaintext")
        };
        assert_eq!((&*identity, &*server_name), ("web", "sni"));
        Some((address.to_string(), header.map(NonZeroU16::get)))
    }

    #[test]
    fn the_header_is_for_opaque_endpoints_and_this_pod_unless_it_is_always_sent() {
        use Transport::{Header, Original};
        let (own_port, direct) = (("10.1.0.1:80", None), ("10.1.0.1:4143", Some(80)));
        let cases = [
            (false, Some(4143), Original, false, Some(own_port)),
            (false, Some(4143), Original, true, Some(direct)),
            (true, Some(4143), Original, false, Some(direct)),
            (false, Some(4143), Header, false, Some(direct)),
            (false, None, Header, false, Some(own_port)),
            (false, None, Original, false, Some(own_port)),
            (true, None, Original, false, None),
            (true, None, Header, false, None),
            (false, None, Original, true, None),
        ];
        for (opaque, inbound, transport, own, want) in cases {
            let got = mesh(&meshed(opaque, inbound), transport, own);
            let want = want.map(|(address, header)| (address.to_owned(), header));
            assert_eq!(got, want, "{opaque} {inbound:?} {transport:?} {own}");
            assert_eq!(Carrier::exists(&meshed(opaque, inbound), |_| own), want.is_some());
        }
    }

    #[test]
    fn an_endpoint_outside_the_mesh_is_reached_as_it_is() {
        let reason = PlaintextReason::Skipped;
        let endpoint =
            Endpoint { mesh: EndpointMesh::Plaintext(reason), ..meshed(false, Some(4143)) };
        for own in [true, false] {
            let carrier = Carrier::to(&endpoint, &OutboundSettings::default(), |_| own);
            let want = Carrier::Plaintext { address: endpoint.address, reason };
            assert_eq!(carrier, Some(want));
            assert!(Carrier::exists(&endpoint, |_| own));
        }
    }

    #[test]
    fn names_are_spiffe_ids_or_dns_names() {
        let (spiffe, dns): (Arc<str>, Arc<str>) = ("spiffe://td/a".into(), "a.b".into());
        assert_eq!(identity(&spiffe), Identity::Spiffe(spiffe.clone()));
        assert_eq!(identity(&dns), Identity::Dns(dns.clone()));
    }
}
