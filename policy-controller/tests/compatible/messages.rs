//! Messages as Linkerd's controller makes them, in the types of its published crate. They are written
//! from the contract (docs/spec/controller.md 2 and 3), not by our encoder.

use linkerd2_proxy_api::grpc_route::{GrpcRouteMatch, GrpcRpcMatch};
use linkerd2_proxy_api::http_route::{
    HeaderMatch, HttpRouteMatch, PathMatch, RequestHeaderModifier, RequestRedirect, header_match,
    path_match,
};
use linkerd2_proxy_api::http_types::Headers;
use linkerd2_proxy_api::inbound::authn::permit_mesh_tls::{Clients, PermitClientIdentities};
use linkerd2_proxy_api::inbound::authn::{Permit, PermitMeshTls, PermitUnauthenticated};
use linkerd2_proxy_api::inbound::http_local_rate_limit::Limit;
use linkerd2_proxy_api::inbound::proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque};
use linkerd2_proxy_api::inbound::{
    Authn, Authz, GrpcRoute, HttpLocalRateLimit, HttpRoute, Identity, IdentitySuffix, Network,
    ProxyProtocol, Server, grpc_route, http_route,
};
use linkerd2_proxy_api::meta::{Metadata, Resource, metadata};
use linkerd2_proxy_api::net::{IPv6, IpAddress, IpNetwork, ip_address::Ip};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Every address.
pub(crate) const EVERYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

// Servers.

/// The message of a port without a Server.
pub(crate) fn default_port(policy: &str, protocol: Kind, authorizations: Vec<Authz>) -> Server {
    server(["", "default", policy], protocol, authorizations)
}

/// The message of a port that the Server `web` owns.
pub(crate) fn owned_port(protocol: Kind, authorizations: Vec<Authz>) -> Server {
    server(["policy.linkerd.io", "server", "web"], protocol, authorizations)
}

fn server(names: [&str; 3], protocol: Kind, authorizations: Vec<Authz>) -> Server {
    Server {
        protocol: Some(ProxyProtocol { kind: Some(protocol) }),
        server_ips: Vec::new(),
        authorizations,
        labels: labels(names),
    }
}

fn labels(values: [&str; 3]) -> HashMap<String, String> {
    let names = ["group", "kind", "name"].map(str::to_owned);
    names.into_iter().zip(values.map(str::to_owned)).collect()
}

// Protocols.

pub(crate) fn detect(routes: Vec<HttpRoute>) -> Kind {
    let timeout = Some(Duration::from_secs(10).try_into().unwrap());
    Kind::Detect(Detect { timeout, http_routes: routes, http_local_rate_limit: None })
}

pub(crate) fn http1(routes: Vec<HttpRoute>) -> Kind {
    Kind::Http1(Http1 { routes, local_rate_limit: None })
}

pub(crate) fn http2(routes: Vec<HttpRoute>) -> Kind {
    Kind::Http2(Http2 { routes, local_rate_limit: None })
}

/// HTTP/2 with the HTTPLocalRateLimitPolicy `name`, which limits the requests of all clients.
pub(crate) fn limited_http2(routes: Vec<HttpRoute>, name: &str, requests_per_second: u32) -> Kind {
    let limits = HttpLocalRateLimit {
        metadata: Some(resource("policy.linkerd.io", "HTTPLocalRateLimitPolicy", name)),
        total: Some(Limit { requests_per_second }),
        identity: None,
        overrides: Vec::new(),
    };
    Kind::Http2(Http2 { routes, local_rate_limit: Some(limits) })
}

pub(crate) fn grpc(routes: Vec<GrpcRoute>) -> Kind {
    Kind::Grpc(Grpc { routes })
}

pub(crate) fn opaque() -> Kind {
    Kind::Opaque(Opaque {})
}

// Authorizations.

/// The authorization of `all-unauthenticated`, of a port or as the `accessPolicy` of a Server.
pub(crate) fn everybody() -> Authz {
    unauthenticated("all-unauthenticated", &EVERYWHERE)
}

/// An authorization of everybody in some networks, under the name of a default.
pub(crate) fn unauthenticated(name: &str, networks: &[&str]) -> Authz {
    let permit = Permit::Unauthenticated(PermitUnauthenticated {});
    authz(built_in(name), ["", "default", name], networks, permit)
}

/// The authorization of `all-authenticated`.
pub(crate) fn any_identity(name: &str) -> Authz {
    let suffixes = vec![IdentitySuffix { parts: Vec::new() }];
    let permit = mesh(PermitClientIdentities { identities: Vec::new(), suffixes });
    authz(built_in(name), ["", "default", name], &EVERYWHERE, permit)
}

