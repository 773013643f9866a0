//! Requests of the kubelet that a port refuses, so that it restarts the container or keeps it out of its
//! Services.

use ipnet::IpNet;
use policy_core::explain::explain;
use policy_core::{
    Authorization, Connection, Decision, Denied, Facts, NetworkTerm, PathHandling, Predicate,
    Protocol, RequestView, Requirement, ServerPolicy, Tls, canonical_path,
};
use policy_crds::resource::{Probe, ProbeAction};
use std::net::{IpAddr, Ipv4Addr};

/// The address of a node that is not known. It is in a documentation network (RFC 5737), which no policy
/// names by chance.
const UNKNOWN_NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Returns the reason why a port refuses a request of the kubelet; `None` if it may admit it. Where the
/// address of the node is not known, a port refuses what it refuses from every network that its policy
/// names.
pub fn refusal(probe: &Probe, policy: &ServerPolicy, facts: &Facts) -> Option<Denied> {
    // The injector rewrites probes by connection, and a connection alone is refused by nothing that could
    // be told apart from the application.
    if probe.action == ProbeAction::TcpSocket || !probe.reaches_the_pod() {
        return None;
    }
    let mut refused = None;
    for address in addresses(policy, facts) {
        let node_local = vec![address.into()];
        let facts = Facts { node_local, ..facts.clone() };
        refused = Some(decided(&probe.action, policy, address, &facts)?);
    }
    refused
}

/// The addresses that the kubelet may have.
fn addresses(policy: &ServerPolicy, facts: &Facts) -> Vec<IpAddr> {
    let known: Vec<IpAddr> = facts.node_local.iter().map(ipnet::IpNet::addr).collect();
    if !known.is_empty() {
        return known;
    }
    let of_routes = policy.routes.routes.iter().flat_map(|route| route.authorizations.iter());
    let exempt = policy.exemptions.iter().map(|exemption| &exemption.authorization);
    let grants = policy.authorizations.iter().chain(of_routes).chain(exempt);
    let mut all: Vec<IpAddr> = grants.flat_map(|grant| named(grant, facts)).collect();
    all.push(UNKNOWN_NODE);
    all.sort();
    all.dedup();
    all
}

/// Addresses of a network, one of which is in no exception, if there is one: its first, and those after
/// each exception.
fn admitted(net: IpNet, except: &[IpNet]) -> impl Iterator<Item = IpAddr> {
    let after = |except: &IpNet| match except.broadcast() {
        IpAddr::V4(last) => {
            u32::from(last).checked_add(1).map(|next| IpAddr::from(next.to_be_bytes()))
        }
        IpAddr::V6(last) => {
            u128::from(last).checked_add(1).map(|next| IpAddr::from(next.to_be_bytes()))
        }
    };
    let all = std::iter::once(net.addr()).chain(except.iter().filter_map(after));
    let found: Vec<IpAddr> = all
        .filter(|address| net.contains(address))
        .filter(|address| !except.iter().any(|except| except.contains(address)))
        .collect();
    found.into_iter()
}

/// One address of each network that a grant names.
fn named(grant: &Authorization, facts: &Facts) -> Vec<IpAddr> {
    let Requirement::All(conditions) = &grant.requirement else { return Vec::new() };
    let mut found = Vec::new();
    for condition in conditions.iter() {
        let Predicate::Network(networks) = &condition.test else { continue };
        for network in networks {
            match network.term {
                NetworkTerm::Net(net) => found.extend(admitted(net, &network.except)),
                NetworkTerm::Symbol(symbol) => {
                    found.extend(facts.resolve(symbol).iter().map(ipnet::IpNet::addr));
                }
            }
        }
    }
    found
}

/// The reason why a request from this address is refused. The protocols are those of docs/proxy.md, *What
/// is spoken*.
fn decided(
    action: &ProbeAction,
    policy: &ServerPolicy,
    client: IpAddr,
    facts: &Facts,
) -> Option<Denied> {
    let tls = match (action, policy.protocol) {
        (ProbeAction::HttpGet { tls: true, .. }, Protocol::Detect { .. } | Protocol::Tls) => {
            Tls::Passthrough
        }
        _ => Tls::Absent,
    };
    let connection = Connection { client, tls, facts };
    let as_bytes = || denied(explain(policy, &connection, None).decision);
    let over_tls = matches!(action, ProbeAction::HttpGet { tls: true, .. });
    if over_tls || !policy.protocol.is_http() {
        return as_bytes();
    }
    let speaks_http2 = *action == ProbeAction::Grpc;
    match policy.protocol {
        Protocol::Http1 if speaks_http2 => return Some(Denied::ProtocolMismatch),
        Protocol::Http2 | Protocol::Grpc if !speaks_http2 => return Some(Denied::ProtocolMismatch),
        Protocol::Detect { .. }
        | Protocol::Http1
        | Protocol::Http2
        | Protocol::Grpc
        | Protocol::Opaque
        | Protocol::Tls => {}
    }
    let (method, path) = match action {
        ProbeAction::HttpGet { path, .. } => (http::Method::GET, &**path),
        ProbeAction::Grpc | ProbeAction::TcpSocket => {
            (http::Method::POST, "/grpc.health.v1.Health/Check")
        }
    };
    if policy.deny.is_none()
        && policy.paths == PathHandling::Canonical
        && let Err(fault) = canonical_path(path)
    {
        return Some(Denied::Target(fault));
    }
    let host = facts.pod_addresses.first().copied().unwrap_or(UNKNOWN_NODE).to_string();
    let (host, headers) = (Some(host.as_str()), http::HeaderMap::new());
    let request = RequestView { method: &method, host, path, query: None, headers: &headers };
    denied(explain(policy, &connection, Some(&request)).decision)
}

fn denied(decision: Decision) -> Option<Denied> {
    match decision {
        Decision::Permit(_) => None,
        Decision::Deny(denial) => Some(denial.reason),
    }
}
