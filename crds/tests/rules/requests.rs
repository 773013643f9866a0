//! Groups of routes, services of gRPC, what binds them and what selects among them.

use crate::support::{check, claims, errors, object, resource, value};
use policy_core::{PathPattern, SegmentCondition, SegmentOperator};
use policy_crds::resource::{
    GroupEntry, GroupPath, GroupRoute, GroupRouteClaims, GrpcService, HttpRouteGroup,
    RouteSelector, SelectableRoute, Selection, TimeoutPolicy, included,
};
use policy_crds::spec::{ObjectReference, ReferenceTarget};
use policy_crds::{Claims, Field, Kind, Object, ObjectKey, Resource, document, parse};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const OURS: &str = "portcullis.dev/v1alpha1";

/// The groups of the proposal that the kinds come from, word for word, with an `apiVersion`.
const BOOKSTORE: &str = r#"
kind: HttpRouteGroup
metadata:
  name: web
  namespace: booksapp
spec:
  routes:
    - methods: ["GET"]
      path: /
      labels:
        http.linkerd.io/idempotent: "true"
    - routeGroupRef:
        name: authors
      labels:
        group: authors
    - routeGroupRef:
        name: books
      labels:
        group: books
---
kind: HttpRouteGroup
metadata:
  name: authors
  namespace: booksapp
spec:
  routes:
    - methods: ["POST"]
      path: /authors
    - methods: ["HEAD", "GET"]
      path: /authors/:author-id
      labels:
        http.linkerd.io/idempotent: "true"
    - methods: ["POST"]
      path: /authors/:author-id/delete
    - methods: ["POST"]
      path: /authors/:author-id/edit
---
kind: HttpRouteGroup
metadata:
  name: books
  namespace: booksapp
spec:
  routes:
    - methods: ["POST"]
      path: /books
    - methods: ["GET"]
      path: /books/:book-id
      labels:
        http.linkerd.io/idempotent: "true"
    - methods: ["POST"]
      path: /books/:book/delete
    - methods: ["POST"]
      path: /books/:book-id/edit
"#;

fn seed(text: &str) -> Vec<Object> {
    let text = text.replace("kind: H", &format!("apiVersion: {OURS}\nkind: H"));
    let documents = document::read(&text).into_iter();
    documents.map(|document| parse(&document.value.unwrap()).unwrap()).collect()
}

fn group(object: Object) -> HttpRouteGroup {
    match resource(object) {
        Resource::HttpRouteGroup(group) => group,
        other => panic!("{other:?}"),
    }
}

fn routes(group: &HttpRouteGroup) -> Vec<&GroupRoute> {
    let routes = group.routes.iter().filter_map(|entry| match entry {
        GroupEntry::Route(route) => Some(route),
        GroupEntry::Include(_) => None,
    });
    routes.collect()
}

/// T81 and T85: the groups are valid, the includes name the others, and labels are kept.
#[test]
fn the_bookstore_of_the_proposal_is_read_as_it_is_written() {
    let objects = seed(BOOKSTORE);
    let included_by_web = objects[0].references();
    let key = |name: &str| ObjectKey {
        kind: Kind::HttpRouteGroup,
        namespace: "booksapp".into(),
        name: name.into(),
    };
    let include =
        |name| ObjectReference { field: Field::Include, what: ReferenceTarget::One(key(name)) };
    assert_eq!(included_by_web, [include("authors"), include("books")]);
    let groups: BTreeMap<String, HttpRouteGroup> = objects
        .into_iter()
        .map(|object| (object.meta.key.name.to_string(), group(object)))
        .collect();
    let mut all: Vec<(String, String, String)> = Vec::new();
    let print = |route: &GroupRoute, labels: &policy_crds::resource::RouteLabels| {
        let methods: Vec<&str> = route.methods.iter().map(|method| method.as_str()).collect();
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        (methods.join(" "), route.path.to_string(), labels.join(" "))
    };
    for entry in &groups["web"].routes {
        match entry {
            GroupEntry::Route(route) => all.push(print(route, &route.labels)),
            GroupEntry::Include(include) => {
                for route in routes(&groups[&*include.group.name]) {
                    all.push(print(route, &included(&route.labels, &include.labels)));
                }
            }
        }
    }
    let expected = [
        ("GET", "/", "http.linkerd.io/idempotent=true"),
        ("POST", "/authors", "group=authors"),
        ("HEAD GET", "/authors/:author-id", "group=authors http.linkerd.io/idempotent=true"),
        ("POST", "/authors/:author-id/delete", "group=authors"),
        ("POST", "/authors/:author-id/edit", "group=authors"),
        ("POST", "/books", "group=books"),
        ("GET", "/books/:book-id", "group=books http.linkerd.io/idempotent=true"),
        ("POST", "/books/:book/delete", "group=books"),
        ("POST", "/books/:book-id/edit", "group=books"),
    ];
    let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(all, expected);
}

