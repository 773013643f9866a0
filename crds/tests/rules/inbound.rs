//! InboundRoute and RouteAdmissionPolicy.

use crate::support::{check, claims, errors, object, resource, value};
use policy_core::HostPattern;
use policy_core::PathPattern;
use policy_crds::resource::{
    AllowedFilter, Delegate, FilterType, InboundAction, InboundRoute, NamespaceOwnership,
    PathPrefix, Recorded, RequiredTls,
};
use policy_crds::spec::{ObjectReference, ReferenceTarget};
use policy_crds::{Claims, Field, Kind, ObjectKey, Resource, parse};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

const OURS: &str = "portcullis.dev/v1alpha1";
/// A root whose routes follow.
const ROOT: &str = "virtualhost: {fqdn: h.example, targetRef: {group: policy.linkerd.io, kind: Server, name: web}}";

fn route(spec: &str) -> InboundRoute {
    let Resource::InboundRoute(route) = resource(object(OURS, "InboundRoute", spec)) else {
        panic!("{spec}")
    };
    route
}

fn rule(text: &str) -> String {
    format!("{ROOT}\nroutes: [{text}]")
}

fn host(text: &str) -> HostPattern {
    HostPattern::parse(text)
}

fn name(host: &HostPattern) -> &str {
    match host {
        HostPattern::Exact(name) | HostPattern::Suffix(name) => name,
    }
}

#[test]
fn a_root_and_a_vertex_are_read() {
    let root = route(&format!(
        "{ROOT}\nroutes: [{{match: /a/, serve: {{}}}}, {{match: /b, servers: [{{name: s}}]}}, \
         {{match: /c, delegate: {{name: d}}}}, {{match: /e, delegate: {{kind: GRPCRoute, name: d, \
         namespace: ns}}, }}]"
    ));
    let own = root.virtual_host.unwrap();
    assert_eq!(own.hosts, [host("h.example")]);
    assert_eq!(own.target.as_deref(), Some("web"));
    assert_eq!(
        (own.tls, own.access_list, own.allow_regex_children),
        (RequiredTls::Optional, None, false)
    );
    let paths: Vec<&str> = root.routes.iter().map(|rule| rule.path.as_str()).collect();
    assert_eq!(paths, ["/a", "/b", "/c", "/e"]);
    assert!(root.routes.iter().all(|rule| rule.inherits_server));
    let key =
        |kind, namespace: &str| ObjectKey { kind, namespace: namespace.into(), name: "d".into() };
    let actions: Vec<InboundAction> = root.routes.into_iter().map(|rule| rule.action).collect();
    assert_eq!(
        actions,
        [
            InboundAction::Serve,
            InboundAction::Servers(vec!["s".into()]),
            InboundAction::Delegate(Delegate::One(key(Kind::InboundRoute, "here"))),
            InboundAction::Delegate(Delegate::One(key(Kind::GrpcRoute, "ns"))),
        ]
    );
    let vertex = route(
        "delegatedFrom: [{fqdn: H.example., parent: {namespace: ns, name: p}}, {fqdn: '*.b.c'}]\n\
         routes: [{match: /, serve: {}, serverAuthorizations: Ignore}]",
    );
    assert_eq!(vertex.virtual_host, None);
    let hosts: Vec<&HostPattern> = vertex.delegated_from.iter().map(|one| &one.host).collect();
    assert_eq!(hosts, [&host("h.example"), &host("*.b.c")]);
    let parent = vertex.delegated_from[0].parent.as_ref().unwrap();
    assert_eq!((parent.namespace.as_deref(), &*parent.name), (Some("ns"), "p"));
    assert!(!vertex.routes[0].inherits_server);
}

