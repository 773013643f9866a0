//! The outcome of one binding on its Server.

use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::condition::Reason;
use crate::query::grant::CreationOrder;
use crate::query::requests::{
    BindingRoutesOf, DescribedRoutes, IncludeFault, OversizedBindings, OversizedBindingsOf,
    ServersWithoutRoom, UnreadBindingsIn,
};
use crate::resolve::delegation::lost_hosts;
use crate::resolve::denying::{before_others, naming_requests};
use policy_core::{HostPattern, RequestMatch, Route, RouteKind};
use policy_crds::resource::ProxyProtocol;
use policy_crds::{Body, Claims, Field, Invalid, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeMap;
use std::sync::Arc;

query!(UnreadBindingsIn, Arc<[ObjectKey]>, unread_bindings);
query!(OversizedBindingsOf, Arc<OversizedBindings>, oversized);

/// The most matches that bindings bring to a Server.
const MAX_MATCHES: usize = 4096;

/// About as many bytes as the routes of bindings on the Servers of a namespace take at most.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// About as many bytes as a match takes without its texts, with its part of a route.
const MATCH_BYTES: usize = 512;

/// The kinds of bindings.
const BINDINGS: [Kind; 2] = [Kind::HttpRouteBinding, Kind::GrpcServiceBinding];

/// The outcome of a binding on the Server that it names. The Server is bound to routes in any case.
pub(super) enum BindingOutcome {
    /// Its routes are on the Server.
    Effective(EffectiveBinding),
    /// It is valid, and others hold all its hosts, which it leaves closed.
    Lost(Vec<HostPattern>),
    /// It has no routes there.
    Refused {
        /// For programs.
        reason: Reason,
        /// For people.
        message: String,
    },
}

/// A binding whose routes are on its Server.
pub(super) struct EffectiveBinding {
    /// The API of its routes.
    pub(super) kind: RouteKind,
    /// False if it is invalid: then its routes deny.
    pub(super) is_valid: bool,
    /// The hosts that it has; empty: every host.
    pub(super) hosts: Vec<HostPattern>,
    /// The route of what cannot be read of it and of its groups, which denies before all others.
    pub(super) first: Option<Arc<Route>>,
    /// The hosts that others hold.
    pub(super) lost: Vec<HostPattern>,
    /// Its routes. If there is a fault, they deny.
    pub(super) routes: Arc<DescribedRoutes>,
    /// The references that cannot be followed, and that it brings too much.
    pub(super) faults: Vec<IncludeFault>,
    /// The number of its matches for which there is room.
    pub(super) room: usize,
}

impl EffectiveBinding {
    /// True if its routes permit what is granted on them.
    pub(super) fn permits(&self) -> bool {
        self.is_valid && self.faults.is_empty()
    }
}

/// True if objects of this kind bind routes to a Server.
pub(crate) fn is_binding(kind: Kind) -> bool {
    BINDINGS.contains(&kind)
}

/// True if objects of this kind select among routes that are bound.
pub(crate) fn is_class(kind: Kind) -> bool {
    matches!(kind, Kind::HttpRouteClass | Kind::GrpcServiceClass)
}

/// The bindings that name a Server, valid or not.
pub(crate) fn bindings_of<'a>(cx: &mut Context<'a>, server: &ObjectKey) -> Vec<&'a ObjectKey> {
    let mut naming = cx.edge(Edge::Target(server.clone()));
    naming.retain(|key| is_binding(key.kind) && key.namespace == server.namespace);
    naming
}

fn unread_bindings(query: &UnreadBindingsIn, cx: &mut Context<'_>) -> Arc<[ObjectKey]> {
    let unread = |object: &&Arc<Object>| match &object.body {
        Body::Invalid(Invalid { claims: Claims::Binding(claims), .. }) => claims.server.is_none(),
        Body::Valid(_) | Body::Invalid(_) => false,
    };
    let mut found = Vec::new();
    for kind in BINDINGS {
        found.extend(cx.list(kind, &query.0).filter(unread).map(|object| object.meta.key.clone()));
    }
    found.into()
}

/// The Server that a binding names, if that could be read.
pub(crate) fn server_of(binding: &Object) -> Option<ObjectKey> {
    let server = match &binding.body {
        Body::Valid(Resource::HttpRouteBinding(own)) => Some(&own.server),
        Body::Valid(Resource::GrpcServiceBinding(own)) => Some(&own.server),
        Body::Invalid(Invalid { claims: Claims::Binding(claims), .. }) => claims.server.as_ref(),
        Body::Valid(_) | Body::Invalid(_) => None,
    };
    server.map(|name| binding.meta.key.beside(Kind::Server, name))
}

