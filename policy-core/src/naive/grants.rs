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
            !conditions.is_empty()
                && conditions.iter().all(|condition| is_met(&condition.test, subject))
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
    let blocks = match &network.term {
        NetworkTerm::Net(net) => std::slice::from_ref(net),
        NetworkTerm::Symbol(NetworkSymbol::NodeLocal) => &connection.facts.node_local,
        NetworkTerm::Symbol(NetworkSymbol::Cluster) => &connection.facts.cluster,
    };
    let has_client = |block: &IpNet| contains(block, connection.client);
    blocks.iter().any(has_client) && !network.except.iter().any(has_client)
}

/// Returns true if `address` begins with the network bits of `block` and is of its family.
fn contains(block: &IpNet, address: IpAddr) -> bool {
    let counts = usize::from(block.prefix_len());
    match (block.addr(), address) {
        (IpAddr::V4(own), IpAddr::V4(its)) => begin_alike(&own.octets(), &its.octets(), counts),
        (IpAddr::V6(own), IpAddr::V6(its)) => begin_alike(&own.octets(), &its.octets(), counts),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// Returns true if the first bits of two addresses are the same.
fn begin_alike(own: &[u8], its: &[u8], counts: usize) -> bool {
    let bits = |octet: &u8| [128, 64, 32, 16, 8, 4, 2, 1].map(|bit| octet & bit != 0);
    let mut pairs = own.iter().flat_map(bits).zip(its.iter().flat_map(bits)).take(counts);
    pairs.all(|(own, its)| own == its)
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
