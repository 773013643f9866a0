//! HTTPRoutes and GRPCRoutes as children: what is kept from them, and where they take no effect.

use super::common::{self, POD};
use policy_core::{Connection, Decision, RequestView, Tls, WorkloadKey, naive};
use policy_engine::behaviour::{Behaviour, Behaviours};
use policy_engine::{Compiled, ControllerConfig};

/// A root of namespace `shop` whose Server is `web`.
pub(super) fn root(name: &str, virtual_host: &str, routes: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: {name}, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}}\n\
         spec: {{virtualhost: {{{virtual_host}, \
         targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}}}, routes: [{routes}]}}"
    )
}

/// A child of root `www` in namespace `shop`.
pub(super) fn child(kind: &str, name: &str, hosts: &str, matches: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  hostnames: [{hosts}]\n\
         \x20 parentRefs: [{{group: portcullis.dev, kind: InboundRoute, name: www}}]\n\
         \x20 rules: [{{matches: [{matches}]}}]"
    )
}

pub(super) fn open(protocol: &str) -> String {
    common::server(protocol, "all-unauthenticated")
}

pub(super) fn compiled(documents: &[&str]) -> Compiled {
    common::compiled(&[&[POD], documents].concat())
}

/// The object whose rule permits a request, or the reason why none does.
pub(super) fn answer(compiled: &Compiled, host: &str, request: &str) -> String {
    answer_at(compiled, "shop", host, request)
}

/// The same at the pod of a namespace.
pub(super) fn answer_at(compiled: &Compiled, namespace: &str, host: &str, request: &str) -> String {
    let key = WorkloadKey::pod(namespace, "web");
    let policy = compiled.port(&key, common::port(8080)).unwrap();
    let facts = &compiled.workloads[&key].state.facts;
    let client = "10.9.9.9".parse().unwrap();
    let connection = Connection { client, tls: Tls::Absent, facts };
    let headers = http::HeaderMap::new();
    let (method, path) = request.split_once(' ').unwrap();
    let method = method.parse().unwrap();
    let view =
        RequestView { method: &method, host: Some(host), path, query: None, headers: &headers };
    match naive::decide_request(&policy, &connection, &view) {
        Decision::Permit(permit) => {
            let rule = permit.route().unwrap();
            let route = &policy.routes.routes[usize::try_from(rule.route).unwrap()];
            route.origin.object().unwrap().name().to_owned()
        }
        Decision::Deny(denial) => denial.reason.as_str().to_owned(),
    }
}

/// The states of the rules of root `www`, with their reasons.
fn rules(compiled: &Compiled) -> Vec<String> {
    let key = policy_crds::ObjectKey {
        kind: policy_crds::Kind::InboundRoute,
        namespace: "shop".into(),
        name: "www".into(),
    };
    let state = compiled.delegation_state(&key);
    let rule = |rule: &policy_engine::delegation::RouteEntry| {
        let reason = rule.reason.map_or("-", |reason| reason.as_str());
        format!("{} {} {reason}", rule.path, rule.state.as_str())
    };
    state.routes.iter().map(rule).collect()
}

