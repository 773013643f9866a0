//! An empty list is not an absent one, in both of our protocols (bypass rule 28): what is empty says so on the
//! wire, is read as it was said, and consents to nothing.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use policy_core::feature::Feature;
use policy_core::testing::{self, OwnedConnection, OwnedRequest};
use policy_core::{
    Authorization, Connection, Decision, Facts, NetworkMatch, Predicate, Protocol, RequestMatch,
    Requirement, Rule, ServerPolicy, Source, Unmatched, naive,
};
use policy_proto::compat::{self, EncodeOptions};
use policy_proto::linkerd::inbound::Server;
use policy_proto::messages::PortUpdate;
use policy_proto::native::{PortState, encode_port};
use prost::Message;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A port whose one grant asks for this.
fn granted(requirement: Requirement) -> ServerPolicy {
    let source = Source::Object(testing::object("AuthorizationPolicy", "g"));
    let mut policy = testing::policy();
    policy.protocol = Protocol::Http1;
    policy.routes.otherwise = Unmatched::DefaultRoute;
    policy.authorizations =
        testing::set(vec![Arc::new(Authorization { source, requirement, audit: false })]);
    policy
}

fn all(tests: Vec<Predicate>) -> Requirement {
    match &testing::grant("g", tests).requirement {
        Requirement::All(conditions) => Requirement::All(Arc::clone(conditions)),
        Requirement::Nothing => Requirement::All(Arc::from([])),
    }
}

/// A port that admits everybody to what a route of these rules matches.
fn routed(rules: Vec<Vec<RequestMatch>>) -> ServerPolicy {
    let mut policy = granted(Requirement::Nothing);
    let mut route = testing::route("r", Vec::new());
    let rule =
        |matches: Vec<RequestMatch>| Rule { matches: matches.into(), effects: Vec::new().into() };
    route.rules = rules.into_iter().map(rule).collect::<Vec<_>>().into();
    policy.routes.routes = vec![Arc::new(route)];
    policy.routes.otherwise = Unmatched::NotFound;
    policy
}

/// Policies with an empty list each, and those that are like them but for it.
fn policies() -> Vec<(&'static str, ServerPolicy, bool)> {
    let mut nobody = testing::policy();
    nobody.protocol = Protocol::Http1;
    nobody.routes.otherwise = Unmatched::DefaultRoute;
    let everywhere: ipnet::IpNet = "0.0.0.0/0".parse().unwrap();
    let network = |except: &[&str]| {
        let except = except.iter().map(|net| net.parse().unwrap()).collect();
        let one = NetworkMatch { except, ..NetworkMatch::net(everywhere) };
        granted(all(vec![Predicate::Network(vec![one])]))
    };
    vec![
        ("no grant", nobody, false),
        ("a grant that asks for nothing", granted(Requirement::Nothing), true),
        ("a grant that asks for everything of an empty list", granted(all(Vec::new())), false),
        ("an empty list of networks", granted(all(vec![Predicate::Network(Vec::new())])), false),
        ("an empty list of identities", granted(all(vec![Predicate::Identity(Vec::new())])), false),
        ("a network without exceptions", network(&[]), true),
        ("a network that is excepted", network(&["0.0.0.0/1", "128.0.0.0/1"]), false),
        ("a route without rules", routed(Vec::new()), false),
        ("a rule without matches", routed(vec![Vec::new()]), true),
        (
            "a rule that matches another path",
            {
                let path = policy_core::PathPattern::exact("/other");
                routed(vec![vec![RequestMatch::path(path)]])
            },
            false,
        ),
    ]
}

fn permits(policy: &ServerPolicy, client: &OwnedConnection) -> bool {
    let facts = Facts::default();
    let connection = Connection { facts: &facts, ..client.view() };
    let request = OwnedRequest::get("/");
    matches!(naive::decide_request(policy, &connection, &request.view()), Decision::Permit(_))
}

fn clients() -> [OwnedConnection; 2] {
    [OwnedConnection::plaintext([10, 0, 0, 1]), OwnedConnection::meshed("a.example")]
}

#[test]
fn what_is_empty_consents_to_nothing() {
    for (what, policy, open) in policies() {
        for client in clients() {
            assert_eq!(permits(&policy, &client), open, "{what}");
        }
    }
}

#[test]
fn what_is_empty_is_read_from_a_native_message_as_it_was_said() {
    let port = NonZeroU16::new(8080).unwrap();
    let mut messages = Vec::new();
    for (what, policy, open) in policies() {
        let update = encode_port(&policy, &Feature::ALL.into()).full(port, &Default::default());
        let bytes = update.encode_to_vec();
        let read = PortState::new().apply(&PortUpdate::decode(&*bytes).unwrap()).unwrap();
        assert_eq!(*read, policy, "{what}");
        for client in clients() {
            assert_eq!(permits(&read, &client), open, "{what}");
        }
        assert!(!messages.contains(&bytes), "{what} is said like another");
        messages.push(bytes);
    }
}

#[test]
fn what_is_empty_is_not_wider_in_a_message_of_linkerds_api() {
    let options = EncodeOptions::default();
    for (what, policy, open) in policies() {
        let bytes = compat::encode(&policy, &Facts::default(), &options).server.encode_to_vec();
        // By way of the published messages.
        let theirs = linkerd2_proxy_api::inbound::Server::decode(&*bytes).unwrap().encode_to_vec();
        let read = compat::decode(&Server::decode(&*theirs).unwrap()).unwrap();
        for client in clients() {
            assert_eq!(permits(&read, &client), open, "{what}: {read:#?}");
        }
    }
}
