//! Nothing is wider for a client that lacks features, nor for one of Linkerd's API, asked for targets
//! that are close to the paths that the policy names.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use http::Method;
use policy_core::decision::{Decision, Permit};
use policy_core::feature::Feature;
use policy_core::filter::{Filter, FilterKind, HeaderRewrite};
use policy_core::matching::Segment;
use policy_core::policy::{Exemption, PathHandling, Route, ServerPolicy, Unmatched};
use policy_core::testing::{
    self, OwnedConnection, OwnedRequest, any_client, any_policy_with_effects, any_request,
};
use policy_core::{
    AuthorizationSet, Denied, EffectCondition, Facts, PathPattern, Pattern, Predicate, Protocol,
    RequestMatch, Revision, SegmentCondition, SegmentOperator, Source, canonical_path, naive,
};
use policy_proto::compat::{self, EncodeOptions};
use policy_proto::messages::PortUpdate;
use policy_proto::native::{PortState, encode_port};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use prost::Message;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

const PORT: NonZeroU16 = NonZeroU16::new(8080).unwrap();

/// Texts of segments. Some are several spellings of one, some are no canonical ones.
const SEGMENTS: [&str; 10] =
    ["a", "b", "a:b", "a%3Ab", "a%3ab", "c|d", "c%7Cd", "%61", "a%2525", ""];

/// Spellings of two paths.
const SPELLINGS: [&str; 5] = ["/a:b", "/a%3Ab", "/a%3ab", "/b", "/%62"];

/// The policy of a client with `features`, from the bytes on the wire, and whether anything was reported.
fn received(policy: &ServerPolicy, features: &BTreeSet<Feature>) -> (Arc<ServerPolicy>, bool) {
    let encoded = encode_port(policy, features);
    let update = encoded.full(PORT, &Revision::default());
    let update = PortUpdate::decode(update.encode_to_vec().as_slice()).unwrap();
    let known = |name: &String| features.contains(&Feature::parse(name).unwrap());
    assert!(update.required_features.iter().all(known), "{:?}", update.required_features);
    (PortState::new().apply(&update).unwrap(), !encoded.unsupported().is_empty())
}

fn without(missing: &[Feature]) -> BTreeSet<Feature> {
    Feature::ALL.into_iter().filter(|feature| !missing.contains(feature)).collect()
}

/// The request as a proxy with `policy` sees it; `None`: it refuses the target as ambiguous.
fn seen(policy: &ServerPolicy, request: &OwnedRequest) -> Option<OwnedRequest> {
    let path = match policy.paths {
        PathHandling::Canonical => canonical_path(&request.path).ok()?.into_owned(),
        PathHandling::Raw => request.path.clone(),
    };
    Some(OwnedRequest { path, ..request.clone() })
}

/// The permission for a request, and the effects on it without which it must not be forwarded.
fn permitted(
    policy: &ServerPolicy,
    client: &OwnedConnection,
    request: &OwnedRequest,
) -> Option<(Permit, Vec<Filter>)> {
    let request = seen(policy, request)?;
    match naive::decide_request(policy, &client.view(), &request.view()) {
        Decision::Permit(permit) => {
            let effects = naive::effects(policy, &permit, &request.view());
            let required = effects.into_iter().filter(|effect| effect.kind.is_required());
            Some((permit, required.cloned().collect()))
        }
        Decision::Deny(_) => None,
    }
}

/// Everything that is permitted there is permitted here, with all that is required here.
fn check_request(
    (there, facts): (&ServerPolicy, &Facts),
    here: &ServerPolicy,
    client: &OwnedConnection,
    request: &OwnedRequest,
) -> Result<(), TestCaseError> {
    // What a matcher looks at decides which headers are refused for their bytes.
    if request.headers.iter().any(|(_, value)| value.to_str().is_err()) {
        return Ok(());
    }
    let on_their_side = OwnedConnection { facts: facts.clone(), ..client.clone() };
    let Some((_, applied)) = permitted(there, &on_their_side, request) else { return Ok(()) };
    let Some((_, required)) = permitted(here, client, request) else {
        let message = format!("{} is permitted by {there:#?} alone", request.path);
        return Err(TestCaseError::fail(message));
    };
    let left_out = required.iter().find(|effect| !applied.contains(effect));
    prop_assert!(left_out.is_none(), "{:?} is left out by {:#?}", left_out, there);
    Ok(())
}

