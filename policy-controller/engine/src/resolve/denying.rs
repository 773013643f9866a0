//! The requests that routes deny which permit nothing: invalid ones, and those of another namespace whose
//! ReferenceGrant is invalid (docs/spec/decisions.md, *Invalid objects*).
//!
//! Matches that can be read keep their place among the routes of the Server. What can be read of the
//! others denies before every route, because each of their corrections matches within it.

use super::carried::{Pairing, pairing};
use super::delegation::is_child;
use super::reference::{is_permitted, was_permitted};
use crate::behaviour::Behaviour;
use crate::incremental::{Context, query};
use crate::index::parents;
use crate::query::policy::{DenyingRoutes, DenyingRoutesOf};
use policy_core::{
    AuthorizationSet, HostPattern, Origin, RequestMatch, Route, RouteKind, Rule, ThinVec,
    UnresolvedGrant,
};
use policy_crds::resource::RouteClaims;
use policy_crds::{Body, Claims, Field, Invalid, Kind, Object, ObjectKey, Resource};
use std::sync::Arc;

/// The most matches that cannot be read of the routes of a Server. They are tried one by one, so that of
/// more every request is denied.
const MAX_UNREADABLE: usize = 256;

query!(DenyingRoutesOf, Arc<DenyingRoutes>, denying);

fn denying(query: &DenyingRoutesOf, cx: &mut Context<'_>) -> Arc<DenyingRoutes> {
    let Some(object) = cx.object(&query.0) else { return Arc::default() };
    Arc::new(match &object.body {
        Body::Valid(Resource::Route(route)) => DenyingRoutes {
            placed: placed(object, route.matches().cloned().collect(), &route.hostnames, UNGRANTED),
            first: None,
        },
        Body::Invalid(Invalid { claims: Claims::Route(claims), .. }) => DenyingRoutes {
            placed: placed(object, claims.matches.clone(), &claims.hostnames, INVALID),
            first: first(object, claims),
        },
        Body::Valid(_) | Body::Invalid(_) => DenyingRoutes::default(),
    })
}

/// The reason of an invalid route, for people.
pub(super) const INVALID: &str = "the route is invalid and permits nothing";
const UNGRANTED: &str =
    "the ReferenceGrant that permitted the route is invalid: it permits nothing";

/// The route of the matches that can be read.
fn placed(
    object: &Object,
    matches: Vec<RequestMatch>,
    hosts: &[HostPattern],
    reason: &str,
) -> Option<Arc<Route>> {
    let source = object.meta.key.to_ref();
    let withheld = UnresolvedGrant { source: source.clone(), reason: reason.into() };
    let origin = Origin::Objects([source].into());
    let withheld = std::iter::once(withheld).collect();
    (!matches.is_empty()).then(|| route(object, origin, (matches, hosts), withheld))
}

/// The route of the conditions that can be read of the other matches.
fn first(object: &Object, claims: &RouteClaims) -> Option<Arc<Route>> {
    let hosts = if claims.any_host { &[][..] } else { &claims.hostnames };
    before_others(object, &claims.unreadable, hosts)
}

/// The route of an object that denies these requests before every other route.
pub(super) fn before_others(
    object: &Object,
    unreadable: &[RequestMatch],
    hosts: &[HostPattern],
) -> Option<Arc<Route>> {
    let mut matches: Vec<RequestMatch> = Vec::new();
    for one in unreadable {
        if !matches.contains(one) {
            matches.push(one.clone());
        }
    }
    let origin = Origin::Unreadable(object.meta.key.to_ref());
    (!matches.is_empty()).then(|| route(object, origin, (matches, hosts), ThinVec::new()))
}