#[test]
#[rustfmt::skip]
fn every_rule_of_an_object_is_checked() {
    let one = "one of `servers`, `serve`, `delegate`";
    let table: Vec<(String, Vec<String>)> = vec![
        // V1
        (ROOT.into(), vec!["spec.routes: is required".into()]),
        (format!("{ROOT}\nroutes: []"), vec!["spec.routes: must not be empty: an object without routes answers nothing".into()]),
        (format!("{ROOT}\nroutes: {}", Value::from(vec![json!({"match": "/", "serve": {}}); 65])), vec!["spec.routes: 65 elements, at most 64 are allowed".into()]),
        // V2
        (rule("{match: '/books/[0-9]+', serve: {}}"), vec!["spec.routes[0].match: `/books/[0-9]+` has `[`, which paths are matched with as `%5B`; a match is a path, no regular expression".into()]),
        (rule("{match: /}"), vec![format!("spec.routes[0]: {one} is required")]),
        (rule("{match: /, serve: {}, servers: [{name: a}]}"), vec![format!("spec.routes[0]: only {one} is allowed in one route")]),
        (rule("{match: /, serve: {}, delegate: {name: a}}"), vec![format!("spec.routes[0]: only {one} is allowed in one route")]),
        (rule("{match: /, service: [{name: a}]}"), vec!["spec.routes[0].service: unknown field, expected one of `match`, `servers`, `serve`, `delegate`, `serverAuthorizations`".into(), format!("spec.routes[0]: {one} is required")]),
        (rule("{match: /, serve: {name: a}}"), vec!["spec.routes[0].serve.name: unknown field, none is allowed here".into()]),
        (rule("{match: /, servers: []}"), vec!["spec.routes[0].servers: must not be empty, name at least one Server".into()]),
        (rule("{match: /, servers: [{name: a}, {name: a}]}"), vec!["spec.routes[0].servers[1].name: `a` appears twice".into()]),
        // V3; the forms of paths have a test of their own.
        (rule("{serve: {}}"), vec!["spec.routes[0].match: is required".into()]),
        (rule("{match: /a, serve: {}}, {match: /a/, serve: {}}"), vec!["spec.routes[1]: `match` `/a` appears twice, every path may only once".into()]),
        // V4
        ("routes: [{match: /, serve: {}}]".into(), vec!["spec.delegatedFrom: is required where `virtualhost` is absent: it names the hosts to be delegated".into()]),
        ("delegatedFrom: []\nroutes: [{match: /, serve: {}}]".into(), vec!["spec.delegatedFrom: must not be empty: it names the hosts to be delegated".into()]),
        (format!("{ROOT}\ndelegatedFrom: [{{fqdn: h.example}}]\nroutes: [{{match: /, serve: {{}}}}]"), vec!["spec.delegatedFrom: must be absent where `virtualhost` is present: nothing is delegated to a root".into()]),
        ("delegatedFrom: [{fqdn: a, parent: {name: p}}]\nroutes: [{match: /, serve: {}}]".into(), vec!["spec.delegatedFrom[0].parent.namespace: is required".into()]),
        ("delegatedFrom: [{parent: {namespace: ns, name: p}}]\nroutes: [{match: /, serve: {}}]".into(), vec!["spec.delegatedFrom[0].fqdn: is required".into()]),
        // V7
        ("virtualhost: {fqdn: a}\nroutes: [{match: /, serve: {}}]".into(), vec!["spec.virtualhost.targetRef: is required where a route of the same object has `serve`".into()]),
        ("virtualhost: {fqdn: a}\nroutes: [{match: /, servers: [{name: b}]}]".into(), vec![]),
        // V10
        (rule("{match: /, servers: [{name: a, namespace: b}]}"), vec!["spec.routes[0].servers[0].namespace: unknown field, expected `name`".into()]),
        // Delegation.
        (rule("{match: /, delegate: {}}"), vec!["spec.routes[0].delegate: `name` or `selector` is required".into()]),
        (rule("{match: /, delegate: {kind: GrpcService, name: a}}"), vec!["spec.routes[0].delegate.kind: unknown value `GrpcService`, expected one of `InboundRoute`, `HTTPRoute`, `GRPCRoute`, `HttpRouteGroup`".into()]),
        (rule("{match: /, delegate: {name: a, selector: {matchLabels: {a: b}}}}"), vec!["spec.routes[0].delegate.selector: must be absent where `name` is present".into()]),
        (rule("{match: /, delegate: {selector: {}}}"), vec!["spec.routes[0].delegate.selector.matchLabels: is required".into()]),
        (rule("{match: /, delegate: {selector: {matchLabels: {}}}}"), vec!["spec.routes[0].delegate.selector.matchLabels: must not be empty: it would select every InboundRoute of the namespace".into()]),
        (rule("{match: /, delegate: {selector: {matchLabels: {a: b}, matchExpressions: []}}}"), vec!["spec.routes[0].delegate.selector.matchExpressions: unknown field, expected `matchLabels`".into()]),
        (rule("{match: /, delegate: {kind: HTTPRoute, selector: {matchLabels: {a: b}}}}"), vec!["spec.routes[0].delegate.selector: selects objects of kind `InboundRoute` only, name others by `name`".into()]),
        (rule("{match: /, delegate: {name: a}, serverAuthorizations: Ignore}"), vec!["spec.routes[0].serverAuthorizations: must be absent with `delegate`: the objects below say it of their own routes".into()]),
        (rule("{match: /, serve: {}, serverAuthorizations: Never}"), vec!["spec.routes[0].serverAuthorizations: unknown value `Never`, expected one of `Inherit`, `Ignore`".into()]),
    ];
    for (spec, expected) in table {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(OURS, "InboundRoute", &[(&spec, &expected)]);
    }
}