/// As [`check_request`], for a connection that is not HTTP.
fn check_connection(
    (there, facts): (&ServerPolicy, &Facts),
    here: &ServerPolicy,
    client: &OwnedConnection,
) -> Result<(), TestCaseError> {
    let on_their_side = OwnedConnection { facts: facts.clone(), ..client.clone() };
    let permits = |policy, client: &OwnedConnection| {
        matches!(naive::decide_connection(policy, &client.view()), Decision::Permit(_))
    };
    let wider = permits(there, &on_their_side) && !permits(here, client);
    prop_assert!(!wider, "a connection is permitted by {:#?} alone", there);
    Ok(())
}

fn check_native(
    policy: &ServerPolicy,
    features: &BTreeSet<Feature>,
    client: &OwnedConnection,
    requests: &[OwnedRequest],
) -> Result<(), TestCaseError> {
    let (there, reported) = received(policy, features);
    check_connection((&there, &client.facts), policy, client)?;
    for request in requests {
        check_request((&there, &client.facts), policy, client, request)?;
    }
    let same = *there == *policy || (policy.deny.is_some() && there.deny == policy.deny);
    prop_assert!(same || reported, "a change that is not reported");
    Ok(())
}

/// Linkerd's proxies match paths as they were received. Where the policy does not, that is one of the
/// differences of docs/compatible.md, so both sides read the same form of the path here. An expression
/// that stands for parameters has one form alone, so that beside them texts have to be in it.
fn check_compatible(
    policy: &ServerPolicy,
    client: &OwnedConnection,
    requests: &[OwnedRequest],
) -> Result<(), TestCaseError> {
    let rules = policy.routes.routes.iter().flat_map(|route| &route.rules);
    let mut matches = rules.flat_map(|rule| &rule.matches);
    if policy.paths == PathHandling::Canonical && matches.any(|wanted| is_mixed(&wanted.path)) {
        return Ok(());
    }
    let encoded = compat::encode(policy, &client.facts, &EncodeOptions::default());
    let there = compat::decode(&encoded.server);
    let there = there.map_err(|error| TestCaseError::fail(error.to_string()))?;
    let there = ServerPolicy { paths: policy.paths, ..there };
    check_connection((&there, &Facts::default()), policy, client)?;
    for request in requests {
        check_request((&there, &Facts::default()), policy, client, request)?;
    }
    Ok(())
}

/// Returns true if a path has parameters, and is not in its match form.
fn is_mixed(path: &PathPattern) -> bool {
    let PathPattern::Segments { segments, rest: _ } = path else { return false };
    segments.iter().any(|one| matches!(one, Segment::Parameter(_)))
        && *path != *path.in_match_form()
}

fn condition() -> impl Strategy<Value = SegmentCondition> {
    let operator = select(vec![SegmentOperator::In, SegmentOperator::NotIn]);
    (0..3_u32, operator, vec(select(&SEGMENTS[..]), 0..3))
        .prop_map(|(place, operator, values)| SegmentCondition::new("p", place, operator, values))
}

/// For everybody, for the client, for another one, by the path, for nobody.
fn grants() -> impl Strategy<Value = AuthorizationSet> {
    let fixed = select(vec![
        vec![testing::grant("all", Vec::new())],
        vec![testing::grant("client", vec![testing::identity("a")])],
        vec![testing::grant("other", vec![testing::identity("b")])],
        Vec::new(),
    ]);
    let by_path = condition()
        .prop_map(|condition| vec![testing::grant("path", vec![Predicate::Segment(condition)])]);
    prop_oneof![4 => fixed, 1 => by_path].prop_map(testing::set)
}

