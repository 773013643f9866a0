//! The routes of a Server (docs/spec/controller.md 2.6; docs/spec/decisions.md, *Routes of another namespace*).

use super::reference::{ReferenceError, permitted_namespaces, resolve_reference};
use crate::incremental::{Context, query};
use crate::index::{Edge, parents};
use crate::query::condition::Reason;
use crate::query::grant::{CreationOrder, RouteGrants};
use crate::query::policy::{AttachedRoutes, AttachedRoutesOf, CompiledRoute};
use policy_core::{Filter, FilterKind, Origin, Route, RouteKind, Rule, Source};
use policy_crds::resource::{ParentRef, ProxyProtocol, RouteRule};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::sync::Arc;

/// The outcome of one parent reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// It takes effect.
    Accepted,
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
    let Body::Valid(Resource::Route(route)) = &object.body else { return None };
    let grants = cx.query(&RouteGrants(query.0.clone()));
    let name = query.0.to_ref();
    let source = Source::Object(name.clone());
    let grpc = query.0.kind == Kind::GrpcRoute;
    Some(Arc::new(Route {
        origin: Origin::Objects([name].into()),
        kind: if grpc { RouteKind::Grpc } else { RouteKind::Http },
        created: object.meta.created,
        hosts: route.hostnames.clone().into(),
        rules: route.rules.iter().map(|r| rule(r, &source)).collect(),
        authorizations: grants.authorizations.iter().cloned().collect(),
        inherits_server: true,
        withheld: grants.withheld.clone().into(),
    }))
}

fn rule(rule: &RouteRule, source: &Source) -> Rule {
    let RouteRule { matches, filters, timeout } = rule;
    let timeout = timeout.map(FilterKind::Timeout);
    let effects = filters.iter().cloned().chain(timeout);
    Rule {
        matches: matches.clone().into(),
        effects: effects.map(|kind| Filter { source: source.clone(), kind }).collect(),
    }
}

fn attached(query: &AttachedRoutesOf, cx: &mut Context<'_>) -> Arc<AttachedRoutes> {
    let server = &query.0;
    let mut accepted: Vec<(bool, CreationOrder, Arc<Route>)> = Vec::new();
    // An invalid route that may have named this Server binds it, as one that names it does.
    let mut bound = !cx.edge(Edge::AnyParent(server.namespace.clone())).is_empty();
    let mut keys = cx.edge(Edge::Parent(server.clone(), server.namespace.clone()));
    for namespace in permitted_namespaces(cx, server) {
        // Routes of namespaces without a grant are not examined, however many there are.
        keys.extend(cx.edge(Edge::Parent(server.clone(), namespace)));
    }
    for key in keys {
        let Some(object) = cx.object(key) else { continue };
        let own = parents(object)
            .iter()
            .filter(|p| ObjectKey::server_of(p, &key.namespace).as_ref() == Some(server));
        let outcomes: Vec<Attachment> = own.map(|p| attachment(cx, object, p, server)).collect();
        bound |= outcomes.iter().any(Attachment::binds);
        if outcomes.contains(&Attachment::Accepted)
            && let Some(route) = cx.query(&CompiledRoute(key.clone()))
        {
            // A route of another namespace never wins a tie against one of the Server's own.
            let foreign = key.namespace != server.namespace;
            accepted.push((foreign, CreationOrder::of(&object.meta), route));
        }
    }
    accepted.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let routes = accepted.into_iter().map(|(_, _, route)| route).collect();
    Arc::new(AttachedRoutes { bound, routes })
}

impl Attachment {
    fn binds(&self) -> bool {
        match self {
            Self::Accepted => true,
            Self::Refused { binds, .. } => *binds,
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
    let refused = |reason, message: String, binds| Attachment::Refused {
        reason,
        message: message.into(),
        binds,
    };
    let object = match resolve_reference(cx, key, policy_crds::Field::Parent, server) {
        Ok(resolved) => resolved.object,
        Err(ReferenceError::NotPermitted) => {
            let message = format!("{server} {}", ReferenceError::NotPermitted.as_str());
            return refused(Reason::RefNotPermitted, message, false);
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
    if let Body::Invalid(_) = route.body {
        let message = "the route is invalid and permits nothing".to_owned();
        return refused(Reason::Invalid, message, true);
    }
    if parent.port.is_some() || parent.section.is_some() {
        let message = format!("{server} has no ports or sections that a parentRef could name");
        return refused(Reason::UnsupportedValue, message, true);
    }
    let Body::Valid(Resource::Server(own)) = &object.body else {
        return refused(Reason::NoMatchingParent, format!("{server} is invalid"), true);
    };
    if takes(own.protocol, key.kind) {
        Attachment::Accepted
    } else {
        let message = format!(
            "{server} has the proxyProtocol `{}`, on which a {} takes no effect",
            protocol_name(own.protocol),
            key.kind.as_str()
        );
        refused(Reason::NotAllowedByListeners, message, true)
    }
}

/// True if routes of a kind take effect on Servers of a protocol.
fn takes(protocol: ProxyProtocol, kind: Kind) -> bool {
    let grpc = kind == Kind::GrpcRoute;
    match protocol {
        ProxyProtocol::Unknown | ProxyProtocol::Http2 => true,
        ProxyProtocol::Http1 => !grpc,
        ProxyProtocol::Grpc => grpc,
        ProxyProtocol::Opaque | ProxyProtocol::Tls => false,
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
