//! Matches that cannot be read, for clients that cannot let their routes come before all others.

use crate::unsupported::{Part, Report};
use policy_core::authorization::AuthorizationSet;
use policy_core::name::Origin;
use policy_core::policy::{Route, RouteKind, RouteTable, ServerPolicy, Unmatched};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the policy in which one route denies every request that is not exempt, because another
/// route might permit what a match that cannot be read was meant for. `None` if all matches can be
/// read.
pub(crate) fn closed(policy: &ServerPolicy, report: &mut Report) -> Option<ServerPolicy> {
    let routes = policy.routes.routes.iter();
    let unreadable = routes.filter(|route| matches!(route.origin, Origin::Unreadable(_)));
    let mut found = false;
    for route in unreadable {
        found = true;
        let message = "has a match that cannot be read: every request of the port is denied";
        report.denied(Part::Route(route.origin.clone()), message);
    }
    let otherwise = Unmatched::NotFound;
    let routes = RouteTable { routes: vec![denial()], hosts: BTreeMap::new(), otherwise };
    found.then(|| ServerPolicy { routes, ..policy.clone() })
}

/// A route that denies everything.
fn denial() -> Arc<Route> {
    Arc::new(Route {
        origin: Origin::Guard,
        kind: RouteKind::Http,
        created: None,
        label: None,
        hosts: std::iter::empty().collect(),
        rules: std::iter::once(policy_core::policy::Rule {
            matches: std::iter::empty().collect(),
            effects: std::iter::empty().collect(),
        })
        .collect(),
        authorizations: AuthorizationSet::default(),
        inherits_server: false,
        withheld: std::iter::empty().collect(),
    })
}
