//! Clients: address and verified identity, fixed for the life of a connection.

use crate::identity::Proof;
use policy_core::{Connection, Facts, Identity, Tls};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The client of a connection, as policy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    address: SocketAddr,
    tls: PeerTls,
    /// The proof of the identity, if it is verified again.
    proof: Option<Arc<Proof>>,
}

/// TLS state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerTls {
    /// No ClientHello was seen, or TLS was not detected.
    Absent,
    /// TLS that is passed through, not terminated here.
    Passthrough,
    /// Terminated here, with the client's identity if it proved exactly one.
    Terminated(Option<Identity>),
}

impl Peer {
    /// Creates a client at `address`, folded so that `::ffff:a.b.c.d` is `a.b.c.d`.
    pub fn new(address: SocketAddr, tls: PeerTls) -> Self {
        let ip = policy_core::fold_mapped(address.ip());
        Self { address: SocketAddr::new(ip, address.port()), tls, proof: None }
    }

    /// Sets the proof of the identity.
    pub fn proved_by(self, proof: Option<Arc<Proof>>) -> Self {
        Self { proof, ..self }
    }

    /// Returns the proof of the identity, if it is verified again.
    pub fn proof(&self) -> Option<&Proof> {
        self.proof.as_deref()
    }

    /// Returns the client's address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the client's address.
    pub fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// Returns the TLS state.
    pub fn tls(&self) -> &PeerTls {
        &self.tls
    }

    /// Returns the identity that the client proved, if any.
    pub fn identity(&self) -> Option<&Identity> {
        match &self.tls {
            PeerTls::Terminated(identity) => identity.as_ref(),
            PeerTls::Absent | PeerTls::Passthrough => None,
        }
    }

    /// Returns true for a member of the mesh, which has proved an identity.
    pub fn is_meshed(&self) -> bool {
        self.identity().is_some()
    }

    /// Returns the TLS state as the evaluator takes it.
    pub fn as_tls(&self) -> Tls<'_> {
        match &self.tls {
            PeerTls::Absent => Tls::Absent,
            PeerTls::Passthrough => Tls::Passthrough,
            PeerTls::Terminated(identity) => Tls::Terminated(identity.as_ref()),
        }
    }

    /// Returns the connection for a decision with these facts.
    pub fn connection<'a>(&'a self, facts: &'a Facts) -> Connection<'a> {
        Connection { client: self.ip(), tls: self.as_tls(), facts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        let peer = Peer::new("[::ffff:10.1.2.3]:80".parse().unwrap(), PeerTls::Absent);
        assert_eq!(peer.ip(), "10.1.2.3".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn passthrough_proves_no_identity() {
        let peer = Peer::new("10.1.2.3:80".parse().unwrap(), PeerTls::Passthrough);
        assert!(!peer.is_meshed());
        assert_eq!(peer.as_tls(), Tls::Passthrough);
    }
}
