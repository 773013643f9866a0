//! The rows of a port: one for each thing that may be done and each grant of it.

use super::report::{Access, Need};
use policy_core::{
    Authorization, Condition, Exemption, Origin, Predicate, Protocol, Requirement, Route,
    ServerPolicy, Unmatched,
};
use policy_engine::view::{Shadowed, host, identity, network, request, shadowed, unmatched};
use std::sync::Arc;

/// Who may what on a port, in the order in which grants are tried, and what becomes of requests that
/// no grant is asked about.
pub(super) fn rows(policy: &ServerPolicy) -> (Vec<Access>, Option<String>) {
    if policy.deny.is_some() {
        return (Vec::new(), None);
    }
    let mut access = exempt(policy);
    let shadowed = shadowed(&policy.routes.routes, policy.paths);
    for number in 0..policy.routes.routes.len() {
        access.extend(by_route(policy, number, &shadowed));
    }
    let rest = by_port(policy, &mut access);
    (access, rest)
}

/// What passes without routes being looked at.
fn exempt(policy: &ServerPolicy) -> Vec<Access> {
    let row = |exemption: &Exemption| {
        let what = match &exemption.request {
            // Nothing is read as a request where the protocol is not HTTP.
            Some(_) if !policy.protocol.is_http() => return None,
            Some(wanted) => request(wanted),
            None => "connections".to_owned(),
        };
        let about = Access { what: vec![what], exempt: true, ..nobody() };
        Some(access_by(&exemption.authorization, &about))
    };
    policy.exemptions.iter().filter_map(row).collect()
}

/// What the port's own grants decide.
fn by_port(policy: &ServerPolicy, access: &mut Vec<Access>) -> Option<String> {
    let ServerPolicy { authorizations, protocol, routes, .. } = policy;
    // On a TLS port, a connection without TLS is refused before grants are looked at.
    let connections = if *protocol == Protocol::Tls { "TLS connections" } else { "connections" };
    let connections = policy.admits_bytes().then(|| connections.to_owned());
    let mut decided = |what: Vec<String>, hosts: Vec<String>| {
        access.extend(by_all(authorizations.iter(), &Access { what, hosts, ..nobody() }));
    };
    if !protocol.is_http() {
        decided(connections.into_iter().collect(), Vec::new());
        return None;
    }
    let mut rest = Vec::new();
    for (pattern, rule) in &routes.hosts {
        match rule {
            Unmatched::DefaultRoute => {
                decided(vec!["other requests".to_owned()], vec![host(pattern)]);
            }
            Unmatched::NotFound | Unmatched::Deny(_) => {
                rest.push(format!("on {} {}", host(pattern), unmatched(*rule)));
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
            // There is no table after the last one.
            rest.push(unmatched(Unmatched::NotFound));
            None
        }
    };
    // Whoever speaks no HTTP to a port that is detected is decided by the port's grants, too.
    let what: Vec<String> = requests.into_iter().chain(connections).collect();
    if !what.is_empty() {
        decided(what, Vec::new());
    }
    (!rest.is_empty()).then(|| rest.join("; "))
}

fn by_route(policy: &ServerPolicy, number: usize, shadowed: &[Shadowed]) -> Vec<Access> {
    let Some(route) = policy.routes.routes.get(number) else { return Vec::new() };
    if !policy.protocol.is_http() || route.rules.is_empty() {
        return Vec::new();
    }
    let (what, unreached) = matches(route, number, shadowed);
    let about = |what: Vec<String>| Access {
        route: Some(route.origin.to_string()),
        hosts: route.hosts.iter().map(host).collect(),
        what,
        ..nobody()
    };
    let mut told = Vec::new();
    if matches!(route.origin, Origin::Deny(_)) {
        told.extend((!what.is_empty()).then(|| about(what)));
    } else if !what.is_empty() {
        let server = route.inherits_server.then(|| policy.authorizations.iter());
        let grants = route.authorizations.iter().chain(server.into_iter().flatten());
        told.extend(by_all(grants, &about(what)));
    }
    // Nobody gets anywhere by what an earlier match takes all requests of.
    told.extend((!unreached.is_empty()).then(|| about(unreached)));
    told
}

/// What a route matches, in words, and what of it is never reached.
fn matches(route: &Route, number: usize, shadowed: &[Shadowed]) -> (Vec<String>, Vec<String>) {
    let (mut what, mut unreached) = (Vec::new(), Vec::new());
    for (rule, content) in route.rules.iter().enumerate() {
        let all = content.matches.is_empty().then(|| "requests".to_owned());
        for (place, words) in all.into_iter().chain(content.matches.iter().map(request)).enumerate()
        {
            let is_this = |s: &Shadowed| (s.route, s.rule, s.number) == (number, rule, place);
            if shadowed.iter().any(is_this) {
                unreached.push(format!("{words} (never reached)"));
            } else {
                what.push(words);
            }
        }
    }
    (what, unreached)
}

/// One row for every grant; one that says so where there is none.
fn by_all<'a>(grants: impl Iterator<Item = &'a Arc<Authorization>>, about: &Access) -> Vec<Access> {
    let rows: Vec<Access> = grants.map(|grant| access_by(grant, about)).collect();
    if rows.is_empty() { vec![about.clone()] } else { rows }
}

fn nobody() -> Access {
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

fn access_by(grant: &Authorization, about: &Access) -> Access {
    let (requires, granted) = match &grant.requirement {
        Requirement::Nothing => (Vec::new(), true),
        Requirement::All(conditions) => {
            let empty = conditions.is_empty() || conditions.iter().any(names_nobody);
            (conditions.iter().map(need).collect(), !empty)
        }
    };
    Access {
        requires,
        granted,
        by: Some(grant.source.to_string()),
        audited: grant.audit,
        ..about.clone()
    }
}

/// Whether a condition holds for nobody, because the list of whom it names is empty.
fn names_nobody(condition: &Condition) -> bool {
    match &condition.test {
        Predicate::Network(networks) => networks.is_empty(),
        Predicate::Identity(identities) => identities.is_empty(),
        Predicate::MeshTls | Predicate::TlsPassthrough => false,
    }
}

fn need(condition: &Condition) -> Need {
    let from = condition.source.to_string();
    match &condition.test {
        Predicate::Network(networks) => {
            Need { networks: networks.iter().map(network).collect(), from, ..Need::default() }
        }
        Predicate::Identity(identities) => {
            Need { identities: identities.iter().map(identity).collect(), from, ..Need::default() }
        }
        Predicate::MeshTls => Need { tls: Some("mesh"), from, ..Need::default() },
        Predicate::TlsPassthrough => Need { tls: Some("passthrough"), from, ..Need::default() },
    }
}

#[cfg(test)]
mod tests;
