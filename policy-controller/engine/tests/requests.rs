//! Routes that are described once: groups, services, what binds them to Servers, and classes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;
#[path = "requests/limits.rs"]
mod limits;
#[path = "requests/unreadable.rs"]
mod unreadable;

use common::{NEIGHBOUR, POD, Who, ask, conditions, mesh_tls, policy, server};
use policy_crds::Kind;
use policy_engine::findings::FindingKind;
use policy_engine::{Compiled, ControllerConfig};

/// The groups of a shop for books and their authors.
const WEB: &str = "{methods: [GET], path: /}, {routeGroupRef: {name: authors}, labels: {group: authors}}, \
                   {routeGroupRef: {name: books}, labels: {group: books}}";
const AUTHORS: &str = "{methods: [POST], path: /authors}, \
                       {methods: [HEAD, GET], path: '/authors/:author-id', labels: {group: own, kind: read}}";
const BOOKS: &str = "{methods: [POST], path: /books}, {methods: [GET], path: '/books/:book-id'}, \
                     {methods: [POST], path: '/books/:book/delete'}, {methods: [POST], path: /books/new}";

const ALICE: Who = Who::Meshed("alice.clients");
const BOB: Who = Who::Meshed("bob.clients");

fn object(kind: &str, name: &str, spec: &str) -> String {
    in_namespace("shop", kind, name, spec)
}

fn in_namespace(namespace: &str, kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: {kind}\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n"
    )
}

fn group(name: &str, routes: &str) -> String {
    object("HttpRouteGroup", name, &format!("routes: [{routes}]"))
}

const ON_WEB: &str = "targetRef: {group: policy.linkerd.io, kind: Server, name: web}";

fn binding(name: &str, groups: &str) -> String {
    object("HttpRouteBinding", name, &format!("{ON_WEB}, routeRefs: [{groups}]"))
}

fn class(name: &str, selector: &str) -> String {
    object("HttpRouteClass", name, &format!("{ON_WEB}, routeSelector: {{{selector}}}"))
}

/// A policy for one identity on an object of our group.
fn grant(name: &str, kind: &str, target: &str, client: &str) -> String {
    let identity = format!("{client}.clients.serviceaccount.identity.linkerd.cluster.local");
    let target = format!("group: portcullis.dev, kind: {kind}, name: {target}");
    let reference =
        format!("{{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: {name}}}");
    let identity = format!("'{identity}'");
    [mesh_tls("shop", name, &identity), policy(name, &target, &reference)].join("---\n")
}

fn compiled(protocol: &str, documents: &[&str]) -> Compiled {
    let own = server(protocol, "deny");
    let config = ControllerConfig::default();
    common::compiled_with(&[&[POD, &own], documents].concat(), &config)
}

/// The verdicts on these requests of two clients.
fn verdicts(compiled: &Compiled, requests: &[&str]) -> Vec<(String, String)> {
    let both =
        |request: &&str| (ask(compiled, 8080, ALICE, request), ask(compiled, 8080, BOB, request));
    requests.iter().map(both).collect()
}

fn pair(alice: &str, bob: &str) -> (String, String) {
    (alice.to_owned(), bob.to_owned())
}

#[test]
fn a_binding_gives_a_server_the_routes_of_groups_and_of_those_that_they_include() {
    let all = [
        group("web", WEB),
        group("authors", AUTHORS),
        group("books", BOOKS),
        binding("web", "{name: web}"),
        grant("alice", "HttpRouteBinding", "web", "alice"),
    ];
    let found = compiled("HTTP/1", &all.each_ref().map(String::as_str));
    let denied = "unauthorized";
    let cases = [
        ("GET /", "allow", denied),
        ("POST /", "no_route", "no_route"),
        ("GET /books/42", "allow", denied),
        ("GET /books/42/", "allow", denied),
        ("GET /books/new", "allow", denied),
        ("POST /books/new", "allow", denied),
        ("POST /books/42/delete", "allow", denied),
        ("HEAD /authors/7", "allow", denied),
        ("GET /books/", "no_route", "no_route"),
        ("GET /books/42/x", "no_route", "no_route"),
    ];
    let requests: Vec<&str> = cases.iter().map(|(request, ..)| *request).collect();
    let wanted: Vec<_> = cases.iter().map(|(_, alice, bob)| pair(alice, bob)).collect();
    assert_eq!(verdicts(&found, &requests), wanted);
    assert_eq!(
        conditions(&found, "books"),
        ["Accepted=true Accepted", "ResolvedRefs=true ResolvedRefs"]
    );
}

