//! The routes of a Server (docs/spec/controller.md 2.6; docs/spec/decisions.md, *Routes of another namespace*).

use super::carried::{Pairing, ignored_as_linkerd, no_effect, pairing};
use super::delegation::{
    LostHosts, is_child, is_decided, keeps_through, lost_hosts, served_by, words,
};
use super::denying::{INVALID, denied_anywhere, denies_on, within_bounds};
use super::effects::effects_on;
use super::reference::{
    ReferenceError, follow, routes_naming, routes_that_may_name, was_permitted,
};
use crate::behaviour::Behaviour;
use crate::incremental::{Context, query};
use crate::index::parents;
use crate::query::condition::Reason;
use crate::query::delegation::TreeHostsOf;
use crate::query::grant::{CreationOrder, GrantSet, RouteGrants};
use crate::query::policy::{AttachedRoutes, AttachedRoutesOf, CompiledRoute, DenyingRoutesOf};
use crate::query::requests::{BoundRoutesOf, DescribedRoutesOf};
use policy_core::{
    AuthorizationSet, Filter, FilterKind, HostPattern, Origin, RequestMatch, Route, RouteKind,
    Rule, Source, ThinVec, UnresolvedGrant,
};
use policy_crds::resource::{ParentRef, RouteResource, RouteRule};
use policy_crds::{Body, Kind, Object, ObjectKey, ObjectMeta, Resource};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The outcome of one parent reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// It takes effect.
    Accepted,
    /// It takes effect through an InboundRoute alone.
    Delegated,
    /// It denies all that it matches, because every rule has a filter that is not supported.
    Denying {
        /// For people.
        message: Arc<str>,
    },
    /// It is valid, and others hold all its hosts, which it leaves closed.
    Lost {
        /// For people.
        message: Arc<str>,
    },
    /// It does not.
    Refused {
        /// For programs.
        reason: Reason,
        /// For people.
        message: Arc<str>,
        /// True if it binds the Server nonetheless: then requests that no other route permits are
        /// denied.
        binds: bool,
    },
}

query!(CompiledRoute, Arc<[Arc<Route>]>, compiled_route);
query!(AttachedRoutesOf, Arc<AttachedRoutes>, attached);

fn compiled_route(query: &CompiledRoute, cx: &mut Context<'_>) -> Arc<[Arc<Route>]> {
    let Some(object) = cx.object(&query.0) else { return Arc::from([]) };
    let route = match &object.body {
        Body::Valid(Resource::Route(route)) => route,
        Body::Valid(Resource::HttpRouteGroup(_)) => return Arc::from([group_route(cx, object)]),
        Body::Valid(_) | Body::Invalid(_) => return Arc::from([]),
    };
    let grants = cx.query(&RouteGrants(query.0.clone()));
    let effects = effects_on(cx, &query.0);
    let part = |rules: &[RouteRule]| Arc::new(part(object, route, rules, (&grants, &effects)));
    if route.rules.is_empty() {
        return Arc::from([part(&[])]);
    }
    let served = |rule: &RouteRule| rule.unsupported.is_empty();
    let parts = route.rules.chunk_by(|before, rule| served(before) == served(rule));
    parts.map(part).collect()
}

/// Consecutive rules of a route that are all served, or all denied. The parts of a route have its order,
/// so that the order of its rules is kept.
fn part(
    object: &Object,
    route: &RouteResource,
    rules: &[RouteRule],
    (grants, effects): (&GrantSet, &[Filter]),
) -> Route {
    let name = object.meta.key.to_ref();
    let source = Source::Object(name.clone());
    // The Gateway API (`HTTPRouteFilter`): a filter must not be skipped, and requests that it would
    // have processed must be answered with an error.
    let denying = rules.iter().find_map(RouteRule::denies_because);
    let denying =
        denying.map(|reason| UnresolvedGrant { source: name.clone(), reason: reason.into() });
    let permits = denying.is_none();
    let authorizations = grants.authorizations.iter().filter(|_| permits).cloned().collect();
    let grpc = object.meta.key.kind == Kind::GrpcRoute;
    Route {
        origin: Origin::Objects([name].into()),
        kind: if grpc { RouteKind::Grpc } else { RouteKind::Http },
        created: object.meta.created,
        label: None,
        hosts: route.hostnames.clone().into(),
        rules: rules.iter().map(|r| rule(r, &source, effects)).collect(),
        authorizations,
        inherits_server: permits,
        withheld: denying.into_iter().chain(grants.withheld.iter().cloned()).collect(),
    }
}

