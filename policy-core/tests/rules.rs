//! Facts of a request that may or may not change a decision; each is a mistake of other
//! implementations.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "a test stops at the first surprise"
)]

use http::{HeaderName, Method};
use policy_core::explain::explain;
use policy_core::testing::{
    OwnedConnection, OwnedRequest, OwnedTls, default_policy, grant, identity, network, object,
    policy, route, set,
};
use policy_core::{
    Decision, DefaultPolicy, DelegatedPath, Denial, Denied, Evaluator, Exemption, Facts,
    HeaderMatch, HostPattern, Identity, IdentityMatch, Memo, NetworkMatch, NetworkSymbol,
    OneOrMany, Origin, PathHandling, PathPattern, Pattern, Predicate, Protocol, QueryMatch,
    RateLimit, RequestMatch, Requirement, Route, Rule, ServerPolicy, Source, TargetFault, ThinVec,
    Unmatched, ValueMatch, fold_mapped, naive,
};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Both evaluators, which must agree.
fn decide(policy: &ServerPolicy, client: &OwnedConnection, request: &OwnedRequest) -> Decision {
    let evaluator = Evaluator::build(Arc::new(policy.clone())).unwrap();
    let indexed = evaluator.decide_request(&client.view(), &mut Memo::new(), &request.view());
    assert_eq!(indexed, naive::decide_request(policy, &client.view(), &request.view()));
    indexed
}

fn connect(policy: &ServerPolicy, client: &OwnedConnection) -> Decision {
    let evaluator = Evaluator::build(Arc::new(policy.clone())).unwrap();
    let indexed = evaluator.decide_connection(&client.view());
    assert_eq!(indexed, naive::decide_connection(policy, &client.view()));
    indexed
}

/// The name of the route that permits, or why it is refused.
fn outcome(policy: &ServerPolicy, request: &OwnedRequest) -> String {
    let client = OwnedConnection::plaintext([10, 0, 0, 1]);
    match decide(policy, &client, request) {
        Decision::Deny(denial) => denial.reason.as_str().to_owned(),
        Decision::Permit(permit) => match permit.route() {
            None => "server".to_owned(),
            Some(id) => {
                let route = &policy.routes.routes[id.route as usize];
                route.origin.object().unwrap().name().to_string()
            }
        },
    }
}

/// A policy that permits everybody, with one route per match, named as given.
fn table(routes: Vec<(&str, RequestMatch)>) -> ServerPolicy {
    let mut made = policy();
    made.authorizations = set(vec![grant("all", Vec::new())]);
    made.routes.routes =
        routes.into_iter().map(|(name, wanted)| Arc::new(route(name, vec![wanted]))).collect();
    made
}

fn exact(path: &str) -> RequestMatch {
    RequestMatch::path(PathPattern::exact(path))
}

fn prefix(path: &str) -> RequestMatch {
    RequestMatch::path(PathPattern::prefix(path))
}

fn regex(source: &str) -> RequestMatch {
    RequestMatch::path(PathPattern::Regex(Pattern::parse(source).unwrap()))
}

fn with_header(wanted: RequestMatch, name: &str, value: ValueMatch) -> RequestMatch {
    let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
    wanted.with_headers(vec![HeaderMatch { name, value }])
}

fn is(text: &str) -> ValueMatch {
    ValueMatch::Exact(text.as_bytes().into())
}

fn like(source: &str) -> ValueMatch {
    ValueMatch::Regex(Pattern::parse(source).unwrap())
}

#[test]
fn exact_goes_before_regex_before_the_longest_prefix() {
    let made = table(vec![
        ("short", prefix("/a")),
        ("long", prefix("/a/b")),
        ("regex", regex("/a/b/[cd]")),
        ("exact", exact("/a/b/c")),
    ]);
    let path = |path: &str| outcome(&made, &OwnedRequest::get(path));
    assert_eq!(path("/a/b/c"), "exact");
    assert_eq!(path("/a/b/d"), "regex");
    assert_eq!(path("/a/b/e"), "long");
    assert_eq!(path("/a/b"), "long");
    assert_eq!(path("/a/"), "short");
    assert_eq!(path("/ab"), "no_route");
}

