//! Groups, services and bindings that cannot be read whole open nothing.

use super::common::{NEIGHBOUR, ask, policy};
use super::{ON_WEB, binding, compiled, group, in_namespace, object};

/// A route that is open to everybody, for every path.
const ANYONE: &str = "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
                      metadata: {name: all, namespace: shop}\n\
                      spec:\n  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
                      \x20 rules: [{matches: [{path: {value: /}}]}]\n";

/// The verdicts on these requests beside a route that is open to everybody.
fn beside_anyone<const N: usize>(
    protocol: &str,
    documents: &[&str],
    requests: [&str; N],
) -> [String; N] {
    let open = policy("open", "group: policy.linkerd.io, kind: HTTPRoute, name: all", "");
    let found = compiled(protocol, &[&[ANYONE, &open], documents].concat());
    requests.map(|request| ask(&found, 8080, NEIGHBOUR, request))
}

const ADMIN: &str = "GET /books/admin/x";
const ELSEWHERE: &str = "GET /books/x";

fn of_documents(documents: &[&str]) -> [String; 2] {
    beside_anyone("HTTP/1", documents, [ADMIN, ELSEWHERE])
}

#[test]
fn an_edit_that_breaks_a_group_opens_nothing_that_it_refused() {
    let path = "path: '/books/admin/*rest'";
    let compiles = "{type: RegularExpression, name: x-a, value: '('}";
    for (spec, admin, elsewhere) in [
        (format!("routes: [{{{path}}}]"), "unauthorized", "allow"),
        (format!("routes: [{{{path}, methods: [GETT]}}]"), "route_invalid", "allow"),
        (format!("routes: [{{{path}, methods: []}}]"), "route_invalid", "allow"),
        (format!("routes: [{{{path}, headers: [{compiles}]}}]"), "route_invalid", "allow"),
        (format!("routes: [{{{path}, header: []}}]"), "route_invalid", "allow"),
        // The readable conditions bound what is denied.
        (format!("routes: [{{{path}, methods: [POST], header: []}}]"), "allow", "allow"),
        ("routes: [{pth: /books/admin}]".to_owned(), "route_invalid", "route_invalid"),
        ("routes: [{pth: /books/admin, methods: [POST]}]".to_owned(), "allow", "allow"),
        ("routes: [{path: books}]".to_owned(), "route_invalid", "route_invalid"),
        ("route: [{path: /books}]".to_owned(), "route_invalid", "route_invalid"),
        // Labels decide what is granted alone.
        (
            format!("routes: [{{{path}, labels: {{http.linkerd.io/path: /a}}}}]"),
            "unauthorized",
            "allow",
        ),
        // Predicates of the group may have made each of its routes narrower, and preferred.
        (format!("routes: [{{{path}}}], header: []"), "route_invalid", "allow"),
        (format!("routes: [{{{path}}}], headers: [{compiles}]"), "route_invalid", "allow"),
        ("routes: [{routeGroupRef: {nam: other}}]".to_owned(), "route_invalid", "route_invalid"),
    ] {
        let invalid = object("HttpRouteGroup", "admin", &spec);
        let direct = of_documents(&[&invalid, &binding("admin", "{name: admin}")]);
        assert_eq!(direct, [admin, elsewhere], "{spec}");
        // Through a group that includes it.
        let outer = group("outer", "{path: /outer}, {routeGroupRef: {name: admin}}");
        let through = of_documents(&[&invalid, &outer, &binding("outer", "{name: outer}")]);
        assert_eq!(through, [admin, elsewhere], "{spec}");
    }
}

#[test]
fn an_edit_that_breaks_an_include_leaves_what_it_includes_denied() {
    let admin = group("admin", "{path: '/books/admin/*rest'}");
    for element in [
        "{routeGroupRef: {name: admin}, methods: [GET]}",
        "{routeGroupRef: {name: admin}, label: {}}",
        "{routeGroupRef: {name: admin}}, {path: '/a', methods: [GETT]}",
    ] {
        let outer = group("outer", element);
        let found = of_documents(&[&admin, &outer, &binding("outer", "{name: outer}")]);
        assert_eq!(found, ["unauthorized", "allow"], "{element}");
    }
}

#[test]
fn an_edit_that_breaks_a_service_opens_no_call_that_it_refused() {
    let bound =
        object("GrpcServiceBinding", "books", &format!("{ON_WEB}, serviceRefs: [{{name: books}}]"));
    let requests = ["POST /a.Books/Get", "POST /a.Books/Put", "POST /a.Other/Get"];
    let (placed, first, open) = ("unauthorized", "route_invalid", "allow");
    for (spec, wanted) in [
        ("service: a.Books, methods: [{name: Get}]", [placed, open, open]),
        ("service: a.Books, methods: [{name: Get}, {nam: Put}]", [first, first, open]),
        ("service: a.Books, methods: [{name: Get, label: {}}]", [first, open, open]),
        ("service: a.Books, method: [{name: Get}]", [first, first, open]),
        ("service: a.Books, methods: []", [first, first, open]),
        ("service: a/Books, methods: [{name: Get}]", [first, open, first]),
        ("servic: a.Books, methods: [{name: Get}]", [first, open, first]),
        ("service: a/Books", [first, first, first]),
    ] {
        let service = object("GrpcService", "books", spec);
        let found = beside_anyone("HTTP/2", &[&service, &bound], requests);
        assert_eq!(found, wanted, "{spec}");
    }
}

