//! The routes that trees give a Server.
//!
//! On a host of a tree nothing counts but the trees of that host. A path that belongs to another
//! Server, or to nobody, is denied, so that neither a shorter path nor a route for every host permits
//! it.

use super::kept::{Kept, beside};
use super::tree::{KIND, delegated_path};
use crate::incremental::{Context, query};
use crate::query::delegation::{
    ConstrainedRoutesOf, DelegatedRoutes, DelegatedRoutesOf, DelegationTree, HoldersOf, HostPaths,
    IsTreeHost, NodeEffect, PathTable, PathsOf, TreeHostsOf, TreeNode, TreeOf, TreeRoutes,
    TreeRoutesOf,
};
use crate::query::grant::RouteGrants;
use crate::query::policy::ServerAuthorizationsOf;
use crate::resolve::effects::effects_on;
use policy_core::{
    Authorization, AuthorizationSet, Condition, Filter, HostPattern, OneOrMany, Origin,
    PathPattern, RequestMatch, Requirement, Route, RouteKind, Rule,
};
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

query!(TreeRoutesOf, Arc<TreeRoutes>, of_tree);
query!(ConstrainedRoutesOf, Arc<[Arc<Route>]>, constrained_routes);
query!(DelegatedRoutesOf, Arc<DelegatedRoutes>, delegated);

/// A rule that a Server answers, by its place; and, of a route, what others have inside its path. They
/// may differ from host to host.
type Answered = (usize, BTreeSet<Kept>);

fn delegated(query: &DelegatedRoutesOf, cx: &mut Context<'_>) -> Arc<DelegatedRoutes> {
    let server = &query.0;
    let hosts = cx.query(&TreeHostsOf(server.clone()));
    let mut roots: BTreeSet<ObjectKey> = BTreeSet::new();
    for host in &hosts.hosts {
        roots.extend(cx.query(&HoldersOf(host.clone())).iter().cloned());
    }
    let mut parts = Vec::new();
    for root in roots {
        let part = cx.query(&TreeRoutesOf { root: root.clone(), server: server.clone() });
        if !part.answered.is_empty() || !part.denied.is_empty() {
            parts.push((root, part));
        }
    }
    Arc::new(DelegatedRoutes { hosts, parts })
}

/// The part of one tree, so that a change of it leaves the other parts of the Server as they are.
fn of_tree(query: &TreeRoutesOf, cx: &mut Context<'_>) -> Arc<TreeRoutes> {
    let TreeRoutesOf { root, server } = query;
    let tree = cx.query(&TreeOf(root.clone()));
    let mut permitted: BTreeMap<Answered, Vec<HostPattern>> = BTreeMap::new();
    let mut first: BTreeSet<(usize, HostPattern)> = BTreeSet::new();
    let mut denied: BTreeMap<usize, Vec<HostPattern>> = BTreeMap::new();
    for host in hosts_on(cx, &tree, server) {
        let paths = cx.query(&PathsOf(host.clone()));
        let own = paths.trees.iter().position(|(key, _)| key == root);
        for (path, (tree, node)) in &paths.table {
            let Some(found) = paths.node(path.as_str()) else { continue };
            let is_own = Some(*tree) == own;
            if paths.is_answered(path.as_str(), server) {
                let others = others(&paths, path, found, server);
                let before = others.iter().filter(|kept| kept.before_calls);
                let before = before.filter_map(|kept| paths.table.get(&kept.path));
                let before = before.filter(|(tree, _)| Some(*tree) == own);
                first.extend(before.map(|(_, node)| (*node, host.clone())));
                if is_own {
                    permitted.entry((*node, others)).or_default().push(host.clone());
                }
            } else if is_own && is_below_own(&paths, path, server) {
                denied.entry(*node).or_default().push(host.clone());
            }
        }
    }
    let is_first = |node, host: &HostPattern| first.contains(&(node, host.clone()));
    let mut routes = TreeRoutes { constraints: tree.constraints.clone(), ..TreeRoutes::default() };
    for ((n, others), hosts) in permitted {
        let Some(node) = tree.nodes.get(n) else { continue };
        let hosts = Hosts::split(hosts, |host| is_first(n, host));
        routes.answered.extend(permitting(cx, node, &hosts, &others).into_iter().map(Arc::new));
    }
    for (n, hosts) in denied {
        let Some(node) = tree.nodes.get(n) else { continue };
        let hosts = Hosts::split(hosts, |host| is_first(n, host));
        routes.denied.extend(denying(node, &hosts).map(Arc::new));
    }
    Arc::new(routes)
}