/// The outcome of a binding on the Server that it names; `None` if it names none that can be read, or the
/// Server is missing or invalid.
pub(super) fn outcome(cx: &mut Context<'_>, binding: &Object) -> Option<BindingOutcome> {
    outcome_on(cx, binding, &server_of(binding)?)
}

/// The outcome of a binding on a Server that it names, or may name.
pub(super) fn outcome_on(
    cx: &mut Context<'_>,
    binding: &Object,
    server: &ObjectKey,
) -> Option<BindingOutcome> {
    let mut outcome = outcome_alone(cx, binding, server)?;
    if let BindingOutcome::Effective(own) = &mut outcome {
        if cx.query(&ServersWithoutRoom(server.namespace.clone())).contains(server) {
            withhold(own, binding, server);
            return Some(outcome);
        }
        let oversized = cx.query(&OversizedBindingsOf(server.clone()));
        if let Some(room) = oversized.rooms.get(&binding.meta.key) {
            let message = format!(
                "{server} would have more than {MAX_MATCHES} matches of bindings: a route has two for \
                 each method, and older bindings come first"
            );
            let fault = IncludeFault { reason: Reason::TooLarge, message: message.into() };
            own.faults.insert(0, fault);
            own.room = *room;
        }
    }
    Some(outcome)
}

/// Takes its routes from a binding, because the namespace has no room for them. Whatever they may have matched is
/// denied before all other routes.
fn withhold(own: &mut EffectiveBinding, binding: &Object, server: &ObjectKey) {
    let message = format!(
        "the routes that bindings give the older Servers of its namespace leave no room for those of {server}: \
         together they may take about {MAX_BYTES} bytes"
    );
    own.faults.insert(0, IncludeFault { reason: Reason::TooLarge, message: message.into() });
    own.room = 0;
    let everything = match own.kind {
        RouteKind::Http => RequestMatch::everything(),
        RouteKind::Grpc => RequestMatch::grpc(None, None),
    };
    own.first = before_others(binding, &[everything], &own.hosts);
}

/// The same without a look at other bindings.
fn outcome_alone(
    cx: &mut Context<'_>,
    binding: &Object,
    server: &ObjectKey,
) -> Option<BindingOutcome> {
    let key = &binding.meta.key;
    let (hostnames, claims) = match &binding.body {
        Body::Valid(Resource::HttpRouteBinding(own)) => (&own.hostnames[..], None),
        Body::Valid(Resource::GrpcServiceBinding(_)) => (&[][..], None),
        Body::Invalid(Invalid { claims: Claims::Binding(claims), .. }) => {
            (&claims.hostnames[..], Some(&**claims))
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    let Body::Valid(Resource::Server(spec)) = &cx.object(server)?.body else { return None };
    let Some(kind) = carried(spec.protocol, key.kind) else {
        let message = mismatch(server, spec.protocol, key.kind);
        return Some(BindingOutcome::Refused { reason: Reason::ProtocolMismatch, message });
    };
    let lost = lost_hosts(cx, hostnames, server, &binding.meta).whole;
    let any_host = claims.is_some_and(|claims| claims.any_host);
    let all_lost = !lost.is_empty() && lost.len() == hostnames.len();
    if all_lost && claims.is_none() {
        return Some(BindingOutcome::Lost(lost));
    }
    let hosts = hostnames.iter().filter(|host| !lost.contains(host)).cloned().collect();
    let routes = cx.query(&BindingRoutesOf(key.clone()));
    let faults = routes.faults.clone();
    let mut unreadable = routes.unreadable.clone();
    if any_host {
        // Of any host, a route may come before those of each host.
        unreadable.extend(routes.each().flat_map(|route| route.matches));
    }
    if claims.is_some_and(|claims| claims.unread) {
        unreadable.push(match kind {
            RouteKind::Http => RequestMatch::everything(),
            RouteKind::Grpc => RequestMatch::grpc(None, None),
        });
    }
    let first = before_others(binding, &unreadable, if any_host { &[] } else { hostnames });
    // It binds every Server of its namespace, and would close each of them.
    let names_server = claims.is_none_or(|claims| claims.server.is_some());
    let first = if names_server { first } else { first.as_ref().and_then(naming_requests) };
    // Without a host that it may have, it would be for every host.
    let routes = if any_host || all_lost { Arc::default() } else { routes };
    let (is_valid, room) = (claims.is_none(), MAX_MATCHES);
    let own = EffectiveBinding { kind, is_valid, hosts, first, lost, routes, faults, room };
    Some(BindingOutcome::Effective(own))
}

/// The bindings that name a Server, or may name it, oldest first.
pub(super) fn oldest_first<'a>(cx: &mut Context<'a>, server: &ObjectKey) -> Vec<&'a Arc<Object>> {
    let keys = bindings_of(cx, server);
    let mut bindings: Vec<_> = keys.into_iter().filter_map(|key| cx.object(key)).collect();
    let unread = cx.query(&UnreadBindingsIn(server.namespace.clone()));
    bindings.extend(unread.iter().filter_map(|key| cx.object(key)));
    bindings.sort_by_key(|object| CreationOrder::of(&object.meta));
    bindings
}