#[test]
fn a_literal_goes_before_a_parameter_from_left_to_right() {
    use policy_core::matching::Segment;
    let pattern = |parts: &[&str]| {
        let segments = parts.iter().map(|part| match part.strip_prefix('{') {
            Some(name) => Segment::Parameter(name.trim_end_matches('}').into()),
            None => Segment::Literal((*part).into()),
        });
        RequestMatch::path(PathPattern::Segments { segments: segments.collect(), rest: false })
    };
    let made = table(vec![
        ("both", pattern(&["{x}", "{y}"])),
        ("second", pattern(&["{x}", "b"])),
        ("first", pattern(&["a", "{y}"])),
    ]);
    let path = |path: &str| outcome(&made, &OwnedRequest::get(path));
    assert_eq!(path("/a/b"), "first");
    assert_eq!(path("/c/b"), "second");
    assert_eq!(path("/c/d"), "both");
    // A parameter is one segment, and not the empty one.
    assert_eq!(path("/c/"), "no_route");
    assert_eq!(path("/c/d/e"), "no_route");
}

#[test]
fn then_method_then_headers_then_query_then_the_order_of_the_list() {
    let method = exact("/a").with_method(Some(Method::GET));
    let header = with_header(exact("/a"), "x-a", is("1"));
    let query = vec![QueryMatch { name: "q".into(), value: is("1") }];
    let query = exact("/a").with_query(query);
    let made = table(vec![
        ("first", exact("/a")),
        ("second", exact("/a")),
        ("query", query),
        ("header", header),
        ("method", method),
    ]);
    let all = OwnedRequest::get("/a?q=1").header("x-a", b"1");
    assert_eq!(outcome(&made, &all), "method");
    assert_eq!(outcome(&made, &all.clone().method(Method::PUT)), "header");
    assert_eq!(outcome(&made, &OwnedRequest::get("/a?q=1").method(Method::PUT)), "query");
    assert_eq!(outcome(&made, &OwnedRequest::get("/a").method(Method::PUT)), "first");
}

#[test]
fn the_most_specific_host_is_asked_first_and_the_next_only_where_that_falls_through() {
    let mut made =
        table(vec![("any", prefix("/")), ("suffix", exact("/a")), ("host", exact("/b"))]);
    let hosts = [vec![], vec!["*.example.com"], vec!["web.example.com"]];
    for (route, hosts) in made.routes.routes.iter_mut().zip(hosts) {
        let hosts = hosts.into_iter().map(HostPattern::parse);
        Arc::make_mut(route).hosts = hosts.collect();
    }
    let ask = |policy: &ServerPolicy, host: &str, path: &str| {
        outcome(policy, &OwnedRequest::get(path).host(host))
    };
    assert_eq!(ask(&made, "web.example.com", "/b"), "host");
    assert_eq!(ask(&made, "web.example.com", "/a"), "suffix");
    assert_eq!(ask(&made, "web.example.com", "/c"), "any");
    assert_eq!(ask(&made, "example.com", "/a"), "any");
    assert_eq!(ask(&made, "xexample.com", "/a"), "any");
    assert_eq!(outcome(&made, &OwnedRequest::get("/a")), "any");
    made.routes.hosts.insert(HostPattern::parse("web.example.com"), Unmatched::NotFound);
    assert_eq!(ask(&made, "web.example.com", "/a"), "no_route");
    let denied = Unmatched::Deny(Denied::RoutesInvalid);
    made.routes.hosts.insert(HostPattern::parse("*.example.com"), denied);
    assert_eq!(ask(&made, "b.example.com", "/b"), "routes_invalid");
}

