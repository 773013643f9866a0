//! Evaluation of grants.

use super::conditions::has_segment;
use crate::authorization::{Authorization, Predicate, Requirement};
use crate::identity::{Identity, IdentityMatch};
use crate::network::{NetworkMatch, NetworkSymbol, NetworkTerm};
use crate::request::{Connection, Subject, Tls};
use ipnet::IpNet;
use std::net::IpAddr;

/// Returns true if `grant` holds for `subject`.
pub(super) fn holds(grant: &Authorization, subject: &Subject<'_>) -> bool {
    match &grant.requirement {
        Requirement::Nothing => true,
        Requirement::All(conditions) => {
            let met = conditions.iter().filter(|condition| is_met(&condition.test, subject));
            !conditions.is_empty() && met.count() == conditions.len()
        }
    }
}

fn is_met(test: &Predicate, subject: &Subject<'_>) -> bool {
    let connection = subject.connection;
    match (test, connection.tls) {
        (Predicate::Network(networks), _) => networks.iter().any(|one| is_inside(one, connection)),
        (Predicate::MeshTls, Tls::Terminated(_)) => true,
        (Predicate::Identity(names), Tls::Terminated(Some(identity))) => {
            names.iter().any(|name| is_named(identity, name))
        }
        (Predicate::TlsPassthrough, Tls::Passthrough) => true,
        (Predicate::MeshTls | Predicate::Identity(_) | Predicate::TlsPassthrough, _) => false,
        (Predicate::Segment(condition), _) => match subject.request {
            Some(request) => has_segment(condition, request.path),
            None => false,
        },
    }
}

fn is_inside(network: &NetworkMatch, connection: &Connection<'_>) -> bool {
    let blocks = match network.term {
        NetworkTerm::Net(net) => vec![net],
        NetworkTerm::Symbol(NetworkSymbol::NodeLocal) => connection.facts.node_local.clone(),
        NetworkTerm::Symbol(NetworkSymbol::Cluster) => connection.facts.cluster.clone(),
    };
    let has_client = |block: &IpNet| contains(block, connection.client);
    blocks.iter().any(has_client) && !network.except.iter().any(has_client)
}

/// Returns true if `address` begins with the network bits of `block` and is of its family.
fn contains(block: &IpNet, address: IpAddr) -> bool {
    let counts = usize::from(block.prefix_len());
    let pairs = bits(block.addr()).into_iter().zip(bits(address));
    block.addr().is_ipv4() == address.is_ipv4() && pairs.take(counts).all(|(own, its)| own == its)
}

fn bits(address: IpAddr) -> Vec<bool> {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let bits = |octet: u8| [128, 64, 32, 16, 8, 4, 2, 1].map(|bit| octet & bit != 0);
    octets.into_iter().flat_map(bits).collect()
}

fn is_named(identity: &Identity, name: &IdentityMatch) -> bool {
    match (name, identity) {
        (IdentityMatch::Any, _) => true,
        (IdentityMatch::Exact(name), Identity::Dns(own) | Identity::Spiffe(own)) => name == own,
        (IdentityMatch::Suffix(suffix), Identity::Dns(own)) => {
            own.match_indices('.').any(|(dot, _)| {
                let after = own.get(dot.saturating_add(1)..);
                dot > 0 && after == Some(&**suffix)
            })
        }
        (IdentityMatch::Suffix(_), Identity::Spiffe(_)) => false,
    }
}