/// Another namespace's claim on one host dropped the expressions of a child on all of them.
#[test]
fn a_claim_on_one_host_takes_expressions_from_a_child_there_alone() {
    let www = root(
        "www",
        "fqdn: a.io, aliases: [b.io], allowRegexChildren: true",
        "{match: /, delegate: {kind: HTTPRoute, name: h}}",
    );
    let expression = "{path: {type: RegularExpression, value: '/v[0-9]+'}}, {path: {value: /p}}";
    let route = child("HTTPRoute", "h", "a.io, b.io", expression);
    let other = root("other", "fqdn: b.io", "{match: /x, serve: {}}")
        .replace("namespace: shop", "namespace: strange")
        .replace("2026-01-01", "2025-01-01");
    let admission = "apiVersion: portcullis.dev/v1alpha1\nkind: RouteAdmissionPolicy\n\
                     metadata: {name: default}\nspec: {namespaceOwnership: InterNamespaceAllowed}";
    let server = open("HTTP/1");
    let alone = compiled(&[&server, &www, &route, admission]);
    let beside = compiled(&[&server, &www, &route, &other, admission]);
    for host in ["a.io", "b.io"] {
        assert_eq!(answer(&alone, host, "GET /v1"), "h");
    }
    assert_eq!(answer(&beside, "a.io", "GET /v1"), "h");
    assert_eq!(answer(&beside, "b.io", "GET /v1"), "not_delegated");
    for host in ["a.io", "b.io"] {
        assert_eq!(answer(&beside, host, "GET /p/1"), "h");
        assert_eq!(answer(&beside, host, "GET /q"), "not_delegated");
    }
    assert_eq!(answer(&beside, "b.io", "GET /x"), "not_delegated");
}

/// The status refused a route that the Server's protocol cannot carry, and the tree permitted it.
#[test]
fn a_child_takes_no_effect_on_a_server_whose_protocol_cannot_carry_it() {
    let of = |protocol: &str, kind: &str, more: &str| {
        let www = root(
            "www",
            "fqdn: a.io",
            &format!("{{match: /s, delegate: {{kind: {kind}, name: c}}}}"),
        );
        let matches =
            if kind == "HTTPRoute" { "{path: {value: /s}}" } else { "{method: {service: s}}" };
        let route =
            child(kind, "c", "a.io", matches).replace("name: www}", &format!("name: www}}{more}"));
        compiled(&[&open(protocol), &www, &route])
    };
    // Its own Server, or that of the root.
    for more in ["", ", {group: policy.linkerd.io, kind: Server, name: web}"] {
        for (protocol, kind, carries) in [
            ("HTTP/1", "HTTPRoute", true),
            ("HTTP/2", "HTTPRoute", true),
            ("gRPC", "HTTPRoute", false),
            ("HTTP/1", "GRPCRoute", false),
            ("HTTP/2", "GRPCRoute", true),
            ("gRPC", "GRPCRoute", true),
        ] {
            let compiled = of(protocol, kind, more);
            let about = format!("{kind} on {protocol}{more}");
            let expected = if carries { "c" } else { "not_delegated" };
            assert_eq!(answer(&compiled, "a.io", "POST /s/M"), expected, "{about}");
            let rule =
                if carries { "/s Delegated -" } else { "/s Blackholed NotAllowedByListeners" };
            assert_eq!(rules(&compiled), [rule], "{about}");
            let told = common::conditions(&compiled, "c");
            let accepted = told.iter().filter(|condition| condition.starts_with("Accepted="));
            let expected = if carries {
                "Accepted=true Accepted"
            } else {
                "Accepted=false NotAllowedByListeners"
            };
            assert!(accepted.clone().all(|condition| condition == expected), "{about}: {told:?}");
            assert_eq!(accepted.count(), if more.is_empty() { 1 } else { 2 }, "{about}: {told:?}");
        }
    }
}

