//! Linkerd's messages against the published ones, and against the policy they are made from.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use http::Method;
use linkerd2_proxy_api as theirs;
use policy_core::authorization::Predicate;
use policy_core::decision::Decision;
use policy_core::filter::FilterKind;
use policy_core::matching::{PathPattern, RequestMatch, Segment, WrittenMatch};
use policy_core::naive;
use policy_core::network::NetworkSymbol;
use policy_core::pattern::Pattern;
use policy_core::policy::{Exemption, ServerPolicy, Unmatched};
use policy_core::testing::{self, any_client, any_policy_with_effects, any_request};
use policy_core::{
    Authorization, Condition, DefaultPolicy, Denied, Facts, HostPattern, NetworkMatch, Protocol,
    Requirement, Source,
};
use policy_proto::compat::{self, EncodeOptions, Encoded};
use policy_proto::linkerd::inbound::{self, Server};
use policy_proto::linkerd::{http_route, net};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;

fn encode(policy: &ServerPolicy, facts: &Facts) -> Encoded {
    compat::encode(policy, facts, &EncodeOptions::default())
}

/// Through the published messages.
fn through_theirs(server: &Server) -> Server {
    let theirs = theirs::inbound::Server::decode(server.encode_to_vec().as_slice()).unwrap();
    Server::decode(theirs.encode_to_vec().as_slice()).unwrap()
}

fn permits(decision: Decision) -> bool {
    matches!(decision, Decision::Permit(_))
}

/// Policies that Linkerd's messages can say more of: no parameters, no empty segments; exemptions
/// for exact paths.
fn sayable_policy() -> impl Strategy<Value = ServerPolicy> {
    let paths = prop::sample::select(vec!["/a", "/b", "/a/b", "/admin", "/a.b"]);
    let parts = (any_policy_with_effects(), vec(paths, 4), any::<bool>());
    parts.prop_map(|(mut policy, paths, grpc)| {
        if grpc && policy.protocol == Protocol::Http1 {
            policy.protocol = Protocol::Grpc;
        }
        let is_grpc = policy.protocol == Protocol::Grpc;
        for route in &mut policy.routes.routes {
            let matches = Arc::make_mut(route).rules.iter_mut().flat_map(|rule| &mut rule.matches);
            for (number, wanted) in matches.enumerate() {
                plain(wanted, number, is_grpc);
            }
        }
        for (exemption, path) in policy.exemptions.iter_mut().zip(paths) {
            if let Some(request) = &mut exemption.request {
                let method = if is_grpc { Method::POST } else { Method::GET };
                let path = RequestMatch::path(PathPattern::exact(path));
                *request = path.with_method(Some(method)).into();
            }
        }
        policy
    })
}

fn plain(wanted: &mut RequestMatch, number: usize, grpc: bool) {
    if grpc {
        let part = |text| if number.is_multiple_of(3) { None } else { Some(text) };
        let call = RequestMatch::grpc(Some("a"), part("b"));
        *wanted = call.with_headers(wanted.headers().to_vec());
        return;
    }
    if let PathPattern::Segments { segments, .. } = &mut wanted.path {
        for segment in segments.iter_mut() {
            let is_literal = matches!(segment, Segment::Literal(text) if !text.is_empty());
            if !is_literal {
                *segment = Segment::Literal("b".into());
            }
        }
        if segments.is_empty() {
            wanted.path = PathPattern::prefix("/");
        }
    }
}

/// Small policies whose routes all compete for the same few requests.
fn crowded_policy() -> impl Strategy<Value = ServerPolicy> {
    let protocol = prop::sample::select(vec![
        Protocol::Http1,
        Protocol::Detect { timeout: Duration::from_secs(1) },
        Protocol::Grpc,
    ]);
    let unmatched = || {
        prop::sample::select(vec![
            Unmatched::DefaultRoute,
            Unmatched::NotFound,
            Unmatched::Deny(Denied::RoutesInvalid),
            Unmatched::FallThrough,
        ])
    };
    let hosts = prop::collection::btree_map(crowded_host(), unmatched(), 0..2);
    let exemption = prop_oneof![1 => Just(None), 2 => Just(Some(probe_from(node(), "/a/b")))];
    (protocol, crowded_set(), vec(crowded_route(), 0..4), hosts, unmatched(), exemption).prop_map(
        |(protocol, authorizations, routes, hosts, otherwise, exemption)| {
            let mut policy = testing::policy();
            policy.protocol = protocol;
            policy.authorizations = authorizations;
            policy.routes.routes = routes.into_iter().map(Arc::new).collect();
            policy.routes.hosts = hosts;
            policy.routes.otherwise = otherwise;
            policy.exemptions = exemption.into_iter().collect();
            if protocol == Protocol::Grpc {
                for exemption in &mut policy.exemptions {
                    exemption.request = Some(RequestMatch::grpc(Some("a"), Some("b")).into());
                }
            }
            policy
        },
    )
}

/// Two or three routes with one match each, on paths whose order is hard to keep.
fn contested_policy() -> impl Strategy<Value = ServerPolicy> {
    let wild = |path: PathPattern| RequestMatch::path(path);
    let parameters = |segments: [Option<&str>; 2], rest| {
        let segment = |text: Option<&str>| match text {
            Some(text) => Segment::Literal(text.into()),
            None => Segment::Parameter("p".into()),
        };
        PathPattern::Segments { segments: segments.map(segment).into(), rest }
    };
    let http = vec![
        wild(parameters([Some("a"), None], false)),
        wild(parameters([None, Some("b")], false)),
        wild(PathPattern::Regex(policy_core::Pattern::parse("/a/.").unwrap())),
        wild(PathPattern::prefix("/a/b")),
        wild(parameters([Some("a"), None], true)),
    ];
    let grpc = vec![
        RequestMatch::everything(),
        RequestMatch::grpc(None, None),
        RequestMatch::grpc(Some("a"), None),
        RequestMatch::grpc(None, Some("b")),
    ];
    let header = policy_core::HeaderMatch {
        name: http::HeaderName::from_static("x-a"),
        value: policy_core::ValueMatch::Exact(b"1"[..].into()),
    };
    let route = |matches| {
        let header = vec(Just(header.clone()), 0..2);
        let matched = (prop::sample::select(matches), header)
            .prop_map(|(wanted, headers): (RequestMatch, _)| wanted.with_headers(headers));
        (0_u8..99, matched, crowded_set(), crowded_effects()).prop_map(
            |(name, matched, authorizations, effects)| {
                let route = testing::route(&name.to_string(), vec![matched]);
                let mut route = policy_core::Route { authorizations, ..route };
                route.rules[0].effects = effects.into();
                Arc::new(route)
            },
        )
    };
    prop_oneof![
        vec(route(http), 2..4).prop_map(|routes| (Protocol::Http1, routes)),
        vec(route(grpc), 2..4).prop_map(|routes| (Protocol::Grpc, routes)),
    ]
    .prop_map(|(protocol, routes)| {
        let mut policy = testing::policy();
        policy.protocol = protocol;
        policy.routes.routes = routes;
        policy
    })
}

fn crowded_host() -> impl Strategy<Value = HostPattern> {
    let hosts = vec!["a.example.com", "*.example.com", "*.com"];
    prop::sample::select(hosts).prop_map(HostPattern::parse)
}

/// For everybody, for the one client, for somebody else, for nobody.
fn crowded_set() -> impl Strategy<Value = policy_core::AuthorizationSet> {
    prop::sample::select(vec![
        vec![testing::grant("all", Vec::new())],
        vec![testing::grant("client", vec![testing::identity("a")])],
        vec![testing::grant("other", vec![testing::identity("b")])],
        Vec::new(),
    ])
    .prop_map(testing::set)
}

