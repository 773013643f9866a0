//! Trees of paths that were handed down, as Linkerd's proxies hold to them. The model of their matcher
//! is written from what they do, not from our order.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use http::{HeaderName, Method, Uri};
use ipnet::IpNet;
use policy_core::host::canonical_host;
use policy_core::testing::{self, OwnedConnection, OwnedRequest};
use policy_core::{
    AuthorizationSet, Decision, DelegatedPath, Denied, Facts, HeaderMatch, HostPattern, Origin,
    PathPattern, Pattern, Protocol, RequestMatch, Route, ServerPolicy, Unmatched, ValueMatch,
    canonical_path, match_form, naive,
};
use policy_proto::compat::{self, EncodeOptions, Encoded};
use policy_proto::linkerd::http_route::host_match::Match as HostKind;
use policy_proto::linkerd::http_route::path_match::Kind as PathKind;
use policy_proto::linkerd::http_route::{HostMatch, HttpRouteMatch, header_match};
use policy_proto::linkerd::http_types::http_method;
use policy_proto::linkerd::inbound::authn::permit_mesh_tls::Clients;
use policy_proto::linkerd::inbound::authn::{Permit, PermitMeshTls};
use policy_proto::linkerd::inbound::http_route::filter::Kind as FilterKind;
use policy_proto::linkerd::inbound::proxy_protocol::Kind as ProtocolKind;
use policy_proto::linkerd::inbound::{Authz, HttpRoute, Server};
use policy_proto::linkerd::net::IpNetwork;
use policy_proto::linkerd::net::ip_address::Ip;
use policy_proto::{Fallback, Part};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::net::IpAddr;
use std::sync::Arc;

