//! Property-test strategies.

use super::builders::object;
use super::owned::{OwnedConnection, OwnedRequest, OwnedTls};
use crate::authorization::{Authorization, AuthorizationSet, Condition, Predicate, Requirement};
use crate::compact_list::ThinVec;
use crate::condition::{SegmentCondition, SegmentOperator};
use crate::decision::Denied;
use crate::filter::{Filter, FilterKind};
use crate::identity::{Identity, IdentityMatch};
use crate::matching::{
    HeaderMatch, HostPattern, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch,
};
use crate::name::{DelegatedPath, Origin, Source};
use crate::network::{Facts, NetworkMatch, NetworkSymbol, NetworkTerm};
use crate::pattern::Pattern;
use crate::policy::{
    Exemption, InformationalHeaders, Owner, PathHandling, Protocol, Route, RouteKind, RouteTable,
    Rule, ServerPolicy, Unmatched, UpstreamReuse,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

// The last four are two paths on a port that compares match forms, and four on another.
const SEGMENTS: [&str; 9] = ["a", "b", "admin", "a.b", "", "a:b", "a%3Ab", "c|d", "c%7Cd"];
const HOSTS: [&str; 6] =
    ["a.example.com", "example.com", "b.a.example.com", "com", "web", "xexample.com"];
const SUFFIXES: [&str; 4] = ["example.com", "com", "a.example.com", "le.com"];
pub(super) const HEADERS: [&str; 4] = ["x-a", "x-a", "x-b", "host"];
// The last two are one host.
pub(super) const VALUES: [&str; 8] =
    ["1", "2", "", "a b", "1,2", "é", "example.com", "Example.com:80"];
const REGEXES: [&str; 8] =
    ["/a/.*", "/(a|b|a:b)", "[0-9]", ".*", "/admin(/.*)?", "(?i)/A", r"\b1\b", "é"];
const NAMES: [&str; 5] = ["c.ns.mesh", "d.ns.mesh", "ns.mesh", "c.ms.mesh", "x.c.ns.mesh"];
const NAME_SUFFIXES: [&str; 4] = ["ns.mesh", "mesh", "c.ns.mesh", "s.mesh"];
const NETS: [&str; 8] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3/32",
    "0.0.0.0/0",
    "::/0",
    "fd00::/8",
    "fd00::1/128",
    "10.1.2.3/8",
];
const CLIENTS: [&str; 6] = ["10.1.2.3", "10.1.9.9", "10.2.0.1", "192.0.2.1", "fd00::1", "fe80::1"];

fn text(from: &'static [&'static str]) -> impl Strategy<Value = Arc<str>> {
    select(from).prop_map(Arc::from)
}

/// The expressions, parsed once for all policies.
fn any_regex() -> impl Strategy<Value = Pattern> {
    static PARSED: LazyLock<[Option<Pattern>; REGEXES.len()]> =
        LazyLock::new(|| REGEXES.map(|source| Pattern::parse(source).ok()));
    select(&PARSED[..]).prop_filter_map("invalid expression", |pattern| pattern)
}

fn any_value() -> impl Strategy<Value = ValueMatch> {
    prop_oneof![
        3 => select(&VALUES[..2]).prop_map(|v| ValueMatch::Exact(v.as_bytes().into())),
        1 => select(&VALUES[2..]).prop_map(|v| ValueMatch::Exact(v.as_bytes().into())),
        1 => any_regex().prop_map(ValueMatch::Regex),
    ]
}

fn any_path() -> impl Strategy<Value = PathPattern> {
    let segment = prop_oneof![
        3 => text(&SEGMENTS).prop_map(Segment::Literal),
        1 => Just(Segment::Parameter("p".into())),
    ];
    prop_oneof![
        6 => (vec(segment, 0..4), any::<bool>())
            .prop_map(|(segments, rest)| PathPattern::Segments { segments: segments.into(), rest }),
        3 => Just(PathPattern::prefix("/")),
        1 => any_regex().prop_map(PathPattern::Regex),
    ]
}

fn any_method() -> impl Strategy<Value = Method> {
    let own = Method::from_bytes(b"get").unwrap_or(Method::PATCH);
    select(vec![Method::GET, Method::POST, Method::OPTIONS, own])
}

fn any_match() -> impl Strategy<Value = RequestMatch> {
    let header = (select(&HEADERS[..]), any_value())
        .prop_map(|(name, value)| HeaderMatch { name: HeaderName::from_static(name), value });
    let query = (text(&["q", "r s", "é"]), any_value())
        .prop_map(|(name, value)| QueryMatch { name, value });
    (any_path(), option::weighted(0.3, any_method()), vec(header, 0..3), vec(query, 0..2))
        .prop_map(|(path, method, headers, query)| RequestMatch::new(path, method, headers, query))
}