/// The hosts on which a tree may have paths at a Server, in order: those of the rules of its root, and
/// those that others claim below its wildcards.
fn hosts_on(
    cx: &mut Context<'_>,
    tree: &DelegationTree,
    server: &ObjectKey,
) -> BTreeSet<HostPattern> {
    let of_root = tree.nodes.iter().filter(|node| node.chain.len() == 1);
    let own: BTreeSet<&HostPattern> = of_root.flat_map(|node| &node.hosts).collect();
    let (wide, exact): (Vec<&HostPattern>, Vec<&HostPattern>) =
        own.into_iter().partition(|host| matches!(host, HostPattern::Suffix(_)));
    let is_tree_host = |host: &&HostPattern| {
        cx.query(&IsTreeHost { server: server.clone(), host: (*host).clone() })
    };
    let mut hosts: BTreeSet<HostPattern> =
        exact.into_iter().filter(is_tree_host).cloned().collect();
    if !wide.is_empty() {
        let all = cx.query(&TreeHostsOf(server.clone()));
        let below = all.hosts.iter().filter(|host| wide.iter().any(|wide| wide.covers(host)));
        hosts.extend(below.cloned());
    }
    hosts
}

/// The routes of a tree with the grants of the Server, both met with the constraints of the root.
fn constrained_routes(query: &ConstrainedRoutesOf, cx: &mut Context<'_>) -> Arc<[Arc<Route>]> {
    let ConstrainedRoutesOf { root, server } = query.clone();
    let own = cx.query(&ServerAuthorizationsOf(server.clone()));
    let part = cx.query(&TreeRoutesOf { root, server });
    part.answered.iter().map(|route| met(route, &part.constraints, &own)).collect()
}

/// The paths of a table that are inside another.
fn inside<'t>(table: &'t PathTable, path: &'t PathPrefix) -> impl Iterator<Item = &'t PathPrefix> {
    let below = format!("{}/", path.as_str().trim_end_matches('/'));
    let from = table.range::<str, _>((Bound::Included(&*below), Bound::Unbounded));
    let inside = from.map(|(other, _)| other).take_while(move |other| path.contains(other));
    inside.filter(move |other| *other != path)
}

/// The paths inside that of a route, which others have on a host.
fn others(
    paths: &HostPaths,
    path: &PathPrefix,
    node: &TreeNode,
    server: &ObjectKey,
) -> BTreeSet<Kept> {
    let NodeEffect::Route { route, .. } = &node.effect else { return BTreeSet::new() };
    let is_http = |other: &TreeNode| match &other.effect {
        NodeEffect::Route { route, .. } => route.kind != RouteKind::Grpc,
        NodeEffect::Serves { .. }
        | NodeEffect::Delegates { .. }
        | NodeEffect::Denied(_)
        | NodeEffect::Shadowed
        | NodeEffect::Inactive => false,
    };
    let kept = inside(&paths.table, path).map(|other| {
        let is_route = paths.node(other.as_str()).is_some_and(is_http);
        // Matches of an HTTPRoute at the path would be outranked, too.
        let before_calls = route.kind == RouteKind::Grpc
            && other.segments().count() == 2
            && !(is_route && paths.is_answered(other.as_str(), server));
        Kept { path: other.clone(), before_calls }
    });
    kept.collect()
}

/// True if the nearest path above another is answered by a Server, which would answer the other too.
fn is_below_own(paths: &HostPaths, path: &PathPrefix, server: &ObjectKey) -> bool {
    let mut above = path.and_above().skip(1);
    let above = above.find(|above| paths.table.contains_key(*above));
    above.is_some_and(|above| paths.is_answered(above, server))
}

