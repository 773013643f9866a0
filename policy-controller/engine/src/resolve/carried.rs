//! Routes that take no effect on a Server, in a tree as without one: those that its protocol cannot carry,
//! and those that Linkerd's controller would ignore where its behaviour is asked for.

use super::reference::is_permitted;
use crate::behaviour::Behaviour;
use crate::config::ControllerConfig;
use crate::incremental::{Context, query};
use crate::index::{Edge, parents};
use crate::query::condition::Reason;
use crate::query::policy::GrpcRouteOf;
use policy_crds::resource::{ParentRef, ProxyProtocol};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::sync::Arc;

query!(GrpcRouteOf, Option<ObjectKey>, grpc_route);

/// The reason why a route takes no effect on a Server, for programs and for people.
pub(crate) type Refusal = (Reason, Arc<str>);

/// The reason why a route takes no effect on a Server, in a tree as without one; `None` if it does, or
/// if nothing does because the Server is missing or invalid.
pub(crate) fn uncarried(
    cx: &mut Context<'_>,
    route: &Object,
    server: &ObjectKey,
) -> Option<Refusal> {
    if let Some(ignored) = ignored_as_linkerd(cx, route, server) {
        return Some(ignored);
    }
    let Body::Valid(Resource::Server(spec)) = &cx.object(server)?.body else { return None };
    match pairing(spec.protocol, route.meta.key.kind, cx.config) {
        Pairing::Effective => None,
        Pairing::Inert | Pairing::Mismatched => {
            let message = no_effect(server, spec.protocol, route.meta.key.kind);
            Some((Reason::NotAllowedByListeners, message.into()))
        }
    }
}

/// The reason why a route has no effect on `server` as Linkerd's controller decides, and does not bind it
/// either; `None` if nothing of that kind holds.
pub(super) fn ignored_as_linkerd(
    cx: &mut Context<'_>,
    route: &Object,
    server: &ObjectKey,
) -> Option<Refusal> {
    let namespace = &route.meta.key.namespace;
    let servers = || parents(route).iter().filter(|parent| parent.is_server());
    if cx.config.follows_linkerd(Behaviour::CrossNamespaceRoutes) {
        let foreign = |parent: &ParentRef| {
            ObjectKey::server_of(parent, namespace).is_some_and(|key| key.namespace != *namespace)
        };
        if servers().any(foreign) {
            let message =
                "a parent is in another namespace: as in Linkerd, the route counts nowhere";
            return Some(refusal(Reason::RefNotPermitted, message.to_owned()));
        }
    }
    if cx.config.follows_linkerd(Behaviour::InvalidRoutes) {
        if let Body::Invalid(_) = route.body {
            let message = "the route is invalid and, as in Linkerd, counts nowhere";
            return Some(refusal(Reason::Invalid, message.to_owned()));
        }
        if let Body::Valid(Resource::Route(own)) = &route.body
            && let Some(reason) = own.denies_because()
        {
            let message = format!("{reason} and, as in Linkerd, counts nowhere");
            return Some(refusal(Reason::UnsupportedValue, message));
        }
        if servers().any(|parent| parent.port.is_some() || parent.section.is_some()) {
            let message = "a parentRef names a port or section of a Server: as in Linkerd, the route \
                           counts nowhere";
            return Some(refusal(Reason::UnsupportedValue, message.to_owned()));
        }
    }
    let conflicts = cx.config.follows_linkerd(Behaviour::RouteConflicts);
    // Others learn nothing of the routes of a Server that they may not name.
    if conflicts
        && route.meta.key.kind != Kind::GrpcRoute
        && is_permitted(cx, &route.meta.key, policy_crds::Field::Parent, server)
    {
        let grpc = cx.query(&GrpcRouteOf(server.clone()))?;
        let message = format!("{grpc} takes the place of HTTPRoutes on {server}, as in Linkerd");
        return Some(refusal(Reason::Conflicted, message));
    }
    None
}

fn refusal(reason: Reason, message: String) -> Refusal {
    (reason, message.into())
}

fn grpc_route(query: &GrpcRouteOf, cx: &mut Context<'_>) -> Option<ObjectKey> {
    let server = &query.0;
    let routes = cx.edge(Edge::Parent(server.clone(), server.namespace.clone()));
    routes.into_iter().find(|key| key.kind == Kind::GrpcRoute).cloned()
}

/// The words for a route that the protocol of a Server cannot carry.
pub(super) fn no_effect(server: &ObjectKey, protocol: ProxyProtocol, kind: Kind) -> String {
    format!(
        "{server} has the proxyProtocol `{}`, on which a {} takes no effect",
        protocol_name(protocol),
        kind.as_str()
    )
}

/// Ways in which the protocol of a Server takes a kind of route.
pub(super) enum Pairing {
    /// The route takes effect.
    Effective,
    /// It does not, as in Linkerd, and leaves the Server as it is.
    Inert,
    /// The protocol cannot carry it.
    Mismatched,
}

/// The outcome of a kind of route on a Server of this protocol.
pub(super) fn pairing(protocol: ProxyProtocol, kind: Kind, config: &ControllerConfig) -> Pairing {
    let grpc = kind == Kind::GrpcRoute;
    match protocol {
        ProxyProtocol::Unknown | ProxyProtocol::Http2
            if grpc && config.follows_linkerd(Behaviour::GrpcRoutes) =>
        {
            Pairing::Inert
        }
        ProxyProtocol::Unknown | ProxyProtocol::Http2 => Pairing::Effective,
        ProxyProtocol::Http1 if !grpc => Pairing::Effective,
        ProxyProtocol::Grpc if grpc => Pairing::Effective,
        ProxyProtocol::Http1 | ProxyProtocol::Grpc | ProxyProtocol::Opaque | ProxyProtocol::Tls => {
            Pairing::Mismatched
        }
    }
}

fn protocol_name(protocol: ProxyProtocol) -> &'static str {
    match protocol {
        ProxyProtocol::Unknown => "unknown",
        ProxyProtocol::Http1 => "HTTP/1",
        ProxyProtocol::Http2 => "HTTP/2",
        ProxyProtocol::Grpc => "gRPC",
        ProxyProtocol::Opaque => "opaque",
        ProxyProtocol::Tls => "TLS",
    }
}