#[test]
fn a_repeated_header_matches_wholly_not_at_all_or_cannot_be_told() {
    let made = table(vec![
        ("admin", with_header(prefix("/"), "X-Role", is("admin"))),
        ("any", prefix("/")),
    ]);
    let ask = |lines: &[&[u8]]| {
        let request = OwnedRequest::get("/");
        let request = lines.iter().fold(request, |request, line| request.header("x-role", line));
        outcome(&made, &request)
    };
    assert_eq!(ask(&[b"admin"]), "admin");
    assert_eq!(ask(&[b"admin", b"admin"]), "admin");
    assert_eq!(ask(&[b"user", b"guest"]), "any");
    assert_eq!(ask(&[b"user", b"admin"]), "cannot_tell");
    assert_eq!(ask(&[b"admin", b"user"]), "cannot_tell");
    // One line is one value; commas do not split it.
    assert_eq!(ask(&[b"admin,user"]), "any");
    assert_eq!(ask(&[b"Admin"]), "any");
}

#[test]
fn a_match_on_host_is_compared_with_the_canonical_host() {
    for written in ["admin.example", "Admin.Example", "admin.example:8080", "admin.example."] {
        let made = table(vec![
            ("admin", with_header(prefix("/"), "Host", is(written))),
            ("like", with_header(prefix("/"), "host", like("[a-z]+[.]inner"))),
            ("any", prefix("/")),
        ]);
        // As HTTP/1 sends it, and as HTTP/2 does, which need not have the header.
        let ask = |host: &str, line: &[u8]| {
            outcome(&made, &OwnedRequest::get("/").host(host).header("host", line))
        };
        assert_eq!(outcome(&made, &OwnedRequest::get("/").host("admin.example")), "admin");
        assert_eq!(ask("admin.example", b"ADMIN.example:80"), "admin");
        assert_eq!(ask("a.inner", b"A.inner"), "like");
        assert_eq!(ask("other.example", b"admin.example"), "any", "what was judged decides");
        assert_eq!(outcome(&made, &OwnedRequest::get("/").header("host", b"admin.example")), "any");
    }
}

#[test]
fn a_repeated_parameter_is_judged_like_a_repeated_header() {
    let query = vec![QueryMatch { name: "role".into(), value: is("a b") }];
    let wanted = prefix("/").with_query(query);
    let made = table(vec![("admin", wanted), ("any", prefix("/"))]);
    let ask = |query: &str| outcome(&made, &OwnedRequest::get(&format!("/?{query}")));
    assert_eq!(ask("role=a+b"), "admin");
    assert_eq!(ask("r%6Fle=a%20b&&x"), "admin");
    assert_eq!(ask("role=a+b&role=x"), "cannot_tell");
    assert_eq!(ask("Role=a+b"), "any");
    assert_eq!(ask("role=a%2Bb"), "any");
}

#[test]
fn bytes_outside_visible_ascii_are_refused_only_where_a_matcher_looks() {
    let made = table(vec![("any", prefix("/")), ("x", with_header(exact("/x"), "x-a", like("a")))]);
    let odd: &[u8] = b"a\xff";
    let fault = TargetFault::ObsText.as_str();
    assert_eq!(outcome(&made, &OwnedRequest::get("/").header("x-a", odd)), fault);
    assert_eq!(outcome(&made, &OwnedRequest::get("/").header("x-b", odd)), "any");
    assert_eq!(outcome(&made, &OwnedRequest::get("/x").header("x-a", b"a")), "x");
}

#[test]
fn header_names_mean_the_same_in_every_case() {
    for name in ["x-role", "X-Role", "X-ROLE"] {
        let made = table(vec![("admin", with_header(prefix("/"), name, is("admin")))]);
        for sent in ["x-role", "X-Role", "x-ROLE"] {
            assert_eq!(outcome(&made, &OwnedRequest::get("/").header(sent, b"admin")), "admin");
        }
    }
}

#[test]
fn a_target_without_a_path_is_matched_only_by_what_matches_everything() {
    let made = table(vec![("any", prefix("/")), ("star", exact("*")), ("empty", exact(""))]);
    assert_eq!(outcome(&made, &OwnedRequest::get("*")), "any");
    assert_eq!(outcome(&made, &OwnedRequest::get("")), "any");
    let made = table(vec![("a", prefix("/a")), ("star", exact("*")), ("empty", exact(""))]);
    for path in ["*", "", "a", "a/b"] {
        assert_eq!(outcome(&made, &OwnedRequest::get(path)), "no_route", "{path}");
    }
}

