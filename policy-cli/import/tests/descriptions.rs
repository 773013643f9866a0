//! Groups from descriptions of APIs: OpenAPI and ServiceProfiles, as the kinds read and decide them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{Client, World};
use policy_import::{Fidelity, GroupChoice, ImportFile, Imported, open_api, service_profiles};
use std::fmt::Write;

/// The web application of the proposal for policies about requests: paths, and the method of each.
const ROUTES: [(&str, &str); 9] = [
    ("GET", "/"),
    ("POST", "/authors"),
    ("GET", "/authors/{id}"),
    ("POST", "/authors/{id}/delete"),
    ("POST", "/authors/{id}/edit"),
    ("POST", "/books"),
    ("GET", "/books/{id}"),
    ("POST", "/books/{id}/delete"),
    ("POST", "/books/{id}/edit"),
];

fn api(head: &str) -> String {
    let mut text = format!("{head}\npaths:\n");
    for (method, path) in ROUTES {
        writeln!(text, "  {path}:\n    {}: {{}}", method.to_lowercase()).unwrap();
    }
    text
}

fn profile() -> String {
    let mut text = "\
apiVersion: linkerd.io/v1alpha2
kind: ServiceProfile
metadata: {name: web.booksapp.svc.cluster.local, namespace: booksapp}
spec:
  routes:
"
    .to_owned();
    for (method, path) in ROUTES {
        let expression = path.replace("{id}", "[^/]*");
        writeln!(text, "  - name: {method} {path}").unwrap();
        writeln!(text, "    condition: {{method: {method}, pathRegex: '{expression}'}}").unwrap();
    }
    text
}

fn file(text: &str) -> ImportFile {
    ImportFile::read("source.yaml", text.as_bytes()).unwrap()
}

fn imported(text: &str, server: Option<&str>) -> Imported {
    let choice = GroupChoice { name: None, namespace: Some("shop"), server };
    open_api(&file(text), &choice).unwrap()
}

/// The method and path of each route of the groups.
fn routes(imported: &Imported) -> Vec<(String, String)> {
    let groups = imported.values().filter(|object| object["kind"] == "HttpRouteGroup");
    let routes = groups.flat_map(|group| group["spec"]["routes"].as_array().unwrap());
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("any").to_owned();
    routes.map(|route| (text(&route["methods"][0]), text(&route["path"]))).collect()
}

fn expected(base: &str, parameter: &str) -> Vec<(String, String)> {
    let path = |path: &str| match format!("{base}{}", path.replace("{id}", parameter)) {
        path if path.len() > 1 => path.trim_end_matches('/').to_owned(),
        path => path,
    };
    ROUTES.map(|(method, template)| (method.to_owned(), path(template))).to_vec()
}

fn left_out(imported: &Imported) -> Vec<(usize, &str, Fidelity)> {
    let rows = imported.rows.iter().filter(|row| row.fidelity != Fidelity::Exact);
    rows.map(|row| (row.place.as_ref().unwrap().line, &*row.subject, row.fidelity)).collect()
}

#[test]
fn every_version_gives_the_routes_that_the_document_has() {
    let heads = [
        ("openapi: 3.0.1\ninfo: {title: Web}", ""),
        ("openapi: 3.1.0\ninfo: {title: Web}\nservers: [{url: 'https://x.example/v1'}]", "/v1"),
        ("swagger: '2.0'\ninfo: {title: Web}\nbasePath: /api/", "/api"),
        ("swagger: 2.0\ninfo: {title: Web}", ""),
    ];
    for (head, base) in heads {
        let found = imported(&api(head), None);
        assert_eq!(routes(&found), expected(base, ":id"), "{head}");
        assert_eq!(left_out(&found), [], "{head}");
        assert_eq!(found.rows.len(), 9);
    }
}

