//! The tables of hosts, as trees use them.

use policy_core::decision::Denied;
use policy_core::matching::HostPattern;
use policy_core::policy::{Route, RouteTable, ServerPolicy, Unmatched};
use std::collections::BTreeSet;

/// The result where no rule of a tree's host matches.
pub(super) const CLOSED: Unmatched = Unmatched::Deny(Denied::NotDelegated);

/// A host's table, or that of routes without hosts.
pub(super) type Table<'p> = Option<&'p HostPattern>;

/// The tables of trees, which may have no routes.
pub(super) fn closed(policy: &ServerPolicy) -> impl Iterator<Item = Table<'_>> {
    let RouteTable { routes: _, hosts, otherwise } = &policy.routes;
    let hosts = hosts.iter().filter(|(_, then)| **then == CLOSED).map(|(host, _)| Some(host));
    hosts.chain((*otherwise == CLOSED).then_some(None))
}

/// The tables of a route, each once.
pub(super) fn of_route(route: &Route) -> BTreeSet<Table<'_>> {
    if route.hosts.is_empty() { [None].into() } else { route.hosts.iter().map(Some).collect() }
}

/// Returns true if the names of a table are among those of a wider one.
pub(super) fn covers(wider: &HostPattern, host: &HostPattern) -> bool {
    match (wider, host) {
        (HostPattern::Exact(_), _) => false,
        (HostPattern::Suffix(_), HostPattern::Exact(name)) => wider.admits(name),
        (HostPattern::Suffix(wider), HostPattern::Suffix(host)) => {
            host.strip_suffix(&**wider).is_some_and(|head| head.ends_with('.'))
        }
    }
}