#[test]
fn names_with_characters_of_regular_expressions_are_exact() {
    for name in ["a.b", "a*", "a+", "[ab]", "a|b", "(a)", "a?", "^a$", "\\d", ".*", "a.*.mesh"] {
        let mut made = policy();
        made.authorizations = set(vec![grant("g", vec![identity(name)])]);
        made.routes.otherwise = Unmatched::DefaultRoute;
        let request = OwnedRequest::get("/");
        for other in ["a.b", "aab", "axb", "a", "b", "aa", "ab", "1", "anything", "a.x.mesh"] {
            let permitted = matches!(
                decide(&made, &OwnedConnection::meshed(other), &request),
                Decision::Permit(_)
            );
            assert_eq!(permitted, name == other, "{name} {other}");
        }
    }
}

#[test]
fn a_suffix_needs_a_label_before_it_and_never_names_a_spiffe_identity() {
    let mut made = policy();
    let suffix = Predicate::Identity(vec![IdentityMatch::parse("*.ns.mesh")]);
    made.authorizations =
        set((0..9).map(|n| grant(&n.to_string(), vec![suffix.clone()])).collect());
    made.routes.otherwise = Unmatched::DefaultRoute;
    for (name, expected) in [
        ("a.ns.mesh", true),
        ("b.a.ns.mesh", true),
        ("ns.mesh", false),
        (".ns.mesh", false),
        ("xns.mesh", false),
    ] {
        let decision = decide(&made, &OwnedConnection::meshed(name), &OwnedRequest::get("/"));
        assert_eq!(matches!(decision, Decision::Permit(_)), expected, "{name}");
    }
    let mut spiffe = OwnedConnection::meshed("x");
    spiffe.tls = OwnedTls::Terminated(Some(Identity::Spiffe("spiffe://a.ns.mesh".into())));
    let decision = decide(&made, &spiffe, &OwnedRequest::get("/"));
    assert!(matches!(decision, Decision::Deny(denial) if denial.reason == Denied::Unauthorized));
}

#[test]
fn missing_authentication_and_empty_lists_grant_nothing() {
    let mut made = policy();
    made.routes.otherwise = Unmatched::DefaultRoute;
    let empty = |test: Predicate| set(vec![grant("g", vec![test])]);
    let mut nothing = (*grant("g", Vec::new())).clone();
    nothing.requirement = Requirement::All([].into());
    let sets = [
        set(Vec::new()),
        empty(Predicate::Identity(Vec::new())),
        empty(Predicate::Network(Vec::new())),
        set(vec![Arc::new(nothing)]),
    ];
    for authorizations in sets {
        made.authorizations = authorizations;
        let client = OwnedConnection::meshed("a.mesh");
        let decision = decide(&made, &client, &OwnedRequest::get("/"));
        assert!(matches!(decision, Decision::Deny(d) if d.reason == Denied::Unauthorized));
        assert!(matches!(connect(&made, &client), Decision::Deny(_)));
    }
}

#[test]
fn a_mapped_address_is_the_ipv4_address_and_no_ipv6_address() {
    let folded = fold_mapped("::ffff:10.0.0.1".parse().unwrap());
    assert_eq!(folded, "10.0.0.1".parse::<std::net::IpAddr>().unwrap());
    let mut client = OwnedConnection::plaintext([0, 0, 0, 0]);
    client.client = folded;
    for (net, expected) in [("10.0.0.0/8", true), ("::/0", false), ("::ffff:0:0/96", false)] {
        let mut made = policy();
        made.authorizations = set(vec![grant("g", vec![network(net)])]);
        made.routes.otherwise = Unmatched::DefaultRoute;
        let decision = decide(&made, &client, &OwnedRequest::get("/"));
        assert_eq!(matches!(decision, Decision::Permit(_)), expected, "{net}");
    }
}