#[test]
fn a_profile_gives_the_routes_of_its_document_and_names_what_is_lost() {
    let choice = GroupChoice::default();
    let found = service_profiles(&file(&profile()), &choice).unwrap();
    assert_eq!(routes(&found), expected("", ":p1"));
    let lost = left_out(&found);
    assert_eq!(lost.len(), 6, "an empty segment matches `[^/]*` and no parameter: {lost:?}");
    assert!(lost.iter().all(|(_, _, fidelity)| *fidelity == Fidelity::Narrower), "{lost:?}");
    let group = found.values().next().unwrap();
    assert_eq!(group["metadata"]["name"], "web");
    assert_eq!(group["metadata"]["namespace"], "booksapp");
    let more = profile()
        + "  - name: rest\n    condition: {not: {pathRegex: /x}}\n    responseClasses: [{}]\n";
    let found = service_profiles(&file(&format!("{more}  retryBudget: {{}}\n")), &choice).unwrap();
    let omitted: Vec<&str> = left_out(&found)
        .into_iter()
        .filter(|(_, _, fidelity)| *fidelity == Fidelity::Omitted)
        .map(|(_, subject, _)| subject)
        .collect();
    assert_eq!(omitted, ["rest", "rest", "retryBudget"]);
}

/// The objects of a profile that is put on a Server.
const ON_A_SERVER: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteGroup
metadata:
  name: web
  namespace: shop
spec:
  routes:
  - labels:
      http.linkerd.io/idempotent: \"true\"
      route: book
      timeout: \"1s500ms\"
    methods:
    - GET
    path: \"/books/:p1\"
---
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteBinding
metadata:
  name: web
  namespace: shop
spec:
  routeRefs:
  - name: web
  targetRef:
    group: policy.linkerd.io
    kind: Server
    name: web
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata:
  name: web-expressions-1
  namespace: shop
spec:
  parentRefs:
  - group: policy.linkerd.io
    kind: Server
    name: web
  rules:
  - matches:
    - method: GET
      path:
        type: RegularExpression
        value: \"/\\\\d+\"
    - method: HEAD
      path:
        type: RegularExpression
        value: \"/\\\\d+\"
    timeouts:
      request: \"300ms\"
---
apiVersion: portcullis.dev/v1alpha1
kind: HttpRouteClass
metadata:
  name: web-1s500ms
  namespace: shop
spec:
  routeSelector:
    matchLabels:
      timeout: \"1s500ms\"
  targetRef:
    group: policy.linkerd.io
    kind: Server
    name: web
---
apiVersion: portcullis.dev/v1alpha1
kind: TimeoutPolicy
metadata:
  name: web-1s500ms
  namespace: shop
spec:
  targetRef:
    group: portcullis.dev
    kind: HttpRouteClass
    name: web-1s500ms
  timeouts:
    request: \"1s500ms\"
";

#[test]
fn expressions_and_timeouts_of_a_profile_are_kept_on_a_server() {
    let text = "\
apiVersion: linkerd.io/v1alpha2
kind: ServiceProfile
metadata: {name: web.shop.svc.cluster.local, namespace: client}
spec:
  routes:
  - name: book
    condition: {method: GET, pathRegex: '/books/[^/]+'}
    isRetryable: true
    timeout: 1.5s
  - name: number
    condition: {any: [{all: [{method: GET}, {pathRegex: '/\\d+'}]}, {method: HEAD, pathRegex: '/\\d+'}]}
    timeout: 300ms
";
    let choice = GroupChoice { server: Some("web"), ..GroupChoice::default() };
    let found = service_profiles(&file(text), &choice).unwrap();
    assert_eq!(found.yaml(), ON_A_SERVER);
    assert_eq!(left_out(&found), []);
}

/// A ServiceProfile, up to its routes.
const PROFILE: &str = "\
apiVersion: linkerd.io/v1alpha2
kind: ServiceProfile
metadata: {name: web.shop.svc.cluster.local, namespace: shop}
spec:
  routes:";

