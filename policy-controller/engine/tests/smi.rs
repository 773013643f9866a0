//! The bounds on what the TrafficTargets of a namespace grant.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{POD, Who, ask, compiled, connect, web};
use policy_crds::{Kind, ObjectKey};
use policy_engine::Compiled;

const EVERY_REQUEST: &str = "{kind: HTTPRouteGroup, name: all}";

/// An HTTPRouteGroup of so many requests, of which each match has eight.
fn group(name: &str, requests: usize) -> String {
    let methods = "methods: [GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH]";
    let matches: Vec<String> =
        (0..requests / 8).map(|n| format!("{{name: m{n}, pathRegex: /a{n}, {methods}}}")).collect();
    format!(
        "apiVersion: specs.smi-spec.io/v1alpha4\nkind: HTTPRouteGroup\n\
         metadata: {{name: {name}, namespace: shop}}\nspec: {{matches: [{}]}}",
        matches.join(", ")
    )
}

/// A TrafficTarget for the pod `web`, created in this minute.
fn target(minute: usize, rules: &str, sources: &str) -> String {
    format!(
        "apiVersion: access.smi-spec.io/v1alpha3\nkind: TrafficTarget\n\
         metadata: {{name: t{minute}, namespace: shop, creationTimestamp: '2026-01-01T00:{minute:02}:00Z'}}\n\
         spec: {{destination: {{kind: ServiceAccount, name: web}}, rules: [{rules}], sources: [{sources}]}}"
    )
}

fn account(name: &str) -> String {
    format!("{{kind: ServiceAccount, name: {name}}}")
}

fn world(objects: &[String]) -> Compiled {
    let documents: Vec<&str> =
        [POD].into_iter().chain(objects.iter().map(String::as_str)).collect();
    compiled(&documents)
}

fn accepted(compiled: &Compiled, minute: usize) -> String {
    let name = format!("t{minute}").into();
    let key = ObjectKey { kind: Kind::TrafficTarget, namespace: "shop".into(), name };
    compiled.conditions[&key][0].to_string()
}

/// One group and many targets that name it took memory without bound.
#[test]
fn the_newest_traffictargets_that_allow_too_many_requests_together_grant_nothing() {
    let clients = ["a", "b", "c", "d", "e", "f"];
    let of = |minute: usize| target(minute, EVERY_REQUEST, &account(clients[minute]));
    // The order of the files does not matter.
    let mut objects: Vec<String> = (0..6).rev().map(of).collect();
    objects.push(group("all", 1000));
    let full = world(&objects);
    let asked = ["a.shop", "b.shop", "c.shop", "d.shop", "e.shop", "f.shop"]
        .map(|client| ask(&full, 8080, Who::Meshed(client), "GET /a7"));
    assert_eq!(asked, ["allow", "allow", "allow", "allow", "unauthorized", "unauthorized"]);
    let words = accepted(&full, 4);
    assert!(words.contains("leave no room for it"), "{words}");
    let of_targets = web(&full, 8080).exemptions.len();
    assert!((4000..4100).contains(&of_targets), "{of_targets}");
    // The room of one that is gone is the next one's.
    objects.remove(5);
    let fewer = world(&objects);
    assert_eq!(ask(&fewer, 8080, Who::Meshed("a.shop"), "GET /a7"), "unauthorized");
    assert_eq!(ask(&fewer, 8080, Who::Meshed("e.shop"), "GET /a7"), "allow");
    assert_eq!(ask(&fewer, 8080, Who::Meshed("f.shop"), "GET /a7"), "unauthorized");
}

#[test]
fn a_traffictarget_that_allows_too_many_requests_grants_nothing_and_takes_no_room() {
    let large = world(&[
        group("all", 2000),
        group("few", 8),
        target(0, EVERY_REQUEST, &account("a")),
        target(1, "{kind: HTTPRouteGroup, name: few}", &account("b")),
        // The same rule a thousand times.
        target(2, &["{kind: HTTPRouteGroup, name: few}"; 1000].join(", "), &account("c")),
    ]);
    assert_eq!(ask(&large, 8080, Who::Meshed("a.shop"), "GET /a0"), "unauthorized");
    assert!(accepted(&large, 0).contains("allow more than 1024 requests"));
    assert_eq!(ask(&large, 8080, Who::Meshed("b.shop"), "GET /a0"), "allow");
    assert_eq!(ask(&large, 8080, Who::Meshed("c.shop"), "GET /a0"), "allow");
}

fn ports(name: &str, ports: impl Iterator<Item = usize>) -> String {
    let ports: Vec<String> = ports.map(|port| port.to_string()).collect();
    format!(
        "apiVersion: specs.smi-spec.io/v1alpha4\nkind: TCPRoute\n\
         metadata: {{name: {name}, namespace: shop}}\nspec: {{matches: {{ports: [{}]}}}}",
        ports.join(", ")
    )
}

/// Each pod of a namespace had a policy for every port that a TCPRoute named.
#[test]
fn ports_and_identities_of_traffictargets_are_bounded() {
    let mut objects: Vec<String> = (0..6)
        .map(|n| ports(&format!("r{n}"), (0..200).map(|port| 10_000 + 200 * n + port)))
        .collect();
    objects.push(ports("every", 1..=65_535));
    let route = |name: &str| format!("{{kind: TCPRoute, name: {name}}}");
    objects.extend((0..6).map(|n| target(n, &route(&format!("r{n}")), &account("a"))));
    objects.push(target(6, &route("every"), &account("a")));
    let full = world(&objects);
    let client = Who::Meshed("a.shop");
    let found: Vec<String> =
        [10_000, 10_999, 11_000, 11_199, 8080].map(|port| connect(&full, port, client)).into();
    assert_eq!(found, ["allow", "allow", "unauthorized", "unauthorized", "unauthorized"]);
    assert!(accepted(&full, 5).contains("leave no room for it"));
    assert!(accepted(&full, 6).contains("its TCPRoutes have more than 256 ports"));

    let identities: Vec<String> = (0..4000).map(|n| format!("'spiffe://a/{n}'")).collect();
    let binding = |name: &str| {
        format!(
            "apiVersion: access.smi-spec.io/v1alpha4\nkind: IdentityBinding\n\
             metadata: {{name: {name}, namespace: shop}}\nspec: {{schemes: {{serviceAccount: {name}, \
             spiffeIdentities: [{}]}}}}",
            identities.join(", ")
        )
    };
    let bound = |name: &str| format!("{{kind: IdentityBinding, name: {name}}}");
    let mut objects = vec![binding("b"), binding("c"), ports("web", 8080..=8080)];
    objects.extend((0..6).map(|n| target(n, &route("web"), &bound("b"))));
    objects.push(target(7, &route("web"), &[bound("b"), bound("c")].join(", ")));
    let full = world(&objects);
    let refused: Vec<usize> =
        (0..6).filter(|n| accepted(&full, *n).contains("leave no room for it")).collect();
    assert_eq!(refused, [4, 5]);
    assert!(accepted(&full, 7).contains("none of its sources has an identity"));
    assert_eq!(connect(&full, 8080, Who::Meshed("b.shop")), "allow");
    assert_eq!(connect(&full, 8080, Who::Meshed("c.shop")), "unauthorized");
}