fn any_test() -> impl Strategy<Value = Predicate> {
    let name = prop_oneof![
        1 => Just(IdentityMatch::Any),
        3 => text(&NAMES).prop_map(IdentityMatch::Exact),
        2 => text(&NAME_SUFFIXES).prop_map(IdentityMatch::Suffix),
        1 => Just(IdentityMatch::Exact("spiffe://mesh/c".into())),
    ];
    prop_oneof![
        3 => vec(any_network(), 0..3).prop_map(Predicate::Network),
        3 => vec(name, 0..3).prop_map(Predicate::Identity),
        1 => Just(Predicate::MeshTls),
        1 => Just(Predicate::TlsPassthrough),
        1 => any_segment_condition().prop_map(Predicate::Segment),
    ]
}

pub(super) fn any_segment_condition() -> impl Strategy<Value = SegmentCondition> {
    let operator = select(vec![SegmentOperator::In, SegmentOperator::NotIn]);
    (0..3_u32, operator, vec(select(&SEGMENTS[..]), 0..3))
        .prop_map(|(place, operator, values)| SegmentCondition::new("p", place, operator, values))
}

fn any_net() -> impl Strategy<Value = IpNet> {
    select(&NETS[..]).prop_filter_map("invalid block", |net| net.parse().ok())
}

fn any_network() -> impl Strategy<Value = NetworkMatch> {
    let term = prop_oneof![
        4 => any_net().prop_map(NetworkTerm::Net),
        1 => select(vec![NetworkSymbol::NodeLocal, NetworkSymbol::Cluster])
            .prop_map(NetworkTerm::Symbol),
    ];
    (term, vec(any_net(), 0..2)).prop_map(|(term, except)| NetworkMatch { term, except })
}

fn any_grant() -> impl Strategy<Value = Arc<Authorization>> {
    let requirement = prop_oneof![
        1 => Just(None),
        6 => vec(any_test(), 1..3).prop_map(Some),
        1 => vec(any_test(), 0..4).prop_map(Some),
    ];
    (0_u8..9, requirement, any::<bool>()).prop_map(|(number, tests, audit)| {
        let source = Source::Object(object("AuthorizationPolicy", &number.to_string()));
        let requirement = match tests {
            None => Requirement::Nothing,
            Some(tests) => Requirement::All(
                tests.into_iter().map(|test| Condition { source: source.clone(), test }).collect(),
            ),
        };
        Arc::new(Authorization { source, requirement, audit })
    })
}

fn any_set() -> impl Strategy<Value = AuthorizationSet> {
    prop_oneof![
        3 => vec(any_grant(), 0..3),
        1 => vec(any_grant(), 5..20),
    ]
    .prop_map(AuthorizationSet::from)
}

fn any_host_pattern() -> impl Strategy<Value = HostPattern> {
    prop_oneof![
        text(&HOSTS).prop_map(HostPattern::Exact),
        text(&SUFFIXES).prop_map(HostPattern::Suffix),
    ]
}

fn any_unmatched() -> impl Strategy<Value = Unmatched> {
    select(vec![
        Unmatched::DefaultRoute,
        Unmatched::NotFound,
        Unmatched::Deny(Denied::RoutesInvalid),
        Unmatched::Deny(Denied::NotDelegated),
        Unmatched::FallThrough,
        Unmatched::FallThrough,
    ])
}

/// A path that was handed down to any of few objects, directly or by way of another.
fn any_delegated_path() -> impl Strategy<Value = Arc<DelegatedPath>> {
    let chain = vec(0_u8..9, 1..4).prop_map(|numbers| {
        numbers.iter().map(|n| object("InboundRoute", &n.to_string())).collect()
    });
    (chain, text(&["/", "/a", "/a/b"]))
        .prop_map(|(chain, prefix)| Arc::new(DelegatedPath { chain, prefix }))
}

fn any_route() -> impl Strategy<Value = Route> {
    let origin = prop_oneof![
        36 => (0_u8..9).prop_map(|n| {
            Origin::Objects([object("HTTPRoute", &n.to_string())].into())
        }),
        4 => Just(Origin::Deny(Denied::ProxyUnsupported)),
        8 => any_delegated_path().prop_map(Origin::Delegated),
        4 => any_delegated_path().prop_map(Origin::Undelegated),
        2 => (0_u8..9).prop_map(|n| Origin::Unreadable(object("HTTPRoute", &n.to_string()))),
    ];
    let rule = prop_oneof![
        4 => vec(any_match(), 0..3),
        1 => any_path().prop_flat_map(|path| {
            // Many matches on one path, so that the index by value and method is used.
            vec(any_match(), 9..20).prop_map(move |mut matches| {
                matches.iter_mut().for_each(|one| one.path = path.clone());
                matches
            })
        }),
    ]
    .prop_map(|matches| Rule { matches: matches.into(), effects: ThinVec::new() });
    let hosts = vec(any_host_pattern(), 0..3);
    (origin, hosts, vec(rule, 0..3), any_set(), any::<bool>()).prop_map(
        |(origin, hosts, rules, authorizations, inherits_server)| Route {
            origin,
            kind: RouteKind::Http,
            created: None,
            label: None,
            hosts: hosts.into(),
            rules: rules.into(),
            authorizations,
            inherits_server,
            withheld: ThinVec::new(),
        },
    )
}