/// A Linkerd proxy's own reading of a message.
mod model {
    use super::*;
    use regex_automata::meta::Regex;
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex};

    /// A state of its code.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Version {
        /// Since change 4605 hosts are compared without case.
        pub(super) ignores_case: bool,
        /// Since change 4604 an exact path ranks above others that cover as much, and a method above
        /// headers and parameters.
        pub(super) method_first: bool,
    }

    pub(super) const VERSIONS: [Version; 4] = [
        Version { ignores_case: false, method_first: false },
        Version { ignores_case: false, method_first: true },
        Version { ignores_case: true, method_first: false },
        Version { ignores_case: true, method_first: true },
    ];

    /// The rank of a match: the host, how much of the path it covers, and what else counts.
    type Rank = ((u8, usize), usize, bool, [usize; 3]);

    /// A match of a request.
    struct Matched {
        covered: usize,
        is_exact: bool,
        headers: usize,
        query: usize,
        method: usize,
    }

    /// Returns true if a proxy of any version forwards the request.
    pub(super) fn forwards(
        server: &Server,
        client: &OwnedConnection,
        asked: &OwnedRequest,
    ) -> bool {
        VERSIONS.iter().any(|version| forwarded(*version, server, client, asked))
    }

    /// Returns true if the proxy forwards the request.
    pub(super) fn forwarded(
        version: Version,
        server: &Server,
        client: &OwnedConnection,
        asked: &OwnedRequest,
    ) -> bool {
        let mut best: Option<(Rank, &HttpRoute, bool)> = None;
        for route in routes(server) {
            let host = asked.host.as_deref().map(|host| match version.ignores_case {
                true => host.to_ascii_lowercase(),
                false => host.to_owned(),
            });
            let Some(host) = of_host(&route.hosts, host.as_deref()) else { continue };
            for rule in &route.rules {
                let implicit = [HttpRouteMatch::default()];
                let matches = if rule.matches.is_empty() { &implicit[..] } else { &rule.matches };
                let answers = rule.filters.iter().any(|filter| {
                    matches!(
                        filter.kind,
                        Some(FilterKind::FailureInjector(_) | FilterKind::Redirect(_))
                    )
                });
                for matched in matches.iter().filter_map(|wanted| of_match(wanted, asked)) {
                    let Matched { covered, is_exact, headers, query, method } = matched;
                    let rank = match version.method_first {
                        true => (host, covered, is_exact, [method, headers, query]),
                        false => (host, covered, false, [headers, query, method]),
                    };
                    // The first listed of equals.
                    if best.as_ref().is_none_or(|(other, _, _)| rank > *other) {
                        best = Some((rank, route, answers));
                    }
                }
            }
        }
        let Some((_, route, answers)) = best else { return false };
        let mut grants = server.authorizations.iter().chain(&route.authorizations);
        !answers && grants.any(|grant| holds(grant, client))
    }

    pub(super) fn routes(server: &Server) -> &[HttpRoute] {
        let Some(ProtocolKind::Http1(http1)) = &server.protocol.as_ref().unwrap().kind else {
            panic!("another protocol: {server:?}")
        };
        &http1.routes
    }

    fn of_host(hosts: &[HostMatch], host: Option<&str>) -> Option<(u8, usize)> {
        if hosts.is_empty() {
            return Some((0, 0));
        }
        let host = host?;
        let host = host.strip_suffix('.').unwrap_or(host);
        let rank = |pattern: &HostMatch| match pattern.r#match.as_ref().unwrap() {
            HostKind::Exact(name) => (name == host).then_some((2, 0)),
            HostKind::Suffix(suffix) => {
                let mut labels = suffix.reverse_labels.iter();
                let mut theirs = host.split('.').rev();
                let all = labels.all(|label| theirs.next() == Some(label.as_str()));
                (all && theirs.next().is_some()).then_some((1, suffix.reverse_labels.len()))
            }
        };
        hosts.iter().filter_map(rank).max()
    }

    fn of_match(wanted: &HttpRouteMatch, asked: &OwnedRequest) -> Option<Matched> {
        let path = asked.path.as_str();
        let kind = wanted.path.as_ref().map(|path| path.kind.as_ref().unwrap());
        let covered = match kind {
            None => 1,
            Some(PathKind::Exact(exact)) => (exact == path).then_some(path.len())?,
            // Of any path, also of one that does not begin with it.
            Some(PathKind::Prefix(prefix)) if prefix == "/" => 1,
            Some(PathKind::Prefix(prefix)) => {
                let prefix = prefix.trim_end_matches('/');
                let rest = path.strip_prefix(prefix)?;
                (prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
                    .then_some(prefix.len())?
            }
            Some(PathKind::Regex(source)) => {
                let found = compiled(source).find(path)?;
                (found.range() == (0..path.len())).then_some(path.len())?
            }
        };
        for header in &wanted.headers {
            let mut lines = asked.headers.get_all(&header.name).iter();
            let matches = lines.any(|line| match header.value.as_ref().unwrap() {
                header_match::Value::Exact(bytes) => line.as_bytes() == bytes,
                header_match::Value::Regex(_) => panic!("no such header"),
            });
            matches.then_some(())?;
        }
        if let Some(method) = &wanted.method {
            let wanted = match method.r#type.as_ref().unwrap() {
                http_method::Type::Registered(number) => {
                    http_method::Registered::try_from(*number).unwrap().as_str_name().to_owned()
                }
                http_method::Type::Unregistered(name) => name.clone(),
            };
            (wanted == asked.method.as_str()).then_some(())?;
        }
        Some(Matched {
            covered,
            is_exact: matches!(kind, Some(PathKind::Exact(_))),
            headers: wanted.headers.len(),
            query: wanted.query_params.len(),
            method: usize::from(wanted.method.is_some()),
        })
    }

    fn compiled(source: &str) -> Regex {
        static KNOWN: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap();
        let new = || Regex::new(source).unwrap();
        known.entry(source.to_owned()).or_insert_with(new).clone()
    }

    fn holds(grant: &Authz, client: &OwnedConnection) -> bool {
        let inside = grant.networks.iter().any(|network| {
            block(network.net.as_ref().unwrap()).contains(&client.client)
                && !network.except.iter().any(|net| block(net).contains(&client.client))
        });
        let identity = client.view().tls;
        let identity = if let policy_core::Tls::Terminated(Some(policy_core::Identity::Dns(name))) =
            identity
        {
            Some(name)
        } else {
            None
        };
        let known = match grant.authentication.as_ref().unwrap().permit.as_ref().unwrap() {
            Permit::Unauthenticated(_) => true,
            Permit::MeshTls(PermitMeshTls { clients }) => match clients.as_ref().unwrap() {
                Clients::Unauthenticated(_) => identity.is_some(),
                Clients::Identities(names) => identity.is_some_and(|own| {
                    let suffix = |parts: &[String]| {
                        own.ends_with(&format!(".{}", parts.join("."))) || parts.is_empty()
                    };
                    names.identities.iter().any(|name| *name.name == **own)
                        || names.suffixes.iter().any(|name| suffix(&name.parts))
                }),
            },
        };
        inside && known
    }

    fn block(net: &IpNetwork) -> IpNet {
        let address = match net.ip.as_ref().unwrap().ip.as_ref().unwrap() {
            Ip::Ipv4(v4) => IpAddr::from(v4.to_be_bytes()),
            Ip::Ipv6(v6) => {
                let bytes = (u128::from(v6.first) << 64) | u128::from(v6.last);
                IpAddr::from(bytes.to_be_bytes())
            }
        };
        IpNet::new(address, u8::try_from(net.prefix_len).unwrap()).unwrap()
    }
}