#[test]
fn exceptions_hold_for_symbols_too_and_a_symbol_without_facts_names_nobody() {
    let mut made = policy();
    let mut cluster = NetworkMatch::symbol(NetworkSymbol::Cluster);
    cluster.except = vec!["10.0.0.0/24".parse().unwrap()];
    made.authorizations = set(vec![grant("g", vec![Predicate::Network(vec![cluster])])]);
    made.routes.otherwise = Unmatched::DefaultRoute;
    let request = OwnedRequest::get("/");
    let ask = |client: [u8; 4], cluster: &[&str]| {
        let mut connection = OwnedConnection::plaintext(client);
        let cluster = cluster.iter().map(|net| net.parse().unwrap()).collect();
        connection.facts = Facts { cluster, ..Facts::default() };
        matches!(decide(&made, &connection, &request), Decision::Permit(_))
    };
    assert!(ask([10, 0, 1, 1], &["10.0.0.0/8"]));
    assert!(!ask([10, 0, 0, 1], &["10.0.0.0/8"]));
    assert!(!ask([10, 0, 1, 1], &[]));
}

#[test]
fn a_route_that_only_denies_says_why_and_names_itself() {
    let mut made = table(vec![("any", prefix("/")), ("denied", exact("/x"))]);
    Arc::make_mut(&mut made.routes.routes[1]).origin = Origin::Deny(Denied::ProxyUnsupported);
    let client = OwnedConnection::plaintext([10, 0, 0, 1]);
    match decide(&made, &client, &OwnedRequest::get("/x")) {
        Decision::Deny(denial) => {
            assert_eq!(denial.reason, Denied::ProxyUnsupported);
            assert_eq!(denial.route.map(|id| id.route), Some(1));
        }
        Decision::Permit(_) => panic!("permitted"),
    }
    assert_eq!(outcome(&made, &OwnedRequest::get("/")), "any");
}

#[test]
fn a_match_that_cannot_be_read_denies_before_every_route_and_on_every_table_but_a_closed_one() {
    let mut made = table(vec![("any", prefix("/")), ("unreadable", prefix("/"))]);
    made.authorizations = set(vec![grant("all", Vec::new())]);
    let (open, closed) = (HostPattern::parse("a.io"), HostPattern::parse("tree.io"));
    Arc::make_mut(&mut made.routes.routes[0]).hosts = [open, closed.clone()].into();
    made.routes.hosts.insert(closed, Unmatched::Deny(Denied::NotDelegated));
    let route = Arc::make_mut(&mut made.routes.routes[1]);
    route.origin = Origin::Unreadable(object("HTTPRoute", "broken"));
    let post = RequestMatch::everything().with_method(Some(http::Method::POST));
    route.rules = [Rule { matches: [post].into(), effects: [].into_iter().collect() }].into();
    let client = OwnedConnection::plaintext([10, 0, 0, 1]);
    let reason = |made: &ServerPolicy, method: http::Method, host: Option<&str>| {
        let host = host.map(str::to_owned);
        let request = OwnedRequest { method, host, ..OwnedRequest::get("/any/path") };
        match decide(made, &client, &request) {
            Decision::Deny(denial) => Some((denial.reason, denial.route.map(|id| id.route))),
            Decision::Permit(_) => None,
        }
    };
    let refused = Some((Denied::RouteInvalid, Some(1)));
    for host in [Some("a.io"), Some("b.io"), None] {
        assert_eq!(reason(&made, http::Method::POST, host), refused, "{host:?}");
    }
    assert_eq!(reason(&made, http::Method::GET, Some("a.io")), None);
    assert_eq!(reason(&made, http::Method::GET, None), Some((Denied::NoRoute, None)));
    assert_eq!(reason(&made, http::Method::POST, Some("tree.io")), None, "the tree decides");
    let everybody = grant("probe", Vec::new());
    let request = Some(RequestMatch::everything().into());
    made.exemptions = vec![Exemption { request, authorization: everybody }];
    assert_eq!(reason(&made, http::Method::POST, Some("a.io")), None, "an exemption comes first");
    assert!(made.objects().contains(&object("HTTPRoute", "broken")));
}