#[test]
fn a_class_grants_on_the_routes_that_it_selects_alone() {
    let of = |selector: &str| {
        let all = [
            group("web", WEB),
            group("authors", AUTHORS),
            group("books", BOOKS),
            binding("web", "{name: web}"),
            class("some", selector),
            grant("alice", "HttpRouteBinding", "web", "alice"),
            grant("bob", "HttpRouteClass", "some", "bob"),
        ];
        let found = compiled("HTTP/1", &all.each_ref().map(String::as_str));
        let requests = [
            "GET /",
            "GET /authors/1",
            "HEAD /authors/1",
            "GET /books/1",
            "GET /books/2",
            "POST /books/new",
        ];
        let allowed: Vec<&str> = requests
            .into_iter()
            .filter(|request| ask(&found, 8080, BOB, request) == "allow")
            .collect();
        assert!(requests.iter().all(|request| ask(&found, 8080, ALICE, request) == "allow"));
        (allowed.join(", "), conditions(&found, "some").join(", "))
    };
    let accepted = "Accepted=true Accepted".to_owned();
    let selected = |routes: &str| (routes.to_owned(), accepted.clone());
    // The includer's label wins.
    assert_eq!(of("matchLabels: {group: authors}"), selected("GET /authors/1, HEAD /authors/1"));
    assert_eq!(
        of("matchLabels: {group: own}"),
        (String::new(), "Accepted=false NoRoutesSelected".to_owned())
    );
    assert_eq!(
        of("matchLabels: {kind: read, http.linkerd.io/method: GET}"),
        selected("GET /authors/1")
    );
    let captured = |operator: &str| {
        of(&format!(
            "matchExpressions: [{{key: path.http.linkerd.io/book-id, operator: {operator}, values: ['1']}}]"
        ))
    };
    assert_eq!(captured("In"), selected("GET /books/1"));
    assert_eq!(captured("NotIn"), selected("GET /books/2"));
    assert_eq!(
        of(""),
        selected(
            "GET /, GET /authors/1, HEAD /authors/1, GET /books/1, GET /books/2, POST /books/new"
        )
    );
}

#[test]
fn a_broken_include_denies_the_routes_that_are_left_and_opens_nothing() {
    let anyone = "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
                  metadata: {name: all, namespace: shop}\n\
                  spec:\n  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
                  \x20 rules: [{matches: [{path: {value: /}}]}]\n";
    let open = policy("open", "group: policy.linkerd.io, kind: HTTPRoute, name: all", "");
    let grants = grant("alice", "HttpRouteBinding", "web", "alice");
    let books = group("books", BOOKS);
    let foreign = in_namespace("strange", "HttpRouteGroup", "far", "routes: [{path: /far}]");
    let endless = group("authors", "{routeGroupRef: {name: web}}");
    let broken = |web: &str, more: &str| {
        let web = group("web", web);
        let binding = binding("web", "{name: web}");
        let all = [anyone, &open, &grants, &books, &foreign, &web, &binding, more];
        let found = compiled("HTTP/1", &all);
        let verdicts = verdicts(&found, &["GET /books/1", "GET /elsewhere"]);
        let of_binding = conditions(&found, "web");
        (verdicts, of_binding.into_iter().filter(|one| one.contains("false")).collect::<Vec<_>>())
    };
    let included = |more: &str| format!("{{routeGroupRef: {{name: books}}}}, {more}");
    let denied = "unauthorized";
    for (more, reason) in [
        ("{routeGroupRef: {name: missing}}", "RefNotFound"),
        ("{routeGroupRef: {name: far, namespace: strange}}", "RefNotPermitted"),
        ("{routeGroupRef: {name: authors}}", "Cycle"),
    ] {
        let (found, false_conditions) = broken(&included(more), &endless);
        assert_eq!(found, [pair(denied, denied), pair("allow", "allow")], "{reason}");
        // Of the group and of the binding.
        let wanted = [format!("Accepted=false {reason}"), format!("ResolvedRefs=false {reason}")];
        assert_eq!(false_conditions, [&wanted[..], &wanted[..]].concat());
    }
    let (found, false_conditions) = broken("{routeGroupRef: {name: books}}", "");
    assert_eq!(
        (found, false_conditions),
        (vec![pair("allow", denied), pair("allow", "allow")], vec![])
    );
}

#[test]
fn an_invalid_binding_keeps_its_server_bound() {
    let requests = ["GET /books/1", "GET /"];
    for target in [ON_WEB, "targetRef: {group: policy.linkerd.io, kind: Server, name: 5}"] {
        let open = policy("open", common::ON_SERVER, "");
        let invalid = object("HttpRouteBinding", "web", &format!("{target}, routeRefs: []"));
        let found = compiled("HTTP/1", &[&open, &invalid]);
        let denied = pair("routes_invalid", "routes_invalid");
        assert_eq!(verdicts(&found, &requests), [denied.clone(), denied], "{target}");
    }
    let found = compiled("HTTP/1", &[&policy("open", common::ON_SERVER, "")]);
    assert_eq!(ask(&found, 8080, NEIGHBOUR, "GET /"), "allow");
}