#[test]
#[rustfmt::skip]
fn every_field_of_a_virtual_host_is_checked() {
    let networks = Value::from(vec![json!({"cidr": "10.0.0.0/8"}); 33]).to_string();
    let aliases = Value::from((0..17).map(|i| format!("a{i}.b")).collect::<Vec<_>>()).to_string();
    let table: Vec<(&str, Vec<&str>)> = vec![
        ("{}", vec!["fqdn: is required"]),
        ("{fqdn: a, alias: b}", vec!["alias: unknown field, did you mean `aliases`?"]),
        // V5
        ("{fqdn: a, aliases: [b, B]}", vec!["aliases[1]: names a host again, every host may appear only once"]),
        ("{fqdn: a, aliases: [A.]}", vec!["aliases[0]: names a host again, every host may appear only once"]),
        // V8
        ("{fqdn: a, accessList: [{cidr: ten}]}", vec!["accessList[0].cidr: `ten` is not an address or network such as `10.0.0.0/8` or `fd00::/8`"]),
        ("{fqdn: a, accessList: [{cidr: 10.0.0.0/8, except: [11.0.0.0/16]}]}", vec!["accessList[0].except[0]: the exception `11.0.0.0/16` is not inside `10.0.0.0/8`"]),
        // V9
        ("{fqdn: a, tls: {mode: required}}", vec!["tls.mode: unknown value `required`, expected one of `MutualRequired`, `Required`, `Optional`"]),
        ("{fqdn: a, tls: {}}", vec!["tls.mode: is required"]),
        ("{fqdn: a, allowRegexChildren: 'true'}", vec!["allowRegexChildren: expected `true` or `false`, found the text `true`"]),
        // V10
        ("{fqdn: a, targetRef: {group: policy.linkerd.io, kind: Server, name: b, namespace: c}}", vec!["targetRef.namespace: unknown field, expected one of `group`, `kind`, `name`"]),
        ("{fqdn: a, targetRef: {kind: Service, name: b}}", vec!["targetRef.kind: `Service` is not allowed here, expected `Server (policy.linkerd.io)`"]),
    ];
    let long = format!("{{fqdn: a, accessList: {networks}}}");
    let many = format!("{{fqdn: a, aliases: {aliases}}}");
    let bounds = [
        (&*long, vec!["accessList: 33 elements, at most 32 are allowed"]),
        (&*many, vec!["aliases: 17 elements, at most 16 are allowed"]),
    ];
    for (own, expected) in table.into_iter().chain(bounds) {
        let spec = format!("virtualhost: {own}\nroutes: [{{match: /, servers: [{{name: s}}]}}]");
        let expected: Vec<String> = expected.iter().map(|it| format!("spec.virtualhost.{it}")).collect();
        assert_eq!(errors(&object(OURS, "InboundRoute", &spec)), expected, "{own}");
    }
}

/// A child changed what the application decides by, unless the owner allows it.
#[test]
#[rustfmt::skip]
fn filters_are_allowed_by_roots_and_one_by_one() {
    let delegates = |filters: &str| {
        rule(&format!("{{match: /, delegate: {{name: a, allowFilters: {filters}}}}}"))
    };
    let read = route(&delegates(
        "[{kind: RequestHeaderModifier, headers: [X-Forwarded-Prefix]}, \
          {kind: RequestRedirect, hosts: [Login.io.]}]",
    ));
    let allowed = |kind, headers, hosts| AllowedFilter { kind, headers, hosts };
    assert_eq!(
        read.routes[0].allowed_filters,
        [
            allowed(
                FilterType::RequestHeaders,
                vec![http::HeaderName::from_static("x-forwarded-prefix")],
                vec![],
            ),
            allowed(FilterType::Redirect, vec![], vec![host("login.io")]),
        ]
    );
    let at = |what: &str| format!("spec.routes[0].delegate.allowFilters{what}");
    let table = [
        ("[{}]", at("[0].kind: is required")),
        ("[{kind: Mirror}]", at("[0].kind: unknown value `Mirror`, expected one of `RequestHeaderModifier`, `ResponseHeaderModifier`, `RequestRedirect`, `HeaderRewritePolicy`")),
        ("[{kind: RequestRedirect, headers: [x]}]", at("[0].headers: must be absent where `kind` is `RequestRedirect`")),
        ("[{kind: RequestHeaderModifier, hosts: [x]}]", at("[0].hosts: must be absent where `kind` is `RequestHeaderModifier`")),
        ("[{kind: RequestRedirect}, {kind: RequestRedirect}]", at("[1]: `RequestRedirect` appears twice")),
    ];
    for (filters, expected) in table {
        check(OURS, "InboundRoute", &[(&delegates(filters), &[&*expected])]);
    }
    let vertex = "delegatedFrom: [{fqdn: h.example}]\n\
                  routes: [{match: /, delegate: {name: a, allowFilters: [{kind: RequestRedirect}]}}]";
    let words = "spec.routes[0]: `delegate.allowFilters` is for the owner of a host: it must be absent where `virtualhost` is absent";
    check(OURS, "InboundRoute", &[(vertex, &[words])]);
}