#[test]
fn a_path_that_did_not_arrive_is_denied_whatever_its_route_grants() {
    let mut made = table(vec![("any", prefix("/")), ("lost", prefix("/a"))]);
    made.authorizations = set(vec![grant("all", Vec::new())]);
    let chain = ["root", "child"].map(|name| object("InboundRoute", name));
    let path = Arc::new(DelegatedPath { chain: chain.clone().into(), prefix: "/a".into() });
    let client = OwnedConnection::plaintext([10, 0, 0, 1]);
    let request = OwnedRequest::get("/a/b");
    for (origin, denied) in [
        (Origin::Undelegated(path.clone()), Some(Denied::NotDelegated)),
        (Origin::Delegated(path.clone()), None),
    ] {
        let route = Arc::make_mut(&mut made.routes.routes[1]);
        (route.origin, route.inherits_server) = (origin.clone(), true);
        route.authorizations = set(vec![grant("own", vec![network("0.0.0.0/0")])]);
        let reason = match decide(&made, &client, &request) {
            Decision::Deny(denial) => Some(denial.reason),
            Decision::Permit(_) => None,
        };
        assert_eq!(reason, denied);
        let explained = explain(&made, &client.view(), Some(&request.view()));
        let named = explained.route.unwrap();
        assert_eq!(named.to_string(), "InboundRoute test/child");
        assert_eq!(
            named.delegated_path().unwrap().to_string(),
            "/a of InboundRoute test/root > InboundRoute test/child"
        );
        for object in &chain {
            assert!(made.objects().contains(object), "{object}");
        }
    }
}

#[test]
fn a_tls_port_refuses_connections_without_tls() {
    use policy_core::Protocol;
    let mut made = policy();
    made.protocol = Protocol::Tls;
    made.authorizations = set(vec![grant("all", Vec::new())]);
    let mut client = OwnedConnection::plaintext([10, 0, 0, 1]);
    assert!(
        matches!(connect(&made, &client), Decision::Deny(d) if d.reason == Denied::TlsRequired)
    );
    client.tls = OwnedTls::Passthrough;
    assert!(matches!(connect(&made, &client), Decision::Permit(_)));
    made.protocol = Protocol::Http1;
    let mismatch = Denied::ProtocolMismatch;
    assert!(matches!(connect(&made, &client), Decision::Deny(d) if d.reason == mismatch));
}

#[test]
fn a_port_of_unknown_protocol_carries_no_bytes_where_requests_are_governed() {
    let detect = Protocol::Detect { timeout: Duration::from_secs(1) };
    let open =
        ServerPolicy { protocol: detect, ..default_policy(DefaultPolicy::AllUnauthenticated) };
    let client = OwnedConnection::plaintext([10, 0, 0, 1]);
    let refused = Decision::Deny(Denial { reason: Denied::ProtocolMismatch, route: None });
    let carries = |policy: &ServerPolicy| {
        let decision = connect(policy, &client);
        assert!(matches!(decision, Decision::Permit(_)) || decision == refused, "{decision:?}");
        decision != refused
    };
    assert!(carries(&open));

    let with_route = |origin: Origin| {
        let mut made = open.clone();
        let route = Route { origin, ..route("a", vec![exact("/a")]) };
        made.routes.routes = vec![Arc::new(route)];
        made.routes.otherwise = Unmatched::NotFound;
        made
    };
    assert!(carries(&with_route(Origin::Probe)));
    assert!(carries(&with_route(Origin::Default)));
    assert!(!carries(&with_route(route("a", vec![]).origin)));
    assert!(!carries(&with_route(Origin::Guard)));
    let chain = [object("InboundRoute", "a")].into();
    let path = Arc::new(DelegatedPath { chain, prefix: "/".into() });
    assert!(!carries(&with_route(Origin::Delegated(path.clone()))));
    assert!(!carries(&with_route(Origin::Undelegated(path))));
    assert!(!carries(&with_route(Origin::Deny(Denied::RoutesInvalid))));

    let mut none_left = open.clone();
    none_left.routes.otherwise = Unmatched::NotFound;
    assert!(!carries(&none_left));

    let limited = |total: Option<NonZeroU32>| {
        let source = Source::Default("limit".into());
        let limit =
            RateLimit { source, total, identity: None, overrides: Vec::new(), refuses: false };
        ServerPolicy { rate_limit: Some(limit), ..open.clone() }
    };
    assert!(carries(&limited(None)), "it limits nothing");
    assert!(!carries(&limited(NonZeroU32::new(1))));
    let opaque = ServerPolicy { protocol: Protocol::Opaque, ..limited(NonZeroU32::new(1)) };
    assert!(carries(&opaque));
}