/// With one of Linkerd's behaviours a route that counts nowhere counts in no tree.
#[test]
fn a_child_that_linkerd_ignores_on_a_server_is_in_no_tree_there() {
    let grpc = "{method: {service: s}}";
    let http = "{path: {value: /s}}";
    let elsewhere = ", {group: policy.linkerd.io, kind: Server, name: web, namespace: strange}";
    let own = ", {group: policy.linkerd.io, kind: Server, name: web}";
    let other = child("GRPCRoute", "other", "b.io", grpc).replace(
        "{group: portcullis.dev, kind: InboundRoute, name: www}",
        "{group: policy.linkerd.io, kind: Server, name: web}",
    );
    for (behaviour, kind, parents, others, reason) in [
        (Behaviour::GrpcRoutes, "GRPCRoute", "", "", "NotAllowedByListeners"),
        (
            Behaviour::CrossNamespaceRoutes,
            "HTTPRoute",
            &*format!("{own}{elsewhere}"),
            "",
            "RefNotPermitted",
        ),
        (Behaviour::RouteConflicts, "HTTPRoute", "", &*other, "Conflicted"),
    ] {
        let www = root(
            "www",
            "fqdn: a.io",
            &format!("{{match: /s, delegate: {{kind: {kind}, name: c}}}}"),
        );
        let matches = if kind == "HTTPRoute" { http } else { grpc };
        let route = child(kind, "c", "a.io", matches)
            .replace("name: www}", &format!("name: www}}{parents}"));
        let server = open("HTTP/2");
        let asked = |as_linkerd| {
            let config = ControllerConfig { as_linkerd, ..ControllerConfig::default() };
            let documents = [POD, &*server, &*www, &*route, others];
            let compiled = common::compiled_with(&documents, &config);
            let answer = answer(&compiled, "a.io", "POST /s/M");
            (answer, rules(&compiled).remove(0), common::conditions(&compiled, "c").remove(0))
        };
        let (ours, rule, told) = asked(Behaviours::default());
        assert_eq!((&*ours, &*rule), ("c", "/s Delegated -"), "{behaviour:?}");
        assert_eq!(told, "Accepted=true Accepted", "{behaviour:?}");
        let mut linkerds = Behaviours::default();
        linkerds.insert(behaviour);
        let (linkerds, rule, told) = asked(linkerds);
        assert_eq!(linkerds, "not_delegated", "{behaviour:?}");
        assert_eq!(rule, format!("/s Blackholed {reason}"), "{behaviour:?}");
        assert_eq!(told, format!("Accepted=false {reason}"), "{behaviour:?}");
    }
}

/// A match of a service without a method was dropped where an ancestor keeps one of its methods.
#[test]
fn a_child_answers_the_rest_of_a_service_of_which_an_ancestor_keeps_a_method() {
    let www = |more: &str| {
        let delegated = "{match: /shop.Cart, delegate: {kind: GRPCRoute, name: cart}}";
        root("www", "fqdn: a.io", &format!("{delegated}{more}"))
    };
    let cart = child("GRPCRoute", "cart", "a.io", "{method: {service: shop.Cart}}");
    for protocol in ["gRPC", "HTTP/2"] {
        let server = open(protocol);
        let asked = |more: &str, others: &[&str]| {
            let www = www(more);
            let documents = [&[POD, &server, &www, &cart][..], others].concat();
            let compiled = common::compiled(&documents);
            [
                "POST /shop.Cart/Add",
                "POST /shop.Cart/Remove",
                "POST /shop.Cart/Remove/x",
                "POST /other.S/Add",
            ]
            .map(|request| answer(&compiled, "a.io", request))
        };
        let closed = "not_delegated";
        assert_eq!(asked("", &[]), ["cart", "cart", closed, closed], "{protocol}");
        let kept = ", {match: /shop.Cart/Remove, serve: {}}";
        assert_eq!(asked(kept, &[]), ["cart", "www", "www", closed], "{protocol}");
        let elsewhere = ", {match: /shop.Cart/Remove, servers: [{name: elsewhere}]}";
        assert_eq!(asked(elsewhere, &[]), ["cart", closed, closed, closed], "{protocol}");
        let missing = ", {match: /shop.Cart/Remove, delegate: {name: gone}}";
        assert_eq!(asked(missing, &[]), ["cart", closed, closed, closed], "{protocol}");
        let handed = ", {match: /shop.Cart/Remove, delegate: {kind: GRPCRoute, name: remove}}";
        let remove =
            child("GRPCRoute", "remove", "a.io", "{method: {service: shop.Cart, method: Remove}}");
        assert_eq!(asked(handed, &[&remove]), ["cart", "remove", closed, closed], "{protocol}");
    }
    // The prefix of an HTTPRoute has text where the match of the service has a parameter.
    let handed = www(", {match: /shop.Cart/Remove, delegate: {kind: HTTPRoute, name: remove}}");
    let remove = child("HTTPRoute", "remove", "a.io", "{path: {value: /shop.Cart/Remove}}");
    let compiled = compiled(&[&open("HTTP/2"), &handed, &cart, &remove]);
    assert_eq!(answer(&compiled, "a.io", "POST /shop.Cart/Remove"), "remove");
    assert_eq!(answer(&compiled, "a.io", "POST /shop.Cart/Add"), "cart");
}

