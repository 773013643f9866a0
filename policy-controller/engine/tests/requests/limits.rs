//! What groups include beyond what is looked at, and what of it is told.

use super::*;

/// Routes with a name each, for these methods.
fn many(name: &str, methods: &str, number: usize) -> String {
    let routes: Vec<String> =
        (0..number).map(|at| format!("{{path: /{name}-{at}, methods: [{methods}]}}")).collect();
    routes.join(", ")
}

fn include(name: &str, namespace: &str) -> String {
    format!("{{routeGroupRef: {{name: {name}, namespace: {namespace}}}}}")
}

/// Permission for groups of a namespace to include those of another.
fn include_grant(of: &str, by: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
         metadata: {{name: {by}, namespace: {of}}}\nspec:\n\
         \x20 from: [{{group: portcullis.dev, kind: HttpRouteGroup, namespace: {by}}}]\n\
         \x20 to: [{{group: portcullis.dev, kind: HttpRouteGroup}}]\n"
    )
}

/// A binding for everybody to all paths, besides those of group `closed`, which Alice alone may use.
fn beside_everything(documents: &[String]) -> Compiled {
    let all = [
        group("open", "{path: '/*all'}"),
        binding("open", "{name: open}"),
        policy("open", "group: portcullis.dev, kind: HttpRouteBinding, name: open", ""),
        binding("closed", "{name: closed}"),
        grant("alice", "HttpRouteBinding", "closed", "alice"),
    ];
    let all: Vec<&str> = all.iter().chain(documents).map(String::as_str).collect();
    compiled("HTTP/1", &all)
}

/// The conditions of an object that are false, with their messages.
fn refusals(compiled: &Compiled, kind: &str, name: &str) -> Vec<String> {
    let of = compiled.conditions.iter().filter(|(key, _)| {
        key.kind.as_str() == kind && &*key.name == name && &*key.namespace == "shop"
    });
    let all = of.flat_map(|(_, conditions)| conditions.iter());
    all.filter(|one| !one.status).map(ToString::to_string).collect()
}

#[test]
fn an_include_never_takes_routes_from_those_who_include_it() {
    let parts: Vec<String> = (0..5).map(|at| format!("part-{at}")).collect();
    let common: Vec<String> = parts.iter().map(|name| include(name, "lib")).collect();
    let mut all = vec![
        group(
            "closed",
            &format!(
                "{}, {}, {{path: '/admin/*rest'}}",
                include("common", "lib"),
                include("beside", "shop")
            ),
        ),
        group("beside", "{path: '/beside/*rest'}"),
        include_grant("lib", "shop"),
        in_namespace(
            "lib",
            "HttpRouteGroup",
            "common",
            &format!("routes: [{}]", common.join(", ")),
        ),
    ];
    all.extend(parts.iter().map(|name| {
        let routes = format!("routes: [{}]", many(name, "GET", 256));
        in_namespace("lib", "HttpRouteGroup", name, &routes)
    }));
    let found = beside_everything(&all);
    let wanted = [
        pair("unauthorized", "unauthorized"),
        pair("unauthorized", "unauthorized"),
        pair("allow", "allow"),
    ];
    let requests = ["GET /admin/users", "GET /beside/x", "GET /elsewhere"];
    assert_eq!(verdicts(&found, &requests), wanted);
    let told = refusals(&found, "HttpRouteGroup", "closed");
    let why = "describes more than 1024 routes, included ones among them";
    assert_eq!(
        told,
        [
            format!("Accepted=False (TooLarge): nothing is granted on its routes: {why}"),
            format!("ResolvedRefs=False (TooLarge): {why}")
        ]
    );
}

#[test]
fn routes_are_counted_as_they_are_written() {
    let routes = many("a", "GET, PUT, POST, HEAD, DELETE", 256);
    let found = beside_everything(&[group("closed", &routes)]);
    assert_eq!(verdicts(&found, &["PUT /a-255"]), [pair("allow", "unauthorized")]);
    assert_eq!(refusals(&found, "HttpRouteGroup", "closed"), Vec::<String>::new());
}

/// The binding `closed` is older by its name than `open`, and is refused as a whole.
#[test]
fn a_binding_with_too_many_matches_denies_and_leaves_the_others_as_they_are() {
    let routes = format!("{}, {}", include("a", "shop"), include("b", "shop"));
    let part = |name: &str| group(name, &many(name, "GET, PUT, POST, HEAD, DELETE", 256));
    let found = beside_everything(&[group("closed", &routes), part("a"), part("b")]);
    let wanted = [
        pair("unauthorized", "unauthorized"),
        // Of the other routes there are too many.
        pair("allow", "allow"),
        pair("allow", "allow"),
    ];
    let requests = ["GET /a-0", "DELETE /b-255", "GET /elsewhere"];
    assert_eq!(verdicts(&found, &requests), wanted);
    let told = refusals(&found, "HttpRouteBinding", "closed");
    assert_eq!(
        told,
        [
            "Accepted=False (TooLarge): it selects nothing, and its routes are denied: Server shop/web \
          would have more than 4096 matches of bindings: a route has two for each method, and older \
          bindings come first"
        ]
    );
    assert_eq!(refusals(&found, "HttpRouteBinding", "open"), Vec::<String>::new());
}

