//! Rows of a port: one for each kind of request and each grant of it.

use super::report::{Access, ClientRequirement};
use super::requests::matches;
use crate::probes::RefusedProbe;
use policy_core::{
    Authorization, Condition, Exemption, Predicate, Protocol, Requirement, Scope, SegmentOperator,
    ServerPolicy, Unmatched,
};
use policy_engine::view::{Shadowed, unmatched};
use std::sync::Arc;

/// Returns the access rows of a port in the order in which grants are evaluated, and the fate of
/// requests that no grant covers.
pub(super) fn rows(policy: &ServerPolicy, shadowed: &[Shadowed]) -> (Vec<Access>, Option<String>) {
    if policy.deny.is_some() {
        return (Vec::new(), None);
    }
    let mut access = exempt(policy);
    for number in 0..policy.routes.routes.len() {
        access.extend(route_rows(policy, number, shadowed));
    }
    let rest = port_rows(policy, &mut access);
    (access, rest)
}

/// Exempt traffic, which is admitted before routes are evaluated.
fn exempt(policy: &ServerPolicy) -> Vec<Access> {
    let row = |exemption: &Exemption| {
        let what = match &exemption.request {
            // Other protocols than HTTP have no requests.
            Some(_) if !policy.protocol.is_http() => return None,
            Some(wanted) => wanted.to_string(),
            None => "connections".to_owned(),
        };
        let about = Access { what: vec![what], exempt: true, ..no_access() };
        Some(access_row(&exemption.authorization, &about))
    };
    policy.exemptions.iter().filter_map(row).collect()
}

/// Rows decided by the grants of the port itself.
fn port_rows(policy: &ServerPolicy, access: &mut Vec<Access>) -> Option<String> {
    let ServerPolicy { authorizations, protocol, routes, .. } = policy;
    // On a TLS port, a connection without TLS is denied before grants are evaluated.
    let connections = if *protocol == Protocol::Tls { "TLS connections" } else { "connections" };
    let connections = policy.admits_bytes().then(|| connections.to_owned());
    let mut decided = |what: Vec<String>, hosts: Vec<String>| {
        access.extend(grant_rows(authorizations.iter(), &Access { what, hosts, ..no_access() }));
    };
    if !protocol.is_http() {
        decided(connections.into_iter().collect(), Vec::new());
        return None;
    }
    let mut rest = Vec::new();
    for (pattern, rule) in &routes.hosts {
        match rule {
            Unmatched::DefaultRoute => {
                decided(vec!["other requests".to_owned()], vec![pattern.to_string()]);
            }
            Unmatched::NotFound | Unmatched::Deny(_) => {
                rest.push(format!("on {pattern} {}", unmatched(*rule)));
            }
            Unmatched::FallThrough => {}
        }
    }
    let requests = if routes.routes.is_empty() { "requests" } else { "other requests" };
    let requests = match routes.otherwise {
        Unmatched::DefaultRoute => Some(requests.to_owned()),
        Unmatched::NotFound | Unmatched::Deny(_) => {
            rest.push(unmatched(routes.otherwise));
            None
        }
        Unmatched::FallThrough => {
            // The last table has no successor.
            rest.push(unmatched(Unmatched::NotFound));
            None
        }
    };
    // On a port with protocol detection, clients that speak no HTTP are decided by the port's
    // grants, too.
    let what: Vec<String> = requests.into_iter().chain(connections).collect();
    if !what.is_empty() {
        decided(what, Vec::new());
    }
    (!rest.is_empty()).then(|| rest.join("; "))
}

