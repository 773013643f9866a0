//! Messages about destinations against the published ones, and against what they are made from.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    deprecated,
    reason = "a test fails by panicking; fields that are not used any more are there"
)]

use linkerd2_proxy_api as theirs;
use policy_core::destination::{
    Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, ServiceDestination,
    ServiceName,
};
use policy_proto::compat::{
    ContextToken, PathError, PathTarget, is_opaque, outbound_policy, parse_path, profile,
    read_target, updates,
};
use policy_proto::linkerd::{destination, outbound};
use proptest::collection::btree_map;
use proptest::prelude::*;
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use theirs::destination::protocol_hint::{self, OpaqueTransport};
use theirs::destination::tls_identity::{DnsLikeIdentity, Strategy as Proof, UriLikeIdentity};
use theirs::destination::update::Update as Change;
use theirs::destination::{
    DestinationProfile, ProtocolHint, TlsIdentity, Update, WeightedAddr, http2_client_params,
};
use theirs::outbound::proxy_protocol::{self, Kind};

const DOMAIN: &str = "cluster.local";

/// Both have the same fields of the same names, numbers and types, as far as `value` sets them.
fn alike<T, O>(value: &T) -> O
where
    T: Message + Default + Debug + PartialEq,
    O: Message + Default + Debug + PartialEq,
{
    let bytes = value.encode_to_vec();
    let ours = O::decode(bytes.as_slice()).unwrap();
    assert_eq!(fields(&ours), fields(value));
    assert_eq!(ours.encode_to_vec(), bytes);
    assert_eq!(&T::decode(ours.encode_to_vec().as_slice()).unwrap(), value);
    ours
}

/// Names and values of all fields, in an order that does not depend on that of their declaration.
fn fields(message: &impl Debug) -> Vec<String> {
    let mut lines: Vec<_> = format!("{message:#?}").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Reads ours as theirs, of which nothing gets lost.
fn published<O, T>(ours: &O) -> T
where
    O: Message + Default + Debug + PartialEq,
    T: Message + Default + Debug + PartialEq,
{
    let theirs = T::decode(ours.encode_to_vec().as_slice()).unwrap();
    assert_eq!(&O::decode(theirs.encode_to_vec().as_slice()).unwrap(), ours);
    theirs
}

fn one(key: &str) -> HashMap<String, String> {
    HashMap::from([(key.to_owned(), format!("{key} value"))])
}

fn span(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 7 })
}

fn metadata(name: &str) -> Option<theirs::meta::Metadata> {
    let resource = theirs::meta::Resource {
        group: "core".into(),
        kind: "Service".into(),
        name: name.into(),
        namespace: "ns".into(),
        section: "section".into(),
        port: 80,
    };
    Some(theirs::meta::Metadata { kind: Some(theirs::meta::metadata::Kind::Resource(resource)) })
}

fn dns(name: &str) -> DnsLikeIdentity {
    DnsLikeIdentity { name: name.into() }
}

fn address(text: &str) -> Option<theirs::net::TcpAddress> {
    let address: SocketAddr = text.parse().unwrap();
    Some(address.into())
}

/// Every field of an endpoint.
fn whole_endpoint(strategy: Proof, protocol: protocol_hint::Protocol) -> WeightedAddr {
    WeightedAddr {
        addr: address("[fd00::1]:8080"),
        weight: 3,
        metric_labels: one("endpoint"),
        tls_identity: Some(TlsIdentity { strategy: Some(strategy), server_name: Some(dns("sni")) }),
        protocol_hint: Some(ProtocolHint {
            protocol: Some(protocol),
            opaque_transport: Some(OpaqueTransport { inbound_port: 4143 }),
        }),
        authority_override: Some(theirs::destination::AuthorityOverride {
            authority_override: "other".into(),
        }),
        http2: Some(theirs::destination::Http2ClientParams {
            flow_control: Some(http2_client_params::FlowControl {
                initial_connection_window_size: 1,
                initial_stream_window_size: 2,
                adaptive_flow_control: true,
            }),
            keep_alive: Some(http2_client_params::KeepAlive {
                interval: span(1),
                timeout: span(2),
                while_idle: true,
            }),
            internals: Some(http2_client_params::Internals {
                max_concurrent_reset_streams: 3,
                max_frame_size: 4,
                max_send_buf_size: 5,
            }),
        }),
        resource_ref: metadata("pod"),
    }
}

