//! Explanations name the nearest miss first, and features name the parts beyond Linkerd's
//! resources.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use http::{HeaderName, HeaderValue};
use policy_core::effect::{EffectsExplanation, PossibleBound, PossibleEffects};
use policy_core::explain::{FailureReason, MAX_CONSIDERED, explain};
use policy_core::feature::{self, Feature};
use policy_core::filter::Failure;
use policy_core::matching::Segment;
use policy_core::testing::{
    OwnedConnection, OwnedRequest, OwnedTls, grant, identity, network, object, policy, route, set,
};
use policy_core::{
    Decision, DefaultPolicy, DelegatedPath, Denied, EffectCondition, Exemption, Filter, FilterKind,
    HeaderCondition, HeaderOperator, HeaderRewrite, HostPattern, InformationalHeaders,
    NetworkMatch, NetworkSymbol, Origin, PathHandling, PathPattern, Predicate, RequestMatch, Route,
    RouteKind, SegmentCondition, SegmentOperator, ServerPolicy, Source, Timeouts, Unmatched,
    UnresolvedGrant,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn open(grants: Vec<(&str, Vec<Predicate>)>) -> ServerPolicy {
    let mut made = policy();
    made.authorizations = set(grants.into_iter().map(|(name, tests)| grant(name, tests)).collect());
    made.routes.otherwise = Unmatched::DefaultRoute;
    made
}

#[test]
fn the_nearest_miss_comes_first_and_names_who_set_the_condition() {
    let mut made = open(vec![
        ("far", vec![network("192.0.2.0/24"), identity("x.mesh")]),
        ("near", vec![network("10.0.0.0/8"), identity("x.mesh")]),
    ]);
    let missing = UnresolvedGrant {
        source: object("AuthorizationPolicy", "broken"),
        reason: "MeshTLSAuthentication test/none does not exist".into(),
    };
    made.withheld = vec![missing.clone()];
    let client = OwnedConnection::meshed("y.mesh");
    let explanation = explain(&made, &client.view(), Some(&OwnedRequest::get("/").view()));
    assert!(matches!(explanation.decision, Decision::Deny(d) if d.reason == Denied::Unauthorized));
    let names: Vec<String> = explanation.considered.iter().map(|c| c.source.to_string()).collect();
    assert_eq!(names, ["AuthorizationPolicy test/near", "AuthorizationPolicy test/far"]);
    let near = explanation.considered[0].failed.as_ref().unwrap();
    assert_eq!(near.unmet, FailureReason::IdentityNotNamed);
    assert_eq!(near.condition.as_ref().unwrap().source, explanation.considered[0].source);
    assert_eq!(
        explanation.considered[1].failed.as_ref().unwrap().unmet,
        FailureReason::OutsideNetworks
    );
    assert_eq!(explanation.considered[1].failures, 2);
    assert_eq!(explanation.withheld, [missing]);
}

#[test]
fn each_thing_a_client_can_lack_is_told_apart() {
    let mut excepted = NetworkMatch::net("10.0.0.0/8".parse().unwrap());
    excepted.except = vec!["10.0.0.0/24".parse().unwrap()];
    let meshed = OwnedConnection::meshed("y.mesh");
    let anonymous = OwnedConnection { tls: OwnedTls::Terminated(None), ..meshed.clone() };
    let plain = OwnedConnection::plaintext([10, 0, 0, 1]);
    for (test, client, unmet) in [
        (Predicate::Network(Vec::new()), &plain, FailureReason::NamesNobody),
        (Predicate::Identity(Vec::new()), &meshed, FailureReason::NamesNobody),
        (network("192.0.2.0/24"), &plain, FailureReason::OutsideNetworks),
        (Predicate::Network(vec![excepted]), &plain, FailureReason::InException),
        (Predicate::MeshTls, &plain, FailureReason::NoMeshTls),
        (identity("x.mesh"), &plain, FailureReason::NoMeshTls),
        (identity("x.mesh"), &anonymous, FailureReason::NoIdentity),
        (identity("x.mesh"), &meshed, FailureReason::IdentityNotNamed),
        (Predicate::TlsPassthrough, &meshed, FailureReason::NoPassthrough),
        (Predicate::Segment(book(SegmentOperator::In)), &meshed, FailureReason::OtherSegment),
    ] {
        let made = open(vec![("g", vec![test.clone()])]);
        let explanation = explain(&made, &client.view(), Some(&OwnedRequest::get("/").view()));
        assert_eq!(explanation.considered[0].failed.as_ref().unwrap().unmet, unmet, "{test:?}");
        // An HTTP/1 port refuses other connections before it looks at any grant.
        assert!(explain(&made, &client.view(), None).considered.is_empty());
    }
}

fn book(operator: SegmentOperator) -> SegmentCondition {
    SegmentCondition::new("book", 1, operator, ["42"])
}

fn effect(name: &str, kind: FilterKind) -> Filter {
    Filter { source: Source::Object(object("TimeoutPolicy", name)), kind }
}

fn on(name: &str) -> Vec<EffectCondition> {
    let operator = HeaderOperator::Exists;
    vec![EffectCondition::Header(HeaderCondition { name: name.into(), operator })]
}

fn rewrite(when: Vec<EffectCondition>, clear: &'static str, value: &'static str) -> FilterKind {
    let field = |name| (HeaderName::from_static(name), HeaderValue::from_static(value));
    FilterKind::Rewrite(HeaderRewrite {
        when,
        clear: vec![HeaderName::from_static(clear)],
        set: vec![field("x-b")],
        add: vec![field("x-c")],
        required: false,
    })
}

/// Bounds and changes of headers on a route and on its Server, some of them not for every request.
fn with_effects() -> ServerPolicy {
    let seconds = |count| Some(Duration::from_secs(count));
    let bounds = |when: Vec<SegmentCondition>, request, response| {
        let idle = seconds(30);
        FilterKind::Timeouts(Timeouts { when, request, response, idle, ..Timeouts::default() })
    };
    let mut made = open(vec![("g", vec![network("0.0.0.0/0")])]);
    let mut only = route("r", vec![RequestMatch::everything()]);
    only.rules[0].effects = vec![
        effect("class", bounds(vec![book(SegmentOperator::In)], seconds(3), None)),
        effect("others", bounds(vec![book(SegmentOperator::NotIn)], seconds(1), None)),
        effect("rewrite", rewrite(on("x-a"), "x-a", "1")),
    ]
    .into();
    made.routes.routes = vec![Arc::new(only)];
    made.effects = vec![
        effect("server", bounds(Vec::new(), seconds(10), seconds(5))),
        effect("absent", rewrite(on("x-b"), "x-a", "2")),
        effect("last", rewrite(Vec::new(), "x-c", "3")),
    ];
    made
}

#[test]
fn effects_are_explained_with_the_object_of_each_bound_and_the_changes_in_order() {
    let mut made = with_effects();
    let client = OwnedConnection::plaintext([10, 0, 0, 1]);
    let request = OwnedRequest::get("/books/42").header("x-a", b"sent");
    let explained = explain(&made, &client.view(), Some(&request.view())).effects;
    let bounds: Vec<String> = explained
        .timeouts
        .iter()
        .map(|one| format!("{:?} {:?} {}", one.bound, one.after, one.source))
        .collect();
    assert_eq!(
        bounds,
        [
            "Complete 3s TimeoutPolicy test/class",
            "Response 5s TimeoutPolicy test/server",
            "Idle 30s TimeoutPolicy test/class"
        ]
    );
    let changes: Vec<String> = explained.headers.iter().map(ToString::to_string).collect();
    let wanted = ["clear x-a", "set x-b: 1", "add x-c: 1", "clear x-c", "set x-b: 3", "add x-c: 3"];
    assert_eq!(changes, wanted);
    assert_eq!(explained.applied.len(), 4);
    let objects: BTreeSet<String> = made.objects().iter().map(ToString::to_string).collect();
    for name in ["class", "others", "rewrite", "server", "absent", "last"] {
        assert!(objects.contains(&format!("TimeoutPolicy test/{name}")), "{name} contributes");
    }
    // A request that is denied has no effects.
    made.authorizations = set(Vec::new());
    let denied = explain(&made, &client.view(), Some(&request.view()));
    assert_eq!(denied.effects, EffectsExplanation::default());
}

#[test]
fn a_request_that_an_effect_answers_has_no_bound_and_no_change() {
    let client = OwnedConnection::plaintext([10, 0, 0, 1]);
    let request = OwnedRequest::get("/books/42").header("x-a", b"sent");
    let explained = |numerator| {
        let mut made = with_effects();
        made.effects.insert(1, effect("fails", failure(numerator)));
        explain(&made, &client.view(), Some(&request.view())).effects
    };
    let certain = explained(2);
    let told = (certain.answer, certain.timeouts, certain.headers, certain.applied.len());
    assert_eq!(told, (Some(effect("fails", failure(2))), Vec::new(), Vec::new(), 5));
    // A share of the requests is forwarded.
    let some = explained(1);
    assert_eq!((some.answer, some.timeouts.len(), some.headers.len()), (None, 3, 6));
}

/// A failure of `numerator` of two requests.
fn failure(numerator: u32) -> FilterKind {
    FilterKind::Failure(Failure {
        status: 500,
        grpc_status: 13,
        message: "fails".into(),
        numerator,
        denominator: 2,
        required: false,
    })
}

#[test]
fn effects_of_a_rule_are_those_that_the_server_does_not_outdo() {
    let made = with_effects();
    let own = &made.routes.routes[0].rules[0].effects;
    let told = |own: &[Filter], server: &[Filter]| {
        let PossibleEffects { timeouts, others } = PossibleEffects::of(own, server);
        let bound = |one: &PossibleBound| {
            let when = one.when.iter().map(|one| format!(" where {one}")).collect::<String>();
            format!("{:?} {:?}{when} {}", one.bound.bound, one.bound.after, one.bound.source)
        };
        let others: Vec<_> = others.iter().map(|one| one.source.to_string()).collect();
        (timeouts.iter().map(bound).collect::<Vec<_>>(), others)
    };
    let words = |words: &[&str]| words.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    // Silence is bounded to 30 seconds by the Server, too.
    let bounds = [
        "Complete 3s where path parameter book In [42] TimeoutPolicy test/class",
        "Complete 1s where path parameter book NotIn [42] TimeoutPolicy test/others",
    ];
    assert_eq!(told(own, &made.effects), (words(&bounds), words(&["TimeoutPolicy test/rewrite"])));
    let bounds = [
        "Complete 10s TimeoutPolicy test/server",
        "Response 5s TimeoutPolicy test/server",
        "Idle 30s TimeoutPolicy test/server",
    ];
    let others = ["TimeoutPolicy test/absent", "TimeoutPolicy test/last"];
    assert_eq!(told(&made.effects, &[]), (words(&bounds), words(&others)));
    // Of equal bounds the rule's is told, as in an explanation; a longer one is not.
    let timeout = |count| FilterKind::Timeout(Duration::from_secs(count));
    let equal = [effect("long", timeout(11)), effect("equal", timeout(10))];
    let expected = (words(&["Complete 10s TimeoutPolicy test/equal"]), Vec::new());
    assert_eq!(told(&equal, &made.effects), expected);
    assert_eq!(told(&equal[..1], &made.effects), (Vec::new(), Vec::new()));
    // What fails every time is not forwarded.
    let failing = [own[0].clone(), own[2].clone(), effect("f", failure(2)), own[2].clone()];
    assert_eq!(told(&failing, &[]), (Vec::new(), words(&["TimeoutPolicy test/f"])));
    assert_eq!(told(own, &failing), (Vec::new(), Vec::new()));
}

#[test]
fn explanations_are_bounded_and_say_how_much_is_left_out() {
    let many: Vec<_> = (0..100).map(|_| ("g", vec![identity("x.mesh")])).collect();
    let client = OwnedConnection::meshed("y.mesh");
    let explanation = explain(&open(many), &client.view(), Some(&OwnedRequest::get("/").view()));
    assert_eq!(
        (explanation.considered.len(), explanation.omitted),
        (MAX_CONSIDERED, 100 - MAX_CONSIDERED)
    );
}

#[test]
fn every_feature_has_a_name_of_its_own_that_can_be_read() {
    let names: BTreeSet<&str> = Feature::ALL.iter().map(|feature| feature.as_str()).collect();
    assert_eq!(names.len(), Feature::ALL.len());
    for feature in Feature::ALL {
        assert_eq!(Feature::parse(feature.as_str()), Some(feature));
    }
    assert_eq!(Feature::parse("time-travel"), None);
}

#[test]
fn what_linkerd_can_say_needs_no_feature() {
    let mut made = open(vec![("g", vec![network("10.0.0.0/8"), identity("x.mesh")])]);
    let mut grpc = route("g", vec![RequestMatch::grpc(Some("a.B"), None)]);
    grpc.kind = RouteKind::Grpc;
    grpc.hosts = vec![HostPattern::parse("*.example.com")].into();
    let http = RequestMatch::path(PathPattern::prefix("/a"));
    made.routes.routes = vec![Arc::new(grpc), Arc::new(route("h", vec![http]))];
    assert_eq!(feature::required(&made), BTreeSet::new());
}

/// The features that a policy with this change needs.
fn need(change: impl Fn(&mut ServerPolicy)) -> Vec<Feature> {
    let mut made = open(Vec::new());
    change(&mut made);
    feature::required(&made).into_iter().collect()
}

#[test]
fn each_thing_beyond_linkerd_names_its_feature() {
    let timeout = || effect("timeout", FilterKind::Timeout(Duration::from_secs(1)));
    assert_eq!(need(|p| p.deny = Some(Denied::ServerInvalid)), [Feature::DenyReasons]);
    assert_eq!(
        need(|p| p.routes.otherwise = Unmatched::Deny(Denied::NotDelegated)),
        [Feature::DenyReasons, Feature::Delegation]
    );
    let path = DelegatedPath { chain: [object("InboundRoute", "a")].into(), prefix: "/".into() };
    for origin in [Origin::Delegated(path.clone().into()), Origin::Undelegated(path.into())] {
        let route = Route { origin, ..route("r", Vec::new()) };
        assert_eq!(
            need(|p| p.routes.routes = vec![Arc::new(route.clone())]),
            [Feature::Delegation]
        );
    }
    assert_eq!(need(|p| p.paths = PathHandling::Raw), [Feature::RawPaths]);
    assert!(Feature::RawPaths.guards(), "canonical paths may permit more than paths as received");
    let silent = |p: &mut ServerPolicy| p.informational_headers = InformationalHeaders::Disabled;
    assert_eq!(need(silent), [Feature::NoInformationalHeaders]);
    assert_eq!(need(|p| p.effects = vec![timeout()]), [Feature::Timeouts, Feature::ServerEffects]);
    let on_segment = vec![Predicate::Segment(book(SegmentOperator::In))];
    assert_eq!(
        need(|p| p.authorizations = set(vec![grant("g", on_segment.clone())])),
        [Feature::Captures]
    );
    assert_eq!(
        need(|p| p.routes.hosts = [(HostPattern::parse("a"), Unmatched::NotFound)].into()),
        [Feature::HostTables]
    );
    let tests = vec![network("::/0"), network("fd00::/8")];
    assert_eq!(
        need(|p| p.authorizations = set(vec![grant("g", tests.clone())])),
        [Feature::Conditions]
    );
    assert_eq!(
        need(|p| p.authorizations = DefaultPolicy::ClusterAuthenticated.authorizations()),
        [Feature::NetworkSymbols]
    );
    let node = Predicate::Network(vec![NetworkMatch::symbol(NetworkSymbol::NodeLocal)]);
    let exempt = Exemption {
        request: Some(RequestMatch::path(PathPattern::exact("/healthz")).into()),
        authorization: grant("probe", vec![node]),
    };
    assert_eq!(
        need(|p| p.exemptions = vec![exempt.clone()]),
        [Feature::NetworkSymbols, Feature::Exemptions]
    );
    let parameter = PathPattern::Segments {
        segments: vec![Segment::Parameter("id".into())].into(),
        rest: false,
    };
    let parameter = route("r", vec![RequestMatch::path(parameter)]);
    assert_eq!(
        need(|p| p.routes.routes = vec![Arc::new(parameter.clone())]),
        [Feature::PathParameters]
    );
}

/// Who is refused learns what the object asks for that grants exactly such requests.
#[test]
fn a_grant_beside_routes_is_considered_for_the_requests_that_it_is_about() {
    let mut made = open(Vec::new());
    let wanted = |name: &str, path: &str| Exemption {
        request: Some(RequestMatch::path(PathPattern::exact(path)).into()),
        authorization: grant(name, vec![identity("x.mesh")]),
    };
    made.exemptions = vec![wanted("a", "/a"), wanted("b", "/b")];
    let client = OwnedConnection::meshed("y.mesh");
    let considered = |path: &str| {
        let explanation = explain(&made, &client.view(), Some(&OwnedRequest::get(path).view()));
        let told = explanation.considered.iter();
        let told = told.map(|own| (own.source.to_string(), own.failed.as_ref().map(|it| it.unmet)));
        told.collect::<Vec<_>>()
    };
    let unmet = Some(FailureReason::IdentityNotNamed);
    assert_eq!(considered("/a"), [("AuthorizationPolicy test/a".to_owned(), unmet)]);
    assert_eq!(considered("/b"), [("AuthorizationPolicy test/b".to_owned(), unmet)]);
    assert_eq!(considered("/c"), []);
}

#[test]
fn each_effect_of_a_policy_names_its_feature() {
    let rewrite =
        |required| FilterKind::Rewrite(HeaderRewrite { required, ..HeaderRewrite::default() });
    for (kind, feature) in [
        (FilterKind::Timeouts(Timeouts::default()), Feature::TimeoutPolicies),
        (rewrite(false), Feature::HeaderRewrites),
        (rewrite(true), Feature::RequiredRewrites),
        (policy_core::testing::refusal(), Feature::RequiredRewrites),
    ] {
        let mut only = route("r", vec![RequestMatch::everything()]);
        only.rules[0].effects = vec![effect("effect", kind)].into();
        assert_eq!(need(|p| p.routes.routes = vec![Arc::new(only.clone())]), [feature]);
        let guards = feature == Feature::RequiredRewrites;
        assert_eq!(feature.guards(), guards, "only that which must not be left out");
    }
}

#[test]
fn matches_that_lost_come_before_those_that_the_request_misses() {
    use policy_core::explain::{MatchPart, MatchPrecedence, RuleOutcome};
    let prefix = |path| RequestMatch::path(PathPattern::prefix(path));
    let mut elsewhere = route("elsewhere", vec![prefix("/api")]);
    elsewhere.hosts = vec![HostPattern::parse("other.example")].into_iter().collect();
    let tenant = policy_core::HeaderMatch {
        name: HeaderName::from_static("x-tenant"),
        value: policy_core::ValueMatch::Exact(b"a"[..].into()),
    };
    let mut made = policy();
    made.routes.routes = vec![
        route("all", vec![prefix("/")]),
        route("api", vec![prefix("/api")]),
        route("again", vec![prefix("/api")]),
        route("writes", vec![prefix("/api").with_method(Some(http::Method::POST))]),
        route("tenant", vec![prefix("/api/v2").with_headers(vec![tenant])]),
        elsewhere,
    ]
    .into_iter()
    .map(Arc::new)
    .collect();
    let client = OwnedConnection::meshed("y.mesh");
    let explained = explain(&made, &client.view(), Some(&OwnedRequest::get("/api/v1").view()));
    assert_eq!(explained.matched, Some(prefix("/api")));
    let told: Vec<(String, RuleOutcome)> =
        explained.others.iter().map(|one| (one.origin.to_string(), one.outcome.clone())).collect();
    let header = MatchPart::Header("x-tenant".to_owned());
    assert_eq!(
        told,
        [
            ("HTTPRoute test/again".to_owned(), RuleOutcome::Lost(MatchPrecedence::Earlier)),
            ("HTTPRoute test/all".to_owned(), RuleOutcome::Lost(MatchPrecedence::Path)),
            ("HTTPRoute test/writes".to_owned(), RuleOutcome::Missed(vec![MatchPart::Method])),
            ("HTTPRoute test/elsewhere".to_owned(), RuleOutcome::Missed(vec![MatchPart::Host])),
            (
                "HTTPRoute test/tenant".to_owned(),
                RuleOutcome::Missed(vec![MatchPart::Path, header])
            ),
        ]
    );
    let connection = explain(&made, &client.view(), None);
    assert_eq!((connection.matched, connection.others), (None, Vec::new()));
}

#[test]
fn an_explanation_is_written_as_json_with_the_clients_value_beside_what_was_asked_for() {
    let mut made = open(vec![("near", vec![network("10.0.0.0/8"), identity("x.mesh")])]);
    made.routes.routes =
        vec![Arc::new(route("api", vec![RequestMatch::path(PathPattern::prefix("/api"))]))];
    made.withheld = vec![UnresolvedGrant {
        source: object("AuthorizationPolicy", "broken"),
        reason: "MeshTLSAuthentication test/none does not exist".into(),
    }];
    let client = OwnedConnection::meshed("y.mesh");
    let request = OwnedRequest::get("/api");
    let told = |policy: &ServerPolicy| {
        serde_json::to_value(explain(policy, &client.view(), Some(&request.view()))).unwrap()
    };
    let route = serde_json::json!({"origin": "HTTPRoute test/api", "match": "* /api/…"});
    assert_eq!(
        told(&made),
        serde_json::json!({
            "decision": "deny",
            "reason": "unauthorized",
            "owner": "Server test/web",
            "protocol": "HTTP/1",
            "route": route,
            "others": [],
            "authorization": null,
            "considered": [{
                "source": "AuthorizationPolicy test/near",
                "holds": false,
                "failures": 1,
                "failed": {
                    "source": "AuthorizationPolicy test/near",
                    "asked": "identity x.mesh",
                    "client": "y.mesh",
                    "reason": "identity_not_named"
                }
            }],
            "omitted": 0,
            "withheld": [{
                "source": "AuthorizationPolicy test/broken",
                "reason": "MeshTLSAuthentication test/none does not exist"
            }],
            "rateLimit": null,
            "effects": []
        })
    );
    made.authorizations = set(vec![grant("near", vec![identity("y.mesh")])]);
    let allowed = told(&made);
    assert_eq!(
        (&allowed["decision"], &allowed["reason"], &allowed["authorization"]),
        (&"allow".into(), &serde_json::Value::Null, &"AuthorizationPolicy test/near".into())
    );
}