fn path() -> impl Strategy<Value = PathPattern> {
    let segment = prop_oneof![
        6 => select(&SEGMENTS[..]).prop_map(|text| Segment::Literal(text.into())),
        1 => Just(Segment::Parameter("p".into())),
    ];
    prop_oneof![
        // Mostly spellings of few paths, so that several matches name one.
        4 => select(&SPELLINGS[..]).prop_map(PathPattern::exact),
        2 => select(&SPELLINGS[..]).prop_map(PathPattern::prefix),
        4 => (vec(segment, 0..3), any::<bool>())
            .prop_map(|(segments, rest)| PathPattern::Segments { segments: segments.into(), rest }),
        2 => Just(PathPattern::prefix("/")),
        1 => select(vec!["/a.*", "/(a:b|b)", "/[^%]*", ".*"])
            .prop_map(|source| PathPattern::Regex(Pattern::parse(source).unwrap())),
    ]
}

fn matched() -> impl Strategy<Value = RequestMatch> {
    (path(), option::weighted(0.2, select(vec![Method::GET, Method::POST])))
        .prop_map(|(path, method)| RequestMatch::path(path).with_method(method))
}

/// Mostly none, sometimes a rewrite that is required, of some paths or all.
fn effects() -> impl Strategy<Value = Vec<Filter>> {
    let rewrite = (vec(condition().prop_map(EffectCondition::Segment), 0..2), any::<bool>())
        .prop_map(|(when, required)| {
            let clear = vec![http::HeaderName::from_static("x-a")];
            let rewrite = HeaderRewrite { when, clear, required, ..HeaderRewrite::default() };
            vec![Filter {
                source: Source::Object(testing::object("HeaderRewritePolicy", "p")),
                kind: FilterKind::Rewrite(rewrite),
            }]
        });
    prop_oneof![8 => Just(Vec::new()), 1 => rewrite]
}

fn route() -> impl Strategy<Value = Arc<Route>> {
    (0_u8..9, vec(matched(), 0..3), grants(), any::<bool>(), effects()).prop_map(
        |(name, matches, authorizations, inherits_server, effects)| {
            let mut route = Route {
                authorizations,
                inherits_server,
                ..testing::route(&name.to_string(), matches)
            };
            route.rules[0].effects = effects.into();
            Arc::new(route)
        },
    )
}

/// Exemptions of exact paths, which Linkerd's messages can say, and of others.
fn exemption() -> impl Strategy<Value = Exemption> {
    let exact = select(&SPELLINGS[..]).prop_map(|path| {
        RequestMatch::path(PathPattern::exact(path)).with_method(Some(Method::GET))
    });
    let grant = grants().prop_filter_map("a grant", |set| set.first().cloned());
    (option::weighted(0.9, prop_oneof![2 => exact, 1 => matched()]), grant).prop_map(
        |(request, authorization)| Exemption { request: request.map(Arc::new), authorization },
    )
}

/// Small policies in which the path makes the difference, with raw paths and with canonical ones.
fn path_policy() -> impl Strategy<Value = ServerPolicy> {
    let paths = select(vec![PathHandling::Canonical, PathHandling::Raw]);
    let otherwise = select(vec![
        Unmatched::DefaultRoute,
        Unmatched::NotFound,
        Unmatched::Deny(Denied::RoutesInvalid),
    ]);
    let detect = Protocol::Detect { timeout: std::time::Duration::from_secs(1) };
    let protocol = select(vec![Protocol::Http1, Protocol::Http1, detect]);
    let (routes, exemptions) = (vec(route(), 0..4), vec(exemption(), 0..2));
    (paths, protocol, grants(), routes, exemptions, otherwise, effects()).prop_map(
        |(paths, protocol, authorizations, routes, exemptions, otherwise, effects)| {
            let mut policy = testing::policy();
            policy.paths = paths;
            policy.protocol = protocol;
            policy.authorizations = authorizations;
            policy.routes.routes = routes;
            policy.routes.otherwise = otherwise;
            policy.exemptions = exemptions;
            policy.effects = effects;
            policy
        },
    )
}