fn route(
    object: &Object,
    origin: Origin,
    (matches, hosts): (Vec<RequestMatch>, &[HostPattern]),
    withheld: ThinVec<UnresolvedGrant>,
) -> Arc<Route> {
    let grpc = matches!(object.meta.key.kind, Kind::GrpcRoute | Kind::GrpcServiceBinding);
    let rule = Rule { matches: matches.into(), effects: ThinVec::new() };
    Arc::new(Route {
        origin,
        kind: if grpc { RouteKind::Grpc } else { RouteKind::Http },
        created: object.meta.created,
        label: None,
        hosts: hosts.iter().cloned().collect(),
        rules: std::iter::once(rule).collect(),
        authorizations: AuthorizationSet::default(),
        inherits_server: false,
        withheld,
    })
}

/// True if a route that names the Server, and permits nothing, denies there what it matches.
pub(super) fn denies_on(cx: &mut Context<'_>, object: &Object, server: &ObjectKey) -> bool {
    let key = &object.meta.key;
    let permitted = is_permitted(cx, key, Field::Parent, server);
    let denies = match &object.body {
        Body::Invalid(_) => permitted || was_permitted(cx, key, Field::Parent, server),
        Body::Valid(_) => !permitted && was_permitted(cx, key, Field::Parent, server),
    };
    denies && !cx.config.follows_linkerd(Behaviour::InvalidRoutes) && is_carried(cx, object, server)
}

/// True if the protocol of the Server takes the kind of the route, and the route is no child of a
/// delegation, which stays within its prefix.
fn is_carried(cx: &mut Context<'_>, object: &Object, server: &ObjectKey) -> bool {
    let key = &object.meta.key;
    let Some(Body::Valid(Resource::Server(spec))) = cx.object(server).map(|object| &object.body)
    else {
        return false;
    };
    matches!(pairing(spec.protocol, key.kind, cx.config), Pairing::Effective)
        && !is_child(parents(object), key)
}

/// The routes of one that may have named any Server of its namespace: those that name requests. The
/// others bind the Servers alone, because they would close every one of them.
pub(super) fn denied_anywhere(
    cx: &mut Context<'_>,
    object: &Object,
    server: &ObjectKey,
) -> Arc<DenyingRoutes> {
    if !is_carried(cx, object, server) {
        return Arc::default();
    }
    let found = cx.query(&DenyingRoutesOf(object.meta.key.clone()));
    Arc::new(DenyingRoutes {
        placed: found.placed.as_ref().and_then(naming_requests),
        first: found.first.as_ref().and_then(naming_requests),
    })
}

/// The route without matches of everything on every host.
pub(super) fn naming_requests(route: &Arc<Route>) -> Option<Arc<Route>> {
    if !route.hosts.is_empty() {
        return Some(route.clone());
    }
    let all = match route.kind {
        RouteKind::Http => RequestMatch::everything(),
        RouteKind::Grpc => RequestMatch::grpc(None, None),
    };
    let matches = route.rules.iter().flat_map(|rule| &rule.matches);
    let named: Vec<RequestMatch> =
        matches.filter(|one| one.parts() != all.parts()).cloned().collect();
    if named.is_empty() {
        return None;
    }
    let rule = Rule { matches: named.into(), effects: ThinVec::new() };
    Some(Arc::new(Route { rules: std::iter::once(rule).collect(), ..Route::clone(route) }))
}

/// The routes that come before all others, as many as can be tried one by one. Of more, one that denies
/// every request takes the place.
pub(super) fn within_bounds(mut first: Vec<Arc<Route>>) -> Vec<Arc<Route>> {
    let matches = first.iter().flat_map(|route| &route.rules).map(|rule| rule.matches.len());
    if matches.fold(0, usize::saturating_add) <= MAX_UNREADABLE {
        return first;
    }
    first.truncate(1);
    for route in &mut first {
        let everything = RequestMatch::everything();
        let rule = Rule { matches: [everything].into(), effects: ThinVec::new() };
        let (rules, hosts) = (std::iter::once(rule).collect(), ThinVec::new());
        *route = Arc::new(Route { rules, hosts, ..Route::clone(route) });
    }
    first
}