#[test]
fn routes_with_one_match_of_several_bindings_are_one_route() {
    let all = [
        group("one", "{methods: [GET], path: '/books/:id'}"),
        group(
            "two",
            "{methods: [GET], path: '/books/:other', labels: {tag: some}}, {methods: [GET], path: /two}",
        ),
        binding("one", "{name: one}"),
        binding("two", "{name: two}"),
        grant("alice", "HttpRouteBinding", "one", "alice"),
        grant("bob", "HttpRouteBinding", "two", "bob"),
    ];
    let found = compiled("HTTP/1", &all.each_ref().map(String::as_str));
    let wanted = [pair("allow", "allow"), pair("unauthorized", "allow")];
    assert_eq!(verdicts(&found, &["GET /books/1", "GET /two"]), wanted);
    assert_eq!(common::web(&found, 8080).routes.routes.len(), 2);
}

#[test]
fn a_service_takes_effect_where_requests_may_be_grpc() {
    let service = object(
        "GrpcService",
        "books",
        "service: a.Books, methods: [{name: Get, labels: {tag: some}}, {name: Put}]",
    );
    let bound =
        object("GrpcServiceBinding", "books", &format!("{ON_WEB}, serviceRefs: [{{name: books}}]"));
    let some = object(
        "GrpcServiceClass",
        "some",
        "targetRef: {group: portcullis.dev, kind: GrpcService, name: books}, methodSelector: {matchLabels: {tag: some}}",
    );
    let grants = grant("alice", "GrpcServiceBinding", "books", "alice");
    let to_bob = grant("bob", "GrpcServiceClass", "some", "bob");
    let requests = ["POST /a.Books/Get", "POST /a.Books/Put", "POST /a.Books/Other"];
    for protocol in ["gRPC", "HTTP/2", "unknown"] {
        let found = compiled(protocol, &[&service, &bound, &some, &grants, &to_bob]);
        let wanted =
            [pair("allow", "allow"), pair("allow", "unauthorized"), pair("no_route", "no_route")];
        assert_eq!(verdicts(&found, &requests), wanted, "{protocol}");
    }
    for protocol in ["HTTP/1", "opaque"] {
        let found = compiled(protocol, &[&service, &bound, &some, &grants, &to_bob]);
        assert_eq!(ask(&found, 8080, ALICE, requests[0]), "routes_invalid", "{protocol}");
        let mismatched = conditions(&found, "books");
        assert_eq!(
            mismatched,
            [
                "Accepted=true Accepted",
                "Accepted=false ProtocolMismatch",
                "ResolvedRefs=true ResolvedRefs"
            ],
            "{protocol}"
        );
        assert_eq!(conditions(&found, "some"), ["Accepted=false NoRoutesSelected"]);
    }
}

#[test]
fn a_group_can_be_a_child_of_an_inbound_route_that_it_consents_to() {
    let root = object(
        "InboundRoute",
        "www",
        "virtualhost: {fqdn: web, targetRef: {group: policy.linkerd.io, kind: Server, name: web}}, \
         routes: [{match: /books, delegate: {kind: HttpRouteGroup, name: books}}, {match: /other, serve: {}}]",
    );
    let open = policy("open", common::ON_SERVER, "");
    let asks = ["GET /books/1", "GET /books/1/2", "GET /other", "GET /elsewhere"];
    let answers = |consent: &str, routes: &str| {
        let spec = format!("{consent}routes: [{routes}]");
        let books = object("HttpRouteGroup", "books", &spec);
        let found = compiled("HTTP/1", &[&root, &open, &books]);
        asks.map(|request| ask(&found, 8080, NEIGHBOUR, request))
    };
    let denied = "not_delegated";
    let refused = [denied, denied, "allow", denied];
    let consent = "delegatedFrom: [{fqdn: web}], ";
    let books = "{methods: [GET], path: '/books/:id'}";
    assert_eq!(answers(consent, books), ["allow", denied, "allow", denied]);
    assert_eq!(answers("", books), refused);
    assert_eq!(answers("delegatedFrom: [{fqdn: other}], ", books), refused);
    assert_eq!(answers(consent, "{path: '/books/:id'}, {path: '/:any/1'}"), refused);
    assert_eq!(answers(consent, "{path: '/books/:id'}, {routeGroupRef: {name: gone}}"), refused);
}