/// Mostly none.
fn crowded_effects() -> impl Strategy<Value = Vec<policy_core::Filter>> {
    let rewrite = policy_core::HeaderRewrite { required: true, ..Default::default() };
    let kinds = [removal(), testing::refusal(), FilterKind::Rewrite(rewrite)];
    let some = prop::sample::select(kinds.to_vec()).prop_map(|kind| vec![effect(kind)]);
    prop_oneof![3 => Just(Vec::new()), 1 => some]
}

fn crowded_route() -> impl Strategy<Value = policy_core::Route> {
    let segments = |segments: [Option<&str>; 2], rest| PathPattern::Segments {
        segments: segments
            .map(|text| text.map_or(Segment::Parameter("p".into()), |t| Segment::Literal(t.into())))
            .into(),
        rest,
    };
    let path = prop::sample::select(vec![
        segments([Some("a"), Some("b")], false),
        segments([Some("a"), None], false),
        segments([None, Some("b")], false),
        segments([None, None], false),
        segments([Some("a"), None], true),
        PathPattern::prefix("/"),
        PathPattern::prefix("/a"),
        PathPattern::Regex(policy_core::Pattern::parse("/a/.").unwrap()),
        PathPattern::exact("/a/c"),
    ]);
    let method = prop::sample::select(vec![None, None, Some(Method::GET), Some(Method::POST)]);
    let header =
        prop::sample::select(vec!["x-a", "x-b"]).prop_map(|name| policy_core::HeaderMatch {
            name: http::HeaderName::from_static(name),
            value: policy_core::ValueMatch::Exact(b"1"[..].into()),
        });
    let headers = prop_oneof![2 => Just(Vec::new()), 1 => vec(header, 1..3)];
    let matched = (path, method, headers)
        .prop_map(|(path, method, headers)| RequestMatch::new(path, method, headers, Vec::new()));
    let hosts = prop_oneof![2 => Just(Vec::new()), 1 => vec(crowded_host(), 1)];
    let parts = (vec(matched, 0..3), crowded_effects());
    (0_u8..99, parts, crowded_set(), hosts, prop::bool::weighted(0.7)).prop_map(
        |(name, (matches, effects), authorizations, hosts, inherits_server)| {
            let mut route = policy_core::Route {
                authorizations,
                hosts: hosts.into(),
                inherits_server,
                ..testing::route(&name.to_string(), matches)
            };
            route.rules[0].effects = effects.into();
            route
        },
    )
}

fn crowded_request() -> impl Strategy<Value = testing::OwnedRequest> {
    let value = || prop::sample::select(vec![vec![], vec!["1"], vec!["2"], vec!["1", "2"]]);
    let host = prop::sample::select(vec![None, Some("a.example.com"), Some("b.example.com")]);
    let path = prop::sample::select(vec!["/a/b", "/a/c", "/a"]);
    (any::<bool>(), host, path, value(), value()).prop_map(|(get, host, path, a, b)| {
        let mut request = testing::OwnedRequest::get(path);
        request.method = if get { Method::GET } else { Method::POST };
        request.host = host.map(str::to_owned);
        let lines = a.into_iter().map(|v| ("x-a", v)).chain(b.into_iter().map(|v| ("x-b", v)));
        lines.fold(request, |request, (name, value)| request.header(name, value.as_bytes()))
    })
}

fn check_not_wider(
    policy: &ServerPolicy,
    client: &testing::OwnedConnection,
    request: &testing::OwnedRequest,
) -> Result<(), TestCaseError> {
    let encoded = encode(policy, &client.facts);
    let received = compat::decode(&through_theirs(&encoded.server));
    let received = received.map_err(|error| TestCaseError::fail(error.to_string()))?;
    // The message does not say how paths are handled. Linkerd's proxies match them as received.
    let received = ServerPolicy { paths: policy.paths, ..received };
    // The message has no symbols left.
    let facts = Facts::default();
    let there = policy_core::Connection { facts: &facts, ..client.view() };
    if permits(naive::decide_connection(&received, &there)) {
        let here = naive::decide_connection(policy, &client.view());
        prop_assert!(permits(here), "{:?} for a connection, but sent {:#?}", here, encoded);
    }
    // What a matcher looks at decides which headers are refused for their bytes.
    let plain = request.headers.iter().all(|(_, value)| value.to_str().is_ok());
    if plain && permits(naive::decide_request(&received, &there, &request.view())) {
        let here = naive::decide_request(policy, &client.view(), &request.view());
        let Decision::Permit(permit) = here else {
            return Err(TestCaseError::fail(format!("{here:?}, but sent {encoded:#?}")));
        };
        // A proxy that rewrites nothing must not forward what has to be rewritten.
        let effects = naive::effects(policy, &permit, &request.view());
        let unwritten = effects.iter().any(|effect| effect.kind.is_required());
        prop_assert!(!unwritten, "must be rewritten, but sent {:#?}", encoded);
    }
    Ok(())
}

