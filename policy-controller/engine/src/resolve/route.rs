//! The routes of a Server (docs/spec/controller.md 2.6; docs/spec/decisions.md, *Routes of another namespace*).

use super::carried::{Pairing, ignored_as_linkerd, no_effect, pairing};
use super::delegation::{is_child, is_decided, lost_hosts, served_by};
use super::denying::{denied_anywhere, denies_on, within_bounds};
use super::effects::effects_on;
use super::reference::{ReferenceError, follow, routes_naming, was_permitted};
use crate::behaviour::Behaviour;
use crate::incremental::{Context, query};
use crate::index::{Edge, parents};
use crate::query::condition::Reason;
use crate::query::delegation::TreeHostsOf;
use crate::query::grant::{CreationOrder, RouteGrants};
use crate::query::policy::{AttachedRoutes, AttachedRoutesOf, CompiledRoute, DenyingRoutesOf};
use crate::query::requests::{BoundRoutesOf, DescribedRoute, DescribedRoutesOf};
use policy_core::{
    AuthorizationSet, Filter, FilterKind, HostPattern, Origin, Route, RouteKind, Rule, Source,
    ThinVec, UnresolvedGrant,
};
use policy_crds::resource::{ParentRef, RouteResource, RouteRule};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The outcome of one parent reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// It takes effect.
    Accepted,
    /// It takes effect through an InboundRoute alone.
    Delegated,
    /// It denies what it matches, because it has a filter that is not supported.
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

query!(CompiledRoute, Option<Arc<Route>>, compiled_route);
query!(AttachedRoutesOf, Arc<AttachedRoutes>, attached);

fn compiled_route(query: &CompiledRoute, cx: &mut Context<'_>) -> Option<Arc<Route>> {
    let object = cx.object(&query.0)?;
    let route = match &object.body {
        Body::Valid(Resource::Route(route)) => route,
        Body::Valid(Resource::HttpRouteGroup(_)) => return Some(group_route(cx, object)),
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    let grants = cx.query(&RouteGrants(query.0.clone()));
    let effects = effects_on(cx, &query.0);
    let name = query.0.to_ref();
    let source = Source::Object(name.clone());
    let grpc = query.0.kind == Kind::GrpcRoute;
    // The Gateway API (`HTTPRouteFilter`): a filter must not be skipped, and requests that it would
    // have processed must be answered with an error.
    let denying = route
        .denies_because()
        .map(|reason| UnresolvedGrant { source: name.clone(), reason: reason.into() });
    let permits = denying.is_none();
    let authorizations = grants.authorizations.iter().filter(|_| permits).cloned().collect();
    Some(Arc::new(Route {
        origin: Origin::Objects([name].into()),
        kind: if grpc { RouteKind::Grpc } else { RouteKind::Http },
        created: object.meta.created,
        label: None,
        hosts: route.hostnames.clone().into(),
        rules: route.rules.iter().map(|r| rule(r, &source, &effects)).collect(),
        authorizations,
        inherits_server: permits,
        withheld: denying.into_iter().chain(grants.withheld.iter().cloned()).collect(),
    }))
}

/// A rule, with the effects of policies behind its own.
fn rule(rule: &RouteRule, source: &Source, effects: &[Filter]) -> Rule {
    let RouteRule { matches, filters, timeout } = rule;
    let timeout = timeout.map(FilterKind::Timeout);
    let own = filters.iter().cloned().chain(timeout);
    let own = own.map(|kind| Filter { source: source.clone(), kind });
    Rule { matches: matches.clone().into(), effects: own.chain(effects.iter().cloned()).collect() }
}

/// The routes of a group as rules of one route, which a tree has. The grants of the Server alone count.
fn group_route(cx: &mut Context<'_>, group: &Object) -> Arc<Route> {
    let key = &group.meta.key;
    let described = cx.query(&DescribedRoutesOf(key.clone()));
    let rule = |route: &Arc<DescribedRoute>| Rule {
        matches: route.matches.iter().cloned().collect(),
        effects: Vec::new().into_iter().collect(),
    };
    Arc::new(Route {
        origin: Origin::Objects([key.to_ref()].into()),
        kind: RouteKind::Http,
        created: group.meta.created,
        label: None,
        hosts: Vec::new().into_iter().collect(),
        rules: described.routes.iter().map(rule).collect(),
        authorizations: AuthorizationSet::default(),
        inherits_server: true,
        withheld: Vec::new().into_iter().collect(),
    })
}

/// The routes of a Server while they are collected.
#[derive(Default)]
struct Collected {
    attached: AttachedRoutes,
    found: Vec<(bool, CreationOrder, Arc<Route>)>,
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
        let Some(route) = route.and_then(|route| on_held_hosts(cx, route, server, lost)) else {
            return;
        };
        // A route of another namespace never wins a tie against one of the Server's own.
        let foreign = object.meta.key.namespace != server.namespace;
        self.found.push((foreign, CreationOrder::of(&object.meta), route));
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
            let route = cx.query(&CompiledRoute(ObjectKey::clone(key)));
            all.add(cx, object, route, server);
        } else if denies_on(cx, object, server) {
            let denying = cx.query(&DenyingRoutesOf(ObjectKey::clone(key)));
            all.add(cx, object, denying.placed.clone(), server);
            all.attached.first.extend(denying.first.clone());
        }
    }
    // An invalid route that may have named this Server binds it, as one that names it does.
    if !cx.config.follows_linkerd(Behaviour::InvalidRoutes) {
        let naming: BTreeSet<&ObjectKey> = naming.into_iter().collect();
        for key in cx.edge(Edge::AnyParent(server.namespace.clone())) {
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
    found.extend(own.routes.iter().map(|(rank, route)| (false, rank.clone(), route.clone())));
    if !attached.accepted {
        // A Server without an accepted route is denied as a whole.
        found.clear();
        attached.first.clear();
    }
    found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    attached.routes = found.into_iter().map(|(_, _, route)| route).collect();
    attached.first = within_bounds(attached.first);
    Arc::new(attached)
}

/// A route without the hosts that it may not have on a Server; `None` if none is left.
fn on_held_hosts(
    cx: &mut Context<'_>,
    route: Arc<Route>,
    server: &ObjectKey,
    lost: &mut BTreeSet<HostPattern>,
) -> Option<Arc<Route>> {
    let namespace = route.origin.object().map(|object| object.namespace().to_owned());
    let own = lost_hosts(cx, &route.hosts, server, &namespace.unwrap_or_default());
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
            let message = "the route is invalid and permits nothing".to_owned();
            return refused(Reason::Invalid, message, true);
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
    let lost = lost_hosts(cx, &own.hostnames, server, &key.namespace);
    if !lost.is_empty() && lost.len() == own.hostnames.len() {
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
