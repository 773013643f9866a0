//! Ports that deny everything, and protocols without routes.

use super::meta;
use crate::linkerd::grpc_route::{GrpcRouteMatch, GrpcRpcMatch};
use crate::linkerd::http_route::{HttpRouteMatch, PathMatch, path_match};
use crate::linkerd::inbound::proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque, Tls};
use crate::linkerd::inbound::{Authz, GrpcRoute, HttpLocalRateLimit, HttpRoute, ProxyProtocol};
use crate::linkerd::inbound::{grpc_route, http_route};
use crate::native::write_duration;
use policy_core::decision::Denied;
use policy_core::policy::Protocol;

/// The protocol message of a port, and the grants of its Server.
pub(super) type Body = (ProxyProtocol, Vec<Authz>);

/// A port that grants nothing: one route that matches everything and is named after the reason,
/// without any grant, and none on the Server. An empty list of routes would be replaced by the
/// proxy with one of its own.
pub(super) fn deny_all(protocol: Protocol, reason: Denied) -> Body {
    let body = match protocol {
        Protocol::Detect { .. } | Protocol::Http1 | Protocol::Http2 => {
            http(protocol, vec![deny_http(reason.as_str())], None)
        }
        Protocol::Grpc => grpc(vec![deny_grpc(reason.as_str())]),
        Protocol::Opaque | Protocol::Tls => without_routes(protocol),
    };
    (body, Vec::new())
}

/// The message of a protocol without requests. Protocols with requests get no routes.
pub(super) fn without_routes(protocol: Protocol) -> ProxyProtocol {
    let kind = match protocol {
        Protocol::Tls => Kind::Tls(Tls {}),
        Protocol::Opaque => Kind::Opaque(Opaque {}),
        Protocol::Grpc => return grpc(Vec::new()),
        Protocol::Detect { .. } | Protocol::Http1 | Protocol::Http2 => {
            return http(protocol, Vec::new(), None);
        }
    };
    ProxyProtocol { kind: Some(kind) }
}

/// The protocols that carry HTTP routes. Others become HTTP/2, which only a mistake would ask for.
pub(super) fn http(
    protocol: Protocol,
    routes: Vec<HttpRoute>,
    limit: Option<HttpLocalRateLimit>,
) -> ProxyProtocol {
    let kind = match protocol {
        Protocol::Detect { timeout } => Kind::Detect(Detect {
            timeout: Some(write_duration(timeout)),
            http_routes: routes,
            http_local_rate_limit: limit,
        }),
        Protocol::Http1 => Kind::Http1(Http1 { routes, local_rate_limit: limit }),
        Protocol::Http2 | Protocol::Grpc | Protocol::Opaque | Protocol::Tls => {
            Kind::Http2(Http2 { routes, local_rate_limit: limit })
        }
    };
    ProxyProtocol { kind: Some(kind) }
}

pub(super) fn grpc(routes: Vec<GrpcRoute>) -> ProxyProtocol {
    ProxyProtocol { kind: Some(Kind::Grpc(Grpc { routes })) }
}

/// Matches every path.
pub(super) fn every_path() -> HttpRouteMatch {
    let kind = Some(path_match::Kind::Prefix("/".to_owned()));
    HttpRouteMatch { path: Some(PathMatch { kind }), ..HttpRouteMatch::default() }
}

/// Matches every call. The proxy refuses a match without `rpc`.
pub(super) fn every_call() -> GrpcRouteMatch {
    GrpcRouteMatch { rpc: Some(GrpcRpcMatch::default()), headers: Vec::new() }
}

fn deny_http(name: &str) -> HttpRoute {
    HttpRoute {
        metadata: Some(meta::built_in(name)),
        rules: vec![http_route::Rule { matches: vec![every_path()], filters: Vec::new() }],
        ..HttpRoute::default()
    }
}

fn deny_grpc(name: &str) -> GrpcRoute {
    GrpcRoute {
        metadata: Some(meta::built_in(name)),
        rules: vec![grpc_route::Rule { matches: vec![every_call()], filters: Vec::new() }],
        ..GrpcRoute::default()
    }
}