#[test]
fn the_groups_of_others_leave_room_for_those_of_a_bindings_own_namespace() {
    let part = |name: &str| {
        let routes = format!("routes: [{}]", many(name, "GET, PUT, POST, HEAD, DELETE", 256));
        in_namespace("lib", "HttpRouteGroup", name, &routes)
    };
    let named = "{name: a, namespace: lib}, {name: b, namespace: lib}, {name: admin}";
    let consent = include_grant("lib", "shop")
        .replace("HttpRouteGroup, namespace", "HttpRouteBinding, namespace");
    let all = [
        group("open", "{path: '/*all'}"),
        binding("open", "{name: open}"),
        policy("open", "group: portcullis.dev, kind: HttpRouteBinding, name: open", ""),
        group("admin", "{path: '/admin/*rest'}"),
        binding("closed", named),
        part("a"),
        part("b"),
        consent,
    ];
    let found = compiled("HTTP/1", &all.each_ref().map(String::as_str));
    let wanted = [pair("unauthorized", "unauthorized"), pair("allow", "allow")];
    assert_eq!(verdicts(&found, &["GET /admin/users", "GET /elsewhere"]), wanted);
}

#[test]
fn a_route_with_too_many_predicates_denies() {
    let headers = |from: usize, number: usize| {
        let all = (from..).take(number).map(|at| format!("{{name: x-{at}, value: '1'}}"));
        all.collect::<Vec<_>>().join(", ")
    };
    let with = |name: &str, headers: &str, routes: &str| {
        object("HttpRouteGroup", name, &format!("headers: [{headers}], routes: [{routes}]"))
    };
    for (number, fits) in [(8, true), (9, false)] {
        let found = beside_everything(&[
            with("closed", &headers(0, 8), &include("inner", "shop")),
            with("inner", &headers(8, number), "{path: /inner}"),
        ]);
        let told = refusals(&found, "HttpRouteGroup", "closed");
        let why = "a route of HttpRouteGroup shop/inner has more than 16 predicates on headers or on \
                   query parameters, those of the groups around it among them";
        let wanted = [
            format!("Accepted=False (TooLarge): nothing is granted on its routes: {why}"),
            format!("ResolvedRefs=False (TooLarge): {why}"),
        ];
        assert_eq!(told, if fits { Vec::new() } else { wanted.to_vec() });
        assert_eq!(refusals(&found, "HttpRouteGroup", "inner"), Vec::<String>::new());
    }
}

/// Of what a group of another namespace includes, neither the name nor the fault is told.
#[test]
fn a_condition_names_no_group_that_another_namespace_includes() {
    let routes = |routes: &str| format!("routes: [{routes}]");
    let vault = routes(&include("missing", "vault"));
    let found = beside_everything(&[
        group("closed", &include("own", "shop")),
        group("own", &include("common", "lib")),
        in_namespace("lib", "HttpRouteGroup", "common", &routes(&include("secret", "vault"))),
        in_namespace("vault", "HttpRouteGroup", "secret", &vault),
        include_grant("lib", "shop"),
        include_grant("vault", "lib"),
    ]);
    let why = "HttpRouteGroup lib/common is broken: its conditions say why";
    let told = |of: &str| {
        [
            format!("Accepted=False (RefNotFound): nothing is granted on its routes: {of}{why}"),
            format!("ResolvedRefs=False (RefNotFound): {of}{why}"),
        ]
    };
    assert_eq!(refusals(&found, "HttpRouteGroup", "closed"), told(""));
    assert_eq!(refusals(&found, "HttpRouteGroup", "own"), told(""));
}

/// One group bound to each of many Servers took memory without bound. Of the Servers that have no room a wider
/// route of their own answers nothing in place of the group's.
#[test]
fn the_newest_servers_of_a_namespace_with_too_many_routes_of_bindings_deny_what_these_are_about() {
    let methods = "methods: [GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH]";
    let routes: Vec<String> = (0..256).map(|n| format!("{{path: /a{n}, {methods}}}")).collect();
    let mut documents = vec![group("all", &routes.join(", "))];
    for n in 0..40 {
        let port = 10_000 + n;
        documents.push(format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
             metadata: {{name: s{n}, namespace: shop, creationTimestamp: '2026-01-01T00:{n:02}:00Z'}}\n\
             spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: {port}, proxyProtocol: HTTP/1, \
             accessPolicy: all-unauthenticated}}"
        ));
        let of = format!("targetRef: {{group: policy.linkerd.io, kind: Server, name: s{n}}}");
        documents.push(in_namespace(
            "shop",
            "HttpRouteBinding",
            &format!("s{n}"),
            &format!("{of}, routeRefs: [{{name: all}}]"),
        ));
        documents.push(format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
             metadata: {{name: s{n}, namespace: shop}}\n\
             spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: s{n}}}]\n\
             \x20 rules: [{{matches: [{{path: {{type: PathPrefix, value: /}}}}]}}]"
        ));
    }
    let documents: Vec<&str> =
        [common::POD].into_iter().chain(documents.iter().map(String::as_str)).collect();
    let found = common::compiled(&documents);
    let ask = |n: u16, path: &str| {
        common::ask(&found, 10_000 + n, common::NEIGHBOUR, &format!("GET {path}"))
    };
    assert_eq!([ask(0, "/a0"), ask(0, "/other")], ["allow", "allow"]);
    let first = (0..40).find(|n| ask(*n, "/a0") != "allow").expect("some have no room");
    assert!((10..39).contains(&first), "{first}");
    for n in first..40 {
        assert_ne!(ask(n, "/a0"), "allow", "{n}");
        assert_ne!(ask(n, "/other"), "allow", "{n}");
    }
    let told = refusals(&found, "HttpRouteBinding", &format!("s{first}"));
    assert!(told[0].contains("leave no room for those of Server shop/s"), "{told:?}");
    assert_eq!(refusals(&found, "HttpRouteBinding", "s0"), Vec::<String>::new());
}
