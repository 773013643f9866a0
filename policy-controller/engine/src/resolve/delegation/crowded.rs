//! The wildcard hostnames of a Server's routes below which others claimed more hosts than are closed one by one.
//!
//! A Server has each host that is closed, so all its routes have one bound together. Beyond it the hostname with
//! the most of them is closed as a whole, then the next.

use super::hostnames::{MAX_CLOSED_BELOW, foreign, is_decided};
use super::origin::is_child;
use super::server_hosts::hosts_of;
use crate::incremental::{Context, query};
use crate::index::parents;
use crate::query::delegation::TreeHostsOf;
use crate::query::hostnames::CrowdedHostnamesOf;
use crate::resolve::reference::{routes_naming, routes_that_may_name};
use policy_core::HostPattern;
use policy_crds::{Body, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

query!(CrowdedHostnamesOf, Arc<BTreeSet<HostPattern>>, crowded);

fn crowded(query: &CrowdedHostnamesOf, cx: &mut Context<'_>) -> Arc<BTreeSet<HostPattern>> {
    let server = &query.0;
    let trees = cx.query(&TreeHostsOf(server.clone()));
    let mut routes = routes_naming(cx, server);
    routes.extend(routes_that_may_name(cx, server));
    routes.retain(|route| route.namespace == server.namespace);
    let mut below: BTreeMap<HostPattern, BTreeSet<HostPattern>> = BTreeMap::new();
    for object in routes.into_iter().filter_map(|key| cx.object(key)).collect::<Vec<_>>() {
        for host in wildcards(object).into_iter().filter(|host| !is_decided(&trees, host)) {
            let found = foreign(cx, &host, server, &object.meta);
            if !found.is_lost && !found.below.is_empty() {
                let closed = found.below.into_iter().filter(|host| !is_decided(&trees, host));
                below.entry(host).or_default().extend(closed);
            }
        }
    }
    Arc::new(beyond(below, MAX_CLOSED_BELOW))
}

/// The wildcard hostnames of a route that is no child of a tree. A child has its hosts through the tree.
fn wildcards(route: &Object) -> Vec<HostPattern> {
    if matches!(route.body, Body::Valid(_)) && is_child(parents(route), &route.meta.key) {
        return Vec::new();
    }
    let mut hosts = hosts_of(route);
    hosts.retain(|host| matches!(host, HostPattern::Suffix(_)));
    hosts
}

/// The hostnames without which the others have no more hosts below them than this, the largest first.
fn beyond(
    mut below: BTreeMap<HostPattern, BTreeSet<HostPattern>>,
    most: usize,
) -> BTreeSet<HostPattern> {
    let mut closed = BTreeSet::new();
    while below.values().flatten().collect::<BTreeSet<_>>().len() > most {
        let largest =
            below.iter().max_by_key(|(_, hosts)| hosts.len()).map(|(host, _)| host.clone());
        let Some(largest) = largest else { break };
        below.remove(&largest);
        closed.insert(largest);
    }
    closed
}