/// A rule, with the effects of policies behind its own.
fn rule(rule: &RouteRule, source: &Source, effects: &[Filter]) -> Rule {
    let RouteRule { matches, filters, timeout, unsupported: _ } = rule;
    let timeout = timeout.map(FilterKind::Timeout);
    let own = filters.iter().cloned().chain(timeout);
    let own = own.map(|kind| Filter { source: source.clone(), kind });
    Rule { matches: matches.clone().into(), effects: own.chain(effects.iter().cloned()).collect() }
}

/// The routes of a group as rules of one route, which a tree has. The grants of the Server alone count.
#[allow(clippy::mutable_key_type, reason = "an expression is compared and hashed as its text")]
fn group_route(cx: &mut Context<'_>, group: &Object) -> Arc<Route> {
    let key = &group.meta.key;
    let described = cx.query(&DescribedRoutesOf(key.clone()));
    // A group that is included again has the same matches.
    let mut seen: HashSet<Vec<RequestMatch>> = HashSet::new();
    let distinct = described.each().filter_map(|route| {
        let matches = route.matches;
        seen.insert(matches.clone())
            .then(|| Rule { matches: matches.into(), effects: ThinVec::new() })
    });
    Arc::new(Route {
        origin: Origin::Objects([key.to_ref()].into()),
        kind: RouteKind::Http,
        created: group.meta.created,
        label: None,
        hosts: Vec::new().into_iter().collect(),
        rules: distinct.collect(),
        authorizations: AuthorizationSet::default(),
        inherits_server: true,
        withheld: Vec::new().into_iter().collect(),
    })
}

/// The routes of a Server while they are collected.
#[derive(Default)]
struct Collected {
    attached: AttachedRoutes,
    found: Vec<FoundRoute>,
}

/// A route of a Server.
struct FoundRoute {
    is_foreign: bool,
    order: CreationOrder,
    /// The object; absent for a route of bindings.
    object: Option<ObjectKey>,
    route: Arc<Route>,
}

impl Collected {
    /// Adds a route of an object, on the hosts that it may have on the Server.
    fn add(
        &mut self,
        cx: &mut Context<'_>,
        object: &Object,
        route: Option<Arc<Route>>,
        server: &ObjectKey,
    ) {
        let lost = &mut self.attached.lost;
        let Some(route) =
            route.and_then(|route| on_held_hosts(cx, route, (server, &object.meta), lost))
        else {
            return;
        };
        // A route of another namespace never wins a tie against one of the Server's own.
        let is_foreign = object.meta.key.namespace != server.namespace;
        let order = CreationOrder::of(&object.meta);
        self.found.push(FoundRoute {
            is_foreign,
            order,
            object: Some(object.meta.key.clone()),
            route,
        });
    }
}

fn attached(query: &AttachedRoutesOf, cx: &mut Context<'_>) -> Arc<AttachedRoutes> {
    let server = &query.0;
    let mut all = Collected::default();
    let naming = routes_naming(cx, server);
    for key in &naming {
        let Some(object) = cx.object(key) else { continue };
        let own = parents(object)
            .iter()
            .filter(|p| ObjectKey::server_of(p, &key.namespace).as_ref() == Some(server));
        let outcomes: Vec<Attachment> = own.map(|p| attachment(cx, object, p, server)).collect();
        all.attached.bound |= outcomes.iter().any(Attachment::binds);
        // One whose hosts all belong to others is a valid route: nobody can close a Server by claims.
        all.attached.accepted |= outcomes
            .iter()
            .any(|outcome| matches!(outcome, Attachment::Accepted | Attachment::Lost { .. }));
        if outcomes.iter().any(Attachment::matches) {
            for route in cx.query(&CompiledRoute(ObjectKey::clone(key))).iter() {
                all.add(cx, object, Some(route.clone()), server);
            }
        } else if denies_on(cx, object, server) {
            let denying = cx.query(&DenyingRoutesOf(ObjectKey::clone(key)));
            all.add(cx, object, denying.placed.clone(), server);
            all.attached.first.extend(denying.first.clone());
        }
    }
    // An invalid route that may have named this Server binds it, as one that names it does.
    if !cx.config.follows_linkerd(Behaviour::InvalidRoutes) {
        let naming: BTreeSet<&ObjectKey> = naming.into_iter().collect();
        for key in routes_that_may_name(cx, server) {
            all.attached.bound = true;
            let Some(object) = cx.object(key).filter(|_| !naming.contains(key)) else { continue };
            let denying = denied_anywhere(cx, object, server);
            all.add(cx, object, denying.placed.clone(), server);
            all.attached.first.extend(denying.first.clone());
        }
    }
    with_bindings(cx, server, all)
}

