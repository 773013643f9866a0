//! The routes that trees give a Server.
//!
//! On a host of a tree nothing counts but the trees of that host. A path that belongs to another
//! Server, or to nobody, is denied, so that neither a shorter path nor a route for every host permits
//! it.

use super::claims::valid;
use super::tree::{KIND, Kept, beside, delegated_path, is_child};
use crate::incremental::{Context, query};
use crate::index::{Edge, parents};
use crate::query::delegation::{
    ClaimsOn, DelegatedRoutes, DelegatedRoutesOf, DelegationTree, NodeEffect, PathTable, TreeNode,
    TreeOf,
};
use crate::query::grant::RouteGrants;
use policy_core::{
    Authorization, AuthorizationSet, Condition, HostPattern, OneOrMany, Origin, PathPattern,
    RequestMatch, Requirement, Route, RouteKind, Rule,
};
use policy_crds::resource::{InboundRoute, PathPrefix};
use policy_crds::{Body, Claims, Invalid, Object, ObjectKey, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

query!(DelegatedRoutesOf, Arc<DelegatedRoutes>, delegated);

/// A rule that a Server answers, by tree and place; and, of a route, what others have inside its path.
/// They may differ from host to host.
type Answered = (usize, usize, BTreeSet<Kept>);

fn delegated(query: &DelegatedRoutesOf, cx: &mut Context<'_>) -> Arc<DelegatedRoutes> {
    let server = &query.0;
    let (bound, mentioned) = mentioned(cx, server);
    if !bound {
        return Arc::default();
    }
    let hosts = with_hosts_below(cx, mentioned);
    let held: BTreeMap<HostPattern, Holders> =
        hosts.iter().map(|host| (host.clone(), holders(cx, host))).collect();
    let hosts = without_covered(hosts, &held);
    let trees = trees(cx, &hosts);
    let holders = held.iter().filter(|(host, _)| hosts.contains(host)).collect();
    let mut permitted: BTreeMap<Answered, Vec<HostPattern>> = BTreeMap::new();
    let mut first: BTreeSet<((usize, usize), HostPattern)> = BTreeSet::new();
    let mut denied: BTreeMap<(usize, usize), Vec<HostPattern>> = BTreeMap::new();
    for (host, table) in tables(&trees, &holders) {
        for (path, (tree, node)) in &table {
            let Some(found) = node_at(&trees, *tree, *node) else { continue };
            if found.servers().contains(server) {
                let others = others(&trees, (&table, path), found, server);
                let before = others.iter().filter(|kept| kept.before_calls);
                let before = before.filter_map(|kept| table.get(&kept.path));
                first.extend(before.map(|at| (*at, host.clone())));
                permitted.entry((*tree, *node, others)).or_default().push(host.clone());
            } else if is_below_own(&trees, &table, path, server) {
                denied.entry((*tree, *node)).or_default().push(host.clone());
            }
        }
    }
    let mut routes = Vec::new();
    let is_first = |at, host: &HostPattern| first.contains(&(at, host.clone()));
    for ((t, n, others), hosts) in permitted {
        let Some((tree, node)) = trees.get(t).zip(node_at(&trees, t, n)) else { continue };
        let hosts = Hosts::split(hosts, |host| is_first((t, n), host));
        let made = permitting(cx, node, &hosts, &others);
        routes.extend(made.into_iter().map(|route| (Arc::new(route), tree.constraints.clone())));
    }
    for ((t, n), hosts) in denied {
        let Some(node) = node_at(&trees, t, n) else { continue };
        let hosts = Hosts::split(hosts, |host| is_first((t, n), host));
        routes.extend(denying(node, &hosts).map(|route| (Arc::new(route), Arc::from([]))));
    }
    Arc::new(DelegatedRoutes { bound, hosts, routes })
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
        }
    }
    (bound, hosts)
}

/// The hosts that an object has, consents to, or has as a route.
pub(super) fn hosts_of(object: &Object) -> Vec<HostPattern> {
    match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => own_hosts(route),
        Body::Valid(Resource::Route(route)) => route.hostnames.clone(),
        Body::Invalid(Invalid {
            claims: Claims::InboundRoute { hosts, .. } | Claims::Route { hostnames: hosts, .. },
            ..
        }) => hosts.clone(),
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    }
}

