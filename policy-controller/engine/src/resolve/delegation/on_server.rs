//! The routes that trees give a Server.
//!
//! On a host of a tree nothing counts but the trees of that host. A path that belongs to another
//! Server, or to nobody, is denied, so that neither a shorter path nor a route for every host permits
//! it; not so a path that another namespace claimed later inside of an earlier claim.

use super::kept::beside;
use super::names_below::is_crowded;
use super::origin::{KIND, delegated_path};
use crate::incremental::{Context, query};
use crate::query::delegation::{
    ConstrainedRoutesOf, DelegatedRoutes, DelegatedRoutesOf, DelegationTree, HoldersOf, IsTreeHost,
    NodeEffect, PathsOf, TreeHostsOf, TreeNode, TreeOf, TreeRoutes, TreeRoutesOf,
};
use crate::query::grant::RouteGrants;
use crate::query::policy::ServerAuthorizationsOf;
use crate::resolve::effects::effects_on;
use crate::resolve::grant::constrained;
use policy_core::{
    Authorization, AuthorizationSet, Condition, Filter, HostPattern, Origin, RequestMatch, Route,
    Rule,
};
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

query!(TreeRoutesOf, Arc<TreeRoutes>, of_tree);
query!(ConstrainedRoutesOf, Arc<[Arc<Route>]>, constrained_routes);
query!(DelegatedRoutesOf, Arc<DelegatedRoutes>, delegated);

/// A rule that a Server answers, by its place; and, of a route, what others have inside its path. They
/// may differ from host to host.
type Answered = (usize, BTreeSet<PathPrefix>);

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
    let mut denied: BTreeMap<usize, Vec<HostPattern>> = BTreeMap::new();
    for host in hosts_on(cx, &tree, server) {
        let paths = cx.query(&PathsOf(host.clone()));
        let own = paths.trees.iter().position(|(key, _)| key == root);
        let on_server = paths.on_server(server);
        for (path, place) in on_server.answered().filter(|(_, (tree, _))| Some(*tree) == own) {
            let is_route = paths.node(place).is_some_and(TreeNode::is_route);
            let others = if is_route { on_server.others(path, place) } else { BTreeSet::new() };
            permitted.entry((place.1, others)).or_default().push(host.clone());
        }
        for (_, node) in on_server.denied().filter(|(tree, _)| Some(*tree) == own) {
            denied.entry(node).or_default().push(host.clone());
        }
    }
    let mut routes = TreeRoutes { constraints: tree.constraints.clone(), ..TreeRoutes::default() };
    for ((n, others), hosts) in permitted {
        let Some(node) = tree.nodes.get(n) else { continue };
        routes.answered.extend(permitting(cx, node, &hosts, &others).into_iter().map(Arc::new));
    }
    for (n, hosts) in denied {
        let Some(node) = tree.nodes.get(n) else { continue };
        routes.denied.push(Arc::new(denying(node, &hosts)));
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
    let own: BTreeSet<&HostPattern> = of_root.flat_map(|node| &*node.hosts).collect();
    let (wide, exact): (Vec<&HostPattern>, Vec<&HostPattern>) =
        own.into_iter().partition(|host| matches!(host, HostPattern::Suffix(_)));
    let wide: Vec<&HostPattern> = wide.into_iter().filter(|host| !is_crowded(cx, host)).collect();
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

/// The routes of a rule that a Server answers.
fn permitting(
    cx: &mut Context<'_>,
    node: &TreeNode,
    hosts: &[HostPattern],
    others: &BTreeSet<PathPrefix>,
) -> Vec<Route> {
    match &node.effect {
        NodeEffect::Serves { inherits_server, .. } => {
            let Some(object) = node.object() else { return Vec::new() };
            let grants = cx.query(&RouteGrants(object.clone()));
            let effects = effects_on(cx, object);
            let origin = Origin::Delegated(delegated_path(&node.chain, &node.path));
            vec![Route {
                authorizations: grants.authorizations.iter().cloned().collect(),
                inherits_server: *inherits_server,
                withheld: grants.withheld.iter().cloned().collect(),
                ..bare(origin, node, hosts, effects)
            }]
        }
        NodeEffect::Route { routes, .. } => {
            let own = |route: &Arc<Route>| Route {
                hosts: hosts.iter().cloned().collect(),
                rules: beside(&route.rules, others),
                ..Route::clone(route)
            };
            // What the route does not match is nobody's.
            routes.iter().map(own).chain([denying(node, hosts)]).collect()
        }
        NodeEffect::Delegates { .. }
        | NodeEffect::Denied(_)
        | NodeEffect::Shadowed
        | NodeEffect::Inactive => Vec::new(),
    }
}

fn denying(node: &TreeNode, hosts: &[HostPattern]) -> Route {
    let origin = Origin::Undelegated(delegated_path(&node.chain, &node.path));
    bare(origin, node, hosts, Vec::new())
}

/// The route of a path that grants nothing.
fn bare(origin: Origin, node: &TreeNode, hosts: &[HostPattern], effects: Vec<Filter>) -> Route {
    let matches = [RequestMatch::path(node.path.pattern())].into();
    Route {
        origin,
        kind: KIND,
        created: None,
        label: None,
        hosts: hosts.iter().cloned().collect(),
        rules: [Rule { matches, effects: effects.into_iter().collect() }].into(),
        authorizations: AuthorizationSet::default(),
        inherits_server: false,
        withheld: Vec::new().into_iter().collect(),
    }
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