/// T42: spellings of one host are one host, and what is no host claims nothing.
#[test]
fn hosts_are_canonical() {
    let spec = |host: &str| {
        let routes = "routes: [{match: /, servers: [{name: s}]}]";
        format!("virtualhost: {{fqdn: {}}}\n{routes}", Value::from(host))
    };
    for text in ["H", "h.", "h", "H."] {
        assert_eq!(route(&spec(text)).virtual_host.unwrap().hosts, [host("h")], "{text}");
    }
    assert_eq!(route(&spec("*.A.b")).virtual_host.unwrap().hosts, [host("*.a.b")]);
    let refused = [
        "h:443",
        "10.0.0.1",
        "[::1]",
        "::1",
        "user@h",
        "é.com",
        "-h",
        "",
        "*",
        "a.*.b",
        "h..",
        "h_a",
        "0x7f.1",
        "a/b",
        "https://h",
        " h",
        &"a".repeat(64),
        &"a.".repeat(128),
    ];
    for text in refused {
        let object = object(OURS, "InboundRoute", &spec(text));
        let found = errors(&object);
        assert!(
            found.len() == 1 && found[0].starts_with("spec.virtualhost.fqdn: "),
            "{text}: {found:?}"
        );
        let Claims::InboundRoute { hosts, servers, unread, .. } = claims(object) else { panic!() };
        assert_eq!((hosts, servers, unread), (vec![], vec!["s".into()], false), "{text}");
    }
}

/// Paths that are refused.
const REFUSED: &[&str] = &[
    "",
    "//",
    "///",
    "finance",
    "*",
    "/a//b",
    "/a//",
    "/finance/../admin",
    "/finance/.",
    "/finance/..",
    "/finance/%2e%2e/admin",
    "/finance/%2E./x",
    "/finance%2Fx",
    "/finance%2fx",
    "/finance%5Cx",
    "/finance%00",
    "/%66inance",
    "/finance;v=1",
    "/finance?x",
    "/finance#x",
    "/fin ance",
    "/finance\\x",
    "/finançe",
    "/finance%zz",
    "/finance%2",
    "/a%",
    "/a%3Ab",
    "/a%3ab",
    "/a%40",
    "/a%21b",
    "/a%2Cb",
    "/a{b}",
    "/a|b",
    "/a^b",
    "/a[b]",
    "/a\tb",
    "/a%3b",
    "/a\"b",
];

/// T10 to T13: forms of paths that are refused, and the one that is repaired.
#[test]
fn paths_are_canonical() {
    let long = format!("/{}", "a".repeat(1024));
    for text in REFUSED.iter().copied().chain([long.as_str()]) {
        assert!(PathPrefix::parse(text).is_err(), "{text}");
        let spec = rule(&json!({"match": text, "serve": {}}).to_string());
        let found = errors(&object(OURS, "InboundRoute", &spec));
        assert!(
            found.len() == 1 && found[0].starts_with("spec.routes[0].match: "),
            "{text}: {found:?}"
        );
    }
    for (text, form) in [
        ("/", "/"),
        ("/finance", "/finance"),
        ("/finance/", "/finance"),
        ("/Finance", "/Finance"),
        ("/a%20b", "/a%20b"),
        ("/a%7b", "/a%7B"),
        ("/a:b@c!", "/a:b@c!"),
        ("/.well-known/..a/...", "/.well-known/..a/..."),
        ("/a%25", "/a%25"),
    ] {
        assert_eq!(PathPrefix::parse(text).unwrap().as_str(), form, "{text}");
    }
    let duplicate = rule("{match: /finance, serve: {}}, {match: /finance/, serve: {}}");
    assert_eq!(
        errors(&object(OURS, "InboundRoute", &duplicate)),
        ["spec.routes[1]: `match` `/finance` appears twice, every path may only once"]
    );
    assert_eq!(
        PathPrefix::parse("/a%3Ab").unwrap_err(),
        "has `%3A`, which paths are matched with as `:`"
    );
    assert_eq!(
        PathPrefix::parse("/a{b").unwrap_err(),
        "has `{`, which paths are matched with as `%7B`"
    );
}