fn own_hosts(route: &InboundRoute) -> Vec<HostPattern> {
    let own = route.virtual_host.iter().flat_map(|own| &own.hosts);
    let consented = route.delegated_from.iter().map(|consent| &consent.host);
    own.chain(consented).cloned().collect()
}

/// Hosts with those below wildcards: what another root has there is not the wildcard's.
fn with_hosts_below(
    cx: &mut Context<'_>,
    mut hosts: BTreeSet<HostPattern>,
) -> BTreeSet<HostPattern> {
    for host in hosts.clone() {
        let HostPattern::Suffix(_) = host else { continue };
        for root in cx.edge(Edge::HostBelow(host.name().into())) {
            let Some(object) = cx.object(root) else { continue };
            let own = valid(object).and_then(|route| route.virtual_host.as_ref());
            let below = own.into_iter().flat_map(|own| &own.hosts);
            for below in below.filter(|own| own.overlaps(&host)) {
                // A claim that was lost is none: strangers would close names of the wildcard by it.
                let claims = cx.query(&ClaimsOn(below.clone()));
                if claims.active(root).any(|claim| claim.host == *below) {
                    hosts.insert(below.clone());
                }
            }
        }
    }
    hosts
}

/// Hosts without those that nobody holds and that are below a wildcard that somebody holds: its tree
/// decides there.
fn without_covered(
    hosts: BTreeSet<HostPattern>,
    held: &BTreeMap<HostPattern, Holders>,
) -> BTreeSet<HostPattern> {
    let is_held = |host: &HostPattern| held.get(host).is_some_and(|held| !held.is_empty());
    let covered = |host: &HostPattern| {
        hosts.iter().any(|wide| wide != host && covers(wide, host) && is_held(wide))
    };
    hosts.iter().filter(|host| is_held(host) || !covered(host)).cloned().collect()
}

/// True if every name of `host` has the pattern `wide`.
pub(super) fn covers(wide: &HostPattern, host: &HostPattern) -> bool {
    wide == host || (matches!(wide, HostPattern::Suffix(_)) && wide.admits(host.name()))
}

/// The trees of the roots that claim hosts.
fn trees(cx: &mut Context<'_>, hosts: &BTreeSet<HostPattern>) -> Vec<Arc<DelegationTree>> {
    let roots = hosts.iter().flat_map(|host| cx.edge(Edge::Host(host.clone())));
    let roots: BTreeSet<&ObjectKey> = roots.collect();
    roots.into_iter().map(|root| cx.query(&TreeOf(root.clone()))).collect()
}

/// The roots that hold paths of a host.
type Holders = BTreeMap<PathPrefix, ObjectKey>;

fn holders(cx: &mut Context<'_>, host: &HostPattern) -> Holders {
    let claims = cx.query(&ClaimsOn(host.clone()));
    let active = claims.claims.iter().filter(|claim| claim.is_active() && claim.host == *host);
    active.map(|claim| (claim.path.clone(), claim.root.clone())).collect()
}

/// The paths of each host with the rule that has each: a path is that of the root with the longest
/// claim that contains it, whatever another root hands down there; within a tree the child has it
/// before the rule that delegates to it. One pass over the trees, because a Server may have as many
/// hosts as trees.
fn tables<'h>(
    trees: &[Arc<DelegationTree>],
    holders: &BTreeMap<&'h HostPattern, &Holders>,
) -> BTreeMap<&'h HostPattern, PathTable> {
    let mut tables: BTreeMap<&HostPattern, PathTable> = BTreeMap::new();
    for (t, tree) in trees.iter().enumerate() {
        for (n, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.has_path()) {
            for host in &node.hosts {
                let Some((host, held)) = holders.get_key_value(host) else { continue };
                let holder = node.path.and_above().find_map(|path| held.get(path));
                if holder == node.chain.first() {
                    tables.entry(host).or_default().insert(node.path.clone(), (t, n));
                }
            }
        }
    }
    tables
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
    trees: &[Arc<DelegationTree>],
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

fn node_at(trees: &[Arc<DelegationTree>], tree: usize, node: usize) -> Option<&TreeNode> {
    trees.get(tree)?.nodes.get(node)
}

/// True if the nearest path above another is answered by a Server, which would answer the other too.
fn is_below_own(
    trees: &[Arc<DelegationTree>],
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
pub(crate) fn met(
    route: &Arc<Route>,
    constraints: &[Condition],
    server: &[Arc<Authorization>],
) -> Arc<Route> {
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