/// Linkerd takes an empty text for an absent one, and an empty `any` holds for no request.
#[test]
fn conditions_of_a_profile_without_a_value_describe_what_linkerd_matches() {
    let profile = [
        PROFILE,
        "
  - {name: a, condition: {any: []}}
  - {name: b, condition: {method: GET, any: []}}
  - {name: c, condition: {method: get, pathRegex: /c}}
  - {name: d, condition: {method: PUT, pathRegex: ''}}
  - {name: e, condition: {pathRegex: /e, all: []}}
",
    ]
    .concat();
    let choice = GroupChoice { name: None, namespace: Some("shop"), server: Some("web") };
    let found = service_profiles(&file(&profile), &choice).unwrap();
    let mut own = routes(&found);
    own.sort();
    let expected = [("PUT", "/"), ("PUT", "/*rest"), ("any", "/e")];
    assert_eq!(own, expected.map(|(method, path)| (method.to_owned(), path.to_owned())));
    let omitted = Fidelity::Omitted;
    assert_eq!(left_out(&found), [(6, "a", omitted), (7, "b", omitted), (8, "c", omitted)]);
}

/// One expression that no path can match took the whole import with it.
#[test]
fn an_expression_that_matches_no_path_is_left_out_alone() {
    let text = [
        PROFILE,
        "
  - {name: call, condition: {method: POST, pathRegex: 'com.example.User\\/Get'}}
  - {name: number, condition: {method: GET, pathRegex: '/\\d+'}}
",
    ]
    .concat();
    let choice = GroupChoice { server: Some("web"), ..GroupChoice::default() };
    let found = service_profiles(&file(&text), &choice).unwrap();
    assert_eq!(left_out(&found), [(6, "call", Fidelity::Omitted)]);
    let note = found.rows.iter().find(|row| row.subject == "call").unwrap();
    assert!(note.note.contains("matches no path: a path begins with `/`"), "{}", note.note);
    assert!(found.yaml().contains(r"/\\d+") && !found.yaml().contains("User"), "{}", found.yaml());
}

#[test]
fn what_no_group_says_is_left_out_with_its_line() {
    let text = "\
openapi: 3.0.0
info: {title: Web}
servers:
- {url: /v1}
- {url: relative}
paths:
  /books/{id}.json:
    get: {}
  /v1/{name}:cancel:
    post: {}
  /:all:
    get: {}
  /pets/{kind}:
    parameters:
    - {name: kind, in: path, schema: {enum: [cat, dog]}}
    get: {}
    post:
      parameters: [{name: kind, in: path, schema: {type: string, pattern: '^[a-z]+$'}}]
  /pets/cat:
    get: {}
  /elsewhere:
    $ref: https://x.example/api.yaml#/paths/~1a
webhooks:
  paid: {post: {}}
";
    let text = text.replace(
        "  /elsewhere:",
        "  /{proxy+}:\n    x-amazon-apigateway-any-method: {}\n    x-other: {}\n    query: {}\n  /elsewhere:",
    );
    let found = imported(&text, None);
    let expected = [("GET", "/v1/pets/cat"), ("POST", "/v1/pets/:kind"), ("GET", "/v1/pets/dog")];
    let mut own = routes(&found);
    own.sort_by_key(|(method, path)| (path.clone(), method.clone()));
    let mut expected = expected.map(|(method, path)| (method.to_owned(), path.to_owned())).to_vec();
    expected.sort_by_key(|(method, path)| (path.clone(), method.clone()));
    assert_eq!(own, expected);
    let omitted = Fidelity::Omitted;
    let rows = [
        (5, "server relative", omitted),
        (8, "GET /books/{id}.json", omitted),
        (10, "POST /v1/{name}:cancel", omitted),
        (12, "GET /:all", omitted),
        (16, "GET /pets/{kind}", Fidelity::Narrower),
        (18, "values of {kind}", omitted),
        (22, "x-amazon-apigateway-any-method /{proxy+}", omitted),
        (24, "query /{proxy+}", omitted),
        (25, "/elsewhere", omitted),
        (28, "webhook paid", omitted),
    ];
    assert_eq!(left_out(&found), rows);
}

