//! The hosts of which trees decide on a Server.

use super::consent::inbound_parents;
use super::origin::is_child;
use crate::incremental::{Context, query};
use crate::index::{Edge, parents};
use crate::query::delegation::{
    ActiveClaims, HoldersOf, IsTreeHost, NamesBelowOf, PathsOf, RootsUnder, TreeHosts, TreeHostsOf,
};
use crate::query::host_paths::HostPaths;
use policy_core::HostPattern;
use policy_crds::resource::InboundRoute;
use policy_crds::{Body, Claims, Invalid, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(HoldersOf, Arc<[ObjectKey]>, holders_of);
query!(RootsUnder, Arc<[(ObjectKey, Vec<HostPattern>)]>, roots_under);
query!(TreeHostsOf, Arc<TreeHosts>, tree_hosts);
query!(IsTreeHost, bool, is_tree_host);

fn holders_of(query: &HoldersOf, cx: &mut Context<'_>) -> Arc<[ObjectKey]> {
    let claims = cx.query(&ActiveClaims(query.0.clone()));
    let roots: BTreeSet<&ObjectKey> = claims.iter().map(|group| &group.root).collect();
    roots.into_iter().cloned().collect()
}

fn roots_under(query: &RootsUnder, cx: &mut Context<'_>) -> Arc<[(ObjectKey, Vec<HostPattern>)]> {
    let wide = HostPattern::Suffix(query.0.clone());
    let mut found = Vec::new();
    for root in cx.edge(Edge::HostBelow(query.0.clone())) {
        let Some(object) = cx.object(root) else { continue };
        let mut hosts = object.claimed_hosts();
        hosts.retain(|own| own.overlaps(&wide));
        if !hosts.is_empty() {
            found.push((root.clone(), hosts));
        }
    }
    found.into()
}

fn tree_hosts(query: &TreeHostsOf, cx: &mut Context<'_>) -> Arc<TreeHosts> {
    let (bound, mentioned) = mentioned(cx, &query.0);
    if !bound {
        return Arc::default();
    }
    let hosts = with_hosts_below(cx, &query.0, mentioned);
    Arc::new(TreeHosts { bound, hosts: without_covered(cx, hosts) })
}

/// One answer for each host of a tree, so that a further host of a Server leaves the others alone.
fn is_tree_host(query: &IsTreeHost, cx: &mut Context<'_>) -> bool {
    cx.query(&TreeHostsOf(query.server.clone())).hosts.contains(&query.host)
}

/// True if an object of its namespace names a Server in a tree, valid or not; and the hosts that
/// these objects name. Only they can name the Server, so that strangers cannot add hosts to it.
fn mentioned(cx: &mut Context<'_>, server: &ObjectKey) -> (bool, BTreeSet<HostPattern>) {
    let mut serving = cx.edge(Edge::Serves(server.clone()));
    serving.extend(cx.edge(Edge::AnyServes(server.namespace.clone())));
    let mut hosts = BTreeSet::new();
    let mut bound = !serving.is_empty();
    for object in serving.into_iter().filter_map(|key| cx.object(key)).collect::<Vec<_>>() {
        hosts.extend(hosts_of(object));
    }
    for key in cx.edge(Edge::Parent(server.clone(), server.namespace.clone())) {
        let Some(object) = cx.object(key) else { continue };
        if is_child(parents(object), key) {
            bound = true;
            hosts.extend(hosts_of(object));
            hosts.extend(handed_to(cx, object, server));
        }
    }
    (bound, hosts)
}

/// The hosts below the wildcards of a route that its delegators name, and by which a tree reaches the
/// Server.
fn handed_to(cx: &mut Context<'_>, route: &Object, server: &ObjectKey) -> Vec<HostPattern> {
    let own = hosts_of(route);
    let mut found = Vec::new();
    for parent in inbound_parents(route) {
        let Some(delegator) = cx.object(&parent) else { continue };
        let below =
            |host: &HostPattern| !own.contains(host) && own.iter().any(|wide| wide.covers(host));
        let below = hosts_of(delegator).into_iter().filter(below);
        found.extend(below.filter(|host| is_reached(&cx.query(&PathsOf(host.clone())), server)));
    }
    found
}

/// The hosts that an object has, consents to, or has as a route. An invalid root has those that can be
/// read, and those of the claims that it keeps.
pub(super) fn hosts_of(object: &Object) -> Vec<HostPattern> {
    match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => own_hosts(route),
        Body::Valid(Resource::Route(route)) => route.hostnames.clone(),
        Body::Valid(Resource::HttpRouteGroup(group)) => {
            group.delegated_from.iter().map(|consent| consent.host.clone()).collect()
        }
        Body::Invalid(Invalid { claims: Claims::InboundRoute { hosts, .. }, .. }) => {
            let mut kept = object.claimed_hosts();
            kept.retain(|host| !hosts.contains(host));
            hosts.iter().cloned().chain(kept).collect()
        }
        Body::Invalid(Invalid { claims: Claims::Route(claims), .. }) => claims.hostnames.clone(),
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    }
}

fn own_hosts(route: &InboundRoute) -> Vec<HostPattern> {
    let own = route.virtual_host.iter().flat_map(|own| &own.hosts);
    let consented = route.delegated_from.iter().map(|consent| &consent.host);
    own.chain(consented).cloned().collect()
}

/// Hosts with those below the wildcards by which a tree reaches the Server: what another root has there
/// is not the wildcard's. Below other wildcards everything is denied, whatever is claimed there; a
/// Server must not learn it.
fn with_hosts_below(
    cx: &mut Context<'_>,
    server: &ObjectKey,
    mut hosts: BTreeSet<HostPattern>,
) -> BTreeSet<HostPattern> {
    for host in hosts.clone() {
        let HostPattern::Suffix(suffix) = &host else { continue };
        let suffix = suffix.clone();
        if !is_reached(&cx.query(&PathsOf(host)), server) {
            continue;
        }
        hosts.extend(cx.query(&NamesBelowOf(suffix)).listed.iter().cloned());
    }
    hosts
}

/// True if a tree has a rule that the Server answers.
fn is_reached(paths: &HostPaths, server: &ObjectKey) -> bool {
    paths.on_server(server).answered().next().is_some()
}

/// Hosts without those that nobody holds and that are below a wildcard that somebody holds: its tree
/// decides there.
fn without_covered(cx: &mut Context<'_>, hosts: BTreeSet<HostPattern>) -> BTreeSet<HostPattern> {
    let held = |host: &&HostPattern| !cx.query(&HoldersOf((*host).clone())).is_empty();
    let held: BTreeSet<HostPattern> = hosts.iter().filter(held).cloned().collect();
    let covered = |host: &HostPattern| {
        let wide = held.iter().filter(|wide| matches!(wide, HostPattern::Suffix(_)));
        wide.into_iter().any(|wide| wide != host && wide.covers(host))
    };
    hosts.into_iter().filter(|host| held.contains(host) || !covered(host)).collect()
}