#[test]
fn a_raw_path_with_a_reserved_character_is_not_wider_for_a_compatible_client() {
    let path = PathPattern::exact("/a:b");
    let matched = RequestMatch::new(path, None, Vec::new(), Vec::new());
    let mut policy = testing::policy();
    policy.paths = policy_core::PathHandling::Raw;
    policy.routes.routes = vec![Arc::new(policy_core::Route {
        inherits_server: true,
        ..testing::route("route", vec![matched])
    })];
    policy.authorizations = testing::set(vec![testing::grant("all", Vec::new())]);
    let client =
        testing::OwnedConnection { facts: facts(), ..testing::OwnedConnection::meshed("a") };
    for path in ["/a:b", "/a%3Ab", "/a%3ab"] {
        check_not_wider(&policy, &client, &testing::OwnedRequest::get(path)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn nothing_is_wider_for_a_compatible_client(
        policy in any_policy_with_effects(),
        client in any_client(),
        request in any_request(),
    ) {
        check_not_wider(&policy, &client, &request)?;
    }

    #[test]
    fn nothing_is_wider_where_more_can_be_said(
        policy in sayable_policy(),
        client in any_client(),
        requests in vec(any_request(), 4),
    ) {
        for request in &requests {
            check_not_wider(&policy, &client, request)?;
        }
    }

    #[test]
    fn nothing_is_wider_where_routes_compete(
        policy in prop_oneof![crowded_policy(), contested_policy()],
        requests in vec(crowded_request(), 12),
    ) {
        let client = testing::OwnedConnection { facts: facts(), ..testing::OwnedConnection::meshed("a") };
        for request in &requests {
            check_not_wider(&policy, &client, request)?;
        }
    }

    #[test]
    fn what_we_send_is_what_they_read(policy in sayable_policy(), client in any_client()) {
        let server = encode(&policy, &client.facts).server;
        prop_assert_eq!(&through_theirs(&server), &server);
        // And what Linkerd's proxies ask of every message.
        check_invariants(&server)?;
    }

    #[test]
    fn a_policy_read_is_sent_and_read_as_the_same(policy in sayable_policy(), client in any_client()) {
        let once = compat::decode(&encode(&policy, &client.facts).server).unwrap();
        let again = compat::decode(&encode(&once, &Facts::default()).server).unwrap();
        // The default route has become explicit and stays so.
        let third = compat::decode(&encode(&again, &Facts::default()).server).unwrap();
        prop_assert_eq!(again, third);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(bytes in vec(any::<u8>(), 0..300)) {
        if let Ok(server) = Server::decode(bytes.as_slice()) {
            _ = compat::decode(&server);
        }
    }

    #[test]
    fn damaged_messages_are_read_alike_by_both(
        policy in sayable_policy(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = encode(&policy, &Facts::default()).server.encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let ours = Server::decode(bytes.as_slice());
        let theirs = theirs::inbound::Server::decode(bytes.as_slice());
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            let theirs = Server::decode(theirs.encode_to_vec().as_slice()).unwrap();
            prop_assert_eq!(&theirs, &ours);
            _ = compat::decode(&ours);
        }
    }
}

/// Violating one of these makes Linkerd's proxies refuse the whole port.
fn check_invariants(server: &Server) -> Result<(), TestCaseError> {
    use inbound::proxy_protocol::Kind;
    prop_assert!(server.labels.contains_key("name"));
    let mut grants: Vec<&inbound::Authz> = server.authorizations.iter().collect();
    let kind = server.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref()).unwrap();
    let http: &[inbound::HttpRoute] = match kind {
        Kind::Detect(detect) => {
            prop_assert!(detect.timeout.is_some());
            &detect.http_routes
        }
        Kind::Http1(http1) => &http1.routes,
        Kind::Http2(http2) => &http2.routes,
        Kind::Grpc(grpc) => {
            prop_assert!(!grpc.routes.is_empty());
            for route in &grpc.routes {
                prop_assert!(route.metadata.is_some());
                let mut matches = route.rules.iter().flat_map(|rule| &rule.matches);
                prop_assert!(matches.all(|wanted| wanted.rpc.is_some()));
                grants.extend(&route.authorizations);
            }
            &[]
        }
        Kind::Opaque(_) | Kind::Tls(_) => &[],
    };
    let has_http = matches!(kind, Kind::Detect(_) | Kind::Http1(_) | Kind::Http2(_));
    prop_assert_eq!(has_http, !http.is_empty());
    for route in http {
        prop_assert!(route.metadata.is_some());
        grants.extend(&route.authorizations);
    }
    for grant in grants {
        prop_assert!(!grant.networks.is_empty());
        prop_assert!(grant.authentication.as_ref().is_some_and(|authn| authn.permit.is_some()));
        prop_assert!(grant.metadata.is_some());
    }
    Ok(())
}

fn facts() -> Facts {
    Facts {
        pod_addresses: vec!["10.1.0.7".parse().unwrap(), "fd00::7".parse().unwrap()],
        node_local: vec!["10.1.0.1/32".parse().unwrap()],
        pod_gateways: vec!["10.2.0.1".parse().unwrap()],
        cluster: vec!["10.0.0.0/8".parse().unwrap()],
        ..Facts::default()
    }
}

fn probe_from(test: Predicate, path: &str) -> Exemption {
    let source = Source::Default("probe".into());
    let conditions = vec![Condition { source: source.clone(), test }];
    let requirement = Requirement::All(conditions.into());
    let request = RequestMatch::path(PathPattern::exact(path)).with_method(Some(Method::GET));
    let authorization = Arc::new(Authorization { source, requirement, audit: false });
    Exemption { request: Some(request.into()), authorization }
}

fn node() -> Predicate {
    Predicate::Network(vec![NetworkMatch::symbol(NetworkSymbol::NodeLocal)])
}

fn their_labels(kind: &str, name: &str) -> std::collections::HashMap<String, String> {
    [("group", ""), ("kind", kind), ("name", name)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn their_default(name: &str) -> Option<theirs::meta::Metadata> {
    Some(theirs::meta::Metadata {
        kind: Some(theirs::meta::metadata::Kind::Default(name.to_owned())),
    })
}

fn their_grant(name: &str) -> theirs::inbound::Authz {
    use theirs::inbound::{Authn, Authz, Network, authn};
    let net = |ip| Network {
        net: Some(theirs::net::IpNetwork {
            ip: Some(theirs::net::IpAddress { ip: Some(ip) }),
            prefix_len: 0,
        }),
        except: Vec::new(),
    };
    Authz {
        networks: vec![
            net(theirs::net::ip_address::Ip::Ipv4(0)),
            net(theirs::net::ip_address::Ip::Ipv6(theirs::net::IPv6 { first: 0, last: 0 })),
        ],
        authentication: Some(Authn {
            permit: Some(authn::Permit::Unauthenticated(authn::PermitUnauthenticated {})),
        }),
        labels: their_labels("default", name),
        metadata: their_default(name),
    }
}

/// The first filter of every rule: the one difference to the messages of Linkerd's own controller.
fn their_claims() -> theirs::inbound::http_route::Filter {
    use theirs::inbound::http_route::{Filter, filter};
    let names = [
        "l5d-connection-secure",
        "l5d-connection_secure",
        "l5d_connection-secure",
        "l5d_connection_secure",
    ];
    let none = || Some(theirs::http_types::Headers { headers: Vec::new() });
    let remove = names.map(str::to_owned).to_vec();
    let modifier = theirs::http_route::RequestHeaderModifier { add: none(), set: none(), remove };
    Filter { kind: Some(filter::Kind::RequestHeaderModifier(modifier)) }
}

/// Linkerd's proxies always set `l5d-client-id`.
#[test]
fn informational_headers_that_are_switched_off_are_reported_and_read_back_as_set() {
    let mut policy = testing::default_policy(DefaultPolicy::AllUnauthenticated);
    policy.informational_headers = policy_core::InformationalHeaders::Disabled;
    let encoded = encode(&policy, &Facts::default());
    let said: Vec<_> = encoded.unsupported.iter().map(ToString::to_string).collect();
    let line = "port: informational headers switched off (`no-informational-headers`): Linkerd's proxies \
                set `l5d-client-id`";
    assert_eq!(said, [line]);
    let read = compat::decode(&encoded.server).unwrap();
    assert_eq!(read.informational_headers, policy_core::InformationalHeaders::Enabled);
    let effects = read.routes.routes.iter().flat_map(|route| &route.rules);
    assert!(effects.flat_map(|rule| &rule.effects).next().is_none(), "ours to do, not policy's");
}

/// Linkerd's proxies use connections again after every body.
#[test]
fn a_port_whose_connections_are_not_used_again_after_bodies_is_denied() {
    let mut policy = testing::default_policy(DefaultPolicy::AllUnauthenticated);
    policy.upstream_reuse = policy_core::UpstreamReuse::WithoutBody;
    let encoded = encode(&policy, &Facts::default());
    let said: Vec<_> = encoded.unsupported.iter().map(ToString::to_string).collect();
    let line = "port: connections are used again after requests without a body alone \
                (`reuse-without-body`), which Linkerd's proxies do not know; the port is denied";
    assert_eq!(said, [line]);
    let read = compat::decode(&encoded.server).unwrap();
    assert!(read.authorizations.is_empty(), "nobody is admitted");
}

/// The proxy's admin port under the cluster's defaults, whole (probes /live and /ready, probe
/// networks of the chart).
#[test]
fn the_admin_port_is_sent_as_linkerd_sends_it() {
    use theirs::http_route::{HttpRouteMatch, PathMatch, path_match};
    use theirs::http_types::{HttpMethod, http_method};
    use theirs::inbound::{HttpRoute, ProxyProtocol, http_route, proxy_protocol};
    let mut policy = testing::default_policy(DefaultPolicy::AllUnauthenticated);
    policy.protocol = Protocol::Detect { timeout: Duration::from_secs(10) };
    policy.exemptions =
        ["/ready", "/live"].map(|path| probe_from(Predicate::all_networks(), path)).into();
    let path = |kind| Some(PathMatch { kind: Some(kind) });
    let probe = |text: &str| HttpRouteMatch {
        path: path(path_match::Kind::Exact(text.to_owned())),
        method: Some(HttpMethod { r#type: Some(http_method::Type::Registered(0)) }),
        ..HttpRouteMatch::default()
    };
    let everything = HttpRouteMatch {
        path: path(path_match::Kind::Prefix("/".to_owned())),
        ..HttpRouteMatch::default()
    };
    let route = |name: &str, matches, authorizations| HttpRoute {
        metadata: their_default(name),
        hosts: Vec::new(),
        authorizations,
        rules: vec![http_route::Rule { matches, filters: vec![their_claims()] }],
    };
    let expected = theirs::inbound::Server {
        protocol: Some(ProxyProtocol {
            kind: Some(proxy_protocol::Kind::Detect(proxy_protocol::Detect {
                timeout: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
                http_routes: vec![
                    route("default", vec![everything], Vec::new()),
                    route(
                        "probe",
                        vec![probe("/live"), probe("/ready")],
                        vec![their_grant("probe")],
                    ),
                ],
                http_local_rate_limit: None,
            })),
        }),
        server_ips: Vec::new(),
        authorizations: vec![their_grant("all-unauthenticated")],
        labels: their_labels("default", "all-unauthenticated"),
    };
    let encoded = encode(&policy, &Facts::default());
    assert_eq!(encoded.unsupported, Vec::new());
    let bytes = encoded.server.encode_to_vec();
    assert_eq!(theirs::inbound::Server::decode(bytes.as_slice()).unwrap(), expected);
}

/// Every field of their messages, by name: one that they have and we lack does not survive.
#[test]
fn every_field_of_theirs_survives_ours() {
    let full = theirs_in_full();
    let ours = Server::decode(full.encode_to_vec().as_slice()).unwrap();
    let back = theirs::inbound::Server::decode(ours.encode_to_vec().as_slice()).unwrap();
    assert_eq!(back, full);
    for kind in kinds_in_full() {
        let protocol = theirs::inbound::ProxyProtocol { kind: Some(kind) };
        let bytes = protocol.encode_to_vec();
        let ours = inbound::ProxyProtocol::decode(bytes.as_slice()).unwrap();
        let back = ours.encode_to_vec();
        assert_eq!(theirs::inbound::ProxyProtocol::decode(back.as_slice()).unwrap(), protocol);
    }
    let spec = theirs::inbound::PortSpec { workload: "w".into(), port: 7 };
    let ours = inbound::PortSpec::decode(spec.encode_to_vec().as_slice()).unwrap();
    assert_eq!(ours, inbound::PortSpec { workload: "w".into(), port: 7 });
}

fn theirs_in_full() -> theirs::inbound::Server {
    use theirs::net::{IPv6, IpAddress, ip_address::Ip};
    let kind = kinds_in_full().into_iter().next();
    theirs::inbound::Server {
        protocol: Some(theirs::inbound::ProxyProtocol { kind }),
        server_ips: vec![
            IpAddress { ip: Some(Ip::Ipv4(0x0a00_0001)) },
            IpAddress { ip: Some(Ip::Ipv6(IPv6 { first: 1, last: 2 })) },
        ],
        authorizations: grants_in_full(),
        labels: their_labels("server", "web"),
    }
}

fn grants_in_full() -> Vec<theirs::inbound::Authz> {
    use theirs::inbound::authn::permit_mesh_tls::{Clients, PermitClientIdentities};
    use theirs::inbound::authn::{Permit, PermitMeshTls, PermitUnauthenticated};
    use theirs::inbound::{Authn, Authz, Identity, IdentitySuffix, Network};
    use theirs::net::{IpAddress, IpNetwork, ip_address::Ip};
    let net =
        || IpNetwork { ip: Some(IpAddress { ip: Some(Ip::Ipv4(0x0a00_0000)) }), prefix_len: 8 };
    let identities = PermitClientIdentities {
        identities: vec![Identity { name: "a".into() }],
        suffixes: vec![IdentitySuffix { parts: vec!["b".into(), "c".into()] }],
    };
    let mesh = |clients| Permit::MeshTls(PermitMeshTls { clients: Some(clients) });
    [
        Permit::Unauthenticated(PermitUnauthenticated {}),
        mesh(Clients::Unauthenticated(PermitUnauthenticated {})),
        mesh(Clients::Identities(identities)),
    ]
    .map(|permit| Authz {
        networks: vec![Network { net: Some(net()), except: vec![net()] }],
        authentication: Some(Authn { permit: Some(permit) }),
        labels: their_labels("authorizationpolicy", "p"),
        metadata: resource_in_full(),
    })
    .into()
}

fn resource_in_full() -> Option<theirs::meta::Metadata> {
    let resource = theirs::meta::Resource {
        group: "g".into(),
        kind: "k".into(),
        name: "n".into(),
        namespace: "ns".into(),
        section: "s".into(),
        port: 7,
    };
    Some(theirs::meta::Metadata { kind: Some(theirs::meta::metadata::Kind::Resource(resource)) })
}

fn kinds_in_full() -> Vec<theirs::inbound::proxy_protocol::Kind> {
    use theirs::inbound::http_local_rate_limit::{Limit, Override, r#override::ClientIdentities};
    use theirs::inbound::proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque, Tls};
    use theirs::inbound::{HttpLocalRateLimit, Identity};
    let limit = || {
        Some(HttpLocalRateLimit {
            metadata: resource_in_full(),
            total: Some(Limit { requests_per_second: 1 }),
            identity: Some(Limit { requests_per_second: 2 }),
            overrides: vec![Override {
                limit: Some(Limit { requests_per_second: 3 }),
                clients: Some(ClientIdentities { identities: vec![Identity { name: "a".into() }] }),
            }],
        })
    };
    let timeout = Some(prost_types::Duration { seconds: 10, nanos: 1 });
    vec![
        Kind::Detect(Detect {
            timeout,
            http_routes: vec![http_route_in_full()],
            http_local_rate_limit: limit(),
        }),
        Kind::Http1(Http1 { routes: vec![http_route_in_full()], local_rate_limit: limit() }),
        Kind::Http2(Http2 { routes: vec![http_route_in_full()], local_rate_limit: limit() }),
        Kind::Grpc(Grpc { routes: vec![grpc_route_in_full()] }),
        Kind::Opaque(Opaque {}),
        Kind::Tls(Tls {}),
    ]
}

fn hosts_in_full() -> Vec<theirs::http_route::HostMatch> {
    use theirs::http_route::{HostMatch, host_match};
    let labels = vec!["com".into(), "example".into()];
    [
        host_match::Match::Exact("a".into()),
        host_match::Match::Suffix(host_match::Suffix { reverse_labels: labels }),
    ]
    .map(|kind| HostMatch { r#match: Some(kind) })
    .into()
}

fn headers_in_full() -> Vec<theirs::http_route::HeaderMatch> {
    use theirs::http_route::{HeaderMatch, header_match};
    [header_match::Value::Exact(vec![1, 255]), header_match::Value::Regex(".*".into())]
        .map(|value| HeaderMatch { name: "x-a".into(), value: Some(value) })
        .into()
}

fn modifier_in_full() -> theirs::http_route::RequestHeaderModifier {
    use theirs::http_types::{Headers, headers::Header};
    let headers =
        || Some(Headers { headers: vec![Header { name: "x-a".into(), value: vec![b'1', 255] }] });
    theirs::http_route::RequestHeaderModifier {
        add: headers(),
        set: headers(),
        remove: vec!["x-b".into()],
    }
}

fn http_route_in_full() -> theirs::inbound::HttpRoute {
    use theirs::http_route::{
        HttpFailureInjector, HttpRouteMatch, PathMatch, PathModifier, QueryParamMatch, Ratio,
        RequestRedirect, path_match, path_modifier, query_param_match,
    };
    use theirs::http_types::{HttpMethod, Scheme, http_method, scheme};
    use theirs::inbound::{HttpRoute, http_route};
    let query =
        [query_param_match::Value::Exact("1".into()), query_param_match::Value::Regex(".".into())]
            .map(|value| QueryParamMatch { name: "q".into(), value: Some(value) });
    let paths = [
        path_match::Kind::Exact("/a".into()),
        path_match::Kind::Prefix("/b".into()),
        path_match::Kind::Regex("/c".into()),
    ];
    let methods = [
        http_method::Type::Registered(8),
        http_method::Type::Unregistered("X".into()),
        http_method::Type::Registered(0),
    ];
    let matches = paths.into_iter().zip(methods).map(|(path, method)| HttpRouteMatch {
        path: Some(PathMatch { kind: Some(path) }),
        headers: headers_in_full(),
        query_params: query.to_vec(),
        method: Some(HttpMethod { r#type: Some(method) }),
    });
    let redirect = |scheme, replace| {
        http_route::filter::Kind::Redirect(RequestRedirect {
            scheme: Some(Scheme { r#type: Some(scheme) }),
            host: "h".into(),
            path: Some(PathModifier { replace: Some(replace) }),
            port: 7,
            status: 302,
        })
    };
    let failure = HttpFailureInjector {
        status: 503,
        message: "m".into(),
        ratio: Some(Ratio { numerator: 1, denominator: 2 }),
    };
    let filters = [
        http_route::filter::Kind::FailureInjector(failure),
        http_route::filter::Kind::RequestHeaderModifier(modifier_in_full()),
        redirect(scheme::Type::Registered(1), path_modifier::Replace::Full("/".into())),
        redirect(
            scheme::Type::Unregistered("s".into()),
            path_modifier::Replace::Prefix("/".into()),
        ),
    ]
    .map(|kind| http_route::Filter { kind: Some(kind) });
    HttpRoute {
        metadata: resource_in_full(),
        hosts: hosts_in_full(),
        authorizations: grants_in_full(),
        rules: vec![http_route::Rule { matches: matches.collect(), filters: filters.into() }],
    }
}

fn grpc_route_in_full() -> theirs::inbound::GrpcRoute {
    use theirs::grpc_route::{GrpcFailureInjector, GrpcRouteMatch, GrpcRpcMatch};
    use theirs::inbound::{GrpcRoute, grpc_route};
    let rpc = Some(GrpcRpcMatch { service: "s".into(), method: "m".into() });
    let failure = GrpcFailureInjector {
        code: 14,
        message: "m".into(),
        ratio: Some(theirs::http_route::Ratio { numerator: 1, denominator: 2 }),
    };
    let filters = [
        grpc_route::filter::Kind::FailureInjector(failure),
        grpc_route::filter::Kind::RequestHeaderModifier(modifier_in_full()),
    ]
    .map(|kind| grpc_route::Filter { kind: Some(kind) });
    GrpcRoute {
        metadata: resource_in_full(),
        hosts: hosts_in_full(),
        authorizations: grants_in_full(),
        rules: vec![grpc_route::Rule {
            matches: vec![GrpcRouteMatch { rpc, headers: headers_in_full() }],
            filters: filters.into(),
        }],
    }
}

#[test]
fn a_message_in_full_is_read() {
    let mut full = Server::decode(theirs_in_full().encode_to_vec().as_slice()).unwrap();
    let policy = compat::decode(&full).unwrap();
    assert_eq!(policy.authorizations.len(), 3);
    assert_eq!(policy.routes.routes.len(), 1);
    assert!(policy.routes.routes[0].inherits_server, "the Server's grants count on every route");
    assert_eq!(policy.routes.routes[0].rules[0].effects.len(), 4);
    assert!(policy.rate_limit.is_some());
    assert_eq!(compat::decode_facts(&full).unwrap().pod_addresses.len(), 2);
    full.protocol = None;
    assert_eq!(compat::decode(&full).unwrap_err().to_string(), "protocol: must be set");
}

fn detect(server: &mut Server) -> &mut inbound::proxy_protocol::Detect {
    let kind = server.protocol.as_mut().unwrap().kind.as_mut().unwrap();
    let inbound::proxy_protocol::Kind::Detect(detect) = kind else { panic!("{kind:?}") };
    detect
}

fn refused(change: impl FnOnce(&mut Server)) -> String {
    let mut server = Server::decode(theirs_in_full().encode_to_vec().as_slice()).unwrap();
    change(&mut server);
    match compat::decode(&server) {
        Err(error) => error.to_string(),
        Ok(policy) => panic!("read as {policy:?}"),
    }
}

fn with_match(change: impl FnOnce(&mut http_route::HttpRouteMatch)) -> String {
    refused(|s| change(&mut detect(s).http_routes[0].rules[0].matches[1]))
}

fn with_path(kind: http_route::path_match::Kind) -> String {
    with_match(|wanted| wanted.path = Some(http_route::PathMatch { kind: Some(kind) }))
}

#[test]
fn what_is_refused_is_named() {
    use http_route::path_match::Kind;
    let one = "protocol.detect.http_routes[0].rules[0].matches[1]";
    let cases = [
        (refused(|s| detect(s).timeout = None), "protocol.detect.timeout: must be set".to_owned()),
        (
            refused(|s| detect(s).http_routes[0].metadata = None),
            "protocol.detect.http_routes[0].metadata: must be set".to_owned(),
        ),
        (
            with_path(Kind::Regex("(".into())),
            format!("{one}.path.regex: invalid regular expression: unclosed group"),
        ),
        (
            with_path(Kind::Exact("a".into())),
            format!("{one}.path.exact: must begin with `/`, is `a`"),
        ),
        (
            with_path(Kind::Prefix("//a".into())),
            format!("{one}.path.prefix: must not begin or end with `//`, is `//a`"),
        ),
        (
            with_path(Kind::Prefix("/a//".into())),
            format!("{one}.path.prefix: must not begin or end with `//`, is `/a//`"),
        ),
        (
            with_path(Kind::Regex("a".repeat(5000))),
            format!("{one}.path.regex: regular expression of 5000 bytes is longer than 4096"),
        ),
        (with_match(|m| m.path.as_mut().unwrap().kind = None), format!("{one}.path: must be set")),
        (with_match(|m| m.headers[0].value = None), format!("{one}.headers[0].value: must be set")),
        (
            with_match(|m| m.method.as_mut().unwrap().r#type = None),
            format!("{one}.method: must be set"),
        ),
        (
            with_match(|m| {
                let registered = policy_proto::linkerd::http_types::http_method::Type::Registered;
                m.method.as_mut().unwrap().r#type = Some(registered(9));
            }),
            format!("{one}.method.registered: method 9 is not known here"),
        ),
        (
            refused(|s| detect(s).http_routes[0].rules[0].filters[0].kind = None),
            "protocol.detect.http_routes[0].rules[0].filters[0]: must be set".to_owned(),
        ),
        (
            refused(|s| s.authorizations[1].networks.clear()),
            "authorizations[1].networks: must not be empty".to_owned(),
        ),
        (
            refused(|s| s.authorizations[0].networks[0].net.as_mut().unwrap().prefix_len = 33),
            "authorizations[0].networks[0].net.prefix_len: must be at most 32, is 33".to_owned(),
        ),
        (
            refused(|s| s.authorizations[0].networks[0].net.as_mut().unwrap().ip = None),
            "authorizations[0].networks[0].net.ip: must be set".to_owned(),
        ),
        (
            refused(|s| s.authorizations[0].authentication = None),
            "authorizations[0].authentication: must be set".to_owned(),
        ),
        (
            refused(|s| s.server_ips.push(net::IpAddress { ip: None })),
            "server_ips[2]: must be set".to_owned(),
        ),
        (refused(|s| s.labels.clear()), "labels.name: must be set".to_owned()),
        (
            refused(|s| {
                s.labels.insert("kind".into(), "default".into());
                s.labels.insert("name".into(), "all".into());
            }),
            "labels.name: default policy `all` is not known here".to_owned(),
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error, expected);
    }
}

fn http1_routes(server: &Server) -> &[inbound::HttpRoute] {
    let kind = server.protocol.as_ref().unwrap().kind.as_ref().unwrap();
    let inbound::proxy_protocol::Kind::Http1(http1) = kind else { panic!("{kind:?}") };
    &http1.routes
}

fn names(routes: &[inbound::HttpRoute]) -> Vec<String> {
    use policy_proto::linkerd::meta::metadata::Kind;
    let name = |route: &inbound::HttpRoute| match route.metadata.as_ref().unwrap().kind.as_ref() {
        Some(Kind::Default(name)) => name.clone(),
        Some(Kind::Resource(resource)) => resource.name.clone(),
        None => String::new(),
    };
    routes.iter().map(name).collect()
}

fn messages(encoded: &Encoded) -> Vec<String> {
    encoded.unsupported.iter().map(ToString::to_string).collect()
}

fn granted() -> ServerPolicy {
    let mut policy = testing::policy();
    policy.authorizations = testing::set(vec![testing::grant("g", vec![testing::identity("a")])]);
    policy
}

#[test]
fn what_a_compatible_client_cannot_do_is_left_out_or_denied_and_said() {
    use policy_core::{HeaderRewrite, SegmentCondition, SegmentOperator, Timeouts};
    let source = policy_core::Source::Object(testing::object("TimeoutPolicy", "t"));
    let route = |kind| {
        let mut policy = granted();
        let prefix = RequestMatch::path(PathPattern::prefix("/a"));
        let mut route = testing::route("r", vec![prefix]);
        route.rules[0].effects = vec![policy_core::Filter { source: source.clone(), kind }].into();
        policy.routes.routes = vec![Arc::new(route)];
        encode(&policy, &Facts::default())
    };
    let rewrite = |required| FilterKind::Rewrite(HeaderRewrite { required, ..Default::default() });
    let timeouts = FilterKind::Timeouts(Timeouts::default());
    let sent = |encoded: &Encoded| {
        let routes = http1_routes(&encoded.server);
        !encoded.server.authorizations.is_empty() || !routes[0].authorizations.is_empty()
    };
    let omitted = route(timeouts);
    assert!(sent(&omitted));
    let bounds = "effect of TimeoutPolicy test/t: bounds on parts of an exchange \
                  (`timeout-policies`): not sent";
    assert_eq!(messages(&omitted), [bounds]);
    let omitted = route(rewrite(false));
    assert!(sent(&omitted));
    let rewriting =
        "effect of TimeoutPolicy test/t: rewriting of headers (`header-rewrites`): not sent";
    assert_eq!(messages(&omitted), [rewriting]);
    for kind in [rewrite(true), testing::refusal()] {
        let denied = route(kind);
        assert!(!sent(&denied), "{:#?}", denied.server);
        assert!(messages(&denied).iter().any(|line| line.contains("the route is denied")));
    }
    let mut policy = granted();
    let condition = SegmentCondition::new("p", 0, SegmentOperator::In, ["a"]);
    policy.authorizations =
        testing::set(vec![testing::grant("c", vec![Predicate::Segment(condition)])]);
    policy.routes.otherwise = Unmatched::DefaultRoute;
    let encoded = encode(&policy, &Facts::default());
    assert!(encoded.server.authorizations.is_empty());
    let grant = "authorization AuthorizationPolicy test/c: a condition on a path (`captures`): \
                 not sent";
    assert_eq!(messages(&encoded), [grant]);
}

/// The change that a filter of an HTTPRoute makes.
fn removal() -> FilterKind {
    let remove = vec![http::HeaderName::from_static("x-admin")];
    FilterKind::RequestHeaders(policy_core::filter::HeaderChange { remove, ..Default::default() })
}

fn effect(kind: FilterKind) -> policy_core::Filter {
    policy_core::Filter { source: Source::Default("test".into()), kind }
}

#[test]
fn routes_with_other_effects_never_compete() {
    let parameter = |segments: [Segment; 2]| {
        RequestMatch::path(PathPattern::Segments { segments: segments.into(), rest: false })
    };
    let (books, id) = (Segment::Literal("books".into()), Segment::Parameter("id".into()));
    let matches =
        [parameter([books.clone(), id]), parameter([books, Segment::Literal("new".into())])];
    let bounds = FilterKind::Timeouts(policy_core::Timeouts::default());
    let sent = |effects: [Vec<FilterKind>; 2]| {
        let mut policy = granted();
        let routes = ["a", "b"].into_iter().zip(matches.clone()).zip(effects);
        let routes = routes.map(|((name, wanted), effects)| {
            let mut route = testing::route(name, vec![wanted]);
            route.rules[0].effects = effects.into_iter().map(effect).collect();
            Arc::new(route)
        });
        policy.routes.routes = routes.collect();
        names(http1_routes(&encode(&policy, &facts()).server))
    };
    let denied = ["proxy_unsupported"];
    assert_eq!(sent([vec![], vec![testing::refusal()]]), denied);
    assert_eq!(sent([vec![testing::refusal()], vec![testing::refusal()]]), denied);
    assert_eq!(sent([vec![], vec![removal()]]), denied);
    assert_eq!(sent([vec![removal()], vec![]]), denied);
    // What is the same for the client does not matter.
    assert_eq!(sent([vec![removal()], vec![removal()]]), ["a", "b"]);
    assert_eq!(sent([vec![], vec![bounds]]), ["a", "b"]);
}

#[test]
fn the_effects_of_a_server_hold_for_probes_and_the_default_route() {
    let with = |kind| {
        let mut policy = granted();
        policy.effects = vec![effect(kind)];
        policy.routes.otherwise = Unmatched::DefaultRoute;
        policy.exemptions = vec![probe_from(node(), "/live")];
        policy
    };
    let server = encode(&with(removal()), &facts()).server;
    let routes = http1_routes(&server);
    assert_eq!(names(routes), ["default", "probe"]);
    assert_eq!(routes[0].rules[0].filters, routes[1].rules[0].filters);
    assert_eq!(routes[1].rules[0].filters.len(), 2, "that of the Server and our own");

    // A failure that is required leaves nothing that anyone could send.
    let mut policy = with(testing::refusal());
    let encoded = encode(&policy, &facts());
    let routes = http1_routes(&encoded.server);
    assert_eq!(names(routes), ["default"]);
    assert!(routes[0].authorizations.is_empty());
    assert!(encoded.server.authorizations.is_empty(), "{:#?}", encoded.server);
    // On a port of unknown protocol they would permit other bytes.
    policy.protocol = Protocol::Detect { timeout: Duration::from_secs(1) };
    let encoded = encode(&policy, &facts());
    assert!(encoded.server.authorizations.is_empty(), "{:#?}", encoded.server);
    policy.effects = Vec::new();
    assert_eq!(encode(&policy, &facts()).server.authorizations.len(), 1);
}

#[test]
fn a_probe_below_a_route_that_is_denied_keeps_our_own_filter() {
    let mut policy = granted();
    let mut route = testing::route("r", vec![RequestMatch::path(PathPattern::prefix("/"))]);
    let rewrite = policy_core::HeaderRewrite { required: true, ..Default::default() };
    route.rules[0].effects = vec![effect(FilterKind::Rewrite(rewrite))].into();
    policy.routes.routes = vec![Arc::new(route)];
    policy.exemptions = vec![probe_from(node(), "/live")];
    let encoded = encode(&policy, &facts());
    let routes = http1_routes(&encoded.server);
    assert_eq!(names(routes), ["probe", "r"]);
    assert_eq!(routes[0].authorizations.len(), 1, "of the node alone");
    assert_eq!(routes[0].rules[0].filters.len(), 1);
    assert!(routes[1].authorizations.is_empty());
    assert!(encoded.server.authorizations.is_empty());
}

#[test]
fn facts_stand_in_for_symbols() {
    let mut policy = testing::default_policy(DefaultPolicy::ClusterUnauthenticated);
    policy.exemptions = vec![probe_from(node(), "/live")];
    let server = encode(&policy, &facts()).server;
    assert_eq!(server.server_ips.len(), 2);
    assert_eq!(server.authorizations[0].networks.len(), 1);
    assert_eq!(server.authorizations[0].networks[0].net.as_ref().unwrap().prefix_len, 8);
    let probe = &http1_routes(&server)[1];
    assert_eq!(probe.authorizations[0].networks[0].net.as_ref().unwrap().prefix_len, 32);
    // Facts that are not known stand for nobody, and that is said.
    let encoded = encode(&policy, &Facts::default());
    assert!(encoded.server.authorizations.is_empty());
    assert_eq!(names(http1_routes(&encoded.server)), ["default"]);
    assert_eq!(
        messages(&encoded),
        [
            "authorization default cluster-unauthenticated: Cluster stands for nothing: not sent",
            "authorization default probe: NodeLocal stands for nothing: not sent",
        ]
    );
}

#[test]
fn a_probe_route_beside_real_ones_has_their_grants_too() {
    let mut policy = granted();
    let mut api = testing::route("api", vec![RequestMatch::path(PathPattern::prefix("/api"))]);
    api.authorizations = testing::set(vec![testing::grant("r", vec![testing::identity("b")])]);
    policy.routes.routes = vec![Arc::new(api)];
    policy.exemptions = vec![probe_from(node(), "/api/live")];
    let server = encode(&policy, &facts()).server;
    let routes = http1_routes(&server);
    assert_eq!(names(routes), ["probe", "api"]);
    assert_eq!(routes[0].authorizations.len(), 2, "the node's and the route's");
    assert_eq!(server.authorizations.len(), 1, "all inherit, so the Server keeps its own");

    // Where no route matches the probe's path, nobody but the node may go there.
    policy.exemptions = vec![probe_from(node(), "/live")];
    let encoded = encode(&policy, &facts());
    let routes = http1_routes(&encoded.server);
    assert_eq!(routes[0].authorizations.len(), 1);
    assert!(encoded.server.authorizations.is_empty(), "else they would count on the probe route");
    assert_eq!(routes[1].authorizations.len(), 2, "so they move to the route that inherits");
    assert_eq!(encoded.unsupported.len(), 2, "{:?}", messages(&encoded));
}

#[test]
fn a_port_that_denies_grants_nothing() {
    let mut policy = granted();
    policy.deny = Some(Denied::ServerInvalid);
    let server = encode(&policy, &facts()).server;
    assert_eq!(names(http1_routes(&server)), ["server_invalid"]);
    assert!(server.authorizations.is_empty());
    let mut policy = granted();
    policy.routes.otherwise = Unmatched::Deny(Denied::RoutesInvalid);
    let server = encode(&policy, &facts()).server;
    assert_eq!(names(http1_routes(&server)), ["routes_invalid"]);
    assert!(server.authorizations.is_empty());
}

#[test]
fn where_nothing_matches_no_route_is_added() {
    let mut policy = granted();
    policy.routes.routes = vec![Arc::new(testing::route("r", Vec::new()))];
    let encoded = encode(&policy, &facts());
    assert_eq!(names(http1_routes(&encoded.server)), ["r"]);
    assert_eq!(encoded.server.authorizations.len(), 1);
    assert!(encoded.unsupported.is_empty());
}

#[test]
fn a_host_that_answers_404_is_guarded_against_wider_hosts() {
    let mut policy = granted();
    let mut own = testing::route("own", vec![RequestMatch::path(PathPattern::exact("/a"))]);
    let host = HostPattern::parse("a.example.com");
    own.hosts = vec![host.clone()].into();
    policy.routes.routes = vec![Arc::new(own)];
    policy.routes.hosts = [(host, Unmatched::NotFound)].into();
    assert_eq!(names(http1_routes(&encode(&policy, &facts()).server)), ["own"]);
    policy.routes.routes.push(Arc::new(testing::route("any", Vec::new())));
    let server = encode(&policy, &facts()).server;
    assert_eq!(names(http1_routes(&server)), ["own", "any", "guard"]);
    assert!(server.authorizations.is_empty());
}

#[test]
fn several_conditions_of_a_kind_are_intersected() {
    let grant = |tests| {
        let mut policy = testing::default_policy(DefaultPolicy::Deny);
        policy.authorizations = testing::set(vec![testing::grant("g", tests)]);
        encode(&policy, &Facts::default())
    };
    let both = grant(vec![testing::network("10.0.0.0/8"), testing::network("10.1.0.0/16")]);
    let networks = &both.server.authorizations[0].networks;
    assert_eq!(networks.len(), 1);
    assert_eq!(networks[0].net.as_ref().unwrap().prefix_len, 16);
    let apart = grant(vec![testing::network("10.0.0.0/8"), testing::network("fd00::/8")]);
    assert!(apart.server.authorizations.is_empty());
    let names = grant(vec![testing::identity("a"), testing::identity("b")]);
    assert!(names.server.authorizations.is_empty());
    let passed = grant(vec![Predicate::TlsPassthrough]);
    assert!(passed.server.authorizations.is_empty());
    assert_eq!(
        messages(&passed),
        [
            "authorization AuthorizationPolicy test/g: a condition on TLS that is passed through (`conditions`): not sent"
        ]
    );
}

#[test]
fn an_expression_is_sent_percent_encoded_and_as_it_is_written() {
    let wanted = RequestMatch::path(PathPattern::Regex(Pattern::parse("/a é|/b").unwrap()));
    let mut policy = granted();
    let on_port = wanted.on_port(policy.paths).into_owned();
    policy.routes.routes = vec![Arc::new(testing::route("one", vec![on_port]))];
    let sent = |options: &EncodeOptions| {
        let server = compat::encode(&policy, &facts(), options).server;
        http1_routes(&server)[0].rules[0].matches[0].path.as_ref().unwrap().kind.clone()
    };
    let regex = |text: &str| Some(http_route::path_match::Kind::Regex(text.into()));
    assert_eq!(
        sent(&EncodeOptions::default()),
        regex("^(?:(?:/a%20%C3%A9|/b)|(?:/a é|/b))$"),
        "Linkerd's proxies compare a path as it was received"
    );
    let written = EncodeOptions { matches_as_written: true, ..EncodeOptions::default() };
    assert_eq!(sent(&written), regex("/a é|/b"));
}

#[test]
fn a_port_whose_limit_refuses_every_request_is_denied() {
    let mut policy = granted();
    let source = Source::Object(testing::object("HTTPLocalRateLimitPolicy", "l"));
    let (total, identity, overrides) = (None, None, Vec::new());
    policy.rate_limit =
        Some(policy_core::RateLimit { source, total, identity, overrides, refuses: true });
    let encoded = encode(&policy, &facts());
    assert_eq!(names(http1_routes(&encoded.server)), ["rate_limit_invalid"]);
    assert_eq!(encoded.server.authorizations, Vec::new());
    assert_eq!(
        messages(&encoded),
        [
            "rate limit HTTPLocalRateLimitPolicy test/l: a rate limit without a readable number; the port is denied"
        ]
    );
}

#[test]
fn paths_with_parameters_are_sent_where_no_other_expression_competes() {
    let parameter = || PathPattern::Segments {
        segments: vec![Segment::Literal("a.b".into()), Segment::Parameter("id".into())].into(),
        rest: false,
    };
    let mut policy = granted();
    policy.routes.routes =
        vec![Arc::new(testing::route("one", vec![RequestMatch::path(parameter())]))];
    let server = encode(&policy, &facts()).server;
    let path = http1_routes(&server)[0].rules[0].matches[0].path.as_ref().unwrap();
    let expected = http_route::path_match::Kind::Regex(r"^(?:/a\.b/[^/]+)$".into());
    assert_eq!(path.kind.as_ref(), Some(&expected));
    let mut other = testing::route("two", vec![RequestMatch::path(parameter())]);
    other.inherits_server = false;
    policy.routes.routes.push(Arc::new(other));
    let encoded = encode(&policy, &facts());
    assert_eq!(names(http1_routes(&encoded.server)), ["proxy_unsupported"]);
    assert_eq!(
        messages(&encoded),
        ["port: paths with parameters that compete with others: the port is denied"]
    );
}

/// A prefix has text where a path has a parameter: it comes first here, and there the longer match.
#[test]
fn a_path_with_parameters_that_a_prefix_comes_before_is_not_sent() {
    let parameters = PathPattern::Segments {
        segments: vec![Segment::Parameter("a".into()), Segment::Parameter("b".into())].into(),
        rest: false,
    };
    let sent = |prefix: &str| {
        let mut policy = granted();
        let own = testing::route("own", vec![RequestMatch::path(parameters.clone())]);
        let mut before =
            testing::route("before", vec![RequestMatch::path(PathPattern::prefix(prefix))]);
        before.inherits_server = false;
        policy.routes.routes = vec![Arc::new(own), Arc::new(before)];
        names(http1_routes(&encode(&policy, &facts()).server))
    };
    assert_eq!(sent("/admin"), ["proxy_unsupported"]);
    assert_eq!(sent("/admin/users"), ["proxy_unsupported"]);
    // Here as there the path comes first, or they never meet.
    assert_eq!(sent("/"), ["own", "before"]);
    assert_eq!(sent("/a/b/c"), ["own", "before"]);
}

#[test]
fn paths_of_one_shape_that_never_meet_are_sent() {
    let path = |last: &str| PathPattern::Segments {
        segments: vec![
            Segment::Literal("books".into()),
            Segment::Parameter("id".into()),
            Segment::Literal(last.into()),
        ]
        .into(),
        rest: false,
    };
    let mut policy = granted();
    let edit = testing::route("edit", vec![RequestMatch::path(path("edit"))]);
    let mut delete = testing::route("delete", vec![RequestMatch::path(path("delete"))]);
    delete.inherits_server = false;
    policy.routes.routes = vec![Arc::new(edit), Arc::new(delete)];
    assert_eq!(names(http1_routes(&encode(&policy, &facts()).server)), ["edit", "delete"]);
}

/// A call of this method of the service `s`, or of any; granted to `client` alone.
fn call_route(service: &str, method: Option<&str>, client: &str) -> Arc<policy_core::Route> {
    let wanted = RequestMatch::grpc(Some(service), method);
    let grant = testing::grant(client, vec![testing::identity(client)]);
    Arc::new(policy_core::Route {
        kind: policy_core::RouteKind::Grpc,
        inherits_server: false,
        authorizations: testing::set(vec![grant]),
        ..testing::route(client, vec![wanted])
    })
}

#[test]
fn a_path_with_parameters_never_takes_requests_from_an_exact_one() {
    // Linkerd's proxies rank both by the length matched, so that the first would win for `b`.
    for other in [call_route("s", Some("m"), "b"), {
        let mut route = (*call_route("s", None, "b")).clone();
        let prefix = RequestMatch::path(PathPattern::prefix("/s/m"));
        route.rules[0].matches = [prefix.with_method(Some(Method::POST))].into();
        Arc::new(route)
    }] {
        let mut policy = testing::policy();
        policy.routes.routes = vec![call_route("s", None, "a"), other];
        let encoded = encode(&policy, &facts());
        assert_eq!(names(http1_routes(&encoded.server)), ["proxy_unsupported"]);
    }
}

#[test]
fn calls_of_different_services_are_sent_where_the_protocol_is_not_grpc() {
    let mut policy = testing::policy();
    policy.routes.routes = vec![
        call_route("s", None, "a"),
        call_route("t", None, "b"),
        call_route("u", Some("m"), "c"),
    ];
    let encoded = encode(&policy, &facts());
    assert_eq!(names(http1_routes(&encoded.server)), ["a", "b", "c"]);
    // One service by any name meets all of them.
    let mut any = (*call_route("s", None, "d")).clone();
    any.rules[0].matches = vec![RequestMatch::grpc(None, Some("m"))].into();
    policy.routes.routes.push(Arc::new(any));
    let encoded = encode(&policy, &facts());
    assert_eq!(names(http1_routes(&encoded.server)), ["proxy_unsupported"]);
}

#[test]
fn the_grant_to_localhost_is_not_sent_because_proxies_have_it() {
    let mut policy = testing::default_policy(DefaultPolicy::AllUnauthenticated);
    let plain = encode(&policy, &facts());
    let mut localhost = (*testing::grant("l", vec![testing::network("127.0.0.1/32")])).clone();
    localhost.source = Source::Default("localhost".into());
    let granted = policy.authorizations.iter().cloned().chain([Arc::new(localhost)]);
    policy.authorizations = testing::set(granted.collect());
    assert_eq!(encode(&policy, &facts()), plain);
}

#[test]
fn options_send_what_linkerds_controller_sends() {
    let linkerds = EncodeOptions {
        connection_secure_header: true,
        matches_as_written: true,
        without_addresses: true,
    };
    let mut policy = testing::policy();
    let mut route = (*call_route("s", None, "a")).clone();
    let prefix = RequestMatch::path(PathPattern::prefix("/a/"));
    let expression = PathPattern::Regex(Pattern::parse("/b|/bc").unwrap());
    let written = WrittenMatch::Path("/a/".into());
    route.rules[0].matches =
        vec![prefix.with_written(written), RequestMatch::path(expression)].into();
    let mut all = route.rules[0].clone();
    all.matches = vec![RequestMatch::everything().with_written(WrittenMatch::Nothing)].into();
    route.rules = vec![route.rules[0].clone(), all].into();
    policy.routes.routes = vec![Arc::new(route)];
    let sent = |options: &EncodeOptions| {
        let encoded = compat::encode(&policy, &facts(), options);
        let rules = http1_routes(&encoded.server)[0].rules.clone();
        let paths = rules.iter().map(|rule| {
            let paths = rule
                .matches
                .iter()
                .map(|wanted| wanted.path.as_ref().and_then(|path| path.kind.clone()).unwrap());
            paths.collect::<Vec<_>>()
        });
        let filters: usize = rules.iter().map(|rule| rule.filters.len()).sum();
        (paths.collect::<Vec<_>>(), filters, encoded.server.server_ips.len())
    };
    use http_route::path_match::Kind;
    let (prefix, regex) =
        (|text: &str| Kind::Prefix(text.into()), |text: &str| Kind::Regex(text.into()));
    let addresses = facts().pod_addresses.len();
    assert_eq!(
        sent(&EncodeOptions::default()),
        (vec![vec![prefix("/a"), regex("^(?:/b|/bc)$")], vec![prefix("/")]], 2, addresses)
    );
    let written = vec![vec![prefix("/a/"), regex("/b|/bc")], vec![]];
    assert_eq!(sent(&linkerds), (written, 0, 0));
}

#[test]
fn audit_is_the_name_of_the_grant() {
    let policy = testing::default_policy(DefaultPolicy::Audit);
    let encoded = encode(&policy, &facts());
    assert!(encoded.unsupported.is_empty());
    assert!(compat::decode(&encoded.server).unwrap().authorizations[0].audit);
    let policy = testing::default_policy(DefaultPolicy::AllUnauthenticated);
    let encoded = encode(&policy, &facts());
    assert!(!compat::decode(&encoded.server).unwrap().authorizations[0].audit);
}