/// A parameter took paths from a longer static text, because its route had no rest.
#[test]
fn static_text_comes_before_parameters_segment_by_segment() {
    let prefix = "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
                  metadata: {name: prefix, namespace: shop}\n\
                  spec:\n  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
                  \x20 rules: [{matches: [{path: {type: PathPrefix, value: /private}}]}]\n";
    let all = [
        group("admin", "{path: '/admin/*rest'}"),
        group("open", "{path: '/:tenant/:item'}, {path: '/:tenant/:item/*more'}"),
        binding("admin", "{name: admin}"),
        binding("open", "{name: open}"),
        grant("alice", "HttpRouteBinding", "admin", "alice"),
        policy("open", "group: portcullis.dev, kind: HttpRouteBinding, name: open", ""),
        prefix.to_owned(),
    ];
    let found = compiled("HTTP/1", &all.each_ref().map(String::as_str));
    let admin = pair("allow", "unauthorized");
    let nobody = pair("unauthorized", "unauthorized");
    let open = pair("allow", "allow");
    let asks = [
        "GET /admin/users",
        "GET /admin/users/5",
        "GET /private/x",
        "GET /private/x/y",
        "GET /a/b",
        "GET /a/b/c",
    ];
    let wanted = [admin.clone(), admin, nobody.clone(), nobody, open.clone(), open];
    assert_eq!(verdicts(&found, &asks), wanted);
}

/// A route for the requests of path `/payroll` alone, older than every binding.
const PAYROLL: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                       metadata: {name: acquisition, namespace: shop, \
                       creationTimestamp: '2020-01-01T00:00:00Z'}\n\
                       spec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], \
                       rules: [{matches: [{path: {type: Exact, value: /payroll}}, \
                       {path: {type: Exact, value: /payroll/}}]}]}\n";

/// The findings about groups: object, kind, field and message.
fn findings(documents: &[&str]) -> Vec<(String, FindingKind, String, String)> {
    let found = compiled("HTTP/1", documents).findings().into_iter();
    let found = found.filter(|found| found.object.kind == Kind::HttpRouteGroup);
    found.map(|found| (found.object.to_string(), found.kind, found.field, found.message)).collect()
}

#[test]
fn the_author_of_a_shared_group_is_told_nothing_of_the_routes_of_those_who_use_it() {
    let shared = in_namespace("lib", "HttpRouteGroup", "common", "routes: [{path: /payroll}]");
    let grant = "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
                 metadata: {name: g, namespace: lib}\n\
                 spec: {from: [{group: portcullis.dev, kind: HttpRouteBinding, namespace: shop}], \
                 to: [{group: portcullis.dev, kind: HttpRouteGroup, name: common}]}\n";
    let bound = binding("web", "{name: common, namespace: lib}");
    let hidden = (
        "HttpRouteGroup lib/common".to_owned(),
        FindingKind::NeverReachedElsewhere,
        "spec.routes[0]".to_owned(),
        "never reached: on every Server that has it other routes match the same requests first"
            .to_owned(),
    );
    assert_eq!(findings(&[PAYROLL, &shared, grant, &bound]), [hidden]);
    // Who has the Server may know.
    let own = group("common", "{path: /payroll}");
    let named = (
        "HttpRouteGroup shop/common".to_owned(),
        FindingKind::NeverReached,
        "spec.routes[0]".to_owned(),
        "never reached: HTTPRoute shop/acquisition matches the same requests first".to_owned(),
    );
    assert_eq!(findings(&[PAYROLL, &own, &binding("web", "{name: common}")]), [named]);
}

#[test]
fn a_group_that_an_inboundroute_delegates_to_is_used() {
    let consents = "delegatedFrom: [{fqdn: a.io}], routes: [{path: /books}]";
    let group = object("HttpRouteGroup", "books", consents);
    let root = |child: &str| {
        let host = "fqdn: a.io, targetRef: {group: policy.linkerd.io, kind: Server, name: web}";
        let delegate = format!("delegate: {{kind: {child}, name: books}}");
        let routes = format!("routes: [{{match: /books, {delegate}}}]");
        object("InboundRoute", "root", &format!("virtualhost: {{{host}}}, {routes}"))
    };
    assert_eq!(findings(&[&group, &root("HttpRouteGroup")]), []);
    let unused = (
        "HttpRouteGroup shop/books".to_owned(),
        FindingKind::Unused,
        "metadata.name".to_owned(),
        "no HttpRouteBinding, no group and no InboundRoute refers to it: no Server has its routes"
            .to_owned(),
    );
    for documents in [&[&*group][..], &[&group, &root("InboundRoute")]] {
        assert_eq!(findings(documents), std::slice::from_ref(&unused));
    }
}