/// The authorization of an AuthorizationPolicy without networks; no identity: everybody.
pub(crate) fn by_policy(name: &str, identity: Option<&str>) -> Authz {
    let (group, kind) = ("policy.linkerd.io", "authorizationpolicy");
    let permit = match identity {
        None => Permit::Unauthenticated(PermitUnauthenticated {}),
        Some(identity) => {
            let identities = vec![Identity { name: identity.to_owned() }];
            mesh(PermitClientIdentities { identities, suffixes: Vec::new() })
        }
    };
    authz(resource(group, kind, name), [group, kind, name], &EVERYWHERE, permit)
}

/// The authorization of a ServerAuthorization.
pub(crate) fn by_server_authorization(name: &str, networks: &[&str], clients: Authn) -> Authz {
    let (group, kind) = ("policy.linkerd.io", "serverauthorization");
    let permit = clients.permit.unwrap();
    authz(resource(group, kind, name), [group, kind, name], networks, permit)
}

/// Clients of these identities, and of identities with these suffixes.
pub(crate) fn clients(identities: &[&str], suffixes: &[&[&str]]) -> Authn {
    let identities = identities.iter().map(|name| Identity { name: (*name).to_owned() });
    let parts = |parts: &&[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
    let suffixes = suffixes.iter().map(|suffix| IdentitySuffix { parts: parts(suffix) });
    let (identities, suffixes) = (identities.collect(), suffixes.collect());
    Authn { permit: Some(mesh(PermitClientIdentities { identities, suffixes })) }
}

fn mesh(clients: PermitClientIdentities) -> Permit {
    Permit::MeshTls(PermitMeshTls { clients: Some(Clients::Identities(clients)) })
}

fn authz(metadata: Metadata, names: [&str; 3], networks: &[&str], permit: Permit) -> Authz {
    let networks =
        networks.iter().map(|net| Network { net: Some(network(net)), except: Vec::new() });
    Authz {
        networks: networks.collect(),
        authentication: Some(Authn { permit: Some(permit) }),
        labels: labels(names),
        metadata: Some(metadata),
    }
}

pub(crate) fn network(text: &str) -> IpNetwork {
    let (ip, length) = text.split_once('/').unwrap();
    IpNetwork { ip: Some(address(ip)), prefix_len: length.parse().unwrap() }
}

pub(crate) fn address(text: &str) -> IpAddress {
    let ip = match text.parse().unwrap() {
        IpAddr::V4(v4) => Ip::Ipv4(u32::from_be_bytes(v4.octets())),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap();
            Ip::Ipv6(IPv6 { first: half(bits >> 64), last: half(bits) })
        }
    };
    IpAddress { ip: Some(ip) }
}

fn built_in(name: &str) -> Metadata {
    Metadata { kind: Some(metadata::Kind::Default(name.to_owned())) }
}

pub(crate) fn resource(group: &str, kind: &str, name: &str) -> Metadata {
    let [group, kind, name] = [group, kind, name].map(str::to_owned);
    let resource = Resource { group, kind, name, ..Resource::default() };
    Metadata { kind: Some(metadata::Kind::Resource(resource)) }
}

// HTTP routes.

/// The route of a port without routes.
pub(crate) fn default_route() -> HttpRoute {
    denied("default")
}

/// A route for every request under the name of a default, without authorizations of its own.
pub(crate) fn denied(name: &str) -> HttpRoute {
    http_route(built_in(name), vec![rule(vec![prefix("/")])], Vec::new())
}

/// The route of probes from `networks`.
pub(crate) fn probes(networks: &[&str], matches: Vec<HttpRouteMatch>) -> HttpRoute {
    http_route(built_in("probe"), vec![rule(matches)], vec![unauthenticated("probe", networks)])
}

/// The HTTPRoute `web` of `policy.linkerd.io` with these rules.
pub(crate) fn web_route(rules: Vec<http_route::Rule>) -> HttpRoute {
    http_route(resource("policy.linkerd.io", "HTTPRoute", "web"), rules, Vec::new())
}

/// A route of the Gateway API, of this kind and name, with these rules.
pub(crate) fn gateway_route(kind: &str, name: &str, rules: Vec<http_route::Rule>) -> HttpRoute {
    http_route(resource("gateway.networking.k8s.io", kind, name), rules, Vec::new())
}

fn http_route(
    metadata: Metadata,
    rules: Vec<http_route::Rule>,
    authorizations: Vec<Authz>,
) -> HttpRoute {
    HttpRoute { metadata: Some(metadata), hosts: Vec::new(), authorizations, rules }
}

pub(crate) fn rule(matches: Vec<HttpRouteMatch>) -> http_route::Rule {
    http_route::Rule { matches, filters: Vec::new() }
}

pub(crate) fn prefix(path: &str) -> HttpRouteMatch {
    path_match(path_match::Kind::Prefix(path.to_owned()))
}

pub(crate) fn exact(path: &str) -> HttpRouteMatch {
    path_match(path_match::Kind::Exact(path.to_owned()))
}