#[test]
fn two_spellings_of_a_character_are_one_path_unless_paths_are_raw() {
    let mut made =
        table(vec![("few", exact("/a%3Ab")), ("exact", exact("/c|d")), ("all", prefix("/"))]);
    for (path, want) in [
        ("/a:b", "few"),
        ("/a%3Ab", "few"),
        ("/a%253Ab", "all"),
        ("/c|d", "exact"),
        ("/c%7Cd", "exact"),
    ] {
        assert_eq!(outcome(&made, &OwnedRequest::get(path)), want, "{path}");
    }
    made.paths = PathHandling::Raw;
    for (path, want) in [("/a:b", "all"), ("/a%3Ab", "few"), ("/c|d", "exact"), ("/c%7Cd", "all")] {
        assert_eq!(outcome(&made, &OwnedRequest::get(path)), want, "raw: {path}");
    }
}

#[test]
fn a_rule_without_matches_matches_everything_and_a_route_without_rules_nothing() {
    let mut made = table(vec![("none", prefix("/")), ("all", prefix("/x"))]);
    Arc::make_mut(&mut made.routes.routes[0]).rules = OneOrMany::new();
    Arc::make_mut(&mut made.routes.routes[1]).rules =
        [Rule { matches: OneOrMany::new(), effects: ThinVec::new() }].into();
    assert_eq!(outcome(&made, &OwnedRequest::get("/anything")), "all");
}

/// Every character that RFC 3986 allows in a path, save `;` and `/`, and `%`.
const PATH_CHARACTERS: &str = "ABCXYZabcxyz0189-._~!$&'()*+,=:@";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_path_character_in_any_position_escapes_a_matcher(
        before in "[a-z]{0,3}",
        at in 0..PATH_CHARACTERS.len(),
        after in "[a-z]{1,3}",
    ) {
        use policy_core::matching::Segment;
        let segment = format!("{before}{}{after}", &PATH_CHARACTERS[at..=at]);
        let parameter = PathPattern::Segments {
            segments: vec![Segment::Literal("p".into()), Segment::Parameter("x".into())].into(),
            rest: false,
        };
        let made = table(vec![
            ("any", prefix("/")),
            ("exact", exact(&format!("/e/{segment}"))),
            ("prefix", prefix(&format!("/x/{segment}"))),
            ("regex", regex("/r/.+")),
            ("parameter", RequestMatch::path(parameter)),
        ]);
        let path = |path: String| outcome(&made, &OwnedRequest::get(&path));
        prop_assert_eq!(path(format!("/e/{segment}")), "exact");
        prop_assert_eq!(path(format!("/e/{segment}x")), "any");
        prop_assert_eq!(path(format!("/x/{segment}")), "prefix");
        prop_assert_eq!(path(format!("/x/{segment}/y")), "prefix");
        prop_assert_eq!(path(format!("/x/{segment}y")), "any");
        prop_assert_eq!(path(format!("/r/{segment}")), "regex");
        prop_assert_eq!(path(format!("/p/{segment}")), "parameter");
    }

    #[test]
    fn the_query_never_changes_which_path_matches(query in "[ -~]{0,20}") {
        let made = table(vec![("any", prefix("/")), ("admin", exact("/admin")), ("r", regex("/r(/.*)?"))]);
        let mut request = OwnedRequest::get("/admin");
        request.query = Some(query);
        prop_assert_eq!(outcome(&made, &request), "admin");
        request.path = "/r/x".to_owned();
        prop_assert_eq!(outcome(&made, &request), "r");
    }
}