/// Each binding is taken that fits besides older ones. The others share the room that is left, so that no
/// wider route takes the requests of as many of their routes as possible.
fn oversized(query: &OversizedBindingsOf, cx: &mut Context<'_>) -> Arc<OversizedBindings> {
    let (mut left, mut refused) = (MAX_MATCHES, Vec::new());
    let mut found = OversizedBindings::default();
    let mut take = |routes: &DescribedRoutes, room: usize| {
        let texts = routes.texts.saturating_mul(room).checked_div(routes.matches).unwrap_or(0);
        let bytes = room.saturating_mul(MATCH_BYTES).saturating_add(texts);
        found.bytes = found.bytes.saturating_add(bytes);
    };
    for binding in oldest_first(cx, &query.0) {
        let outcome = outcome_alone(cx, binding, &query.0);
        let Some(BindingOutcome::Effective(own)) = outcome else { continue };
        match left.checked_sub(own.routes.matches) {
            Some(rest) => {
                left = rest;
                take(&own.routes, own.routes.matches);
            }
            None => refused.push((binding.meta.key.clone(), own.routes)),
        }
    }
    let mut rooms = BTreeMap::new();
    for (key, routes) in refused {
        let room = routes.matches.min(left);
        left = left.saturating_sub(room);
        take(&routes, room);
        rooms.insert(key, room);
    }
    found.rooms = rooms;
    Arc::new(found)
}

/// The API of the routes of a kind of binding on a Server of this protocol; `None` if it carries none.
fn carried(protocol: ProxyProtocol, kind: Kind) -> Option<RouteKind> {
    let grpc = kind == Kind::GrpcServiceBinding;
    match protocol {
        ProxyProtocol::Unknown | ProxyProtocol::Http2 if grpc => Some(RouteKind::Grpc),
        ProxyProtocol::Grpc if grpc => Some(RouteKind::Grpc),
        ProxyProtocol::Unknown | ProxyProtocol::Http2 => Some(RouteKind::Http),
        ProxyProtocol::Http1 if !grpc => Some(RouteKind::Http),
        ProxyProtocol::Http1 | ProxyProtocol::Grpc | ProxyProtocol::Opaque | ProxyProtocol::Tls => {
            None
        }
    }
}

fn mismatch(server: &ObjectKey, protocol: ProxyProtocol, kind: Kind) -> String {
    let carries = match protocol {
        ProxyProtocol::Opaque | ProxyProtocol::Tls => "carries no requests",
        ProxyProtocol::Grpc => "carries gRPC alone: a GrpcServiceBinding binds its services",
        ProxyProtocol::Http1 => "carries HTTP/1 alone, and gRPC needs HTTP/2",
        ProxyProtocol::Unknown | ProxyProtocol::Http2 => "does not carry such routes",
    };
    format!("{server} {carries}: no {} takes effect there, and it stays closed", kind.as_str())
}

/// The hosts that a binding leaves closed on its Server.
pub(super) fn lost(outcome: &BindingOutcome) -> &[HostPattern] {
    match outcome {
        BindingOutcome::Effective(own) => &own.lost,
        BindingOutcome::Lost(lost) => lost,
        BindingOutcome::Refused { .. } => &[],
    }
}

/// The bindings and groups that name a group or service, and may.
pub(super) fn includers<'a>(cx: &mut Context<'a>, key: &ObjectKey) -> Vec<&'a ObjectKey> {
    let mut naming = cx.edge(Edge::Target(key.clone()));
    naming.retain(|from| crate::resolve::reference::is_permitted(cx, from, Field::Include, key));
    naming
}