const HOSTS: [&str; 4] = ["www.example.com", "example.com", "*.example.com", "a.b.example"];
/// Hosts of which none is below another.
const APART: [&str; 4] = ["www.example.com", "example.com", "*.b.example", "a.example"];
const PREFIXES: [&str; 7] =
    ["/", "/finance", "/finance/admin", "/finance/a:b", "/finance/a%20b", "/mail", "/finance/x.y"];
const UNCLEAN: [&str; 4] = ["/finance/..", "/finance//admin", "/admin;x", "/finance/a%3Ab"];
const SEGMENTS: [&str; 26] = [
    "finance",
    "finance",
    "finance",
    "admin",
    "admin",
    "a:b",
    "a%3Ab",
    "a%3ab",
    "a%20b",
    "a%20%62",
    "%66inance",
    "%61dmin",
    "..",
    ".",
    "%2e%2e",
    "",
    "..;",
    "admin;x",
    "x.y",
    "x%2Ey",
    "%5c",
    "%2Fadmin",
    "%00",
    "a|b",
    "mail",
    "Finance",
];

fn encode(policy: &ServerPolicy) -> Encoded {
    compat::encode(policy, &Facts::default(), &EncodeOptions::default())
}

/// Grants for everybody, for the client of the tests, for others, for nobody.
fn any_set() -> impl Strategy<Value = AuthorizationSet> {
    let (near, far) = (testing::network("10.0.0.0/8"), testing::network("192.0.2.0/24"));
    select(vec![
        vec![testing::grant("all", vec![testing::network("0.0.0.0/0")])],
        vec![testing::grant("client", vec![testing::identity("a")])],
        vec![testing::grant("both", vec![near.clone(), testing::network("10.0.0.0/24")])],
        vec![testing::grant("neither", vec![near, far])],
        vec![testing::grant("other", vec![testing::identity("b")])],
        Vec::new(),
    ])
    .prop_map(testing::set)
}

/// Below a prefix that was handed down, an HTTPRoute may have any match.
fn any_match() -> impl Strategy<Value = RequestMatch> {
    let path = prop_oneof![
        4 => select(&PREFIXES[..]).prop_map(PathPattern::prefix),
        2 => select(&PREFIXES[..]).prop_map(PathPattern::exact),
        1 => select(&UNCLEAN[..]).prop_map(PathPattern::exact),
        1 => select(vec!["/finance/.*", "/finance/(admin|x.y)", "/a|/ab"])
            .prop_map(|source| PathPattern::Regex(Pattern::parse(source).unwrap())),
    ];
    let method = select(vec![None, None, None, Some(Method::GET), Some(Method::POST)]);
    let header = |name| HeaderMatch {
        name: HeaderName::from_static(name),
        value: ValueMatch::Exact(b"1"[..].into()),
    };
    let headers = select(vec![vec![], vec![], vec![], vec!["x-a"], vec!["x-a", "x-b"]]);
    (path, method, headers).prop_map(move |(path, method, headers)| {
        RequestMatch::new(path, method, headers.into_iter().map(header).collect(), Vec::new())
    })
}