fn any_protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![
        8 => Just(Protocol::Http1),
        2 => Just(Protocol::Detect { timeout: Duration::from_secs(10) }),
        1 => select(vec![Protocol::Http2, Protocol::Grpc, Protocol::Opaque, Protocol::Tls]),
    ]
}

/// Any policy: every kind of match, condition, host table and default.
pub fn any_policy() -> impl Strategy<Value = ServerPolicy> {
    let deny = option::weighted(0.05, Just(Denied::ServerInvalid));
    let exemption = (option::of(any_match()), any_grant()).prop_map(|(request, authorization)| {
        Exemption { request: request.map(Arc::new), authorization }
    });
    let table = (
        vec(any_route().prop_map(Arc::new), 0..6),
        btree_map(any_host_pattern(), any_unmatched(), 0..3),
        any_unmatched(),
    )
        .prop_map(|(routes, hosts, otherwise)| RouteTable { routes, hosts, otherwise });
    let timeout = Filter {
        source: Source::Default("test".into()),
        kind: FilterKind::Timeout(Duration::from_secs(1)),
    };
    let exemptions = prop_oneof![1 => Just(Vec::new()), 1 => vec(exemption, 1..4)];
    let paths = prop_oneof![3 => Just(PathHandling::Canonical), 1 => Just(PathHandling::Raw)];
    (any_protocol(), deny, paths, any_set(), exemptions, table, vec(Just(timeout), 0..2)).prop_map(
        |(protocol, deny, paths, authorizations, exemptions, routes, effects)| ServerPolicy {
            owner: Owner::Server(object("Server", "web")),
            protocol,
            deny,
            paths,
            informational_headers: InformationalHeaders::Enabled,
            upstream_reuse: UpstreamReuse::Usual,
            authorizations,
            exemptions,
            routes,
            rate_limit: None,
            effects,
            withheld: Vec::new(),
        },
    )
}

/// Any client: inside and outside of the networks and identities of [`any_policy`].
pub fn any_client() -> impl Strategy<Value = OwnedConnection> {
    let tls = prop_oneof![
        Just(OwnedTls::Absent),
        Just(OwnedTls::Passthrough),
        Just(OwnedTls::Terminated(None)),
        text(&NAMES).prop_map(|n| OwnedTls::Terminated(Some(Identity::Dns(n)))),
        text(&NAMES).prop_map(|n| OwnedTls::Terminated(Some(Identity::Dns(n)))),
        select(vec!["spiffe://mesh/c", "spiffe://mesh/d.ns.mesh"])
            .prop_map(|n| OwnedTls::Terminated(Some(Identity::Spiffe(n.into())))),
    ];
    let client = select(&CLIENTS[..])
        .prop_filter_map("invalid address", |client| client.parse::<IpAddr>().ok());
    (client, tls, vec(any_net(), 0..2), vec(any_net(), 0..2)).prop_map(
        |(client, tls, node_local, cluster)| OwnedConnection {
            client,
            tls,
            facts: Facts { node_local, cluster, ..Facts::default() },
        },
    )
}

fn any_visible_text() -> impl Strategy<Value = String> {
    vec(proptest::char::range(' ', '~'), 0..=12).prop_map(String::from_iter)
}

/// Any request: near the matches of [`any_policy`], or hostile.
pub fn any_request() -> impl Strategy<Value = OwnedRequest> {
    let path = prop_oneof![
        8 => vec(select(&SEGMENTS[..]), 1..5).prop_map(|s| format!("/{}", s.join("/"))),
        1 => select(vec!["", "*", "a", "//", "/a//", "/é"]).prop_map(str::to_owned),
        1 => any_visible_text().prop_map(|text| format!("/{text}")),
    ];
    let query = prop_oneof![
        2 => Just(None),
        2 => vec(
            (select(vec!["q", "r+s", "r%20s", "%C3%A9", "Q", ""]),
             select(vec!["1", "2", "%31", "a+b", "a%20b", "", "%", "%zz", "%C3%A9", "%ff", "é"])),
            0..3,
        )
        .prop_map(|pairs| {
            let pairs: Vec<String> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
            Some(pairs.join("&"))
        }),
        1 => any_visible_text().prop_map(Some),
    ];
    let value = prop_oneof![
        9 => select(&VALUES[..2]).prop_map(|v| v.as_bytes().to_vec()),
        3 => select(&VALUES[..5]).prop_map(|v| v.as_bytes().to_vec()),
        1 => select(vec![b"\xff1".to_vec(), "é".as_bytes().to_vec(), b"1\t".to_vec()]),
    ];
    let host = prop_oneof![
        3 => select(&HOSTS[..]).prop_map(str::to_owned),
        1 => select(vec![".", "..", "a.", ".com", "example.com.", "", "10.0.0.1", "[::1]"])
            .prop_map(str::to_owned),
    ];
    let headers = vec((select(&HEADERS[..]), value), 0..4);
    (any_method(), option::of(host), path, query, headers).prop_map(
        |(method, host, path, query, lines)| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    headers.append(HeaderName::from_static(name), value);
                }
            }
            OwnedRequest { method, host, path, query, headers }
        },
    )
}
