//! Messages and parts of messages as Linkerd's controller sends them (docs/spec/controller.md 2.7,
//! 2.8, 3), in the types that Linkerd publishes.

use linkerd2_proxy_api::http_route::{HttpRouteMatch, PathMatch, path_match};
use linkerd2_proxy_api::http_types::{HttpMethod, http_method};
use linkerd2_proxy_api::inbound::authn::{Permit, PermitUnauthenticated};
use linkerd2_proxy_api::inbound::http_route::Rule;
use linkerd2_proxy_api::inbound::proxy_protocol::{Detect, Http1, Kind};
use linkerd2_proxy_api::inbound::{
    Authn, Authz, HttpLocalRateLimit, HttpRoute, Network, ProxyProtocol, Server,
};
use linkerd2_proxy_api::meta::{Metadata, Resource, metadata};
use linkerd2_proxy_api::net::IpNetwork;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The labels of a Server or an authorization.
pub(super) fn labels(group: &str, kind: &str, name: &str) -> HashMap<String, String> {
    let labels = [("group", group), ("kind", kind), ("name", name)];
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// The labels of the policy of a Server.
pub(super) fn of_server(name: &str) -> HashMap<String, String> {
    labels("policy.linkerd.io", "server", name)
}

/// Consent to every client.
pub(super) fn unauthenticated() -> Option<Authn> {
    Some(Authn { permit: Some(Permit::Unauthenticated(PermitUnauthenticated {})) })
}

/// The metadata of an object of Linkerd's group.
pub(super) fn object(kind: &str, name: &str) -> Option<Metadata> {
    let resource = Resource {
        group: "policy.linkerd.io".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..Resource::default()
    };
    Some(Metadata { kind: Some(metadata::Kind::Resource(resource)) })
}

fn built_in(name: &str) -> Option<Metadata> {
    Some(Metadata { kind: Some(metadata::Kind::Default(name.to_owned())) })
}

fn path(kind: path_match::Kind) -> HttpRouteMatch {
    HttpRouteMatch { path: Some(PathMatch { kind: Some(kind) }), ..HttpRouteMatch::default() }
}

/// The route of a Server that has none.
pub(super) fn default_route() -> HttpRoute {
    let matches = vec![path(path_match::Kind::Prefix("/".to_owned()))];
    HttpRoute {
        metadata: built_in("default"),
        rules: vec![Rule { matches, ..Rule::default() }],
        ..HttpRoute::default()
    }
}

/// The route of the probes of a pod with Linkerd's proxy.
pub(super) fn probe_route() -> HttpRoute {
    let get = http_method::Type::Registered(http_method::Registered::Get.into());
    let probe = |exact: &str| HttpRouteMatch {
        method: Some(HttpMethod { r#type: Some(get.clone()) }),
        ..path(path_match::Kind::Exact(exact.to_owned()))
    };
    let everywhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let everywhere = everywhere.map(|address| Network {
        net: Some(IpNetwork { ip: Some(address.into()), prefix_len: 0 }),
        ..Network::default()
    });
    HttpRoute {
        metadata: built_in("probe"),
        authorizations: vec![Authz {
            networks: everywhere.into(),
            authentication: unauthenticated(),
            labels: labels("", "default", "probe"),
            metadata: built_in("probe"),
        }],
        rules: vec![Rule { matches: vec![probe("/live"), probe("/ready")], ..Rule::default() }],
        ..HttpRoute::default()
    }
}

/// Protocol detection with these routes.
pub(super) fn detect(http_routes: Vec<HttpRoute>) -> Option<ProxyProtocol> {
    let timeout = Some(Duration::from_secs(10).try_into().unwrap());
    let detect = Detect { timeout, http_routes, http_local_rate_limit: None };
    Some(ProxyProtocol { kind: Some(Kind::Detect(detect)) })
}

/// HTTP/1 with these routes.
pub(super) fn http1(
    routes: Vec<HttpRoute>,
    local_rate_limit: Option<HttpLocalRateLimit>,
) -> Option<ProxyProtocol> {
    Some(ProxyProtocol { kind: Some(Kind::Http1(Http1 { routes, local_rate_limit })) })
}

/// The routes of a message about an HTTP/1 Server.
pub(super) fn routes(server: &Server) -> &[HttpRoute] {
    match server.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref()) {
        Some(Kind::Http1(http1)) => &http1.routes,
        other => panic!("not HTTP/1: {other:#?}"),
    }
}

/// The path of the first match of a route, which is exact.
pub(super) fn exact_path(route: &HttpRoute) -> &str {
    match route.rules[0].matches[0].path.as_ref().and_then(|path| path.kind.as_ref()) {
        Some(path_match::Kind::Exact(path)) => path,
        other => panic!("no exact path: {other:?}"),
    }
}

/// The message is the default policy that admits every client.
#[track_caller]
pub(super) fn is_default(server: &Server, protocol: &Option<ProxyProtocol>) {
    assert_eq!(server.labels, labels("", "default", "all-unauthenticated"));
    assert_eq!(server.authorizations.len(), 1, "{:#?}", server.authorizations);
    assert_eq!(&server.protocol, protocol);
}

/// The message is the policy of a Server.
#[track_caller]
pub(super) fn is_server(server: &Server, name: &str, protocol: &Option<ProxyProtocol>) {
    assert_eq!(server.labels, of_server(name));
    assert_eq!(&server.protocol, protocol);
}

/// The message has one authorization: these labels, and every client.
#[track_caller]
pub(super) fn admits_all(server: &Server, by: &HashMap<String, String>) {
    let [only] = &server.authorizations[..] else { panic!("{:#?}", server.authorizations) };
    assert_eq!(&only.labels, by);
    assert_eq!(only.authentication, unauthenticated());
}