/// Adds the routes that bindings make.
fn with_bindings(
    cx: &mut Context<'_>,
    server: &ObjectKey,
    collected: Collected,
) -> Arc<AttachedRoutes> {
    let Collected { mut attached, mut found } = collected;
    let own = cx.query(&BoundRoutesOf(server.clone()));
    attached.bound |= own.bound;
    attached.accepted |= own.accepted;
    attached.lost.extend(own.lost.iter().cloned());
    attached.first.extend(own.first.iter().cloned());
    found.extend(own.routes.iter().map(|(order, route)| {
        let (order, route) = (order.clone(), route.clone());
        FoundRoute { is_foreign: false, order, object: None, route }
    }));
    if !attached.accepted {
        // A Server without an accepted route is denied as a whole.
        found.clear();
        attached.first.clear();
    }
    keep_hosts(cx, server, &attached.lost, &mut found);
    found.sort_by(|a, b| (a.is_foreign, &a.order).cmp(&(b.is_foreign, &b.order)));
    attached.routes = found.into_iter().map(|one| one.route).collect();
    attached.first = within_bounds(attached.first);
    Arc::new(attached)
}

/// Gives each route the hosts that others of the Server lost and that it keeps through a wildcard: requests for
/// these are answered by the routes of the nearest wildcard that keep them.
fn keep_hosts(
    cx: &mut Context<'_>,
    server: &ObjectKey,
    lost: &BTreeSet<HostPattern>,
    found: &mut [FoundRoute],
) {
    let mut by_hostname: BTreeMap<HostPattern, Vec<usize>> = BTreeMap::new();
    for (at, one) in found.iter().enumerate().filter(|_| !lost.is_empty()) {
        for host in &one.route.hosts {
            by_hostname.entry(host.clone()).or_default().push(at);
        }
    }
    let mut kept: BTreeMap<usize, Vec<HostPattern>> = BTreeMap::new();
    for host in lost.iter().filter(|host| !by_hostname.contains_key(*host)) {
        for above in host.names_above().map(|name| HostPattern::Suffix(name.into())) {
            let mut keeping = by_hostname.get(&above).cloned().unwrap_or_default();
            keeping.retain(|at| {
                let object = found.get(*at).and_then(|one| one.object.as_ref());
                let object = object.and_then(|key| cx.object(key));
                keeps_through(cx, (&above, host), server, object.map(|object| &object.meta))
            });
            let is_kept = !keeping.is_empty();
            keeping.into_iter().for_each(|at| kept.entry(at).or_default().push(host.clone()));
            if is_kept {
                break;
            }
        }
    }
    for (at, hosts) in kept {
        let Some(one) = found.get_mut(at) else { continue };
        let hosts = one.route.hosts.iter().cloned().chain(hosts).collect();
        one.route = Arc::new(Route { hosts, ..Route::clone(&one.route) });
    }
}

/// A route without the hosts that it may not have on a Server; `None` if none is left.
fn on_held_hosts(
    cx: &mut Context<'_>,
    route: Arc<Route>,
    (server, of): (&ObjectKey, &ObjectMeta),
    lost: &mut BTreeSet<HostPattern>,
) -> Option<Arc<Route>> {
    let LostHosts { whole: own, below, .. } = lost_hosts(cx, &route.hosts, server, of);
    // What is below belongs to others, whatever the route says of the wildcard above.
    lost.extend(below);
    if own.is_empty() {
        return Some(route);
    }
    let held = route.hosts.iter().filter(|host| !own.contains(host));
    let hosts: ThinVec<_> = held.cloned().collect();
    // Within a wildcard of a tree of the Server, the tree decides.
    let trees = cx.query(&TreeHostsOf(server.clone()));
    lost.extend(own.into_iter().filter(|host| !is_decided(&trees, host)));
    // Without hosts it would be for every host.
    (!hosts.is_empty()).then(|| Arc::new(Route { hosts, ..Route::clone(&route) }))
}