/// A match without a service came before the paths that are kept.
#[test]
fn a_match_with_parameters_takes_nothing_that_an_ancestor_keeps() {
    let www = root(
        "www",
        "fqdn: a.io",
        "{match: /, delegate: {kind: GRPCRoute, name: any}}, {match: /kept.S, serve: {}}, \
         {match: /part.S/Kept, serve: {}}",
    );
    let of = |matches: &str| {
        let any = child("GRPCRoute", "any", "a.io", matches);
        let compiled = compiled(&[&open("gRPC"), &www, &any]);
        ["POST /kept.S/M", "POST /part.S/Kept", "POST /part.S/M", "POST /free.S/M"]
            .map(|request| answer(&compiled, "a.io", request))
    };
    let closed = "not_delegated";
    assert_eq!(of("{method: {method: M}}"), ["www", "www", "any", "any"]);
    assert_eq!(of("{method: {method: N}}"), ["www", "www", closed, closed]);
    let all =
        "{method: {service: kept.S}}, {method: {service: part.S}}, {method: {service: free.S}}";
    assert_eq!(of(all), ["www", "www", "any", "any"]);
}

/// The hostnames of an invalid child were not read, so that its hosts fell through to other routes.
#[test]
fn an_invalid_child_keeps_its_hosts_closed() {
    let named = "[{group: portcullis.dev, kind: InboundRoute, name: www}, \
                 {group: policy.linkerd.io, kind: Server, name: web}]";
    let route = |path: &str| {
        child("HTTPRoute", "h", "a.io", &format!("{{path: {{value: {path}}}}}"))
            .replace("[{group: portcullis.dev, kind: InboundRoute, name: www}]", named)
    };
    let plain = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {name: plain, namespace: shop}\n\
                 spec:\n  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
                 \x20 rules: [{matches: [{path: {value: /}}]}]";
    for path in ["/s", "s"] {
        let compiled = compiled(&[&open("HTTP/1"), &route(path), plain]);
        assert_eq!(answer(&compiled, "a.io", "GET /s"), "not_delegated", "{path}");
        assert_eq!(answer(&compiled, "b.io", "GET /s"), "plain", "{path}");
    }
}

/// The trees of hosts below the wildcard of a child were not looked at: its status said that it takes
/// no effect.
#[test]
fn a_child_with_a_wildcard_takes_effect_on_each_host_below_that_is_handed_to_it() {
    let www = root(
        "www",
        "fqdn: a.x.io, aliases: [b.y.x.io, other.io]",
        "{match: /s, delegate: {kind: HTTPRoute, name: h}}",
    );
    let route = child("HTTPRoute", "h", "'*.x.io'", "{path: {value: /s}}")
        .replace("name: www}", "name: www}, {group: policy.linkerd.io, kind: Server, name: web}");
    let compiled = compiled(&[&open("HTTP/1"), &www, &route]);
    for (host, expected) in [
        ("a.x.io", "h"),
        ("b.y.x.io", "h"),
        ("other.io", "not_delegated"),
        ("c.x.io", "not_delegated"),
    ] {
        assert_eq!(answer(&compiled, host, "GET /s"), expected, "{host}");
    }
    let told = common::conditions(&compiled, "h");
    let accepted = told.iter().filter(|condition| condition.starts_with("Accepted="));
    assert_eq!(accepted.collect::<Vec<_>>(), ["Accepted=true Accepted"; 2], "{told:?}");
}