/// The hosts of a rule: those on which its path comes before calls of a whole service, and the rest.
struct Hosts {
    first: Vec<HostPattern>,
    rest: Vec<HostPattern>,
}

impl Hosts {
    fn split(all: Vec<HostPattern>, is_first: impl Fn(&HostPattern) -> bool) -> Self {
        let (first, rest) = all.into_iter().partition(is_first);
        Self { first, rest }
    }
}

/// The routes of a rule that a Server answers.
fn permitting(
    cx: &mut Context<'_>,
    node: &TreeNode,
    hosts: &Hosts,
    others: &BTreeSet<Kept>,
) -> Vec<Route> {
    match &node.effect {
        NodeEffect::Serves { inherits_server, .. } => {
            let Some(object) = node.object() else { return Vec::new() };
            let grants = cx.query(&RouteGrants(object.clone()));
            let effects = effects_on(cx, &[(object.clone(), Vec::new())]);
            let origin = Origin::Delegated(delegated_path(&node.chain, &node.path));
            let granted = |route| Route {
                authorizations: grants.authorizations.iter().cloned().collect(),
                inherits_server: *inherits_server,
                withheld: grants.withheld.iter().cloned().collect(),
                ..route
            };
            bare(&origin, node, hosts, &effects).map(granted).collect()
        }
        NodeEffect::Route { route, .. } => {
            let rules = beside(&route.rules, others);
            let all = hosts.first.iter().chain(&hosts.rest).cloned().collect();
            let route = Route { hosts: all, rules, ..Route::clone(route) };
            // What the route does not match is nobody's.
            std::iter::once(route).chain(denying(node, hosts)).collect()
        }
        NodeEffect::Delegates { .. }
        | NodeEffect::Denied(_)
        | NodeEffect::Shadowed
        | NodeEffect::Inactive => Vec::new(),
    }
}

fn denying(node: &TreeNode, hosts: &Hosts) -> impl Iterator<Item = Route> + use<> {
    let origin = Origin::Undelegated(delegated_path(&node.chain, &node.path));
    bare(&origin, node, hosts, &[]).collect::<Vec<_>>().into_iter()
}

/// The routes of a path that grant nothing. Where the path comes first, it is matched exactly, too: an
/// exact match outranks one with parameters, and a prefix does not.
fn bare<'n>(
    origin: &'n Origin,
    node: &'n TreeNode,
    hosts: &'n Hosts,
    effects: &'n [Filter],
) -> impl Iterator<Item = Route> + use<'n> {
    let prefix = || RequestMatch::path(node.path.pattern());
    let exact = || RequestMatch::path(PathPattern::exact(node.path.as_str()));
    let first: OneOrMany<_> = [prefix(), exact()].into_iter().collect();
    let parts = [(&hosts.first, first), (&hosts.rest, [prefix()].into())];
    let made = parts.into_iter().filter(|(hosts, _)| !hosts.is_empty());
    made.map(|(hosts, matches)| Route {
        origin: origin.clone(),
        kind: KIND,
        created: None,
        label: None,
        hosts: hosts.iter().cloned().collect(),
        rules: [Rule { matches, effects: Vec::new().into_iter().collect() }].into(),
        authorizations: AuthorizationSet::default(),
        inherits_server: false,
        withheld: Vec::new().into_iter().collect(),
    })
}

/// A route whose grants, and those of the Server where they count, are met with the constraints of
/// its root.
fn met(route: &Arc<Route>, constraints: &[Condition], server: &[Arc<Authorization>]) -> Arc<Route> {
    if constraints.is_empty() {
        return Arc::clone(route);
    }
    let inherited = server.iter().filter(|_| route.inherits_server);
    let grants = route.authorizations.iter().chain(inherited);
    let met = grants.map(|grant| Arc::new(constrained(grant, constraints))).collect();
    Arc::new(Route { authorizations: met, inherits_server: false, ..Route::clone(route) })
}