pub(crate) fn regex(path: &str) -> HttpRouteMatch {
    path_match(path_match::Kind::Regex(path.to_owned()))
}

fn path_match(kind: path_match::Kind) -> HttpRouteMatch {
    HttpRouteMatch { path: Some(PathMatch { kind: Some(kind) }), ..HttpRouteMatch::default() }
}

/// The match, for one method.
pub(crate) fn with_method(mut matched: HttpRouteMatch, method: http::Method) -> HttpRouteMatch {
    matched.method = Some(method.into());
    matched
}

/// The match, with an expression over a header.
pub(crate) fn with_header(mut matched: HttpRouteMatch, name: &str, regex: &str) -> HttpRouteMatch {
    let value = Some(header_match::Value::Regex(regex.to_owned()));
    matched.headers.push(HeaderMatch { name: name.to_owned(), value });
    matched
}

/// The filter that removes the header that Linkerd's proxies do not know.
pub(crate) fn removal() -> http_route::Filter {
    let change = removed_header();
    http_route::Filter { kind: Some(http_route::filter::Kind::RequestHeaderModifier(change)) }
}

/// The same filter on calls.
pub(crate) fn removal_of_calls() -> grpc_route::Filter {
    let change = removed_header();
    grpc_route::Filter { kind: Some(grpc_route::filter::Kind::RequestHeaderModifier(change)) }
}

fn removed_header() -> RequestHeaderModifier {
    let none = || Some(Headers { headers: Vec::new() });
    let names = [
        "l5d-connection-secure",
        "l5d-connection_secure",
        "l5d_connection-secure",
        "l5d_connection_secure",
    ];
    let remove = names.map(str::to_owned).to_vec();
    RequestHeaderModifier { add: none(), set: none(), remove }
}

/// A rule that redirects `/` to another host.
pub(crate) fn redirecting(host: &str, status: u32) -> http_route::Rule {
    let redirect = RequestRedirect { host: host.to_owned(), status, ..RequestRedirect::default() };
    let kind = Some(http_route::filter::Kind::Redirect(redirect));
    http_route::Rule { matches: vec![prefix("/")], filters: vec![http_route::Filter { kind }] }
}

// gRPC routes.

/// The route of a gRPC port without routes.
pub(crate) fn default_calls() -> GrpcRoute {
    denied_calls("default")
}

/// A route for every call under the name of a default, without authorizations of its own.
pub(crate) fn denied_calls(name: &str) -> GrpcRoute {
    let every_call = GrpcRouteMatch { rpc: Some(GrpcRpcMatch::default()), headers: Vec::new() };
    GrpcRoute { metadata: Some(built_in(name)), ..calls(every_call) }
}

/// The GRPCRoute `calls` with one match.
pub(crate) fn calls(matched: GrpcRouteMatch) -> GrpcRoute {
    GrpcRoute {
        metadata: Some(resource("gateway.networking.k8s.io", "GRPCRoute", "calls")),
        hosts: Vec::new(),
        authorizations: Vec::new(),
        rules: vec![grpc_route::Rule { matches: vec![matched], filters: Vec::new() }],
    }
}

/// A match of the calls of a service.
pub(crate) fn call_of(service: &str) -> GrpcRouteMatch {
    let rpc = GrpcRpcMatch { service: service.to_owned(), method: String::new() };
    GrpcRouteMatch { rpc: Some(rpc), headers: Vec::new() }
}

/// A match of calls by an exact header and, if there is one, a call.
pub(crate) fn call_with_header(rpc: Option<GrpcRpcMatch>) -> GrpcRouteMatch {
    let value = Some(header_match::Value::Exact(b"a".to_vec()));
    GrpcRouteMatch { rpc, headers: vec![HeaderMatch { name: "x".to_owned(), value }] }
}

/// `server` without the filter of [`removal`], which every rule of our messages begins with.
pub(crate) fn without_removal(mut server: Server) -> Server {
    let routes = match server.protocol.as_mut().and_then(|protocol| protocol.kind.as_mut()) {
        Some(Kind::Detect(detect)) => &mut detect.http_routes,
        Some(Kind::Http1(http)) => &mut http.routes,
        Some(Kind::Http2(http)) => &mut http.routes,
        Some(Kind::Grpc(grpc)) => {
            let removal = |filter: &grpc_route::Filter| match &filter.kind {
                Some(grpc_route::filter::Kind::RequestHeaderModifier(change)) => {
                    change.remove.iter().any(|name| name == "l5d-connection-secure")
                }
                _ => false,
            };
            for rule in grpc.routes.iter_mut().flat_map(|route| &mut route.rules) {
                rule.filters.retain(|filter| !removal(filter));
            }
            return server;
        }
        Some(Kind::Opaque(_) | Kind::Tls(_)) | None => return server,
    };
    for rule in routes.iter_mut().flat_map(|route| &mut route.rules) {
        rule.filters.retain(|filter| *filter != removal());
    }
    server
}
