//! The routes that trees give a Server.
//!
//! On a host of a tree nothing counts but the trees of that host. A path that belongs to another
//! Server, or to nobody, is denied, so that neither a shorter path nor a route for every host permits
//! it.

use super::tree::{KIND, beside, delegated_path};
use crate::incremental::{Context, query};
use crate::query::delegation::{
    ConstrainedRoutesOf, DelegatedRoutes, DelegatedRoutesOf, DelegationTree, HoldersOf, HostPaths,
    IsTreeHost, NodeEffect, PathTable, PathsOf, TreeHostsOf, TreeNode, TreeOf, TreeRoutes,
    TreeRoutesOf,
};
use crate::query::grant::RouteGrants;
use crate::query::policy::ServerAuthorizationsOf;
use policy_core::{
    Authorization, AuthorizationSet, Condition, HostPattern, Origin, RequestMatch, Requirement,
    Route, Rule,
};
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

query!(TreeRoutesOf, Arc<TreeRoutes>, of_tree);
query!(ConstrainedRoutesOf, Arc<[Arc<Route>]>, constrained_routes);
query!(DelegatedRoutesOf, Arc<DelegatedRoutes>, delegated);

/// The hosts on which a Server answers a rule; and, of a route, the paths inside its own that others
/// have on one of them.
#[derive(Default)]
struct Answered {
    hosts: Vec<HostPattern>,
    others: BTreeSet<PathPrefix>,
}

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
    let mut permitted: BTreeMap<usize, Answered> = BTreeMap::new();
    let mut denied: BTreeMap<usize, Vec<HostPattern>> = BTreeMap::new();
    for host in hosts_of_tree(&tree) {
        if !cx.query(&IsTreeHost { server: server.clone(), host: host.clone() }) {
            continue;
        }
        let paths = cx.query(&PathsOf(host.clone()));
        let HostPaths { trees, table } = &*paths;
        let own = trees.iter().position(|(key, _)| key == root);
        for (path, (tree, node)) in table.iter().filter(|(_, (tree, _))| Some(*tree) == own) {
            let Some(found) = node_at(trees, *tree, *node) else { continue };
            if found.servers().contains(server) {
                let answered = permitted.entry(*node).or_default();
                answered.hosts.push(host.clone());
                if let NodeEffect::Route { .. } = found.effect {
                    answered.others.extend(inside(table, path).cloned());
                }
            } else if is_below_own(trees, table, path, server) {
                denied.entry(*node).or_default().push(host.clone());
            }
        }
    }
    let mut routes = TreeRoutes { constraints: tree.constraints.clone(), ..TreeRoutes::default() };
    for (n, answered) in permitted {
        let Some(node) = tree.nodes.get(n) else { continue };
        routes.answered.extend(permitting(cx, node, &answered).into_iter().map(Arc::new));
    }
    for (n, hosts) in denied {
        let Some(node) = tree.nodes.get(n) else { continue };
        routes.denied.push(Arc::new(denying(node, &hosts)));
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

/// The routes of a rule that a Server answers.
fn permitting(
    cx: &mut Context<'_>,
    node: &TreeNode,
    Answered { hosts, others }: &Answered,
) -> Vec<Route> {
    match &node.effect {
        NodeEffect::Serves { inherits_server, .. } => {
            let Some(object) = node.object() else { return Vec::new() };
            let grants = cx.query(&RouteGrants(object.clone()));
            vec![Route {
                authorizations: grants.authorizations.iter().cloned().collect(),
                inherits_server: *inherits_server,
                withheld: grants.withheld.iter().cloned().collect(),
                ..bare(Origin::Delegated(delegated_path(&node.chain, &node.path)), node, hosts)
            }]
        }
        NodeEffect::Route { route, .. } => {
            let rules = beside(&route.rules, others);
            let route = Route { hosts: hosts.as_slice().into(), rules, ..Route::clone(route) };
            // What the route does not match is nobody's.
            vec![route, denying(node, hosts)]
        }
        NodeEffect::Delegates { .. }
        | NodeEffect::Denied(_)
        | NodeEffect::Shadowed
        | NodeEffect::Inactive => Vec::new(),
    }
}

fn denying(node: &TreeNode, hosts: &[HostPattern]) -> Route {
    bare(Origin::Undelegated(delegated_path(&node.chain, &node.path)), node, hosts)
}

/// A route of a path that grants nothing.
fn bare(origin: Origin, node: &TreeNode, hosts: &[HostPattern]) -> Route {
    let matches = [RequestMatch::path(node.path.pattern())].into();
    Route {
        origin,
        kind: KIND,
        created: None,
        hosts: hosts.into(),
        rules: [Rule { matches, effects: Vec::new().into_iter().collect() }].into(),
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