/// T14, and prefixes of segments.
#[test]
fn a_path_contains_whole_segments() {
    let prefix = |text: &str| PathPrefix::parse(text).unwrap();
    for (above, below, expected) in [
        ("/", "/", true),
        ("/", "/a", true),
        ("/a", "/", false),
        ("/a", "/a", true),
        ("/a", "/a/", true),
        ("/a", "/a/b", true),
        ("/a", "/ab", false),
        ("/a/b", "/a", false),
        ("/a", "/A", false),
        ("/a", "/a%20", false),
        ("/a", "/a:b", false),
    ] {
        assert_eq!(prefix(above).contains(&prefix(below)), expected, "{above} {below}");
    }
    let above = prefix("/a/b/c");
    assert_eq!(above.and_above().collect::<Vec<_>>(), ["/a/b/c", "/a/b", "/a", "/"]);
    assert_eq!(prefix("/").and_above().collect::<Vec<_>>(), ["/"]);
    assert_eq!(above.segments().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(prefix("/").segments().count(), 0);
    assert_eq!(above.pattern(), PathPattern::prefix("/a/b/c"));
}

#[test]
fn an_invalid_object_keeps_its_hosts_and_servers() {
    let claimed = |spec: &str| {
        let Claims::InboundRoute { hosts, servers, unread, .. } =
            claims(object(OURS, "InboundRoute", spec))
        else {
            panic!()
        };
        let hosts: Vec<&str> = hosts.iter().map(name).collect();
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        (hosts.join(" "), servers.join(" "), unread)
    };
    let table: &[(&str, (&str, &str, bool))] = &[
        // A fault elsewhere hides nothing.
        (
            "virtualhost: {fqdn: A., aliases: [b, 7], targetRef: {kind: Server, name: t}}\n\
             routes: [{match: a, servers: [{name: s}]}, {match: /, serve: {}, servers: [{name: u}]}]",
            ("a b", "t s u", false),
        ),
        (
            "delegatedFrom: [{fqdn: a}, {fqdn: '-'}, {fqdn: b}]\nroutes: [{match: /, serve: {}}]",
            ("a b", "", false),
        ),
        ("delegatedFrom: 7\nroutes: [{match: /, serve: {}}]", ("", "", false)),
        // What may name a Server and cannot be read may name any.
        ("virtualhost: 7\nroutes: [{match: /, serve: {}}]", ("", "", true)),
        ("virtualhost: {fqdn: a, targetRef: {name: A}}\nroutes: []", ("a", "", true)),
        ("virtualhost: {fqdn: a, targetref: {name: a}}\nroutes: []", ("a", "", true)),
        ("virtualHost: {fqdn: a}\nroutes: []", ("", "", true)),
        ("virtualhost: {fqdn: a}\nroutes: {}", ("a", "", true)),
        // So may what is missing.
        ("virtualhost: {fqdn: a}", ("a", "", true)),
        ("virtualhost: {fqdn: a}\nroutes: []", ("a", "", true)),
        ("virtualhost: {fqdn: a}\nroutes: [{match: /, serve: {}}]", ("a", "", true)),
        ("routes: [{match: /, servers: [{name: s}]}]", ("", "s", true)),
        ("virtualhost: {fqdn: a}\nroutes: [7]", ("a", "", true)),
        ("virtualhost: {fqdn: a}\nroutes: [{match: /}]", ("a", "", true)),
        ("virtualhost: {fqdn: a}\nroutes: [{match: /, serve: {}, server: s}]", ("a", "", true)),
        ("virtualhost: {fqdn: a}\nroutes: [{match: /, servers: s}]", ("a", "", true)),
        ("virtualhost: {fqdn: a}\nroutes: [{match: /, servers: [{name: s}, s]}]", ("a", "s", true)),
    ];
    for (spec, (hosts, servers, unread)) in table {
        let expected = ((*hosts).to_owned(), (*servers).to_owned(), *unread);
        assert_eq!(claimed(spec), expected, "{spec}");
    }
    let object = object(OURS, "InboundRoute", "virtualhost: 7\nroutes: [{servers: [{name: s}]}]");
    let server =
        |name: &str| ObjectKey { kind: Kind::Server, namespace: "here".into(), name: name.into() };
    let serving = |what| ObjectReference { field: Field::Serving, what };
    assert_eq!(
        object.references(),
        [
            serving(ReferenceTarget::One(server("s"))),
            serving(ReferenceTarget::AnyOf(Kind::Server, "here".into())),
        ]
    );
    let unreadable = Kind::InboundRoute.spec().claims(None);
    let (hosts, servers) = (Vec::new(), Vec::new());
    let (unread, root, paths, any_host) = (true, true, None, true);
    let expected = Claims::InboundRoute { hosts, servers, unread, root, paths, any_host };
    assert_eq!(unreadable, expected);
}

#[test]
fn an_invalid_object_that_may_be_a_root_is_one_for_selectors() {
    let is_root = |spec: &str| {
        let claims = claims(object(OURS, "InboundRoute", spec));
        matches!(claims, Claims::InboundRoute { root: true, .. })
    };
    for spec in ["virtualhost: 7\nroutes: []", "virtualHost: {fqdn: a}\nroutes: []", "routes: []"] {
        assert!(is_root(spec), "{spec}");
    }
    assert!(!is_root("delegatedFrom: [{fqdn: a}]\nroutes: []"));
    assert!(!is_root("delegatedFrom: 7\nroutes: []"));
}

#[test]
fn an_invalid_vertex_keeps_the_paths_of_its_rules() {
    let kept = |spec: &str| match claims(object(OURS, "InboundRoute", spec)) {
        Claims::InboundRoute { paths, any_host, .. } => {
            let text = |paths: Vec<PathPrefix>| {
                paths.iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>().join(" ")
            };
            (paths.map(text), any_host)
        }
        other => panic!("{other:?}"),
    };
    let paths = |text: &str| Some(text.to_owned());
    let from = "delegatedFrom: [{fqdn: a}]\n";
    let two = "routes: [{match: /a, serve: 7}, {match: /b/, x: 1}]";
    assert_eq!(kept(&format!("{from}{two}")), (paths("/a /b"), false));
    assert!(kept(&format!("delegatedFrom: [{{fqdn: a}}, {{fqdn: '-'}}]\n{two}")).1);
    assert!(kept(&format!("delegatedFrom: 7\n{two}")).1);
    for unread in ["routes: 7", "routes: []", "route: []", "routes: [7]", "routes: [{match: 7}]"] {
        assert_eq!(kept(&format!("{from}{unread}")), (None, false), "{unread}");
    }
}

#[test]
fn an_empty_access_list_is_remarked() {
    let spec = |list: &str| {
        let own = format!("virtualhost: {{fqdn: a, accessList: {list}}}");
        object(
            OURS,
            "InboundRoute",
            &format!("{own}\nroutes: [{{match: /, servers: [{{name: s}}]}}]"),
        )
    };
    let remarks = spec("[]").remarks();
    let remarks: Vec<String> = remarks.iter().map(ToString::to_string).collect();
    assert_eq!(remarks, ["spec.virtualhost.accessList: is empty: no client is admitted"]);
    assert_eq!(spec("[{cidr: 10.0.0.0/8}]").remarks(), []);
}

/// The record of an InboundRoute with this status.
fn read(status: &Value) -> Option<Arc<Recorded>> {
    let object = json!({
        "apiVersion": OURS, "kind": "InboundRoute", "metadata": {"name": "a", "namespace": "b"},
        "spec": {"virtualhost": 7}, "status": status,
    });
    parse(&object).unwrap().meta.recorded
}

#[test]
fn a_status_says_that_a_claim_or_its_object_did_not_count() {
    for postponing in [
        json!({"claims": [{"host": "a.b", "path": "/z"}]}),
        json!({"claims": [{"host": "a.b", "path": "/z", "claimedAt": null}]}),
        json!({"conditions": [{"type": "Accepted", "status": "False", "reason": "Invalid"}]}),
    ] {
        assert!(read(&postponing).unwrap().postponed, "{postponing}");
    }
    let lost = json!({"type": "Accepted", "status": "False", "reason": "HostAlreadyClaimed"});
    assert_eq!(read(&json!({"conditions": [lost]})), None);
}

#[test]
fn what_a_status_records_is_read_leniently() {
    for nothing in
        [json!(null), json!(7), json!({}), json!({"claims": 7}), json!({"claims": [7, {}]})]
    {
        assert_eq!(read(&nothing), None, "{nothing}");
    }
    let time = "2026-01-31T12:00:00Z";
    let recorded = read(&json!({
        "conditions": [{"type": "Accepted"}],
        "claims": [
            {"host": "A.b.", "path": "/x/", "claimedAt": time},
            {"host": "a.b", "path": "/y", "claimedAt": "soon"},
            {"host": "a.b", "path": "y", "claimedAt": time},
            {"host": "10.0.0.1", "path": "/y", "claimedAt": time},
            {"path": "/z"},
            null,
        ],
        "delegationStatuses": [
            {"state": {"connected": {"parent": {"namespace": "n", "name": "p", "prefix": "/f"}, "connectedAt": time}}},
            {"state": {"connected": {"parent": {"namespace": "n", "name": "q"}, "connectedAt": time}}},
            {"state": {"orphaned": {"lastParent": {"namespace": "n", "name": "old"}, "since": time}}},
            {"state": {"orphaned": {"lastParent": {"namespace": "n", "name": "older"}}}},
            {"state": {"orphaned": {"lastParent": {"namespace": "n", "name": "p"}}}},
            {"state": {"orphaned": {"reason": "NeverDelegated"}}},
            {"state": 7},
            7,
        ],
    }));
    let recorded = recorded.unwrap();
    let seconds = 1_769_860_800;
    let path = |text: &str| PathPrefix::parse(text).unwrap();
    assert_eq!((recorded.claims.len(), recorded.postponed), (1, false));
    assert_eq!(recorded.latest_claim(), Some(seconds));
    assert_eq!(recorded.claimed_at(&host("a.b"), &path("/x")), Some(seconds));
    assert_eq!(recorded.claimed_at(&host("a.b"), &path("/y")), None);
    let parent = |name: &str| ObjectKey {
        kind: Kind::InboundRoute,
        namespace: "n".into(),
        name: name.into(),
    };
    assert_eq!(recorded.connected_at(&parent("p"), &path("/f")), Some(seconds));
    assert_eq!(recorded.connected_at(&parent("p"), &path("/g")), None);
    assert_eq!(recorded.connected_at(&parent("q"), &path("/f")), None);
    assert_eq!(
        recorded.former_parents().collect::<Vec<_>>(),
        [(parent("old"), Some(seconds)), (parent("older"), None), (parent("p"), None)]
    );
    // More than an object can have are not read.
    let many =
        (0..1100).map(|n| json!({"host": "a.b", "path": format!("/{n}"), "claimedAt": time}));
    let many = read(&json!({"claims": many.collect::<Vec<_>>()}));
    assert_eq!(many.unwrap().claims.len(), 1088);
    let server = json!({
        "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server", "metadata": {"name": "a"},
        "spec": {"podSelector": {}, "port": 1},
        "status": {"claims": [{"host": "a", "path": "/", "claimedAt": time}]},
    });
    assert_eq!(parse(&server).unwrap().meta.recorded, None);
}

#[test]
#[rustfmt::skip]
fn a_route_may_name_an_inbound_route_as_its_parent() {
    const HTTP: (&str, &str) = ("gateway.networking.k8s.io/v1", "HTTPRoute");
    const GRPC: (&str, &str) = ("gateway.networking.k8s.io/v1", "GRPCRoute");
    const POLICY: (&str, &str) = ("policy.linkerd.io/v1beta3", "HTTPRoute");
    for ((api_version, kind), parent, expected) in [
        (HTTP, "{group: portcullis.dev, kind: InboundRoute, name: a, namespace: b}", vec![]),
        (GRPC, "{group: portcullis.dev, kind: InboundRoute, name: a}", vec![]),
        (HTTP, "{kind: InboundRoute, name: a}", vec!["group: has no InboundRoute, write `group: portcullis.dev`"]),
        (HTTP, "{group: example.com, kind: InboundRoute, name: a}", vec![]),
        (HTTP, "{group: portculis.dev, kind: InboundRoute, name: a}", vec!["group: has no InboundRoute, write `group: portcullis.dev`"]),
        (HTTP, "{group: portcullis.dev, kind: InboundRoute, name: a, sectionName: s}", vec!["sectionName: must be absent for an InboundRoute: its `delegate` says the path"]),
        (HTTP, "{group: portcullis.dev, kind: InboundRoute, name: a, port: 80}", vec!["port: must be absent for an InboundRoute: its `delegate` says the path"]),
        (POLICY, "{group: portcullis.dev, kind: InboundRoute, name: a}", vec!["kind: an InboundRoute delegates to an HTTPRoute of gateway.networking.k8s.io, not to this one"]),
    ] {
        let expected: Vec<String> = expected.iter().map(|it| format!("spec.parentRefs[0].{it}")).collect();
        assert_eq!(errors(&object(api_version, kind, &format!("parentRefs: [{parent}]"))), expected, "{parent}");
    }
    let spec = "parentRefs: [{group: portcullis.dev, kind: InboundRoute, name: a, namespace: b}]";
    let key = ObjectKey { kind: Kind::InboundRoute, namespace: "b".into(), name: "a".into() };
    let what = ReferenceTarget::One(key);
    assert_eq!(object(HTTP.0, HTTP.1, spec).references(), [ObjectReference { field: Field::Parent, what }]);
}

#[test]
fn unknown_values_of_a_route_admission_policy_mean_the_strict_ones() {
    let policy = |spec: Value| {
        let object = json!({
            "apiVersion": OURS, "kind": "RouteAdmissionPolicy", "metadata": {"name": "default"}, "spec": spec,
        });
        parse(&object).unwrap()
    };
    let read = |spec: Value| {
        let object = policy(spec);
        let remarks = object.remarks().iter().map(ToString::to_string).collect::<Vec<_>>();
        let Resource::RouteAdmission(admission) = resource(object) else { panic!() };
        (admission.ownership, admission.wildcards, remarks.join("; "))
    };
    let (strict, lax) = (NamespaceOwnership::Strict, NamespaceOwnership::InterNamespaceAllowed);
    assert_eq!(read(json!({})), (strict, false, String::new()));
    assert_eq!(
        read(json!({"namespaceOwnership": "", "wildcardPolicy": ""})),
        (strict, false, String::new())
    );
    assert_eq!(
        read(json!({"namespaceOwnership": lax.as_str(), "wildcardPolicy": "WildcardsAllowed"})),
        (lax, true, String::new())
    );
    assert_eq!(
        read(json!({"namespaceOwnership": "Bogus", "wildcardPolicy": "wildcardsallowed"})),
        (
            strict,
            false,
            "spec.namespaceOwnership: unknown value `Bogus`, `Strict` is in effect; \
             spec.wildcardPolicy: unknown value `wildcardsallowed`, `WildcardsDisallowed` is in effect"
                .to_owned()
        )
    );
    for (spec, expected) in [
        (
            json!({"namespaceOwnership": 7}),
            "spec.namespaceOwnership: expected text, found the number `7`",
        ),
        (
            json!({"rootNamespaces": "a"}),
            "spec.rootNamespaces: expected a list, found the text `a`",
        ),
        (json!({"rootNamespaces": ["*"]}), "spec.rootNamespaces[0]: `*` is not a namespace"),
        (
            json!({"ownership": "Strict"}),
            "spec.ownership: unknown field, expected one of `namespaceOwnership`, `wildcardPolicy`, `rootNamespaces`",
        ),
    ] {
        assert_eq!(errors(&policy(spec)), [expected]);
    }
    let other = value(
        "{apiVersion: portcullis.dev/v1alpha1, kind: RouteAdmissionPolicy, metadata: {name: other}, spec: {}}",
    );
    assert_eq!(
        errors(&parse(&other).unwrap()),
        ["metadata.name: `other` has no effect: the one that counts is named `default`"]
    );
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        "(/[ab]{0,2}){0,4}",
        "/[a-c./%;\\\\?# {}|^:@é]{0,8}",
        "/(%[0-9a-fA-F]{2}){0,3}[a-b/]{0,3}",
        ".{0,12}",
    ]
}