#[test]
fn an_edit_that_breaks_a_binding_opens_nothing_that_its_groups_refused() {
    let admin = group("admin", "{path: '/books/admin/*rest'}");
    let named = "routeRefs: [{name: admin}]";
    let unread = "targetRef: {group: policy.linkerd.io, kind: Server, name: 5}";
    for (spec, wanted) in [
        (format!("{ON_WEB}, {named}"), ["unauthorized", "allow"]),
        (format!("{ON_WEB}, {named}, hostnames: [a.example]"), ["allow", "allow"]),
        (format!("{ON_WEB}, {named}, unknown: 1"), ["route_invalid", "allow"]),
        (format!("{ON_WEB}, {named}, hostnames: ['*', a.example]"), ["route_invalid", "allow"]),
        (format!("{ON_WEB}, {named}, hostname: [a.example]"), ["route_invalid", "allow"]),
        (
            format!("{ON_WEB}, routeRefs: [{{name: admin}}, {{nam: b}}]"),
            ["route_invalid", "route_invalid"],
        ),
        (format!("{ON_WEB}, routeRef: [{{name: admin}}]"), ["route_invalid", "route_invalid"]),
        (
            format!("{ON_WEB}, routeRefs: [{{nam: admin}}], hostnames: [a.example]"),
            ["allow", "allow"],
        ),
        (
            format!("{ON_WEB}, routeRefs: [{{nam: admin}}], hostnames: [web]"),
            ["route_invalid", "route_invalid"],
        ),
        // Of one that may name any Server, what it names.
        (format!("{unread}, {named}"), ["unauthorized", "allow"]),
        (format!("{unread}, routeRefs: [{{nam: admin}}]"), ["allow", "allow"]),
        (
            format!("{unread}, routeRefs: [{{nam: admin}}], hostnames: [web]"),
            ["route_invalid", "route_invalid"],
        ),
        (format!("targetref: {{name: web}}, {named}, hostnames: [web]"), ["unauthorized", "allow"]),
    ] {
        let invalid = object("HttpRouteBinding", "admin", &spec);
        assert_eq!(of_documents(&[&admin, &invalid]), wanted, "{spec}");
    }
}

#[test]
fn a_group_of_another_namespace_denies_only_while_a_grant_holds_or_held() {
    let far = |routes: &str| in_namespace("far", "HttpRouteGroup", "admin", routes);
    let valid = far("routes: [{path: '/books/admin/*rest'}]");
    let invalid = far("routes: [{path: '/books/admin/*rest', methods: [GETT]}]");
    let named = binding("admin", "{name: admin, namespace: far}");
    let grant = |from: &str, to: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n\
             metadata: {{name: shop, namespace: far}}\n\
             spec: {{from: [{{group: portcullis.dev, kind: HttpRouteBinding, namespace: {from}}}], \
             to: [{{group: portcullis.dev, kind: HttpRouteGroup{to}}}]}}\n"
        )
    };
    for (far, from, to, admin) in [
        (&valid, "shop", "", "unauthorized"),
        (&invalid, "shop", "", "route_invalid"),
        (&invalid, "other", "", "allow"),
        (&valid, "other", "", "allow"),
        // An invalid grant, which may have held.
        (&valid, "shop", ", nam: admin", "unauthorized"),
        (&invalid, "shop", ", nam: admin", "route_invalid"),
        (&valid, "other", ", nam: admin", "allow"),
    ] {
        let found = of_documents(&[far, &named, &grant(from, to)]);
        assert_eq!(found, [admin, "allow"], "{from} {to}");
    }
}

#[test]
fn a_server_with_more_that_cannot_be_read_than_is_tried_answers_nothing() {
    let routes = |count: usize| -> String {
        let route = |number| format!("{{path: '/r{number}/*rest', methods: [GETT]}}");
        (0..count).map(route).collect::<Vec<_>>().join(", ")
    };
    let names = "{name: one}, {name: two}";
    for (count, wanted) in [(56, "allow"), (57, "route_invalid")] {
        let (one, two) = (group("one", &routes(200)), group("two", &routes(count)));
        // Those of both groups are the same where their paths are.
        let two = two.replace("/r", "/s");
        let found = of_documents(&[&one, &two, &binding("all", names)]);
        assert_eq!(found[1], wanted, "{count}");
    }
}