#[test]
fn endpoints_are_the_published_ones_in_every_field() {
    use protocol_hint::{H2, Opaque, Protocol};
    let by_name = Proof::DnsLikeIdentity(dns("identity"));
    let by_uri = Proof::UriLikeIdentity(UriLikeIdentity { uri: "spiffe://a/b".into() });
    let endpoints = [
        whole_endpoint(by_name, Protocol::H2(H2 {})),
        whole_endpoint(by_uri, Protocol::Opaque(Opaque {})),
    ];
    let set = theirs::destination::WeightedAddrSet {
        addrs: endpoints.to_vec(),
        metric_labels: one("set"),
    };
    let gone = theirs::destination::AddrSet {
        addrs: vec![address("10.0.0.1:80").unwrap(), address("[fd00::2]:81").unwrap()],
    };
    let changes = [
        Change::Add(set),
        Change::Remove(gone),
        Change::NoEndpoints(theirs::destination::NoEndpoints { exists: true }),
    ];
    for change in changes {
        alike::<_, destination::Update>(&Update { update: Some(change) });
    }
    alike::<_, destination::GetDestination>(&theirs::destination::GetDestination {
        scheme: "k8s".into(),
        path: "web.ns.svc.cluster.local:80".into(),
        context_token: "{}".into(),
    });
}

