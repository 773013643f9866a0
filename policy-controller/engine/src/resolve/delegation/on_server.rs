//! The routes that trees give a Server.
//!
//! On a host of a tree nothing counts but the trees of that host. A path that belongs to another
//! Server, or to nobody, is denied, so that neither a shorter path nor a route for every host permits
//! it.

use super::tree::{KIND, Kept, beside, delegated_path};
use crate::incremental::{Context, query};
use crate::query::delegation::{
    ConstrainedRoutesOf, DelegatedRoutes, DelegatedRoutesOf, DelegationTree, HoldersOf, HostPaths,
    IsTreeHost, NodeEffect, PathTable, PathsOf, TreeHostsOf, TreeNode, TreeOf, TreeRoutes,
    TreeRoutesOf,
};
use crate::query::grant::RouteGrants;
use crate::query::policy::ServerAuthorizationsOf;
use policy_core::{
    Authorization, AuthorizationSet, Condition, HostPattern, OneOrMany, Origin, PathPattern,
    RequestMatch, Requirement, Route, RouteKind, Rule,
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
    for host in hosts_of_tree(&tree) {
        if !cx.query(&IsTreeHost { server: server.clone(), host: host.clone() }) {
            continue;
        }
        let paths = cx.query(&PathsOf(host.clone()));
        let HostPaths { trees, table } = &*paths;
        let own = trees.iter().position(|(key, _)| key == root);
        for (path, (tree, node)) in table {
            let Some(found) = node_at(trees, *tree, *node) else { continue };
            let is_own = Some(*tree) == own;
            if found.servers().contains(server) {
                let others = others(trees, (table, path), found, server);
                let before = others.iter().filter(|kept| kept.before_calls);
                let before = before.filter_map(|kept| table.get(&kept.path));
                let before = before.filter(|(tree, _)| Some(*tree) == own);
                first.extend(before.map(|(_, node)| (*node, host.clone())));
                if is_own {
                    permitted.entry((*node, others)).or_default().push(host.clone());
                }
            } else if is_own && is_below_own(trees, table, path, server) {
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

/// The hosts of a tree, in order: those of the rules of its root.
fn hosts_of_tree(tree: &DelegationTree) -> BTreeSet<&HostPattern> {
    let of_root = tree.nodes.iter().filter(|node| node.chain.len() == 1);
    of_root.flat_map(|node| &node.hosts).collect()
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
    trees: &[(ObjectKey, Arc<DelegationTree>)],
    (table, path): (&PathTable, &PathPrefix),
    node: &TreeNode,
    server: &ObjectKey,
) -> BTreeSet<Kept> {
    let NodeEffect::Route { route, .. } = &node.effect else { return BTreeSet::new() };
    let is_http = |other: &TreeNode| match &other.effect {
        NodeEffect::Route { servers, route } => {
            route.kind != RouteKind::Grpc && servers.contains(server)
        }
        NodeEffect::Serves { .. }
        | NodeEffect::Delegates { .. }
        | NodeEffect::Denied(_)
        | NodeEffect::Shadowed
        | NodeEffect::Inactive => false,
    };
    let kept = inside(table, path).map(|other| {
        let at = table.get(other).and_then(|(tree, node)| node_at(trees, *tree, *node));
        // Matches of an HTTPRoute at the path would be outranked, too.
        let before_calls = route.kind == RouteKind::Grpc
            && other.segments().count() == 2
            && at.is_some_and(|at| !is_http(at));
        Kept { path: other.clone(), before_calls }
    });
    kept.collect()
}

fn node_at(
    trees: &[(ObjectKey, Arc<DelegationTree>)],
    tree: usize,
    node: usize,
) -> Option<&TreeNode> {
    trees.get(tree)?.1.nodes.get(node)
}

/// True if the nearest path above another is answered by a Server, which would answer the other too.
fn is_below_own(
    trees: &[(ObjectKey, Arc<DelegationTree>)],
    table: &PathTable,
    path: &PathPrefix,
    server: &ObjectKey,
) -> bool {
    let above = path.and_above().skip(1).find_map(|above| table.get(above));
    above
        .and_then(|(tree, node)| node_at(trees, *tree, *node))
        .is_some_and(|above| above.servers().contains(server))
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
            let origin = Origin::Delegated(delegated_path(&node.chain, &node.path));
            let granted = |route| Route {
                authorizations: grants.authorizations.iter().cloned().collect(),
                inherits_server: *inherits_server,
                withheld: grants.withheld.iter().cloned().collect(),
                ..route
            };
            bare(&origin, node, hosts).map(granted).collect()
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
    bare(&origin, node, hosts).collect::<Vec<_>>().into_iter()
}

/// The routes of a path that grant nothing. Where the path comes first, it is matched exactly, too: an
/// exact match outranks one with parameters, and a prefix does not.
fn bare<'n>(
    origin: &'n Origin,
    node: &'n TreeNode,
    hosts: &'n Hosts,
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
        hosts: hosts.as_slice().into(),
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

/// A grant that holds only if the constraints hold too.
fn constrained(grant: &Authorization, constraints: &[Condition]) -> Authorization {
    let own: &[Condition] = match &grant.requirement {
        Requirement::Nothing => &[],
        Requirement::All(own) => own,
    };
    // No condition at all is a requirement that nobody meets.
    let requirement = match (&grant.requirement, own) {
        (Requirement::All(_), []) => grant.requirement.clone(),
        (Requirement::All(_) | Requirement::Nothing, _) => {
            Requirement::All(own.iter().chain(constraints).cloned().collect())
        }
    };
    Authorization { source: grant.source.clone(), requirement, audit: grant.audit }
}