#[test]
fn references_have_an_end() {
    let head = "openapi: 3.0.0\ninfo: {title: a}\npaths:\n";
    let failed = |paths: &str| {
        let choice = GroupChoice::default();
        open_api(&file(&format!("{head}{paths}")), &choice).unwrap_err().join("\n")
    };
    let own = failed("  /a: {$ref: '#/paths/~1b'}\n  /b: {$ref: '#/paths/~1a'}\n");
    assert!(
        own.contains("`source.yaml`: line 4: paths[\"/a\"]: the references have no end"),
        "{own}"
    );
    let nothing = failed("  /a: {$ref: '#/components/x'}\n");
    let words = "line 4: paths[\"/a\"].$ref: `#/components/x` leads to nothing";
    assert!(nothing.contains(words), "{nothing}");
    let shared = "  /a: {$ref: '#/components/a'}\ncomponents:\n  a: {get: {operationId: x}}\n";
    let found = imported(&format!("{head}{shared}"), None);
    assert_eq!(routes(&found), [("GET".to_owned(), "/a".to_owned())]);
}

#[test]
fn many_routes_are_several_groups_of_one_binding() {
    let mut text = "openapi: 3.0.0\ninfo: {title: Big API}\npaths:\n".to_owned();
    for number in 0..600 {
        writeln!(text, "  /a{number:03}/{{id}}: {{get: {{}}}}").unwrap();
    }
    let found = imported(&text, Some("web"));
    let names: Vec<&str> =
        found.values().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["big-api-1", "big-api-2", "big-api-3", "big-api"]);
    assert_eq!(routes(&found).len(), 600);
    for number in 600..4200 {
        writeln!(text, "  /a{number}/{{id}}: {{get: {{}}}}").unwrap();
    }
    let choice = GroupChoice::default();
    let errors = open_api(&file(&text), &choice).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("more than 4096 routes"), "{errors:?}");
}

#[test]
fn imported_routes_are_what_the_evaluator_admits() {
    let manifests = imported(&api("openapi: 3.0.1\ninfo: {title: Web}"), Some("web"));
    let world = World::new(&[
        common::WEB,
        &manifests.yaml(),
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080, proxyProtocol: unknown}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: reader, namespace: shop}
spec:
  targetRef: {group: portcullis.dev, kind: HttpRouteBinding, name: web}
  requiredAuthenticationRefs: [{kind: ServiceAccount, name: reader}]
",
    ]);
    let reader = Client::Account("shop", "reader");
    for (request, verdict) in [
        ("GET /books/42", "allow"),
        ("GET /books/42/", "allow"),
        ("POST /books/42/edit", "allow"),
        ("GET /books/", "no_route"),
        ("GET /books/42/x", "no_route"),
        ("DELETE /books/42", "no_route"),
    ] {
        assert_eq!(world.ask(("shop", "web", 8080), reader, request), verdict, "{request}");
    }
    let other = Client::Account("shop", "other");
    assert_eq!(world.ask(("shop", "web", 8080), other, "GET /books/42"), "unauthorized");
}

#[test]
fn conditions_that_no_route_says_are_named() {
    let path = |schema: &str| {
        format!(
            "openapi: 3.1.0\ninfo: {{title: Web}}\npaths:\n  /a/{{kind}}:\n    get:\n      \
             parameters: [{{name: kind, in: path, schema: {schema}}}]\n"
        )
    };
    let get = |path: &str| vec![("GET".to_owned(), path.to_owned())];
    for (schema, expected, rows) in [
        ("{type: string}", get("/a/:kind"), 0),
        ("{allOf: [{enum: [x]}]}", get("/a/:kind"), 1),
        ("{type: integer, format: int32}", get("/a/:kind"), 2),
        ("{enum: [cat, dog], const: dog}", get("/a/dog"), 0),
        ("{enum: [cat], const: dog}", Vec::new(), 1),
    ] {
        let found = imported(&path(schema), None);
        assert_eq!(routes(&found), expected, "{schema}");
        assert_eq!(left_out(&found).len(), rows, "{schema}: {:?}", found.rows);
    }
    let text = "openapi: 3.1.0\ninfo: {title: Web}\nservers: [{url: '/{v}'}]\npaths: {}\n";
    let errors = open_api(&file(text), &GroupChoice::default()).unwrap_err();
    assert!(errors[0].contains("has a variable without a value"), "{errors:?}");
}