/// Policies with a route for everything beside one for a single path, and a probe of some spelling of it.
fn probed_policy() -> impl Strategy<Value = ServerPolicy> {
    let spelling = || select(&SPELLINGS[..]).prop_map(PathPattern::exact);
    (path_policy(), spelling(), spelling(), grants()).prop_map(|(mut policy, own, probed, set)| {
        let route = |name, path, authorizations| {
            let route = testing::route(name, vec![RequestMatch::path(path)]);
            Arc::new(Route { authorizations, inherits_server: false, ..route })
        };
        let lax = testing::set(vec![testing::grant("lax", Vec::new())]);
        policy.routes.routes.push(route("own", own, set));
        policy.routes.routes.push(route("lax", PathPattern::prefix("/"), lax));
        policy.exemptions.push(Exemption {
            request: Some(RequestMatch::path(probed).with_method(Some(Method::GET)).into()),
            authorization: testing::grant("probe", vec![testing::network("192.0.2.0/24")]),
        });
        policy
    })
}

/// A request before it is known which paths the policy names.
#[derive(Clone, Debug)]
struct Near {
    /// The path that it is close to.
    named: Index,
    /// How each octet is spelled.
    spelling: Vec<u8>,
    /// Further text at its end.
    end: &'static str,
    method: Method,
}

fn near() -> impl Strategy<Value = Near> {
    let end = select(vec!["", "", "", "", "/", "/x", "/a:b", ";x", "/..", "%2F"]);
    let method = select(vec![Method::GET, Method::GET, Method::POST]);
    (any::<Index>(), vec(0..8_u8, 0..6), end, method)
        .prop_map(|(named, spelling, end, method)| Near { named, spelling, end, method })
}

impl Near {
    fn request(&self, policy: &ServerPolicy) -> OwnedRequest {
        let rules = policy.routes.routes.iter().flat_map(|route| &route.rules);
        let exempt = policy.exemptions.iter().filter_map(|exemption| exemption.request.as_deref());
        let matches = rules.flat_map(|rule| &rule.matches).chain(exempt);
        let mut named: Vec<String> = matches.map(|wanted| example(&wanted.path)).collect();
        named.push("/a/a:b".to_owned());
        let path = respelled(&named[self.named.index(named.len())], &self.spelling);
        OwnedRequest::get(&format!("{path}{}", self.end)).method(self.method.clone())
    }
}

/// A path of the pattern.
fn example(pattern: &PathPattern) -> String {
    match pattern {
        PathPattern::Regex(_) => "/a:b".to_owned(),
        PathPattern::Segments { segments, rest: _ } => {
            let text = |segment: &Segment| match segment {
                Segment::Literal(text) => text.to_string(),
                Segment::Parameter(_) => "a:b".to_owned(),
            };
            format!("/{}", segments.iter().map(text).collect::<Vec<_>>().join("/"))
        }
    }
}

/// The path with some of its octets percent-encoded, and some encodings decoded.
fn respelled(path: &str, spelling: &[u8]) -> String {
    let hex = |high: u8, low: u8| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        u8::try_from(digit(high)? * 16 + digit(low)?).ok().filter(u8::is_ascii_graphic)
    };
    let mut found = String::new();
    let mut rest = path.as_bytes();
    let mut choices = spelling.iter().chain(std::iter::repeat(&0));
    while let [first, after @ ..] = rest {
        let choice = if *first == b'/' { 0 } else { *choices.next().unwrap() };
        rest = after;
        match (choice, after) {
            (5, [high, low, behind @ ..]) if *first == b'%' && hex(*high, *low).is_some() => {
                found.push(char::from(hex(*high, *low).unwrap()));
                rest = behind;
            }
            (6, _) => found.push_str(&format!("%{first:02X}")),
            (7, _) => found.push_str(&format!("%{first:02x}")),
            _ => found.push(char::from(*first)),
        }
    }
    found
}