fn route_rows(policy: &ServerPolicy, number: usize, shadowed: &[Shadowed]) -> Vec<Access> {
    let Some(route) = policy.routes.routes.get(number) else { return Vec::new() };
    if !policy.protocol.is_http() || route.rules.is_empty() {
        return Vec::new();
    }
    let (what, unreached) = matches(route, number, shadowed);
    let about = |what: Vec<String>| Access {
        route: Some(route.origin.to_string()),
        hosts: route.hosts.iter().map(ToString::to_string).collect(),
        what,
        ..no_access()
    };
    let mut rows = Vec::new();
    if route.origin.refusal().is_some() {
        rows.extend((!what.is_empty()).then(|| about(what)));
    } else if !what.is_empty() {
        let server = route.inherits_server.then(|| policy.authorizations.iter());
        let grants = route.authorizations.iter().chain(server.into_iter().flatten());
        rows.extend(grant_rows(grants, &about(what)));
    }
    // An earlier match takes all of these requests, so this route admits no client for them.
    rows.extend((!unreached.is_empty()).then(|| about(unreached)));
    rows
}

/// One row per grant, or a single row without a grant if there are none.
fn grant_rows<'a>(
    grants: impl Iterator<Item = &'a Arc<Authorization>>,
    about: &Access,
) -> Vec<Access> {
    let rows: Vec<Access> = grants.map(|grant| access_row(grant, about)).collect();
    if rows.is_empty() { vec![about.clone()] } else { rows }
}

fn no_access() -> Access {
    Access {
        route: None,
        hosts: Vec::new(),
        what: Vec::new(),
        requires: Vec::new(),
        granted: false,
        by: None,
        audited: false,
        exempt: false,
    }
}

/// Returns the row of a request of the kubelet that is refused.
pub(super) fn refused_row(refused: &RefusedProbe) -> Access {
    let what = format!("{} (refused: {})", refused.words(), refused.reason);
    Access { what: vec![what], ..no_access() }
}

/// Returns the row of one grant, whatever it is about.
pub(crate) fn grant_row(grant: &Authorization) -> Access {
    access_row(grant, &no_access())
}

fn access_row(grant: &Authorization, about: &Access) -> Access {
    let (requires, granted) = match &grant.requirement {
        Requirement::Nothing => (Vec::new(), true),
        Requirement::All(conditions) => {
            let empty = conditions.is_empty() || conditions.iter().any(matches_no_client);
            (conditions.iter().map(requirement).collect(), !empty)
        }
    };
    let Access { route, hosts, what, exempt, .. } = about.clone();
    // A condition on the request holds for no connection.
    let (of_connections, of_requests): (Vec<_>, Vec<_>) =
        what.into_iter().partition(|what| what == "connections" || what == "TLS connections");
    let (what, granted) = match grant.scope() {
        Scope::Connection => ([of_requests, of_connections].concat(), granted),
        Scope::Request if of_requests.is_empty() && !of_connections.is_empty() => {
            (of_connections, false)
        }
        Scope::Request => (of_requests, granted),
    };
    let (by, audited) = (Some(grant.source.to_string()), grant.audit);
    Access { route, hosts, what, requires, granted, by, audited, exempt }
}

/// True if a condition can never hold because its list of networks or identities is empty.
fn matches_no_client(condition: &Condition) -> bool {
    match &condition.test {
        Predicate::Network(networks) => networks.is_empty(),
        Predicate::Identity(identities) => identities.is_empty(),
        Predicate::Segment(condition) => {
            condition.operator == SegmentOperator::In && condition.values().is_empty()
        }
        Predicate::MeshTls | Predicate::TlsPassthrough => false,
    }
}

pub(crate) fn requirement(condition: &Condition) -> ClientRequirement {
    let from = condition.source.to_string();
    match &condition.test {
        Predicate::Network(networks) => ClientRequirement {
            networks: networks.iter().map(ToString::to_string).collect(),
            from,
            ..ClientRequirement::default()
        },
        Predicate::Identity(identities) => ClientRequirement {
            identities: identities.iter().map(ToString::to_string).collect(),
            from,
            ..ClientRequirement::default()
        },
        Predicate::MeshTls => {
            ClientRequirement { tls: Some("mesh"), from, ..ClientRequirement::default() }
        }
        Predicate::TlsPassthrough => {
            ClientRequirement { tls: Some("passthrough"), from, ..ClientRequirement::default() }
        }
        Predicate::Segment(condition) => {
            let request = Some(condition.to_string());
            ClientRequirement { request, from, ..ClientRequirement::default() }
        }
    }
}

#[cfg(test)]
mod tests;