fn delegated(prefix: &str) -> Arc<DelegatedPath> {
    let chain = ["root", "child"].map(|name| testing::object("InboundRoute", name));
    Arc::new(DelegatedPath { chain: chain.into(), prefix: prefix.into() })
}

/// A route on some hosts of trees.
fn any_route(
    matches: impl Strategy<Value = Vec<RequestMatch>>,
    hosts: &'static [&'static str],
) -> impl Strategy<Value = Arc<Route>> {
    let hosts = subsequence(hosts, 1..=hosts.len());
    let origin = prop_oneof![
        3 => Just(Origin::Delegated(delegated("/finance"))),
        1 => Just(Origin::Undelegated(delegated("/finance"))),
    ];
    (matches, hosts, origin, any_set(), any::<bool>()).prop_map(
        |(matches, hosts, origin, authorizations, inherits_server)| {
            let hosts = hosts.iter().map(|host| HostPattern::parse(host)).collect();
            let route = testing::route("r", matches);
            Arc::new(Route { origin, hosts, authorizations, inherits_server, ..route })
        },
    )
}

fn with_trees(
    routes: Vec<Arc<Route>>,
    hosts: &[&str],
    otherwise: Unmatched,
    grants: AuthorizationSet,
) -> ServerPolicy {
    let mut policy = testing::policy();
    policy.protocol = Protocol::Http1;
    policy.authorizations = grants;
    policy.routes.routes = routes;
    let closed = Unmatched::Deny(Denied::NotDelegated);
    policy.routes.hosts = hosts.iter().map(|host| (HostPattern::parse(host), closed)).collect();
    policy.routes.otherwise = otherwise;
    policy
}

/// Ports with hosts of trees, and with hosts of other routes.
fn any_trees() -> impl Strategy<Value = ServerPolicy> {
    let routes = vec(any_route(vec(any_match(), 0..3), &HOSTS), 0..6);
    let hostless = any_route(vec(any_match(), 0..2), &HOSTS).prop_map(|mut route| {
        Arc::make_mut(&mut route).hosts = Vec::new().into();
        route
    });
    let otherwise = select(vec![
        Unmatched::Deny(Denied::NotDelegated),
        Unmatched::DefaultRoute,
        Unmatched::NotFound,
    ]);
    let closed = subsequence(&HOSTS[..], 1..=HOSTS.len());
    let open =
        select(vec![None, None, Some(Unmatched::DefaultRoute), Some(Unmatched::FallThrough)]);
    (routes, vec(hostless, 0..2), closed, open, otherwise, any_set()).prop_map(
        |(mut routes, hostless, closed, open, otherwise, grants)| {
            routes.extend(hostless);
            let mut policy = with_trees(routes, &closed, otherwise, grants);
            for host in HOSTS.iter().filter(|host| !closed.contains(host)) {
                policy.routes.hosts.extend(open.map(|then| (HostPattern::parse(host), then)));
            }
            policy
        },
    )
}

/// Ports with a tree that is made of prefixes alone.
fn prefixes_alone() -> impl Strategy<Value = ServerPolicy> {
    let prefix = select(&PREFIXES[..])
        .prop_map(|prefix| vec![RequestMatch::path(PathPattern::prefix(prefix))]);
    (vec(any_route(prefix, &APART), 0..6), any_set()).prop_map(|(routes, grants)| {
        with_trees(routes, &APART, Unmatched::Deny(Denied::NotDelegated), grants)
    })
}

fn any_asked() -> impl Strategy<Value = OwnedRequest> {
    let host = select(vec![
        Some("www.example.com"),
        Some("example.com"),
        Some("b.example.com"),
        Some("a.b.example"),
        Some("c.b.example"),
        Some("a.example"),
        Some("other.example"),
        Some("WWW.example.com"),
        Some("www.Example.com."),
        Some("EXAMPLE.COM"),
        Some("B.example.com"),
        Some("B.EXAMPLE.com"),
        Some("A.b.example"),
        Some("a.B.example"),
        Some("C.B.EXAMPLE"),
        None,
    ]);
    let path = vec(select(&SEGMENTS[..]), 0..4).prop_map(|s| format!("/{}", s.join("/")));
    let path = prop_oneof![20 => path, 1 => Just("*".to_owned())];
    let methods = select(vec![Method::GET, Method::GET, Method::POST, Method::CONNECT]);
    let headers = subsequence(vec!["x-a", "x-b"], 0..=2);
    (host, path, methods, headers).prop_map(|(host, path, method, headers)| {
        let path = if method == Method::CONNECT { String::new() } else { path };
        let mut asked = OwnedRequest::get(&path);
        asked.host = host.map(str::to_owned);
        asked.method = method;
        headers.into_iter().fold(asked, |asked, name| asked.header(name, b"1"))
    })
}