fn client() -> OwnedConnection {
    OwnedConnection::meshed("a")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_client_without_features_gets_nothing_wider_near_the_paths_of_a_policy(
        policy in path_policy(),
        missing in subsequence(Feature::ALL.to_vec(), 0..4),
        raw in any::<bool>(),
        requests in vec(near(), 8),
    ) {
        let mut features = without(&missing);
        if raw {
            features.remove(&Feature::RawPaths);
        }
        let requests: Vec<_> = requests.iter().map(|near| near.request(&policy)).collect();
        check_native(&policy, &features, &client(), &requests)?;
    }

    #[test]
    fn a_compatible_client_gets_nothing_wider_near_the_paths_of_a_policy(
        policy in prop_oneof![path_policy(), probed_policy()],
        requests in vec(near(), 8),
    ) {
        let requests: Vec<_> = requests.iter().map(|near| near.request(&policy)).collect();
        check_compatible(&policy, &client(), &requests)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_is_wider_for_any_client_near_the_paths_of_any_policy(
        policy in any_policy_with_effects(),
        missing in subsequence(Feature::ALL.to_vec(), 0..4),
        client in any_client(),
        other in any_request(),
        requests in vec(near(), 4),
    ) {
        let near = requests.iter().map(|near| {
            let OwnedRequest { path, method, .. } = near.request(&policy);
            OwnedRequest { path, method, ..other.clone() }
        });
        let requests: Vec<_> = near.chain([other.clone()]).collect();
        check_native(&policy, &without(&missing), &client, &requests)?;
        check_compatible(&policy, &client, &requests)?;
    }
}

/// A port with raw paths that permits everybody one path.
fn raw_policy(path: PathPattern) -> ServerPolicy {
    let mut policy = testing::policy();
    policy.paths = PathHandling::Raw;
    let authorizations = testing::set(vec![testing::grant("all", Vec::new())]);
    let route = testing::route("r", vec![RequestMatch::path(path)]);
    policy.routes.routes = vec![Arc::new(Route { authorizations, ..route })];
    policy
}

/// The failing input of seed 756e08b7…, made smaller.
#[test]
fn a_path_with_another_spelling_is_not_permitted_to_a_client_without_raw_paths() {
    let policy = raw_policy(PathPattern::prefix("/b/a:b"));
    let request = OwnedRequest::get("/b/a%3Ab/a:b");
    assert_eq!(permitted(&policy, &client(), &request), None);
    for (features, deny) in [
        ([Feature::Conditions, Feature::ResponseHeaders, Feature::TimeoutPolicies].into(), None),
        (without(&[Feature::RawPaths]), Some(Denied::ProxyUnsupported)),
    ] {
        let (there, reported) = received(&policy, &features);
        let closed = ServerPolicy::without_grants(policy.owner.clone(), policy.protocol);
        assert_eq!(*there, ServerPolicy { deny, ..closed });
        assert!(reported);
    }
}

#[test]
fn without_raw_paths_a_port_that_no_path_matters_on_stays_open() {
    let mut policy = raw_policy(PathPattern::prefix("/"));
    let everything = RequestMatch::everything().with_method(Some(Method::GET));
    Arc::make_mut(&mut policy.routes.routes[0]).rules[0].matches = [everything].into();
    policy.exemptions = vec![Exemption {
        request: Some(RequestMatch::everything().into()),
        authorization: testing::grant("probe", vec![testing::network("10.0.0.0/8")]),
    }];
    let (there, reported) = received(&policy, &without(&[Feature::RawPaths]));
    assert_eq!(*there, ServerPolicy { paths: PathHandling::Canonical, ..policy });
    assert!(reported, "paths are canonical there");
}

#[test]
fn without_raw_paths_grants_and_exemptions_by_path_are_left_out() {
    let condition = SegmentCondition::new("p", 0, SegmentOperator::In, ["a"]);
    let by_path = testing::grant("path", vec![Predicate::Segment(condition)]);
    let all = testing::grant("all", Vec::new());
    let both = testing::set(vec![by_path.clone(), all.clone()]);
    let mut expected = raw_policy(PathPattern::prefix("/"));
    expected.authorizations = testing::set(vec![all.clone()]);
    let everything = Exemption { request: None, authorization: all.clone() };
    expected.exemptions = vec![everything.clone()];
    let mut policy = expected.clone();
    policy.authorizations = both.clone();
    Arc::make_mut(&mut policy.routes.routes[0]).authorizations = both;
    let exact = RequestMatch::path(PathPattern::exact("/healthz"));
    policy.exemptions = vec![
        Exemption { request: Some(exact.into()), authorization: all },
        Exemption { request: Some(RequestMatch::everything().into()), authorization: by_path },
        everything,
    ];
    let (there, _) = received(&policy, &without(&[Feature::RawPaths]));
    assert_eq!(*there, ServerPolicy { paths: PathHandling::Canonical, ..expected });
}

#[test]
fn without_raw_paths_a_required_rewrite_by_path_closes_what_it_is_on() {
    let condition = SegmentCondition::new("p", 0, SegmentOperator::NotIn, ["a:b"]);
    let rewrite = |required| Filter {
        source: Source::Object(testing::object("HeaderRewritePolicy", "p")),
        kind: FilterKind::Rewrite(HeaderRewrite {
            when: vec![EffectCondition::Segment(condition.clone())],
            required,
            ..HeaderRewrite::default()
        }),
    };
    for required in [true, false] {
        let mut on_route = raw_policy(PathPattern::prefix("/"));
        let route = Arc::make_mut(&mut on_route.routes.routes[0]);
        route.rules[0].effects = vec![rewrite(required)].into();
        let (there, _) = received(&on_route, &without(&[Feature::RawPaths]));
        let [route] = &there.routes.routes[..] else { panic!("{there:?}") };
        assert_eq!(route.authorizations.is_empty(), required);
        let mut on_server = raw_policy(PathPattern::prefix("/"));
        on_server.effects = vec![rewrite(required)];
        let (there, _) = received(&on_server, &without(&[Feature::RawPaths]));
        assert_eq!(there.deny, required.then_some(Denied::ProxyUnsupported));
    }
}

/// The route that stands for an exemption in Linkerd's messages permits those whom the policy permits.
#[test]
fn a_probe_that_is_written_percent_encoded_is_open_to_the_clients_of_its_route_alone() {
    let route = |path, grant: &str, tests| {
        let authorizations = testing::set(vec![testing::grant(grant, tests)]);
        let route = testing::route(grant, vec![RequestMatch::path(path)]);
        Arc::new(Route { authorizations, inherits_server: false, ..route })
    };
    let mut policy = testing::policy();
    policy.routes.routes = vec![
        route(PathPattern::exact("/a:b"), "tight", vec![testing::identity("b")]),
        route(PathPattern::prefix("/"), "lax", Vec::new()),
    ];
    let exact = RequestMatch::path(PathPattern::exact("/a%3Ab")).with_method(Some(Method::GET));
    policy.exemptions = vec![Exemption {
        request: Some(exact.into()),
        authorization: testing::grant("probe", vec![testing::network("192.0.2.0/24")]),
    }];
    let requests = ["/a%3Ab", "/a:b"].map(OwnedRequest::get);
    check_compatible(&policy, &client(), &requests).unwrap();
}