/// T81: a slash at the end is irrelevant, an absent or a further segment is not.
#[test]
fn the_matches_of_a_route_are_those_of_its_methods_and_spellings() {
    let books = group(seed(BOOKSTORE).remove(2));
    let one = routes(&books)[1];
    let matches = one.matches(&books.headers, &books.query);
    assert!(matches.iter().all(|it| it.method() == Some(&http::Method::GET)));
    let admits = |path: &str| matches.iter().any(|it| it.path.admits(path));
    for (path, expected) in [
        ("/books/42", true),
        ("/books/42/", true),
        ("/books/", false),
        ("/books//", false),
        ("/books/42/x", false),
    ] {
        assert_eq!(admits(path), expected, "{path}");
    }
    let spec = "headers: [{name: x-a, value: b}]\nqueryParams: [{name: q, value: v}]\n\
                routes: [{path: /a, methods: [GET, PUT], headers: [{name: x-c, value: d}]}, {path: '/b/*c'}]";
    let group = group(object(OURS, "HttpRouteGroup", spec));
    let [first, second] = routes(&group)[..] else { panic!() };
    let matches = first.matches(&group.headers, &group.query);
    let found: Vec<String> = matches
        .iter()
        .map(|it| format!("{} {} {}", it.method().unwrap(), it.headers().len(), it.query().len()))
        .collect();
    assert_eq!(found, ["GET 2 1", "GET 2 1", "PUT 2 1", "PUT 2 1"]);
    assert_eq!(matches[1].path, PathPattern::exact("/a/"));
    assert_eq!(second.matches(&[], &[]).len(), 1);
    assert_eq!(second.matches(&[], &[])[0].method(), None);
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_group_is_checked() {
    let many = |count: usize| format!("routes: {}", Value::from((0..count).map(|i| json!({"path": format!("/{i}")})).collect::<Vec<_>>()));
    let (most, more, hundred_thousand) = (many(256), many(257), many(100_000));
    let one = |route: &str| format!("routes: [{route}]");
    let which = "one of `path`, `routeGroupRef`";
    let labels = Value::from((0..33).map(|i| (format!("l{i}"), json!("v"))).collect::<serde_json::Map<_, _>>());
    let known = "expected one of `http.linkerd.io/method`, `http.linkerd.io/version`, `http.linkerd.io/path`, `http.linkerd.io/idempotent`, `path.http.linkerd.io/PARAMETER`";
    let table: Vec<(String, Vec<String>)> = vec![
        (most, vec![]),
        (more, vec!["spec.routes: 257 elements, at most 256 are allowed".into()]),
        (hundred_thousand, vec!["spec.routes: 100000 elements, at most 256 are allowed".into()]),
        ("{}".into(), vec!["spec.routes: is required".into()]),
        ("routes: []".into(), vec!["spec.routes: must not be empty: a group without routes matches nothing".into()]),
        (one("{}"), vec![format!("spec.routes[0]: {which} is required")]),
        (one("{path: /, routeGroupRef: {name: a}}"), vec![format!("spec.routes[0]: only {which} is allowed in one element")]),
        (one("{paht: /}"), vec!["spec.routes[0].paht: unknown field, did you mean `path`?".into(), format!("spec.routes[0]: {which} is required")]),
        (one("{path: books}"), vec!["spec.routes[0].path: `books` must begin with `/`".into()]),
        (one("{path: '/a/:id/:id'}"), vec!["spec.routes[0].path: `/a/:id/:id` has the parameter `id` twice".into()]),
        (one("{path: '/a/*rest/b'}"), vec!["spec.routes[0].path: `/a/*rest/b` goes on behind a `*`: a segment that begins with `*` may be the last one only".into()]),
        (one("{path: /a, methods: []}"), vec!["spec.routes[0].methods: must not be empty, leave it out for any method".into()]),
        (one("{path: /a, methods: [get]}"), vec!["spec.routes[0].methods[0]: unknown value `get`, expected one of `GET`, `HEAD`, `POST`, `PUT`, `DELETE`, `CONNECT`, `OPTIONS`, `TRACE`, `PATCH`".into()]),
        (one("{path: /a, methods: [GET, GET]}"), vec!["spec.routes[0].methods[1]: `GET` appears twice".into()]),
        (one("{path: /a, headers: [{name: 'a b', value: c}]}"), vec!["spec.routes[0].headers[0].name: `a b` is not a header name".into()]),
        (one("{path: /a, headers: [{name: A, value: c}, {name: a, value: d}]}"), vec!["spec.routes[0].headers[1].name: appears twice in one match, every name may only once".into()]),
        (one("{routeGroupRef: {name: a}, methods: [GET]}"), vec!["spec.routes[0].methods: must be absent where `routeGroupRef` is present: the routes there have their own".into()]),
        (one("{routeGroupRef: {name: A}}"), vec!["spec.routes[0].routeGroupRef.name: `A` is not a name: lower-case letters, digits, `-` and `.` are allowed".into()]),
        (one("{routeGroupRef: {name: a, namespace: ''}}, {routeGroupRef: {name: a, namespace: here}}"), vec!["spec.routes[1]: includes HttpRouteGroup here/a again, as `spec.routes[0]` does".into()]),
        (one("{routeGroupRef: {name: it}}"), vec!["spec.routes[0].routeGroupRef: names the group itself, which would have no end".into()]),
        (one("{routeGroupRef: {name: it, namespace: other}}"), vec![]),
        (one("{routeGroupRef: {name: a, kind: HttpRouteGroup}}"), vec!["spec.routes[0].routeGroupRef.kind: unknown field, expected one of `name`, `namespace`".into()]),
        // Labels.
        (one("{path: /a, labels: {http.linkerd.io/idempotent: 'true', a.b/c: 'any text, é/:'}}"), vec![]),
        (one("{path: /a, labels: {http.linkerd.io/idempotent: true}}"), vec!["spec.routes[0].labels[\"http.linkerd.io/idempotent\"]: expected text, found `true`".into()]),
        (one("{path: /a, labels: {http.linkerd.io/path: /b}}"), vec!["spec.routes[0].labels[\"http.linkerd.io/path\"]: `http.linkerd.io/path` is automatic: every route has it by itself".into()]),
        (one("{path: /a, labels: {http.linkerd.io/method: GET}}"), vec!["spec.routes[0].labels[\"http.linkerd.io/method\"]: `http.linkerd.io/method` is automatic: every route has it by itself".into()]),
        (one("{path: /a, labels: {http.linkerd.io/version: HTTP/2}}"), vec!["spec.routes[0].labels[\"http.linkerd.io/version\"]: `http.linkerd.io/version` is automatic: every route has it by itself".into()]),
        (one("{routeGroupRef: {name: a}, labels: {path.http.linkerd.io/id: '42'}}"), vec!["spec.routes[0].labels[\"path.http.linkerd.io/id\"]: `path.http.linkerd.io/id` is automatic: every route has it by itself".into()]),
        (one("{path: /a, labels: {http.linkerd.io/idempotant: 'true'}}"), vec![format!("spec.routes[0].labels[\"http.linkerd.io/idempotant\"]: `http.linkerd.io/idempotant` is no label that has a meaning, {known}")]),
        (one("{path: /a, labels: {'a b': c}}"), vec!["spec.routes[0].labels[\"a b\"]: `a b` cannot be the name of a label".into()]),
        (one(&format!("{{path: /a, labels: {labels}}}")), vec!["spec.routes[0].labels: 33 labels, at most 32 are allowed".into()]),
        (one(&format!("{{path: /a, labels: {{a: {}}}}}", "x".repeat(257))), vec![format!("spec.routes[0].labels.a: `{}…` is longer than 256 bytes", "x".repeat(80))]),
        // As an object that others delegate to.
        (format!("{}\ndelegatedFrom: []", one("{path: /}")), vec!["spec.delegatedFrom: must not be empty: it names the hosts to be delegated".into()]),
        (format!("{}\ndelegatedFrom: [{{fqdn: '-'}}]", one("{path: /}")), vec!["spec.delegatedFrom[0].fqdn: `-` is not a host name: labels of letters, digits and inner `-` with dots between".into()]),
    ];
    for (spec, expected) in table {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(OURS, "HttpRouteGroup", &[(&spec, &expected)]);
    }
}

/// DuplicateRoute: the same shape, method and predicates, whatever the names of parameters.
#[test]
fn no_two_routes_of_a_group_match_the_same() {
    let of = |one: &str, other: &str| {
        errors(&object(OURS, "HttpRouteGroup", &format!("routes: [{one}, {other}]")))
    };
    let rule = "no two routes may have the same method, predicates and path but for the names of \
                parameters";
    for (one, other, shared) in [
        ("{path: /a}", "{path: /a/}", Some("any method `/a`")),
        ("{path: '/a/:x'}", "{path: '/a/:y'}", Some("any method `/a/:x`")),
        ("{path: '/a/*x'}", "{path: '/a/*y'}", Some("any method `/a/*x`")),
        ("{path: /a, methods: [GET, PUT]}", "{path: /a, methods: [PUT]}", Some("PUT `/a`")),
        (
            "{path: /a, headers: [{name: x, value: b}, {name: z, value: b}]}",
            "{path: /a, headers: [{name: Z, value: b}, {name: X, value: b}]}",
            Some("any method `/a`"),
        ),
        ("{path: /a}", "{path: /A}", None),
        ("{path: /a}", "{path: /a, methods: [GET]}", None),
        ("{path: /a, methods: [GET]}", "{path: /a, methods: [PUT]}", None),
        ("{path: '/a/:x'}", "{path: '/a/*x'}", None),
        ("{path: '/a/:x'}", "{path: /a/x}", None),
        ("{path: /a}", "{path: /a, headers: [{name: x, value: b}]}", None),
        (
            "{path: /a, queryParams: [{name: x, value: b}]}",
            "{path: /a, queryParams: [{name: X, value: b}]}",
            None,
        ),
    ] {
        let expected: Vec<String> = shared
            .map(|what| {
                format!(
                    "spec.routes[1]: matches the same requests as `spec.routes[0]` ({what}): {rule}"
                )
            })
            .into_iter()
            .collect();
        assert_eq!(of(one, other), expected, "{one} {other}");
    }
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_binding_is_checked() {
    const SERVER: &str = "targetRef: {group: policy.linkerd.io, kind: Server, name: web}";
    let many = Value::from((0..17).map(|i| json!({"name": format!("g{i}")})).collect::<Vec<_>>());
    for (kind, field, named) in [("HttpRouteBinding", "routeRefs", "HttpRouteGroup"), ("GrpcServiceBinding", "serviceRefs", "GrpcService")] {
        let refs = |refs: &str| format!("{SERVER}\n{field}: {refs}");
        let target = |target: &str| format!("targetRef: {target}\n{field}: [{{name: a}}]");
        let table: Vec<(String, Vec<String>)> = vec![
            (refs("[{name: a}, {name: a, namespace: b}]"), vec![]),
            (refs("[]"), vec![format!("spec.{field}: must not be empty, name at least one {named}")]),
            (refs(&many.to_string()), vec![format!("spec.{field}: 17 elements, at most 16 are allowed")]),
            (refs("[{name: a}, {name: a, namespace: here}]"), vec![format!("spec.{field}[1]: `a` is named twice")]),
            (refs("[{name: a, group: b}]"), vec![format!("spec.{field}[0].group: unknown field, expected one of `name`, `namespace`")]),
            (SERVER.into(), vec![format!("spec.{field}: is required")]),
            (format!("{field}: [{{name: a}}]"), vec!["spec.targetRef: is required".into()]),
            (target("{kind: Server, name: web}"), vec![]),
            (target("{group: '', kind: Server, name: web}"), vec!["spec.targetRef.group: is required for Server, write `group: policy.linkerd.io`".into()]),
            (target("{group: apps, kind: Server, name: web}"), vec!["spec.targetRef.group: `apps` has no Server, write `group: policy.linkerd.io`".into()]),
            (target("{kind: Service, name: web}"), vec!["spec.targetRef.kind: `Service` is not allowed here, expected `Server (policy.linkerd.io)`".into()]),
            (target("{kind: Server, name: web, namespace: there}"), vec!["spec.targetRef.namespace: unknown field, expected one of `group`, `kind`, `name`".into()]),
        ];
        for (spec, expected) in table {
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check(OURS, kind, &[(&spec, &expected)]);
        }
    }
    check(OURS, "HttpRouteBinding", &[
        (&format!("{SERVER}\nrouteRefs: [{{name: a}}]\nhostnames: [a.b, '*.c.d']"), &[]),
        (&format!("{SERVER}\nrouteRefs: [{{name: a}}]\nhostnames: ['*']"), &["spec.hostnames[0]: `*` is not a host name, leave `hostnames` out to match every host"]),
    ]);
}

#[test]
fn an_invalid_binding_keeps_its_server_bound() {
    for kind in ["HttpRouteBinding", "GrpcServiceBinding"] {
        let server = |spec: &str| match claims(object(OURS, kind, spec)) {
            Claims::Binding(claims) => claims.server.map(|name| name.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(server("targetRef: {kind: Server, name: web}").as_deref(), Some("web"));
        let unknown = "targetRef: {kind: Server, name: web}\nrouteRef: [{name: a}]";
        assert_eq!(server(unknown).as_deref(), Some("web"));
        assert_eq!(server("targetRef: {kind: Service, name: web}"), None);
        assert_eq!(server("targetref: {kind: Server, name: web}"), None);
        let object = object(OURS, kind, "targetRef: {kind: Server, name: web}");
        let key = ObjectKey { kind: Kind::Server, namespace: "here".into(), name: "web".into() };
        let what = ReferenceTarget::One(key);
        assert_eq!(object.references(), [ObjectReference { field: Field::Target, what }]);
    }
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_service_is_checked() {
    let service = |name: &str| json!({"service": name}).to_string();
    let word = "letters, digits and `_` are allowed, not beginning with a digit";
    for name in ["Books", "books.v1.Books", "_a.B_2"] {
        check(OURS, "GrpcService", &[(&service(name), &[])]);
    }
    for name in ["books/Books", ".Books", "a..B", "1a", "a-b", "a b", "é", "a.B."] {
        check(OURS, "GrpcService", &[(&service(name), &[&format!("spec.service: `{name}` is not the name of a gRPC service: {word}, with dots between")])]);
    }
    let methods = |methods: &str| format!("service: a.B\nmethods: {methods}");
    let many = Value::from((0..257).map(|i| json!({"name": format!("M{i}")})).collect::<Vec<_>>());
    let not_a_name = format!("spec.methods[0].name: `a.Get` is not the name of a gRPC method: {word}");
    let table: Vec<(String, Vec<&str>)> = vec![
        (service(""), vec!["spec.service: must not be empty"]),
        ("{}".into(), vec!["spec.service: is required"]),
        // Names are compared with their case.
        (methods("[{name: Get}, {name: get}]"), vec![]),
        (methods("[{name: Get}, {name: Get}]"), vec!["spec.methods[1].name: `Get` appears twice"]),
        (methods("[]"), vec!["spec.methods: must not be empty, leave it out for the whole service"]),
        (methods("[Get]"), vec!["spec.methods[0]: expected a mapping, found the text `Get`"]),
        (methods("[{name: a.Get}]"), vec![&not_a_name]),
        (methods("[{name: Get, labels: {http.linkerd.io/path: /a}}]"), vec!["spec.methods[0].labels[\"http.linkerd.io/path\"]: `http.linkerd.io/path` is automatic: every route has it by itself"]),
        (methods(&many.to_string()), vec!["spec.methods: 257 elements, at most 256 are allowed"]),
    ];
    for (spec, expected) in table {
        check(OURS, "GrpcService", &[(&spec, &expected)]);
    }
}

#[test]
fn a_service_is_its_methods_or_all_of_them() {
    let service = |spec: &str| -> GrpcService {
        match resource(object(OURS, "GrpcService", spec)) {
            Resource::GrpcService(service) => service,
            other => panic!("{other:?}"),
        }
    };
    let admits =
        |service: &GrpcService, path: &str| service.matches().iter().any(|it| it.path.admits(path));
    let whole = service("service: a.B");
    assert!(admits(&whole, "/a.B/Get") && admits(&whole, "/a.B/Put"));
    assert!(!admits(&whole, "/a.b/Get") && !admits(&whole, "/a.B/Get/x"));
    let some = service("service: a.B\nmethods: [{name: Get}]");
    assert!(admits(&some, "/a.B/Get") && !admits(&some, "/a.B/get"));
    assert!(some.matches().iter().all(|it| it.method() == Some(&http::Method::POST)));
    let path = some.path_of(some.methods.first());
    assert_eq!((path.as_str(), GroupPath::parse("/a.B/Get")), ("/a.B/Get", Ok(path.clone())));
    let path = whole.path_of(None);
    assert_eq!(GroupPath::parse(path.as_str()), Ok(path));
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_selector_is_checked() {
    let known = "expected one of `http.linkerd.io/method`, `http.linkerd.io/version`, `http.linkerd.io/path`, `http.linkerd.io/idempotent`, `path.http.linkerd.io/PARAMETER`";
    let expression = |text: &str| format!("{{matchExpressions: [{text}]}}");
    let first = |text: &str| vec![format!("matchExpressions[0].{text}")];
    let table: Vec<(String, Vec<String>)> = vec![
        ("{}".into(), vec![]),
        ("{matchLabels: {}, matchExpressions: []}".into(), vec![]),
        ("{matchLabels: {group: books, http.linkerd.io/method: GET, http.linkerd.io/path: '/books/:id/', path.http.linkerd.io/id: '42'}}".into(), vec![]),
        ("{matchLabel: {a: b}}".into(), vec!["matchLabel: unknown field, did you mean `matchLabels`?".into()]),
        ("{matchLabels: {http.linkerd.io/version: HTTP/2}}".into(), vec!["matchLabels[\"http.linkerd.io/version\"]: `http.linkerd.io/version` has no value before there is a request: only `Exists` can be asked of it, which is true of every request".into()]),
        ("{matchLabels: {http.linkerd.io/method: get}}".into(), vec!["matchLabels[\"http.linkerd.io/method\"]: unknown value `get`, expected one of `GET`, `HEAD`, `POST`, `PUT`, `DELETE`, `CONNECT`, `OPTIONS`, `TRACE`, `PATCH`".into()]),
        ("{matchLabels: {http.linkerd.io/path: books}}".into(), vec!["matchLabels[\"http.linkerd.io/path\"]: `books` must begin with `/`".into()]),
        ("{matchLabels: {http.linkerd.io/mehtod: GET}}".into(), vec![format!("matchLabels[\"http.linkerd.io/mehtod\"]: `http.linkerd.io/mehtod` is no label that has a meaning, {known}")]),
        ("{matchLabels: {path.http.linkerd.io/1d: '42'}}".into(), vec!["matchLabels[\"path.http.linkerd.io/1d\"]: `1d` is not the name of a parameter: a letter or `_`, then letters, digits, `_` and `-`".into()]),
        ("{matchLabels: {path.http.linkerd.io/id: 42}}".into(), vec!["matchLabels[\"path.http.linkerd.io/id\"]: expected text, found the number `42`".into()]),
        ("{matchLabels: {path.http.linkerd.io/id: a/b}}".into(), vec!["matchLabels[\"path.http.linkerd.io/id\"]: `a/b` has a `/`: a parameter stands for one segment of a path".into()]),
        ("{matchLabels: {path.http.linkerd.io/id: ''}}".into(), vec!["matchLabels[\"path.http.linkerd.io/id\"]: must not be empty".into()]),
        ("{matchLabels: {path.http.linkerd.io/id: 'a b'}}".into(), vec!["matchLabels[\"path.http.linkerd.io/id\"]: `a b` contains ' ', write it as `%20`".into()]),
        ("{matchLabels: {path.http.linkerd.io/id: '..'}}".into(), vec!["matchLabels[\"path.http.linkerd.io/id\"]: `..` has the segment `..`: such requests are refused".into()]),
        ("{matchLabels: {path.http.linkerd.io/id: '%40'}}".into(), vec!["matchLabels[\"path.http.linkerd.io/id\"]: `%40` has `%40`, which paths are matched with as `@`".into()]),
        (expression("{key: a, operator: In, values: [b, c]}"), vec![]),
        (expression("{key: http.linkerd.io/version, operator: Exists}"), vec![]),
        (expression("{key: path.http.linkerd.io/id, operator: NotIn, values: ['42']}"), vec![]),
        (expression("{key: a, operator: In}"), first("values: at least one is required with one of `In`, `NotIn`")),
        (expression("{key: a, operator: Exists, values: [b]}"), first("values: must be absent with one of `Exists`, `DoesNotExist`")),
        (expression("{key: a, operator: in, values: [b]}"), first("operator: unknown value `in`, expected one of `In`, `NotIn`, `Exists`, `DoesNotExist`")),
        (expression("{operator: Exists}"), first("key: is required")),
        (expression("{key: http.linkerd.io/version, operator: NotIn, values: [HTTP/2]}"), first("values[0]: `http.linkerd.io/version` has no value before there is a request: only `Exists` can be asked of it, which is true of every request")),
    ];
    for (kind, field, target) in [("HttpRouteClass", "routeSelector", "{kind: Server, name: a}"), ("GrpcServiceClass", "methodSelector", "{kind: GrpcService, name: a}")] {
        for (selector, expected) in &table {
            let spec = format!("targetRef: {target}\n{field}: {selector}");
            let expected: Vec<String> = expected.iter().map(|it| format!("spec.{field}.{it}")).collect();
            assert_eq!(errors(&object(OURS, kind, &spec)), expected, "{spec}");
        }
        let required = format!("spec.{field}: is required");
        check(OURS, kind, &[(&format!("targetRef: {target}"), &[&required])]);
    }
    check(OURS, "GrpcServiceClass", &[("targetRef: {kind: Server, name: a}\nmethodSelector: {}", &["spec.targetRef.kind: `Server` is not allowed here, expected `GrpcService (portcullis.dev)`"])]);
}

fn selector(text: &str) -> RouteSelector {
    let spec = format!("targetRef: {{kind: Server, name: a}}\nrouteSelector: {text}");
    match resource(object(OURS, "HttpRouteClass", &spec)) {
        Resource::HttpRouteClass(class) => class.selector,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_class_selects_routes_and_requests_of_routes() {
    let books = group(seed(BOOKSTORE).remove(2));
    let selected = |text: &str| {
        let selector = selector(text);
        let of = |route: &GroupRoute| {
            let method = route.methods.first();
            selector.select(&SelectableRoute { path: &route.path, method, labels: &route.labels })
        };
        routes(&books).into_iter().map(of).collect::<Vec<_>>()
    };
    let (always, never) = (Selection::Always, Selection::Never);
    assert_eq!(selected("{}"), vec![always.clone(); 4]);
    let idempotent = "{matchLabels: {http.linkerd.io/idempotent: 'true'}}";
    let second = [never.clone(), always.clone(), never.clone(), never.clone()];
    assert_eq!(selected(idempotent), second);
    assert_eq!(selected("{matchLabels: {http.linkerd.io/path: '/books/:book-id/'}}"), second);
    assert_eq!(selected("{matchLabels: {http.linkerd.io/method: GET}}"), second);
    let when = |operator, values: &[&str]| {
        Selection::When(vec![SegmentCondition::new("book-id", 1, operator, values)])
    };
    let id = when(SegmentOperator::In, &["42"]);
    let of_id = [never.clone(), id.clone(), never.clone(), id];
    assert_eq!(selected("{matchLabels: {path.http.linkerd.io/book-id: '42'}}"), of_id);
    let other = "{matchExpressions: [{key: path.http.linkerd.io/book-id, operator: NotIn, values: ['%7b', b]}]}";
    let not = when(SegmentOperator::NotIn, &["%7B", "b"]);
    assert_eq!(selected(other), [never.clone(), not.clone(), never, not]);
}

fn timeout(spec: &str) -> Object {
    object(OURS, "TimeoutPolicy", &format!("targetRef: {{kind: Server, name: a}}\n{spec}"))
}

/// T90: zero, negative and long bounds, and what is no duration.
#[test]
fn the_bounds_of_a_timeout_policy_are_checked() {
    for (text, expected) in [
        ("1ms", 1),
        ("500ms", 500),
        ("10s", 10_000),
        ("1m30s", 90_000),
        ("1h", 3_600_000),
        ("60m", 3_600_000),
        ("0m1s", 1_000),
        ("30m1s500ms", 1_801_500),
    ] {
        let Resource::TimeoutPolicy(TimeoutPolicy { request, response, idle, .. }) =
            resource(timeout(&format!("timeouts: {{request: {text}}}")))
        else {
            panic!()
        };
        assert_eq!(request, Some(Duration::from_millis(expected)), "{text}");
        assert_eq!((response, idle), (None, None));
    }
    let bounds = "from `1ms` to `1h` is allowed";
    for (text, why) in [
        ("0s", "is out of bounds"),
        ("0ms", "is out of bounds"),
        ("1h1ms", "is out of bounds"),
        ("99999h", "is out of bounds"),
        ("-1s", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("1d", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("10", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("s", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("1.5s", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("1us", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("123456s", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("1s1s1s1s1s", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("1 s", "is not a duration such as `10s`, `500ms` or `1m30s`"),
        ("٣s", "is not a duration such as `10s`, `500ms` or `1m30s`"),
    ] {
        let found = errors(&timeout(&format!("timeouts: {{idle: '{text}'}}")));
        assert_eq!(found, [format!("spec.timeouts.idle: `{text}` {why}: {bounds}")]);
    }
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_timeout_policy_is_checked() {
    let one = "one of `request`, `response`, `idle` is required";
    for (spec, expected) in [
        ("timeouts: {request: 1s}\nstreams: Unbounded", vec![]),
        ("timeouts: {request: 1s}\nstreams: unbounded", vec!["spec.streams: unknown value `unbounded`, expected one of `Bounded`, `Unbounded`".to_owned()]),
        ("timeouts: {}", vec![format!("spec.timeouts: bounds nothing: {one}")]),
        ("timeouts: {request: null}", vec![format!("spec.timeouts: bounds nothing: {one}")]),
        ("timeouts: {requst: 1s}", vec!["spec.timeouts.requst: unknown field, did you mean `request`?".into(), format!("spec.timeouts: bounds nothing: {one}")]),
        ("timeouts: {request: 10}", vec!["spec.timeouts.request: expected text, found the number `10`".into()]),
        ("streams: Bounded", vec!["spec.timeouts: is required".into()]),
    ] {
        assert_eq!(errors(&timeout(spec)), expected, "{spec}");
    }
    let remarks = timeout("timeouts: {idle: 1s}\nstreams: Unbounded").remarks();
    assert_eq!(remarks.iter().map(ToString::to_string).collect::<Vec<_>>(), ["spec.streams: `Unbounded` changes nothing: it is about `timeouts.request`, which is absent"]);
    assert_eq!(timeout("timeouts: {request: 1s}\nstreams: Unbounded").remarks(), []);
}

#[test]
#[rustfmt::skip]
fn every_target_of_a_policy_about_requests_is_checked() {
    let all = "one of `Server (policy.linkerd.io)`, `HttpRouteBinding (portcullis.dev)`, `HttpRouteClass (portcullis.dev)`, `GrpcServiceBinding (portcullis.dev)`, `GrpcServiceClass (portcullis.dev)`, `InboundRoute (portcullis.dev)`, `HTTPRoute (policy.linkerd.io)`, `HTTPRoute (gateway.networking.k8s.io)`, `GRPCRoute (gateway.networking.k8s.io)`";
    for (target, kind, expected) in [
        ("{kind: Server, name: a}", Some(Kind::Server), None),
        ("{group: policy.linkerd.io, kind: Server, name: a}", Some(Kind::Server), None),
        ("{kind: HttpRouteBinding, name: a}", Some(Kind::HttpRouteBinding), None),
        ("{group: portcullis.dev, kind: HttpRouteClass, name: a}", Some(Kind::HttpRouteClass), None),
        ("{kind: GrpcServiceBinding, name: a}", Some(Kind::GrpcServiceBinding), None),
        ("{kind: GrpcServiceClass, name: a}", Some(Kind::GrpcServiceClass), None),
        ("{kind: InboundRoute, name: a}", Some(Kind::InboundRoute), None),
        ("{kind: GRPCRoute, name: a}", Some(Kind::GrpcRoute), None),
        ("{group: policy.linkerd.io, kind: HTTPRoute, name: a}", Some(Kind::PolicyHttpRoute), None),
        ("{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a}", Some(Kind::GatewayHttpRoute), None),
        // Two groups have such a kind.
        ("{kind: HTTPRoute, name: a}", None, Some("group: is required for HTTPRoute, write `group: policy.linkerd.io`".to_owned())),
        ("{kind: Namespace, name: here}", None, Some(format!("kind: `Namespace` is not allowed here, expected {all}"))),
        ("{kind: HttpRouteGroup, name: a}", None, Some(format!("kind: `HttpRouteGroup` is not allowed here, expected {all}"))),
        ("{kind: Server}", None, Some("name: is required".into())),
    ] {
        for (of, rest) in [("TimeoutPolicy", "timeouts: {idle: 1s}"), ("HeaderRewritePolicy", "rules: [{clear: [x-a]}]")] {
            let object = object(OURS, of, &format!("targetRef: {target}\n{rest}"));
            let found: Vec<String> = expected.iter().map(|it| format!("spec.targetRef.{it}")).collect();
            assert_eq!(errors(&object), found, "{target}");
            let named = kind.map(|kind| ReferenceTarget::One(ObjectKey { kind, namespace: "here".into(), name: "a".into() }));
            let named: Vec<ObjectReference> = named.into_iter().map(|what| ObjectReference { field: Field::Target, what }).collect();
            assert_eq!(object.references(), named, "{target}");
        }
    }
}

/// Errors have the lines of the file.
#[test]
fn an_error_of_a_group_has_its_line() {
    let text = BOOKSTORE.replace("/authors/:author-id/edit", "/authors/:author-id/:author-id");
    let text = text.replace("kind: H", &format!("apiVersion: {OURS}\nkind: H"));
    let document = document::read(&text).remove(1);
    let object = parse(document.value.as_ref().unwrap()).unwrap();
    let found = errors(&object);
    assert_eq!(
        found,
        [
            "spec.routes[3].path: `/authors/:author-id/:author-id` has the parameter `author-id` twice"
        ]
    );
    let place = document.locate("spec.routes[3].path").unwrap();
    let line = text.lines().nth(place.line - 1).unwrap();
    assert_eq!(line.trim(), "path: /authors/:author-id/:author-id");
}

#[test]
fn what_cannot_be_read_is_no_group() {
    let object = value(&format!(
        "{{apiVersion: {OURS}, kind: HttpRouteGroup, metadata: {{name: a}}, spec: 7}}"
    ));
    assert_eq!(
        errors(&parse(&object).unwrap()),
        ["spec: expected a mapping, found the number `7`"]
    );
    let other =
        value("{apiVersion: portcullis.dev/v1alpha1, kind: HTTPRouteGroup, metadata: {name: a}}");
    let [error] = &errors(&parse(&other).unwrap())[..] else { panic!("{other}") };
    assert!(error.contains("did you mean `HttpRouteGroup`?"), "{error}");
}

#[test]
fn an_invalid_group_keeps_the_conditions_that_can_be_read() {
    let kept = |spec: &str| match claims(object(OURS, "HttpRouteGroup", spec)) {
        Claims::HttpRouteGroup(claims) => *claims,
        other => panic!("{other:?}"),
    };
    let path = |text: &str| Some(GroupPath::parse(text).unwrap());
    let of = |path, methods: &[http::Method]| {
        let (headers, query) = (Vec::new(), Vec::new());
        GroupRouteClaims { path, methods: methods.to_vec(), headers, query }
    };
    let found = kept(
        "routes: [{path: /a}, {path: /b, methods: [GETT]}, {pth: /c, methods: [POST]}, \
         {routeGroupRef: {nam: d}}, {routeGroupRef: {name: e}, methods: [GET]}, {path: /f, header: []}]",
    );
    let unreadable =
        [of(path("/b"), &[]), of(None, &[http::Method::POST]), of(None, &[]), of(path("/f"), &[])];
    assert_eq!(found.unreadable, unreadable);
    assert_eq!((found.group.routes.len(), found.narrower), (2, false));
    let found = kept("routes: [{path: /a}]\nheader: []");
    assert_eq!((found.group.routes.len(), found.unreadable, found.narrower), (1, vec![], true));
    for spec in ["routes: []", "routes: 5", "route: [{path: /a}]"] {
        assert_eq!(kept(spec).unreadable, [GroupRouteClaims::default()], "{spec}");
    }
}

#[test]
fn an_invalid_binding_keeps_the_groups_and_hosts_that_can_be_read() {
    let kept = |spec: &str| match claims(object(OURS, "HttpRouteBinding", spec)) {
        Claims::Binding(claims) => {
            (claims.named.len(), claims.unread, claims.hostnames.len(), claims.any_host)
        }
        other => panic!("{other:?}"),
    };
    let server = "targetRef: {kind: Server, name: web}";
    for (spec, wanted) in [
        ("routeRefs: [{name: a}, {nam: b}], hostnames: [a.b]", (1, true, 1, false)),
        ("routeRefs: [{name: a}], hostnames: [a.b, '*']", (1, false, 1, true)),
        ("routeRefs: [{name: a}], hostname: [a.b]", (1, false, 0, true)),
        ("routeRef: [{name: a}], hostnames: [a.b]", (0, true, 1, false)),
    ] {
        let lines = format!("{server}\n{}", spec.replace("], ", "]\n"));
        assert_eq!(kept(&lines), wanted, "{spec}");
    }
}