proptest! {
    #[test]
    fn a_path_is_one_that_requests_have(text in path()) {
        let Ok(prefix) = PathPrefix::parse(&text) else { return Ok(()) };
        let form = prefix.as_str();
        prop_assert_eq!(policy_core::canonical_path(form).unwrap(), form);
        prop_assert_eq!(policy_core::match_form(form), form);
        prop_assert!(form == "/" || !form.ends_with('/'));
        prop_assert!(PathPrefix::parse(form).unwrap() == prefix && prefix.pattern().admits(form));
    }

    #[test]
    fn a_path_contains_what_a_comparison_of_segments_says(above in path(), below in path()) {
        let (Ok(above), Ok(below)) = (PathPrefix::parse(&above), PathPrefix::parse(&below)) else {
            return Ok(());
        };
        let segments = |path: &PathPrefix| {
            let all = path.as_str().split('/').filter(|it| !it.is_empty());
            all.map(str::to_owned).collect::<Vec<_>>()
        };
        let expected = segments(&below).starts_with(&segments(&above));
        prop_assert_eq!(above.contains(&below), expected);
        prop_assert_eq!(above.pattern().admits(below.as_str()), expected);
        prop_assert_eq!(below.and_above().any(|it| it == above.as_str()), expected);
    }

    #[test]
    fn any_status_is_read_without_panic(text in "[{}\\[\\]:, a-z0-9/\"-]{0,60}") {
        let status: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let object = json!({
            "apiVersion": OURS, "kind": "InboundRoute", "metadata": {"name": "a"},
            "status": {"claims": status, "delegationStatuses": status, "x": status},
        });
        prop_assert!(parse(&object).unwrap().meta.recorded.is_none());
    }
}