#[test]
fn profiles_are_the_published_ones_in_every_field() {
    use theirs::destination as dst;
    let path = dst::PathMatch { regex: "/.*".into() };
    let path = dst::RequestMatch { r#match: Some(dst::request_match::Match::Path(path)) };
    let method = theirs::http_types::HttpMethod {
        r#type: Some(theirs::http_types::http_method::Type::Unregistered("BREW".into())),
    };
    let method = dst::RequestMatch { r#match: Some(dst::request_match::Match::Method(method)) };
    let not = dst::request_match::Match::Not(Box::new(path.clone()));
    let not = dst::RequestMatch { r#match: Some(not) };
    let any = dst::request_match::Seq { matches: vec![path, method] };
    let any = dst::RequestMatch { r#match: Some(dst::request_match::Match::Any(any)) };
    let all = dst::request_match::Seq { matches: vec![not, any] };
    let condition = dst::RequestMatch { r#match: Some(dst::request_match::Match::All(all)) };
    let status = dst::HttpStatusRange { min: 500, max: 599 };
    let status = dst::ResponseMatch { r#match: Some(dst::response_match::Match::Status(status)) };
    let not = dst::response_match::Match::Not(Box::new(status.clone()));
    let not = dst::ResponseMatch { r#match: Some(not) };
    let any = dst::response_match::Seq { matches: vec![status] };
    let any = dst::ResponseMatch { r#match: Some(dst::response_match::Match::Any(any)) };
    let all = dst::response_match::Seq { matches: vec![not, any] };
    let response = dst::ResponseMatch { r#match: Some(dst::response_match::Match::All(all)) };
    let route = dst::Route {
        condition: Some(condition),
        response_classes: vec![dst::ResponseClass { condition: Some(response), is_failure: true }],
        metrics_labels: one("route"),
        is_retryable: true,
        timeout: span(9),
    };
    let by_name = Proof::DnsLikeIdentity(dns("identity"));
    let hint = protocol_hint::Protocol::H2(protocol_hint::H2 {});
    alike::<_, destination::DestinationProfile>(&DestinationProfile {
        fully_qualified_name: "web.ns.svc.cluster.local".into(),
        opaque_protocol: true,
        routes: vec![route],
        retry_budget: Some(dst::RetryBudget {
            retry_ratio: 0.5,
            min_retries_per_second: 3,
            ttl: span(4),
        }),
        dst_overrides: vec![dst::WeightedDst {
            authority: "other:80".into(),
            weight: 2,
            backend_ref: metadata("other"),
        }],
        endpoint: Some(whole_endpoint(by_name, hint)),
        parent_ref: metadata("web"),
        profile_ref: metadata("profile"),
    });
}

/// Every field of a backend.
fn backends() -> Vec<theirs::outbound::Backend> {
    use theirs::outbound::backend::{self, balance_p2c, endpoint_discovery};
    let get = endpoint_discovery::DestinationGet { path: "web.ns:80".into() };
    let discovery =
        Some(backend::EndpointDiscovery { kind: Some(endpoint_discovery::Kind::Dst(get)) });
    let peak = balance_p2c::PeakEwma { default_rtt: span(1), decay: span(2) };
    let penalty = balance_p2c::PenaltyPeakEwma {
        default_rtt: span(1),
        decay: span(2),
        penalty: span(3),
        max_retry_after: span(4),
        penalty_decay: span(5),
    };
    let by_name = Proof::DnsLikeIdentity(dns("identity"));
    let endpoint = whole_endpoint(by_name, protocol_hint::Protocol::H2(protocol_hint::H2 {}));
    let balancer = |load| {
        let balancer = backend::BalanceP2c { discovery: discovery.clone(), load: Some(load) };
        backend::Kind::Balancer(balancer)
    };
    let kinds = [
        backend::Kind::Forward(endpoint),
        balancer(balance_p2c::Load::PeakEwma(peak)),
        balancer(balance_p2c::Load::PenaltyPeakEwma(penalty)),
    ];
    let backend = |kind| theirs::outbound::Backend {
        metadata: metadata("backend"),
        kind: Some(kind),
        queue: Some(theirs::outbound::Queue { capacity: 7, failfast_timeout: span(8) }),
    };
    kinds.into_iter().map(backend).collect()
}

/// The three distributions of a kind of route, with filters in the second.
macro_rules! distributions {
    ($route:ident, $filters:expr, $($timeout:ident)?) => {{
        use theirs::outbound::$route::{
            Distribution, RouteBackend, WeightedRouteBackend, distribution,
        };
        let backend = |backend: theirs::outbound::Backend| RouteBackend {
            backend: Some(backend),
            filters: $filters,
            $($timeout: span(11),)?
        };
        let first: Vec<_> = backends().into_iter().map(backend).collect();
        let weighted = |backend| WeightedRouteBackend { backend: Some(backend), weight: 2 };
        let random = first.iter().cloned().map(weighted).collect();
        let kinds = [
            distribution::Kind::Empty(distribution::Empty {}),
            distribution::Kind::FirstAvailable(distribution::FirstAvailable { backends: first }),
            distribution::Kind::RandomAvailable(distribution::RandomAvailable { backends: random }),
        ];
        kinds.map(|kind| Some(Distribution { kind: Some(kind) }))
    }};
}

fn backoff() -> Option<theirs::outbound::ExponentialBackoff> {
    Some(theirs::outbound::ExponentialBackoff {
        min_backoff: span(1),
        max_backoff: span(2),
        jitter_ratio: 0.25,
        respect_retry_after_hint: true,
    })
}

fn failure_accruals() -> [Option<theirs::outbound::FailureAccrual>; 2] {
    use theirs::outbound::failure_accrual::{ConsecutiveFailures, Kind, Unified};
    let kinds = [
        Kind::ConsecutiveFailures(ConsecutiveFailures { max_failures: 7, backoff: backoff() }),
        Kind::Unified(Unified {
            success_rate_threshold: 0.5,
            decay: span(3),
            min_requests: 4,
            max_consecutive_failures: 5,
            backoff: backoff(),
        }),
    ];
    kinds.map(|kind| {
        let ejection = Some(theirs::outbound::EjectionConfig { min_ready_endpoints: 2 });
        Some(theirs::outbound::FailureAccrual { kind: Some(kind), ejection })
    })
}

fn timeouts() -> Option<theirs::http_route::Timeouts> {
    Some(theirs::http_route::Timeouts { response: span(1), request: span(2), idle: span(3) })
}

fn hosts() -> Vec<theirs::http_route::HostMatch> {
    let exact = theirs::http_route::host_match::Match::Exact("a".into());
    vec![theirs::http_route::HostMatch { r#match: Some(exact) }]
}

fn headers() -> Option<theirs::http_types::Headers> {
    let header = theirs::http_types::headers::Header { name: "a".into(), value: vec![1] };
    Some(theirs::http_types::Headers { headers: vec![header] })
}

fn http_routes() -> Vec<theirs::outbound::HttpRoute> {
    use theirs::http_route::{
        HttpFailureInjector, Ratio, RequestHeaderModifier, RequestRedirect, ResponseHeaderModifier,
    };
    use theirs::outbound::http_route::{Filter, Retry, Rule, filter, retry};
    let remove = vec!["b".to_owned()];
    let filters: Vec<_> = [
        filter::Kind::FailureInjector(HttpFailureInjector {
            status: 500,
            message: "no".into(),
            ratio: Some(Ratio { numerator: 1, denominator: 2 }),
        }),
        filter::Kind::RequestHeaderModifier(RequestHeaderModifier {
            add: headers(),
            set: headers(),
            remove: remove.clone(),
        }),
        filter::Kind::Redirect(RequestRedirect { port: 80, status: 302, ..Default::default() }),
        filter::Kind::ResponseHeaderModifier(ResponseHeaderModifier {
            add: headers(),
            set: headers(),
            remove,
        }),
    ]
    .map(|kind| Filter { kind: Some(kind) })
    .into();
    let conditions = retry::Conditions {
        status_ranges: vec![retry::conditions::StatusRange { start: 1, end: 2 }],
    };
    let rules = distributions!(http_route, filters.clone(), request_timeout).map(|backends| Rule {
        matches: vec![theirs::http_route::HttpRouteMatch::default()],
        filters: filters.clone(),
        backends,
        request_timeout: span(1),
        timeouts: timeouts(),
        retry: Some(Retry {
            max_retries: 1,
            max_request_bytes: 2,
            conditions: Some(conditions.clone()),
            timeout: span(3),
            backoff: backoff(),
        }),
        allow_l5d_request_headers: true,
    });
    vec![theirs::outbound::HttpRoute {
        metadata: metadata("route"),
        hosts: hosts(),
        rules: rules.into(),
    }]
}

fn grpc_routes() -> Vec<theirs::outbound::GrpcRoute> {
    use theirs::outbound::grpc_route::{Filter, Retry, Rule, filter, retry};
    let failure = theirs::grpc_route::GrpcFailureInjector {
        code: 7,
        message: "no".into(),
        ratio: Some(theirs::http_route::Ratio { numerator: 1, denominator: 2 }),
    };
    let modifier = theirs::http_route::RequestHeaderModifier {
        add: headers(),
        set: headers(),
        remove: vec!["b".into()],
    };
    let filters: Vec<_> =
        [filter::Kind::FailureInjector(failure), filter::Kind::RequestHeaderModifier(modifier)]
            .map(|kind| Filter { kind: Some(kind) })
            .into();
    let conditions = retry::Conditions {
        cancelled: true,
        deadine_exceeded: true,
        resource_exhausted: true,
        internal: true,
        unavailable: true,
    };
    let rules = distributions!(grpc_route, filters.clone(), request_timeout).map(|backends| Rule {
        matches: vec![theirs::grpc_route::GrpcRouteMatch::default()],
        filters: filters.clone(),
        backends,
        request_timeout: span(1),
        timeouts: timeouts(),
        retry: Some(Retry {
            max_retries: 1,
            max_request_bytes: 2,
            conditions: Some(conditions),
            timeout: span(3),
            backoff: backoff(),
        }),
        allow_l5d_request_headers: true,
    });
    vec![theirs::outbound::GrpcRoute {
        metadata: metadata("route"),
        hosts: hosts(),
        rules: rules.into(),
    }]
}

macro_rules! byte_filters {
    ($route:ident) => {{
        use theirs::outbound::$route::{Filter, filter};
        let invalid = theirs::opaque_route::Invalid { message: "no".into() };
        let kinds = [
            filter::Kind::Invalid(invalid),
            filter::Kind::Forbidden(theirs::opaque_route::Forbidden {}),
        ];
        Vec::from(kinds.map(|kind| Filter { kind: Some(kind) }))
    }};
}

fn opaque_routes() -> Vec<theirs::outbound::OpaqueRoute> {
    let filters = byte_filters!(opaque_route);
    let rules = distributions!(opaque_route, filters.clone(),).map(|backends| {
        theirs::outbound::opaque_route::Rule { backends, filters: filters.clone() }
    });
    vec![theirs::outbound::OpaqueRoute { metadata: metadata("route"), rules: rules.into() }]
}

fn tls_routes() -> Vec<theirs::outbound::TlsRoute> {
    use theirs::tls_route::{SniMatch, sni_match};
    let filters = byte_filters!(tls_route);
    let rules = distributions!(tls_route, filters.clone(),)
        .map(|backends| theirs::outbound::tls_route::Rule { backends, filters: filters.clone() });
    let suffix = sni_match::Suffix { reverse_labels: vec!["com".into(), "example".into()] };
    let snis = [sni_match::Match::Exact("a".into()), sni_match::Match::Suffix(suffix)];
    vec![theirs::outbound::TlsRoute {
        metadata: metadata("route"),
        snis: snis.map(|sni| SniMatch { r#match: Some(sni) }).into(),
        rules: rules.into(),
    }]
}

#[test]
fn outbound_policies_are_the_published_ones_in_every_field() {
    use proxy_protocol::{Detect, Grpc, Http1, Http2, Opaque, Tls};
    let opaque = Opaque { routes: opaque_routes() };
    let [by_row, by_share] = failure_accruals();
    let http1 = Http1 { routes: http_routes(), failure_accrual: by_row };
    let http2 = Http2 { routes: http_routes(), failure_accrual: by_share };
    let kinds = [
        Kind::Opaque(opaque.clone()),
        Kind::Http1(http1.clone()),
        Kind::Http2(http2.clone()),
        Kind::Grpc(Grpc { routes: grpc_routes(), failure_accrual: by_row }),
        Kind::Tls(Tls { routes: tls_routes() }),
        Kind::Detect(Detect {
            timeout: span(10),
            opaque: Some(opaque),
            http1: Some(http1),
            http2: Some(http2),
        }),
    ];
    for kind in kinds {
        alike::<_, outbound::OutboundPolicy>(&theirs::outbound::OutboundPolicy {
            protocol: Some(theirs::outbound::ProxyProtocol { kind: Some(kind) }),
            metadata: metadata("web"),
        });
    }
    let targets = [
        theirs::outbound::traffic_spec::Target::Addr(address("10.0.0.1:80").unwrap()),
        theirs::outbound::traffic_spec::Target::Authority("web.ns:80".into()),
    ];
    for target in targets {
        alike::<_, outbound::TrafficSpec>(&theirs::outbound::TrafficSpec {
            source_workload: "ns:pod".into(),
            target: Some(target),
        });
    }
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn web() -> ServiceName {
    ServiceName { namespace: "ns".into(), name: "web".into() }
}

fn meshed(identity: &str, opaque: bool) -> EndpointMesh {
    EndpointMesh::Meshed(MeshEndpoint {
        identity: identity.into(),
        server_name: if identity.contains("://") { "sni.example" } else { identity }.into(),
        inbound_port: Some(port(4143)),
        opaque,
    })
}

fn endpoint(address: &str, mesh: EndpointMesh) -> Endpoint {
    let (owner, namespace) = ("deployment/web".into(), "ns".into());
    Endpoint { address: address.parse().unwrap(), owner, namespace, mesh }
}

fn plain(address: &str) -> Endpoint {
    endpoint(address, EndpointMesh::Plaintext(PlaintextReason::Unmeshed))
}

fn service(endpoints: Vec<Endpoint>) -> Destination {
    Destination::Service(ServiceDestination {
        service: web(),
        port: port(80),
        affinity: None,
        endpoints: endpoints.into(),
    })
}

fn labels(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// An endpoint as it is sent, but for its mesh.
fn sent(at: &str) -> WeightedAddr {
    WeightedAddr {
        addr: address(at),
        weight: 10_000,
        metric_labels: labels(&[("namespace", "ns"), ("deployment", "web")]),
        ..Default::default()
    }
}

fn proof(strategy: Proof, server_name: &str) -> Option<TlsIdentity> {
    Some(TlsIdentity { strategy: Some(strategy), server_name: Some(dns(server_name)) })
}

fn profile_of(destination: &Destination) -> DestinationProfile {
    published(&profile(destination, port(80), DOMAIN))
}

#[test]
fn an_endpoint_is_reached_as_its_mesh_says() {
    use protocol_hint::{H2, Opaque, Protocol};
    let web = "web.ns.serviceaccount.identity.cp.cluster.local";
    let http = Some(ProtocolHint { protocol: Some(Protocol::H2(H2 {})), opaque_transport: None });
    let by_header = Some(ProtocolHint {
        protocol: Some(Protocol::Opaque(Opaque {})),
        opaque_transport: Some(OpaqueTransport { inbound_port: 4143 }),
    });
    let uri = || Proof::UriLikeIdentity(UriLikeIdentity { uri: "spiffe://a/b".into() });
    let cases = [
        (meshed(web, false), proof(Proof::DnsLikeIdentity(dns(web)), web), http),
        (meshed(web, true), proof(Proof::DnsLikeIdentity(dns(web)), web), by_header),
        (meshed("spiffe://a/b", false), proof(uri(), "sni.example"), http),
        (EndpointMesh::Plaintext(PlaintextReason::Skipped), None, None),
        (EndpointMesh::Plaintext(PlaintextReason::ForeignMesh), None, None),
    ];
    for (mesh, tls_identity, protocol_hint) in cases {
        let one = endpoint("10.0.0.1:8080", mesh);
        let expected = WeightedAddr { tls_identity, protocol_hint, ..sent("10.0.0.1:8080") };
        let profile = profile_of(&Destination::Workload(one.clone()));
        assert_eq!(profile.endpoint.as_ref(), Some(&expected));
        let update: Vec<Update> =
            updates(None, &service(vec![one])).iter().map(published).collect();
        let metric_labels = labels(&[("namespace", "ns"), ("service", "web")]);
        let set = theirs::destination::WeightedAddrSet { addrs: vec![expected], metric_labels };
        assert_eq!(update, [Update { update: Some(Change::Add(set)) }]);
    }
}

/// Clients take an identity that they cannot read for none, and the highest port for no port.
#[test]
fn an_endpoint_in_the_mesh_that_cannot_be_described_is_never_plaintext() {
    let mesh = |identity: &str, server_name: &str, inbound: Option<u16>, opaque| {
        let (identity, server_name) = (identity.into(), server_name.into());
        let inbound_port = inbound.map(port);
        EndpointMesh::Meshed(MeshEndpoint { identity, server_name, inbound_port, opaque })
    };
    let long = format!("{}.example", "a".repeat(64));
    let cases = [
        mesh("", "", Some(4143), false),
        mesh("a b", "a.example", Some(4143), false),
        mesh("-a.example", "a.example", Some(4143), false),
        mesh("a..example", "a.example", Some(4143), false),
        mesh("10.0.0.1", "a.example", Some(4143), false),
        mesh(&long, "a.example", Some(4143), false),
        mesh("a.example", "", Some(4143), false),
        mesh("spiffe://a/b", "", Some(4143), false),
        mesh("a.example", "a.example", None, true),
        mesh("a.example", "a.example", Some(u16::MAX), true),
    ];
    for mesh in cases {
        let opaque = matches!(&mesh, EndpointMesh::Meshed(meshed) if meshed.opaque);
        let one = endpoint("10.0.0.1:8080", mesh.clone());
        let nobody =
            proof(Proof::DnsLikeIdentity(dns("unreachable.invalid")), "unreachable.invalid");
        let expected = DestinationProfile {
            opaque_protocol: opaque,
            endpoint: Some(WeightedAddr { tls_identity: nobody, ..sent("10.0.0.1:8080") }),
            ..Default::default()
        };
        assert_eq!(profile_of(&Destination::Workload(one.clone())), expected, "{mesh:?}");
        assert_eq!(applied(&[updates(None, &service(vec![one.clone()]))]), None, "{mesh:?}");
        let other = plain("10.0.0.2:8080");
        let left = applied(&[updates(None, &service(vec![one, other]))]).unwrap();
        assert_eq!(left.into_values().collect::<Vec<_>>(), [sent("10.0.0.2:8080")], "{mesh:?}");
    }
}

#[test]
fn a_profile_says_what_an_address_stands_for() {
    let of_service = DestinationProfile {
        fully_qualified_name: "web.ns.svc.cluster.local".into(),
        parent_ref: Some(theirs::meta::Metadata {
            kind: Some(theirs::meta::metadata::Kind::Resource(theirs::meta::Resource {
                group: "core".into(),
                kind: "Service".into(),
                name: "web".into(),
                namespace: "ns".into(),
                section: String::new(),
                port: 80,
            })),
        }),
        ..Default::default()
    };
    let opaque = endpoint("10.0.0.2:8080", meshed("a.example", true));
    let cases = [
        (Destination::Unknown, DestinationProfile::default()),
        (Destination::Node, DestinationProfile::default()),
        (Destination::UndeclaredPort(web()), of_service.clone()),
        (service(vec![plain("10.0.0.1:80")]), of_service.clone()),
        (
            service(vec![plain("10.0.0.1:80"), opaque]),
            DestinationProfile { opaque_protocol: true, ..of_service },
        ),
    ];
    for (destination, expected) in cases {
        assert_eq!(profile_of(&destination), expected, "{destination:?}");
        assert_eq!(is_opaque(&destination), expected.opaque_protocol);
    }
}

/// The endpoints of a client that has read all of these messages; none: it knows that there are none.
fn applied(messages: &[Vec<destination::Update>]) -> Option<BTreeMap<SocketAddr, WeightedAddr>> {
    let mut has = None;
    for update in messages.iter().flatten() {
        match published::<_, Update>(update).update.unwrap() {
            Change::Add(set) => {
                assert!((1..=500).contains(&set.addrs.len()));
                let has = has.get_or_insert_with(BTreeMap::new);
                for one in set.addrs {
                    has.insert(one.addr.unwrap().try_into().unwrap(), one);
                }
            }
            // Never first: there is something to remove from.
            Change::Remove(set) => {
                assert!((1..=500).contains(&set.addrs.len()));
                let has = has.as_mut().unwrap();
                for one in set.addrs {
                    let address: SocketAddr = one.try_into().unwrap();
                    assert!(has.remove(&address).is_some());
                    assert!(!has.is_empty(), "the last one goes by its own message");
                }
            }
            Change::NoEndpoints(_) => has = None,
        }
    }
    has
}

#[test]
fn the_first_message_is_complete_and_large_sets_come_in_parts() {
    let many: Vec<_> =
        (0..1200u16).map(|n| plain(&format!("10.0.{}.{}:80", n / 250, n % 250))).collect();
    let first = updates(None, &service(many.clone()));
    assert_eq!(first.len(), 3);
    assert_eq!(applied(std::slice::from_ref(&first)).unwrap().len(), 1200);
    let fewer = service(many[..1].to_vec());
    let second = updates(Some(&service(many)), &fewer);
    assert_eq!(applied(&[first, second]).unwrap().len(), 1);
    let cases = [
        (Destination::Unknown, false),
        (Destination::UndeclaredPort(web()), true),
        (service(Vec::new()), true),
    ];
    for (none, exists) in cases {
        let no_endpoints = destination::NoEndpoints { exists };
        let no_endpoints = destination::update::Update::NoEndpoints(no_endpoints);
        let message = destination::Update { update: Some(no_endpoints) };
        assert_eq!(updates(None, &none), std::slice::from_ref(&message));
        assert_eq!(updates(Some(&fewer), &none), [message]);
        assert_eq!(updates(Some(&none), &none), []);
    }
    let again = updates(Some(&Destination::Unknown), &service(Vec::new()));
    assert_eq!(again.len(), 1, "that it exists now is news");
}

fn any_set() -> impl Strategy<Value = Destination> {
    let mesh = prop_oneof![
        Just(EndpointMesh::Plaintext(PlaintextReason::Unmeshed)),
        Just(meshed("a.example", false)),
        Just(meshed("a.example", true)),
        Just(meshed("not a name", false)),
    ];
    let set = btree_map(0..12u8, mesh, 0..6).prop_map(|set| {
        let one = |(last, mesh)| endpoint(&format!("10.0.0.{last}:80"), mesh);
        service(set.into_iter().map(one).collect())
    });
    prop_oneof![8 => set, 1 => Just(Destination::Unknown)]
}

proptest! {
    /// Whatever came before, a client has what one has that asks now.
    #[test]
    fn changes_lead_where_a_first_answer_does(states in prop::collection::vec(any_set(), 1..6)) {
        let mut before = None;
        let mut messages = Vec::new();
        for now in &states {
            messages.push(updates(before, now));
            before = Some(now);
            prop_assert_eq!(applied(&messages), applied(&[updates(None, now)]));
        }
    }
}

#[test]
fn the_policy_of_a_service_is_its_endpoints_and_nothing_else() {
    use theirs::outbound::backend::{self, balance_p2c, endpoint_discovery};
    let reference = profile_of(&service(Vec::new())).parent_ref;
    let get = endpoint_discovery::DestinationGet { path: "web.ns.svc.cluster.local:80".into() };
    let seconds = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    let load = balance_p2c::PeakEwma { default_rtt: seconds(0, 30_000_000), decay: seconds(10, 0) };
    let backend = theirs::outbound::Backend {
        metadata: reference.clone(),
        queue: Some(theirs::outbound::Queue { capacity: 100, failfast_timeout: seconds(3, 0) }),
        kind: Some(backend::Kind::Balancer(backend::BalanceP2c {
            discovery: Some(backend::EndpointDiscovery {
                kind: Some(endpoint_discovery::Kind::Dst(get)),
            }),
            load: Some(balance_p2c::Load::PeakEwma(load)),
        })),
    };
    let built_in = |name: &str| {
        let kind = theirs::meta::metadata::Kind::Default(name.into());
        Some(theirs::meta::Metadata { kind: Some(kind) })
    };
    let bytes = {
        use theirs::outbound::opaque_route::{Distribution, RouteBackend, Rule, distribution};
        let backend = RouteBackend { backend: Some(backend.clone()), filters: Vec::new() };
        let first = distribution::FirstAvailable { backends: vec![backend] };
        let kind = Some(distribution::Kind::FirstAvailable(first));
        let rule = Rule { backends: Some(Distribution { kind }), filters: Vec::new() };
        let metadata = built_in("opaque");
        let route = theirs::outbound::OpaqueRoute { metadata, rules: vec![rule] };
        proxy_protocol::Opaque { routes: vec![route] }
    };
    let routes = {
        use theirs::outbound::http_route::{Distribution, RouteBackend, Rule, distribution};
        let backend = RouteBackend { backend: Some(backend), ..Default::default() };
        let first = distribution::FirstAvailable { backends: vec![backend] };
        let kind = Some(distribution::Kind::FirstAvailable(first));
        let rule = Rule {
            matches: vec![theirs::http_route::HttpRouteMatch::default()],
            backends: Some(Distribution { kind }),
            ..Default::default()
        };
        let (metadata, hosts) = (built_in("http"), Vec::new());
        vec![theirs::outbound::HttpRoute { metadata, hosts, rules: vec![rule] }]
    };
    let detect = proxy_protocol::Detect {
        timeout: seconds(10, 0),
        opaque: Some(bytes.clone()),
        http1: Some(proxy_protocol::Http1 { routes: routes.clone(), failure_accrual: None }),
        http2: Some(proxy_protocol::Http2 { routes, failure_accrual: None }),
    };
    for (opaque, kind) in [(false, Kind::Detect(detect)), (true, Kind::Opaque(bytes))] {
        let policy: theirs::outbound::OutboundPolicy =
            published(&outbound_policy(&web(), port(80), opaque, DOMAIN));
        let protocol = Some(theirs::outbound::ProxyProtocol { kind: Some(kind) });
        let metadata = reference.clone();
        assert_eq!(policy, theirs::outbound::OutboundPolicy { protocol, metadata });
    }
}

#[test]
fn a_path_names_an_address_or_a_service_of_this_cluster() {
    let at = |address: &str, number| {
        Ok(PathTarget::Address(address.parse::<IpAddr>().unwrap(), port(number)))
    };
    let service = |number| Ok(PathTarget::Service(web(), port(number)));
    let bad_port = |path: &str| Err(PathError::Port(path.to_owned()));
    let cases = [
        ("10.0.0.1:8080", at("10.0.0.1", 8080)),
        ("10.0.0.1", at("10.0.0.1", 80)),
        ("[fd00::1]:8080", at("fd00::1", 8080)),
        ("[fd00::1]", at("fd00::1", 80)),
        ("fd00::1", at("fd00::1", 80)),
        ("[::ffff:10.0.0.1]:8080", at("10.0.0.1", 8080)),
        ("web.ns.svc.cluster.local:8080", service(8080)),
        ("WEB.ns.svc.Cluster.local.:8080", service(8080)),
        ("web.ns.svc.cluster.local", service(80)),
        ("web-0.web.ns.svc.cluster.local:80", Ok(PathTarget::Foreign)),
        ("web.ns.svc.east.example:80", Ok(PathTarget::Foreign)),
        ("web.ns.svc.notcluster.local:80", Ok(PathTarget::Foreign)),
        ("ns.svc.cluster.local:80", Ok(PathTarget::Foreign)),
        (".ns.svc.cluster.local:80", Ok(PathTarget::Foreign)),
        ("web..svc.cluster.local:80", Ok(PathTarget::Foreign)),
        ("example.com:443", Ok(PathTarget::Foreign)),
        ("", Err(PathError::NoHost(String::new()))),
        (":80", Err(PathError::NoHost(":80".into()))),
        ("a:", bad_port("a:")),
        ("a:0", bad_port("a:0")),
        ("a:+80", bad_port("a:+80")),
        ("a:65536", bad_port("a:65536")),
        ("[fd00::1]80", bad_port("[fd00::1]80")),
    ];
    for (path, expected) in cases {
        assert_eq!(parse_path(path, DOMAIN), expected, "{path}");
    }
}

#[test]
fn a_target_is_read_or_refused_by_its_field() {
    use outbound::TrafficSpec;
    use outbound::traffic_spec::Target;
    use policy_proto::linkerd::net::TcpAddress;
    let spec = |target| TrafficSpec { source_workload: "ns:pod".into(), target };
    let theirs = theirs::outbound::TrafficSpec {
        source_workload: "ns:pod".into(),
        target: Some(theirs::outbound::traffic_spec::Target::Addr(address("10.0.0.1:80").unwrap())),
    };
    let by_address: TrafficSpec = alike(&theirs);
    let expected = PathTarget::Address([10, 0, 0, 1].into(), port(80));
    assert_eq!(read_target(&by_address, DOMAIN), Ok(expected));
    let by_name = spec(Some(Target::Authority("web.ns.svc.cluster.local:80".into())));
    assert_eq!(read_target(&by_name, DOMAIN), Ok(PathTarget::Service(web(), port(80))));
    let without_ip = TcpAddress { ip: None, port: 80 };
    let Some(Target::Addr(address)) = by_address.target else { panic!("an address") };
    let without_port = TcpAddress { port: 0, ..address };
    let cases = [
        (spec(None), "target: must be set"),
        (spec(Some(Target::Addr(without_ip))), "addr.ip: must be set"),
        (spec(Some(Target::Addr(without_port))), "addr.port: not from 1 to 65535"),
        (spec(Some(Target::Authority(":1".into()))), "authority: no host in `:1`"),
    ];
    for (spec, message) in cases {
        assert_eq!(read_target(&spec, DOMAIN).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_client_without_a_readable_token_is_nowhere() {
    let whole = ContextToken {
        pod: Some(policy_core::WorkloadKey::pod("ns", "web-0")),
        node: Some(Arc::from("node-1")),
    };
    let cases = [
        ("{\"ns\":\"ns\",\"nodeName\":\"node-1\",\"pod\":\"web-0\",\"more\":1}\n", whole.clone()),
        ("{\"nodeName\":\"node-1\"}", ContextToken { pod: None, ..whole.clone() }),
        ("{\"ns\":\"ns\",\"pod\":\"web-0\"}", ContextToken { node: None, ..whole }),
        ("{\"ns\":\"ns\",\"nodeName\":\"\",\"pod\":3}", ContextToken::default()),
        ("ns:web-0", ContextToken::default()),
        ("[]", ContextToken::default()),
        ("", ContextToken::default()),
    ];
    for (token, expected) in cases {
        assert_eq!(ContextToken::parse(token), expected, "{token}");
    }
}
