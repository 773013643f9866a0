//! The bound on the regular expressions of a namespace.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{NEIGHBOUR, POD, ask, compiled, objects};
use policy_crds::{Kind, ObjectKey};
use policy_engine::Compiled;

/// An HTTPRoute of a namespace on Server shop/web, created in this minute, with expressions that take some 7 MB
/// when compiled, and a match without one.
fn heavy(namespace: &str, minute: usize) -> String {
    let headers: Vec<String> = (0..16)
        .map(|n| {
            format!("{{name: x-{n}, type: RegularExpression, value: '\\pL{{3}}{minute}x{n}'}}")
        })
        .collect();
    let rules: Vec<String> = (0..3)
        .map(|n| format!("{{path: {{value: /m{minute}/{n}}}, headers: [{}]}}", headers.join(", ")))
        .collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: m{minute}, namespace: {namespace}, creationTimestamp: '2026-01-01T00:{minute:02}:00Z'}}\n\
         spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web, namespace: shop}}]\n\
         \x20 rules: [{{matches: [{{path: {{value: /plain{minute}}}}}, {}]}}]",
        rules.join(", ")
    )
}

fn world(routes: &[String]) -> Compiled {
    let server = common::server("HTTP/1", "all-unauthenticated");
    let mut documents = vec![POD, &server];
    documents.extend(routes.iter().map(String::as_str));
    compiled(&documents)
}

fn accepted(compiled: &Compiled, namespace: &str, minute: usize) -> String {
    let kind = Kind::GatewayHttpRoute;
    let name = format!("m{minute}").into();
    let key = ObjectKey { kind, namespace: namespace.into(), name };
    compiled.conditions[&key][0].to_string()
}

/// Forty objects of 15 KiB took all that a controller may have.
#[test]
fn the_newest_objects_of_a_namespace_with_too_many_expressions_are_refused() {
    let routes: Vec<String> = (0..20).map(|minute| heavy("shop", minute)).collect();
    let full = world(&routes);
    let refused: Vec<usize> =
        (0..20).filter(|minute| accepted(&full, "shop", *minute).contains("Invalid")).collect();
    let first = refused[0];
    assert!((5..19).contains(&first), "{refused:?}");
    assert_eq!(refused, (first..20).collect::<Vec<_>>(), "the newest");
    let words = accepted(&full, "shop", first);
    for part in ["spec: its regular expressions take ", "`shop`", "at most 67108864"] {
        assert!(words.contains(part), "{words}");
    }
    // What is refused permits nothing, and denies what it may have matched.
    assert_eq!(ask(&full, 8080, NEIGHBOUR, "GET /plain0"), "allow");
    for (path, reason) in [("plain19", "unauthorized"), ("m19/2", "route_invalid")] {
        assert_eq!(ask(&full, 8080, NEIGHBOUR, &format!("GET /{path}")), reason, "{path}");
    }
    // Nor does it cost a proxy anything.
    let policy = common::web(&full, 8080);
    let all = policy_engine::contributions::expressions(&policy);
    assert!(all <= 64 * 1024 * 1024, "{all}");

    // The room of an older one that is gone is theirs, whatever the order of events.
    let key = |minute: usize| ObjectKey {
        kind: Kind::GatewayHttpRoute,
        namespace: "shop".into(),
        name: format!("m{minute}").into(),
    };
    let fewer: Vec<String> = routes.iter().skip(1).cloned().collect();
    full.change(vec![Err(key(0))]);
    let expected = common::web(&world(&fewer), 8080);
    assert_eq!(common::web(&full, 8080), expected);
    assert_eq!(ask(&full, 8080, NEIGHBOUR, &format!("GET /plain{first}")), "allow");
    let text: Vec<&str> = vec![&routes[0]];
    full.change(objects(&text).into_iter().map(Ok).collect());
    assert_eq!(common::web(&full, 8080), policy);
}

/// An invalid object keeps what can be read of it, with its expressions, and denies that.
#[test]
fn the_expressions_of_invalid_objects_count_and_go_where_there_is_no_room() {
    let invalid =
        |minute| heavy("shop", minute).replace("rules: [{", "rules: [{timeouts: {request: x}, ");
    let routes: Vec<String> = (0..20).map(invalid).chain([heavy("shop", 30)]).collect();
    let full = world(&routes);
    for minute in [19, 30] {
        let words = accepted(&full, "shop", minute);
        assert!(words.contains("at most 67108864"), "{words}");
    }
    assert!(!accepted(&full, "shop", 0).contains("at most 67108864"));
    let policy = common::web(&full, 8080);
    let all = policy_engine::contributions::expressions(&policy);
    assert!(all <= 64 * 1024 * 1024, "{all}");
}

#[test]
fn the_expressions_of_a_namespace_take_no_room_of_another() {
    let others: Vec<String> = (0..20).map(|minute| heavy("other", minute)).collect();
    let mut routes = others;
    routes.push(heavy("shop", 30));
    assert_eq!(accepted(&world(&routes), "shop", 30), "Accepted=True (Accepted)");
}
