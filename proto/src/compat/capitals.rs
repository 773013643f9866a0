//! Capital letters in the host of a request.
//!
//! Linkerd's proxies before their change 4605 compare hosts byte for byte, and no message says how old
//! a proxy is. With a capital letter in its host, a request leaves the table of a tree's host, for one
//! of a wildcard above it or for the routes without hosts. HTTP/2 has no header that a guard could look
//! at. So whatever could permit such a request in another table is denied, unless it is the same table.

use super::table::{Table, closed, covers, of_route};
use policy_core::matching::HostPattern;
use policy_core::policy::{Route, ServerPolicy, Unmatched};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tables that could permit requests for a host of a tree whose host has capital letters, each with
/// such a host.
pub(super) fn reachable(policy: &ServerPolicy) -> BTreeMap<Table<'_>, &HostPattern> {
    let permitting = permitting(policy);
    let mut reachable = BTreeMap::new();
    if permitting.is_empty() {
        return reachable;
    }
    for host in closed(policy).flatten() {
        let reached = permitting.iter().filter(|table| is_reached(**table, host));
        for table in reached.filter(|table| !is_same(policy, **table, host)) {
            reachable.entry(*table).or_insert(host);
        }
    }
    reachable
}

/// The tables in which somebody may be permitted, but for those of one name: no other host leads there.
fn permitting(policy: &ServerPolicy) -> BTreeSet<Table<'_>> {
    let is_granted = !policy.authorizations.is_empty();
    let permits = |route: &&Arc<Route>| {
        let has_grants = !route.authorizations.is_empty() || (route.inherits_server && is_granted);
        has_grants && route.origin.refusal().is_none()
    };
    let mut tables: BTreeSet<Table<'_>> =
        policy.routes.routes.iter().filter(permits).flat_map(|route| of_route(route)).collect();
    if is_granted {
        let hosts = policy.routes.hosts.iter();
        let open = hosts.filter(|(_, then)| **then == Unmatched::DefaultRoute);
        tables.extend(open.map(|(host, _)| Some(host)));
        tables.extend((policy.routes.otherwise == Unmatched::DefaultRoute).then_some(None));
    }
    tables.retain(|table| !matches!(table, Some(HostPattern::Exact(_))));
    tables
}

/// Returns true if a name of `host` with a capital letter is one of the table, byte for byte.
fn is_reached(table: Table<'_>, host: &HostPattern) -> bool {
    let (HostPattern::Exact(name) | HostPattern::Suffix(name)) = host;
    let own = match table {
        None => Some(&**name),
        Some(wider) if !covers(wider, host) => None,
        Some(HostPattern::Exact(wider) | HostPattern::Suffix(wider)) => name.strip_suffix(&**wider),
    };
    own.is_some_and(|own| own.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

/// Returns true if the table has the routes of `host`, and no others.
fn is_same(policy: &ServerPolicy, table: Table<'_>, host: &HostPattern) -> bool {
    closed(policy).any(|own| own == table)
        && policy.routes.routes.iter().all(|route| {
            let tables = of_route(route);
            tables.contains(&table) == tables.contains(&Some(host))
        })
}
