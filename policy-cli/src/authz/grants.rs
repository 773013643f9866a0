//! The rows of a port: one for each thing that may be done and each grant of it.

use super::{Access, Need};
use policy_controller::view::{host, identity, network, request, unmatched};
use policy_core::{Authorization, Condition, Requirement, Route, ServerPolicy, Test, Unmatched};
use std::sync::Arc;

/// What passes without routes being looked at.
pub(super) fn exempt(policy: &ServerPolicy, access: &mut Vec<Access>) {
    for exemption in &policy.exemptions {
        let what = exemption.request.as_ref().map_or("connections".to_owned(), request);
        let grant = access_by(&exemption.authorization);
        access.push(Access { what: vec![what], exempt: true, ..grant });
    }
}

/// Who may what by the grants of a port and its routes, and what becomes of the rest.
pub(super) fn granted(policy: &ServerPolicy, access: &mut Vec<Access>) -> Option<String> {
    let plain = |what: &str, access: &mut Vec<Access>| {
        access.extend(by_all(policy.authorizations.iter(), vec![what.to_owned()], None));
    };
    if !policy.protocol.is_http() {
        plain("connections", access);
        return None;
    }
    let routes = &policy.routes.routes;
    for route in routes {
        access.extend(by_route(policy, route));
    }
    let decided = policy.routes.otherwise == Unmatched::DefaultRoute;
    if decided {
        plain(if routes.is_empty() { "requests" } else { "other requests" }, access);
    }
    if policy.protocol.allows_opaque() && !decided {
        // Whoever speaks no HTTP to a port that is detected is decided by the port's grants.
        plain("connections", access);
    }
    let mut rest: Vec<String> = policy
        .routes
        .hosts
        .iter()
        .map(|(pattern, rule)| format!("on {} {}", host(pattern), unmatched(*rule)))
        .collect();
    if !decided {
        rest.push(unmatched(policy.routes.otherwise));
    }
    (!rest.is_empty()).then(|| rest.join("; "))
}

fn by_route(policy: &ServerPolicy, route: &Route) -> Vec<Access> {
    let matches = route.rules.iter().flat_map(|rule| {
        let all = rule.matches.is_empty().then(|| "requests".to_owned());
        all.into_iter().chain(rule.matches.iter().map(request))
    });
    let server = route.inherits_server.then(|| policy.authorizations.iter());
    let grants = route.authorizations.iter().chain(server.into_iter().flatten());
    by_all(grants, matches.collect(), Some(route))
}

/// One row for every grant; one that says so where there is none.
fn by_all<'a>(
    grants: impl Iterator<Item = &'a Arc<Authorization>>,
    what: Vec<String>,
    route: Option<&Route>,
) -> Vec<Access> {
    let complete = |access: Access| Access {
        route: route.map(|route| route.origin.to_string()),
        hosts: route.map(|route| route.hosts.iter().map(host).collect()).unwrap_or_default(),
        what: what.clone(),
        ..access
    };
    let mut rows: Vec<Access> = grants.map(|grant| complete(access_by(grant))).collect();
    if rows.is_empty() {
        rows.push(complete(nobody()));
    }
    rows
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

fn access_by(grant: &Authorization) -> Access {
    let (requires, granted) = match &grant.requirement {
        Requirement::Nothing => (Vec::new(), true),
        Requirement::All(conditions) => {
            (conditions.iter().map(need).collect(), !conditions.is_empty())
        }
    };
    Access {
        requires,
        granted,
        by: Some(grant.source.to_string()),
        audited: grant.audit,
        ..nobody()
    }
}

fn need(condition: &Condition) -> Need {
    let from = condition.source.to_string();
    match &condition.test {
        Test::Network(networks) => {
            Need { networks: networks.iter().map(network).collect(), from, ..Need::default() }
        }
        Test::Identity(identities) => {
            Need { identities: identities.iter().map(identity).collect(), from, ..Need::default() }
        }
        Test::MeshTls => Need { tls: Some("mesh"), from, ..Need::default() },
        Test::TlsPassthrough => Need { tls: Some("passthrough"), from, ..Need::default() },
    }
}
