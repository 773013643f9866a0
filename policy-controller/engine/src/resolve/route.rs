//! Which routes a Server has (controller-semantics 2.6; product, *Decisions*).

use super::follow::{Fault, follow, permitted_namespaces};
use crate::incremental::{Context, question};
use crate::index::{Edge, parents};
use crate::question::condition::Reason;
use crate::question::grant::{Rank, RouteGrants};
use crate::question::policy::{Attached, Attachments, CompiledRoute};
use policy_core::{Filter, FilterKind, Origin, Route, RouteKind, Rule, Source};
use policy_crds::resource::{ParentRef, ProxyProtocol, RouteRule};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::sync::Arc;

/// What became of one parent reference.
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
        /// Whether it binds the Server nonetheless: then what no other route permits is refused.
        binds: bool,
    },
}

question!(CompiledRoute, Option<Arc<Route>>, compiled_route);
question!(Attached, Arc<Attachments>, attached);

fn compiled_route(question: &CompiledRoute, cx: &mut Context<'_>) -> Option<Arc<Route>> {
    let object = cx.object(&question.0)?;
    let Body::Valid(Resource::Route(route)) = &object.body else { return None };
    let grants = cx.ask(&RouteGrants(question.0.clone()));
    let name = question.0.to_ref();
    let source = Source::Object(name.clone());
    let grpc = question.0.kind == Kind::GrpcRoute;
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

fn attached(question: &Attached, cx: &mut Context<'_>) -> Arc<Attachments> {
    let server = &question.0;
    let mut accepted: Vec<(bool, Rank, Arc<Route>)> = Vec::new();
    // An invalid route that may have named this Server binds it, as one that names it does.
    let mut bound = !cx.edge(Edge::AnyParent(server.namespace.clone())).is_empty();
    let mut keys = cx.edge(Edge::Parent(server.clone(), server.namespace.clone()));
    for namespace in permitted_namespaces(cx, server) {
        // What nobody here asked for is not looked through, however much of it there is.
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
            && let Some(route) = cx.ask(&CompiledRoute(key.clone()))
        {
            // A route of another namespace never wins a tie against one of the Server's own.
            let foreign = key.namespace != server.namespace;
            accepted.push((foreign, Rank::of(&object.meta), route));
        }
    }
    accepted.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let routes = accepted.into_iter().map(|(_, _, route)| route).collect();
    Arc::new(Attachments { bound, routes })
}

impl Attachment {
    fn binds(&self) -> bool {
        match self {
            Self::Accepted => true,
            Self::Refused { binds, .. } => *binds,
        }
    }
}

/// What becomes of a route's reference to `server`.
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
    let object = match follow(cx, key, policy_crds::Field::Parent, server) {
        Ok(followed) => followed.object,
        Err(Fault::NotPermitted) => {
            let message = format!("{server} {}", Fault::NotPermitted.as_str());
            return refused(Reason::RefNotPermitted, message, false);
        }
        Err(fault @ (Fault::Missing | Fault::Invalid | Fault::Unsupported)) => {
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

/// Whether routes of a kind take effect on Servers of a protocol.
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