fn client() -> OwnedConnection {
    OwnedConnection { client: "10.0.0.7".parse().unwrap(), ..OwnedConnection::meshed("a") }
}

/// Our decision on a request as it is received: CONNECT and a path that is not clean are refused before.
fn permits(policy: &ServerPolicy, asked: &OwnedRequest) -> bool {
    if asked.method == Method::CONNECT {
        return false;
    }
    let Ok(path) = canonical_path(&asked.path) else { return false };
    let asked = OwnedRequest { path: path.into_owned(), host: canonical(asked), ..asked.clone() };
    let decision = naive::decide_request(policy, &client().view(), &asked.view());
    matches!(decision, Decision::Permit(_))
}

/// The host in the form that is matched.
fn canonical(asked: &OwnedRequest) -> Option<String> {
    asked.host.as_deref().map(|host| canonical_host(host).unwrap().name.into_owned())
}

/// Returns true if the request is for a table of a tree. The most specific one of its host decides.
fn is_of_tree(policy: &ServerPolicy, asked: &OwnedRequest) -> bool {
    let closed = Unmatched::Deny(Denied::NotDelegated);
    let host = canonical(asked);
    let admits = |pattern: &&HostPattern| host.as_deref().is_some_and(|host| pattern.admits(host));
    let of_routes = policy.routes.routes.iter().flat_map(|route| route.hosts.iter());
    let tables = policy.routes.hosts.keys().chain(of_routes);
    let rank = |pattern: &&HostPattern| match pattern {
        HostPattern::Exact(_) => usize::MAX,
        HostPattern::Suffix(suffix) => suffix.len(),
    };
    let then = match tables.filter(admits).max_by_key(rank) {
        Some(table) => policy.routes.hosts.get(table).copied(),
        None => Some(policy.routes.otherwise),
    };
    then == Some(closed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_request_of_a_tree_passes_a_linkerd_proxy_that_we_would_deny(
        policy in any_trees(),
        requests in vec(any_asked(), 20),
    ) {
        let encoded = encode(&policy);
        for asked in requests.iter().filter(|asked| is_of_tree(&policy, asked)) {
            let is_target = asked.path.is_empty() || asked.path.parse::<Uri>().is_ok();
            for version in model::VERSIONS {
                if is_target && model::forwarded(version, &encoded.server, &client(), asked) {
                    let here = permits(&policy, asked);
                    prop_assert!(here, "{asked:?} by {version:?} of {encoded:#?}");
                }
            }
        }
    }

    #[test]
    fn clean_requests_of_a_tree_of_prefixes_are_decided_alike_and_no_other_is_wider(
        policy in prefixes_alone(),
        requests in vec(any_asked(), 20),
    ) {
        let encoded = encode(&policy);
        prop_assert_eq!(&encoded.unsupported.iter().find(|u| u.fallback == Fallback::Denied), &None);
        for asked in &requests {
            let clean = asked.path.starts_with('/')
                && canonical_path(&asked.path).is_ok_and(|path| path == asked.path)
                && match_form(&asked.path) == asked.path;
            let small = asked.host.as_deref().is_none_or(|host| host == host.to_ascii_lowercase());
            for version in model::VERSIONS {
                let there = model::forwarded(version, &encoded.server, &client(), asked);
                let here = permits(&policy, asked);
                let equal = clean && (small || version.ignores_case);
                let alike = if equal { there == here } else { here || !there };
                prop_assert!(alike, "{} here: {:?} by {:?} of {:#?}", here, asked, version, encoded);
            }
        }
    }
}

/// The example of a monolith: `/finance` belongs to another team, which lets everybody in; nobody may
/// reach the rest.
fn example(prefixes: &[&str]) -> ServerPolicy {
    let all = || testing::set(vec![testing::grant("all", vec![testing::network("0.0.0.0/0")])]);
    let route = |prefix: &&str| {
        let matched = vec![RequestMatch::path(PathPattern::prefix(prefix))];
        Arc::new(Route {
            origin: Origin::Delegated(delegated(prefix)),
            hosts: [HostPattern::parse("www.example.com")].into(),
            authorizations: all(),
            ..testing::route("r", matched)
        })
    };
    let routes = prefixes.iter().map(route).collect();
    with_trees(routes, &["www.example.com"], Unmatched::Deny(Denied::NotDelegated), all())
}

#[test]
fn every_other_spelling_of_a_path_is_refused_and_no_clean_path() {
    let server = encode(&example(&["/"])).server;
    let passes = |path: &str| {
        let mut asked = OwnedRequest::get(path);
        asked.host = Some("www.example.com".to_owned());
        model::forwards(&server, &client(), &asked)
    };
    for path in [
        "/finance/..",
        "/finance/../x",
        "/finance/.",
        "/finance//static",
        "//finance",
        "//",
        "/finance/%2e%2e/x",
        "/finance/%2E.",
        "/finance%2Fx",
        "/finance%2fx",
        "/finance/..;/x",
        "/finance/a\\..\\b",
        "/finance/%5c",
        "/finance/%00",
        "/finance;v=1",
        "/finance%3Bv",
        "/%66",
        "/a%",
        "/a%4",
        "/a%zz",
        "/é",
        "*",
        "/a%7F",
        "/./",
        "/..",
    ] {
        assert!(!passes(path), "{path}");
    }
    for path in [
        "/finance/a.b",
        "/finance/..a",
        "/finance/...",
        "/.well-known/acme",
        "/finance/a%20b",
        "/",
        "/finance/",
        "/a@b",
        "/a%40b",
        "/caf%C3%A9",
        "/caf%c3%a9",
        "/a|b",
        "/a%25b",
    ] {
        assert!(passes(path), "{path}");
    }
}

#[test]
fn the_guard_refuses_what_a_match_would_tell_apart_from_the_same_path() {
    let server = encode(&example(&["/", "/a:b"])).server;
    let passes = |path: &str| {
        let mut asked = OwnedRequest::get(path);
        asked.host = Some("www.example.com".to_owned());
        model::forwards(&server, &client(), &asked)
    };
    assert!(["/a:b", "/a%20b", "/a@b", "/caf%C3%A9"].into_iter().all(passes));
    assert!(
        !["/a%3Ab", "/a%3ab", "/a%40b", "/caf%c3%a9", "/a|b", "/a%2520b;"].into_iter().any(passes)
    );
}

#[test]
fn the_object_that_holds_the_rule_and_its_path_are_named() {
    use policy_proto::linkerd::meta::metadata::Kind;
    let server = encode(&example(&["/finance"])).server;
    let names: Vec<String> = model::routes(&server)
        .iter()
        .map(|route| match route.metadata.as_ref().unwrap().kind.as_ref().unwrap() {
            Kind::Default(name) => name.clone(),
            Kind::Resource(r) => format!("{} {}/{} {}", r.kind, r.namespace, r.name, r.section),
        })
        .collect();
    let child = "InboundRoute test/child /finance";
    assert_eq!(names, ["guard", "guard", child, "not_delegated", "not_delegated"]);
}

#[test]
fn a_match_that_could_outrank_the_guard_or_another_closes_its_host_alone() {
    let header = |name| HeaderMatch {
        name: HeaderName::from_static(name),
        value: ValueMatch::Exact(b"1"[..].into()),
    };
    let get = |wanted: RequestMatch| wanted.with_method(Some(Method::GET));
    let exact = |path| RequestMatch::path(PathPattern::exact(path));
    let regex = || RequestMatch::path(PathPattern::Regex(Pattern::parse("/finance/.*").unwrap()));
    let parameter = RequestMatch::path(PathPattern::grpc(Some("finance"), None));
    let prefix = RequestMatch::path(PathPattern::prefix("/finance/x"));
    for (matches, asked) in [
        (vec![get(exact("/finance/.."))], "/finance/.."),
        (vec![exact("/finance//x")], "/finance//x"),
        (vec![get(regex())], "/finance/../x"),
        (vec![parameter], "/finance/x"),
        (vec![regex().with_headers(vec![header("x-a")])], "/finance/../x"),
        (vec![exact("/finance/x").with_headers(vec![header("host")])], "/finance/x"),
        // A method ranks above a header here, and below one in older proxies.
        (vec![get(prefix.clone()), prefix.clone().with_headers(vec![header("x-a")])], "/finance/x"),
        // An exact path ranks above a prefix here, and below one with a header there.
        (vec![exact("/finance/x"), prefix.with_headers(vec![header("x-a")])], "/finance/x"),
    ] {
        let mut policy = example(&["/"]);
        let other = HostPattern::parse("other.example");
        policy.routes.hosts.insert(other.clone(), Unmatched::Deny(Denied::NotDelegated));
        let plain = Arc::clone(&policy.routes.routes[0]);
        policy.routes.routes.push(Arc::new(Route { hosts: [other].into(), ..(*plain).clone() }));
        for (number, wanted) in matches.iter().enumerate() {
            let mut route = Route { inherits_server: number == 0, ..(*plain).clone() };
            route.rules[0].matches = [wanted.clone()].into();
            policy.routes.routes.insert(0, Arc::new(route));
        }
        let encoded = encode(&policy);
        let passes = |host: &str, path: &str| {
            let mut asked = OwnedRequest::get(path).header("x-a", b"1");
            asked.host = Some(host.to_owned());
            model::forwards(&encoded.server, &client(), &asked)
        };
        for path in ["/", "/finance", asked] {
            assert!(!passes("www.example.com", path), "{path} by {matches:?}");
        }
        assert!(passes("other.example", "/finance"), "{matches:?}");
        let mut denied = encoded.unsupported.iter().filter(|u| u.fallback == Fallback::Denied);
        assert!(denied.any(|u| u.message.starts_with("`www.example.com`: ")), "{encoded:?}");
    }
}

/// Routes of a tree beside one without hosts, and beside one for every host below the tree's domain.
#[test]
fn what_capital_letters_lead_out_of_a_tree_to_is_denied_and_said() {
    let asked = |host: &str| {
        let mut asked = OwnedRequest::get("/other");
        asked.host = Some(host.to_owned());
        asked
    };
    for (wider, host, open) in [
        (None, "any.example", "www.example.com"),
        (Some("*.example.com"), "b.example.com", "www.example.com"),
    ] {
        let mut policy = example(&["/finance"]);
        let mut beside = Route::clone(&policy.routes.routes[0]);
        beside.origin = Origin::Objects([testing::object("HTTPRoute", "beside")].into());
        beside.hosts = wider.map(HostPattern::parse).into_iter().collect();
        beside.rules[0].matches = [RequestMatch::everything()].into();
        policy.routes.routes.push(Arc::new(beside));
        policy.routes.otherwise = Unmatched::NotFound;
        let encoded = encode(&policy);
        let passes = |asked: &OwnedRequest| model::forwards(&encoded.server, &client(), asked);
        assert!(permits(&policy, &asked(host)), "{wider:?}");
        for name in [host, open, "WWW.example.com", "www.EXAMPLE.com"] {
            assert!(!passes(&asked(name)), "{name} beside {wider:?}: {encoded:#?}");
        }
        let mut delegated = asked(open);
        delegated.path = "/finance".to_owned();
        assert!(passes(&delegated), "{wider:?}");
        let denied = encoded.unsupported.iter().filter(|u| u.fallback == Fallback::Denied);
        let denied: Vec<_> = denied.collect();
        let [only] = &denied[..] else { panic!("{encoded:#?}") };
        assert!(only.message.contains("`www.example.com` in capital letters"), "{only}");
        assert_eq!(only.concerned(&policy), [testing::object("HTTPRoute", "beside")].into());
    }
}

#[test]
fn tables_that_capital_letters_cannot_reach_or_that_are_the_same_stay() {
    let name = |host: &str, path: &str| {
        let mut asked = OwnedRequest::get(path);
        asked.host = Some(host.to_owned());
        asked
    };
    // A label of digits has no capitals; a root has both names with the same routes.
    for (own, wider) in [("7.example.com", "*.example.com"), ("www.example.com", "*.example.com")] {
        let mut policy = example(&["/finance"]);
        let both = [own, wider].map(HostPattern::parse);
        let hosts =
            if own.starts_with('7') { [both[1].clone()].into() } else { both.clone().into() };
        Arc::make_mut(&mut policy.routes.routes[0]).hosts = hosts;
        policy.routes.hosts = both.map(|host| (host, Unmatched::Deny(Denied::NotDelegated))).into();
        let encoded = encode(&policy);
        let asked = name("b.example.com", "/finance");
        assert!(model::forwards(&encoded.server, &client(), &asked), "{own}: {encoded:#?}");
        assert!(!encoded.unsupported.iter().any(|u| u.fallback == Fallback::Denied), "{own}");
    }
}

#[test]
fn connect_passes_no_match_of_a_tree() {
    let header = HeaderMatch {
        name: HeaderName::from_static("x-a"),
        value: ValueMatch::Exact(b"1"[..].into()),
    };
    let everything = RequestMatch::everything;
    for wanted in [
        everything(),
        everything().with_method(Some(Method::GET)),
        everything().with_method(Some(Method::OPTIONS)),
        everything().with_method(Some(Method::CONNECT)),
        everything().with_headers(vec![header.clone()]),
        everything().with_method(Some(Method::GET)).with_headers(vec![header]),
    ] {
        let mut policy = example(&["/"]);
        Arc::make_mut(&mut policy.routes.routes[0]).rules[0].matches = [wanted.clone()].into();
        let encoded = encode(&policy);
        assert!(!encoded.unsupported.iter().any(|u| u.fallback == Fallback::Denied));
        let mut asked = OwnedRequest::get("").header("x-a", b"1");
        asked.host = Some("www.example.com".to_owned());
        asked.method = Method::CONNECT;
        assert!(!model::forwards(&encoded.server, &client(), &asked), "{wanted:?}");
        asked.method = wanted.method().cloned().unwrap_or(Method::GET);
        asked.path = "/a".to_owned();
        let is_connect = asked.method == Method::CONNECT;
        assert_eq!(model::forwards(&encoded.server, &client(), &asked), !is_connect, "{wanted:?}");
    }
}

#[test]
fn too_many_matches_close_the_trees_of_the_port_for_linkerds_proxies() {
    let paths: Vec<String> = (0..4097).map(|number| format!("/p{number}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    for (paths, sent) in [(&paths[1..], true), (&paths[..], false)] {
        let policy = example(paths);
        let encoded = encode(&policy);
        let mut asked = OwnedRequest::get("/p4000");
        asked.host = Some("www.example.com".to_owned());
        assert!(permits(&policy, &asked));
        assert_eq!(model::forwards(&encoded.server, &client(), &asked), sent);
        let denied = encoded.unsupported.iter().filter(|u| u.fallback == Fallback::Denied);
        let denied: Vec<_> = denied.collect();
        assert_eq!(denied.is_empty(), sent);
        if let [only] = &denied[..] {
            assert!(matches!(only.part, Part::Route(_)));
            assert!(only.message.contains("`TooLarge`"), "{only}");
            let child = testing::object("InboundRoute", "child");
            assert_eq!(only.concerned(&policy), [child].into());
        }
    }
}

#[test]
fn a_tree_on_a_grpc_port_is_closed_for_linkerds_proxies() {
    let mut policy = example(&["/a.B"]);
    policy.protocol = Protocol::Grpc;
    let encoded = encode(&policy);
    let Some(ProtocolKind::Grpc(grpc)) = encoded.server.protocol.unwrap().kind else {
        panic!("another protocol")
    };
    assert!(grpc.routes.iter().all(|route| route.authorizations.is_empty()));
    assert_eq!(grpc.routes.len(), 2);
    assert!(encoded.server.authorizations.is_empty());
    assert!(encoded.unsupported.iter().any(|u| u.fallback == Fallback::Denied));
}