impl Attachment {
    fn binds(&self) -> bool {
        match self {
            Self::Accepted | Self::Denying { .. } | Self::Lost { .. } => true,
            Self::Delegated => false,
            Self::Refused { binds, .. } => *binds,
        }
    }

    /// True if requests are compared with the matches of the route.
    fn matches(&self) -> bool {
        match self {
            Self::Accepted | Self::Denying { .. } | Self::Lost { .. } => true,
            Self::Delegated | Self::Refused { .. } => false,
        }
    }
}

/// The outcome of a route's reference to `server`.
pub(crate) fn attachment(
    cx: &mut Context<'_>,
    route: &Object,
    parent: &ParentRef,
    server: &ObjectKey,
) -> Attachment {
    let key = &route.meta.key;
    if let Some((reason, message)) = ignored_as_linkerd(cx, route, server) {
        return Attachment::Refused { reason, message, binds: false };
    }
    let object = match follow(cx, key, policy_crds::Field::Parent, server) {
        Ok(resolved) => resolved.object,
        Err(ReferenceError::NotPermitted) => {
            let message = format!("{server} {}", ReferenceError::NotPermitted.as_str());
            // Under an invalid ReferenceGrant the Server stays as closed as it was.
            let binds = !cx.config.follows_linkerd(Behaviour::InvalidRoutes)
                && was_permitted(cx, key, policy_crds::Field::Parent, server);
            return refused(Reason::RefNotPermitted, message, binds);
        }
        Err(
            fault @ (ReferenceError::Missing
            | ReferenceError::Invalid
            | ReferenceError::Unsupported),
        ) => {
            let message = format!("{server} {}", fault.as_str());
            return refused(Reason::NoMatchingParent, message, true);
        }
    };
    let own = match &route.body {
        Body::Valid(Resource::Route(own)) => own,
        Body::Valid(_) | Body::Invalid(_) => {
            return refused(Reason::Invalid, INVALID.to_owned(), true);
        }
    };
    if parent.port.is_some() || parent.section.is_some() {
        let message = format!("{server} has no ports or sections that a parentRef could name");
        return refused(Reason::UnsupportedValue, message, true);
    }
    let Body::Valid(Resource::Server(spec)) = &object.body else {
        return refused(Reason::NoMatchingParent, format!("{server} is invalid"), true);
    };
    let binds = match pairing(spec.protocol, key.kind, cx.config) {
        Pairing::Effective => return effective(cx, route, own, server),
        Pairing::Inert => false,
        Pairing::Mismatched => !cx.config.follows_linkerd(Behaviour::MismatchedRoutes),
    };
    refused(Reason::NotAllowedByListeners, no_effect(server, spec.protocol, key.kind), binds)
}

/// The outcome of a route that a valid Server can carry.
fn effective(
    cx: &mut Context<'_>,
    route: &Object,
    own: &RouteResource,
    server: &ObjectKey,
) -> Attachment {
    let key = &route.meta.key;
    if is_child(&own.parents, key) {
        if served_by(cx, route).contains(server) {
            return Attachment::Delegated;
        }
        let message = "the route counts here through its InboundRoutes alone, none of which hands it \
                       a path for this Server; its conditions about them say why";
        return refused(Reason::NotAllowedByListeners, message.to_owned(), false);
    }
    let lost = lost_hosts(cx, &own.hostnames, server, &route.meta);
    if !lost.whole.is_empty() && lost.whole.len() == own.hostnames.len() {
        if !lost.crowded.is_empty() {
            return Attachment::Lost { message: words(&lost).into() };
        }
        let message = "InboundRoutes hold every hostname of the route, or in another namespace a host \
                       below it; a route takes part in their trees by a parentRef to one that \
                       delegates to it";
        return Attachment::Lost { message: message.into() };
    }
    own.denies_because()
        .map_or(Attachment::Accepted, |reason| Attachment::Denying { message: reason.into() })
}

fn refused(reason: Reason, message: String, binds: bool) -> Attachment {
    Attachment::Refused { reason, message: message.into(), binds }
}
