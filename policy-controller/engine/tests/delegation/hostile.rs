//! A child that takes as much as it can: what it was given is its own to lose, and nobody else's.

use super::common::{self, POD};
use policy_core::{Connection, Decision, RequestView, ServerPolicy, Tls, WorkloadKey, naive};
use policy_crds::{Kind, ObjectKey};
use policy_engine::contributions::{Excess, contributions, fitted, size, without};
use policy_engine::{Compiled, ControllerConfig, compile_objects};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The owner `site` of `www.io`, who hands `/finance` to `bb` and `/legal` to `legal`, and keeps
/// `/finance/admin`. `first`: the delegation that is listed first.
fn owner(first: &str) -> String {
    let hand = |team: &str, path: &str| {
        format!("{{match: {path}, delegate: {{name: {team}, namespace: {team}}}}}")
    };
    let mut rules = [hand("bb", "/finance"), hand("legal", "/legal")];
    if first == "legal" {
        rules.reverse();
    }
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: www, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}}\n\
         spec:\n  virtualhost: {{fqdn: www.io, \
         targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}}}\n\
         \x20 routes: [{{match: /, serve: {{}}}}, {}, {{match: /finance/admin, serve: {{}}}}]",
        rules.join(", ")
    )
}

fn vertex(namespace: &str, name: &str, labels: &str, routes: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\n\
         spec: {{delegatedFrom: [{{fqdn: www.io}}], routes: [{routes}]}}"
    )
}

fn grant(namespace: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
         metadata: {{name: g, namespace: {namespace}}}\n\
         spec:\n  from: [{{group: portcullis.dev, kind: InboundRoute, namespace: shop}}]\n\
         \x20 to: [{{group: portcullis.dev, kind: InboundRoute}}]"
    )
}

/// The objects of everybody but `bb`.
fn others(first: &str) -> Vec<String> {
    vec![
        POD.to_owned(),
        common::server("HTTP/1", "all-unauthenticated"),
        owner(first),
        grant("bb"),
        grant("legal"),
        vertex("legal", "legal", "", "{match: /legal, serve: {}}"),
    ]
}

fn compiled(documents: &[String]) -> Compiled {
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    compile_objects(common::objects(&documents), &ControllerConfig::default())
}

const NODE: &str = "172.18.0.2";
const CLIENT: &str = "10.9.9.9";

/// The verdict of a policy on a request for `www.io`.
fn verdict(compiled: &Compiled, policy: &ServerPolicy, from: &str, path: &str) -> String {
    let facts = &compiled.workloads[&WorkloadKey::pod("shop", "web")].state.facts;
    let connection = Connection { client: from.parse().unwrap(), tls: Tls::Absent, facts };
    let headers = http::HeaderMap::new();
    let method = http::Method::GET;
    let host = Some(if from == NODE { "10.42.1.7" } else { "www.io" });
    let view = RequestView { method: &method, host, path, query: None, headers: &headers };
    match naive::decide_request(policy, &connection, &view) {
        Decision::Permit(_) => "allow".to_owned(),
        Decision::Deny(denial) => denial.reason.as_str().to_owned(),
    }
}

/// The verdicts on the owner's path, the one that it keeps, a sibling's, a probe's, and `bb`'s.
fn verdicts(compiled: &Compiled, policy: &ServerPolicy) -> [String; 5] {
    let requests = [
        (CLIENT, "/"),
        (CLIENT, "/finance/admin"),
        (CLIENT, "/legal/contracts"),
        (NODE, "/ready"),
        (CLIENT, "/finance/books"),
    ];
    requests.map(|(from, path)| verdict(compiled, policy, from, path))
}

fn told(compiled: &Compiled, namespace: &str, name: &str) -> Vec<String> {
    let key =
        ObjectKey { kind: Kind::InboundRoute, namespace: namespace.into(), name: name.into() };
    compiled.conditions[&key].iter().map(ToString::to_string).collect()
}

/// 64 rules of a child, each with a selector of 32 objects, took every delegation that the root lists
/// behind it.
#[test]
fn a_child_that_uses_up_a_tree_takes_no_path_of_its_siblings() {
    let rules: Vec<String> = (0..64)
        .map(|n| {
            format!(
                "{{match: /finance/p{n}, delegate: {{selector: {{matchLabels: {{part: all}}}}}}}}"
            )
        })
        .collect();
    let mut hostile = vec![vertex("bb", "bb", "", &rules.join(", "))];
    hostile.extend((0..32).map(|n| {
        vertex(
            "bb",
            &format!("s{n}"),
            "part: all",
            &format!("{{match: /finance/q{n}, serve: {{}}}}"),
        )
    }));
    for first in ["bb", "legal"] {
        let all = [others(first), hostile.clone()].concat();
        let compiled = compiled(&all);
        let policy = common::web(&compiled, 8080);
        let closed = "not_delegated";
        assert_eq!(verdicts(&compiled, &policy), ["allow", "allow", "allow", "allow", closed]);
        let at_root = told(&compiled, "shop", "www").join("\n");
        assert!(at_root.contains("(TooLarge)"), "{at_root}");
        assert!(at_root.contains("InboundRoute bb/bb leads to more than the share"), "{at_root}");
        assert!(!at_root.contains("/legal"), "{at_root}");
        let at_child = told(&compiled, "bb", "bb").join("\n");
        assert!(at_child.contains("ResolvedRefs=False"), "{at_child}");
        let sibling = told(&compiled, "legal", "legal").join("\n");
        assert!(!sibling.contains("False"), "{sibling}");
    }
}

/// Routes of `bb` with this many header values of two kilobytes each.
fn large(routes: usize) -> Vec<String> {
    let value = "v".repeat(2000);
    let rules: Vec<String> = (0..routes)
        .map(|n| format!("{{match: /finance/r{n}, delegate: {{kind: HTTPRoute, name: r{n}}}}}"))
        .collect();
    let mut objects = vec![vertex("bb", "bb", "", &rules.join(", "))];
    objects.extend((0..routes).map(|n| {
        let header = |h| format!("{{name: x{h}, value: {value}}}");
        let headers: Vec<String> = (0..8).map(header).collect();
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: r{n}, namespace: bb}}\n\
             spec:\n  hostnames: [www.io]\n\
             \x20 parentRefs: [{{group: portcullis.dev, kind: InboundRoute, name: bb}}]\n\
             \x20 rules: [{{matches: [{{path: {{value: /finance/r{n}}}, headers: [{}]}}]}}]",
            headers.join(", ")
        )
    }));
    objects
}

/// Seventeen HTTPRoutes of a child took the port of the owner, its siblings and the kubelet's probes.
#[test]
fn a_port_that_is_too_large_loses_what_others_contributed_and_the_owner_nothing() {
    let all = [others("bb"), large(20)].concat();
    let compiled = compiled(&all);
    let policy = common::web(&compiled, 8080);
    let all = contributions(&policy);
    assert_eq!(all.iter().map(|one| &*one.namespace).collect::<Vec<_>>(), ["bb", "legal"]);
    assert!(all[0].bytes > 20 * 8 * 2000 && all[0].objects.len() >= 20, "{all:?}");
    let words = all[0].to_string();
    assert!(
        words.starts_with("namespace bb: some 3") && words.contains("HTTPRoute bb/r"),
        "{words}"
    );
    let limit = 100_000;
    let fits = |policy: &ServerPolicy| (size(policy) <= limit).then(|| policy.clone());
    let (less, lacking) = fitted(&policy, Excess::Bytes(size(&policy) - limit), fits).unwrap();
    assert_eq!(lacking, all[..1]);
    let closed = "not_delegated";
    assert_eq!(verdicts(&compiled, &less), ["allow", "allow", "allow", "allow", closed]);
    for path in ["/finance", "/finance/r1", "/finance/r1/x"] {
        assert_eq!(verdict(&compiled, &less, CLIENT, path), closed, "{path}");
    }
    // One route for all paths of the namespace: a shorter one denies them.
    assert!(contributions(&less).iter().all(|one| &*one.namespace != "bb"), "{less:?}");
    // Where the owner's part alone does not fit, nothing does.
    assert!(fitted(&policy, Excess::Bytes(1), |_| None::<()>).is_none());
}

/// A route that is attached to a Server from another namespace was granted all of it.
#[test]
fn a_route_of_another_namespace_is_left_out_with_its_paths_denied() {
    let route = common::route("other", "cart").replace("value: /cart", "value: /cart/a");
    let grant = "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
                 metadata: {name: g, namespace: shop}\n\
                 spec:\n  from: [{group: policy.linkerd.io, kind: HTTPRoute, namespace: other}]\n\
                 \x20 to: [{group: policy.linkerd.io, kind: Server}]";
    let server = common::server("HTTP/1", "all-unauthenticated");
    let own = common::route("shop", "own");
    let compiled = common::compiled(&[POD, &server, &own, &route, grant]);
    let policy = common::web(&compiled, 8080);
    let of = |policy: &ServerPolicy| {
        ["/cart", "/cart/a", "/cart/a/b", "/cart/c", "/x"]
            .map(|path| verdict(&compiled, policy, CLIENT, path))
    };
    assert_eq!(of(&policy), ["allow", "allow", "allow", "allow", "no_route"]);
    let less = without(&policy, &BTreeSet::from(["other"]));
    let denied = "proxy_unsupported";
    assert_eq!(of(&less), ["allow", denied, denied, "allow", "no_route"]);
}

/// Requests for what `bb` was not given: a client, a host and a path.
const OUTSIDE: [(&str, &str, &str); 16] = [
    (CLIENT, "www.io", "/"),
    (CLIENT, "www.io", "/x"),
    (CLIENT, "www.io", "/financex"),
    (CLIENT, "www.io", "/finance/admin"),
    (CLIENT, "www.io", "/finance/admin/keys"),
    (CLIENT, "www.io", "/legal"),
    (CLIENT, "www.io", "/legal/contracts"),
    (CLIENT, "other.io", "/cart"),
    (CLIENT, "other.io", "/x"),
    (CLIENT, "web.shop", "/cart"),
    (CLIENT, "web.shop.svc.cluster.local", "/cart"),
    (NODE, "10.42.1.7", "/ready"),
    (NODE, "10.42.1.7", "/stop"),
    (CLIENT, "own.io", "/finance"),
    (CLIENT, "x.own.io", "/"),
    (NODE, "10.42.1.7", "/other"),
];

fn outside(compiled: &Compiled, policy: &ServerPolicy) -> Vec<String> {
    let facts = &compiled.workloads[&WorkloadKey::pod("shop", "web")].state.facts;
    let headers = http::HeaderMap::new();
    let method = http::Method::GET;
    let verdict = |(from, host, path): (&str, &str, &str)| {
        let connection = Connection { client: from.parse().unwrap(), tls: Tls::Absent, facts };
        let host = Some(host);
        let view = RequestView { method: &method, host, path, query: None, headers: &headers };
        let verdict = match naive::decide_request(policy, &connection, &view) {
            Decision::Permit(permit) => {
                let by = permit.route().map(|rule| {
                    let route = &policy.routes.routes[usize::try_from(rule.route).unwrap()];
                    route.origin.to_string()
                });
                format!("allow by {by:?}")
            }
            Decision::Deny(denial) => denial.reason.as_str().to_owned(),
        };
        format!("{host:?} {path}: {verdict}")
    };
    OUTSIDE.map(verdict).to_vec()
}

/// A route of the owner with hostnames of its own, older than whatever `bb` claims.
fn attached() -> String {
    "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
     metadata: {name: named, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}\n\
     spec:\n  hostnames: [own.io, '*.own.io']\n\
     \x20 parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n\
     \x20 rules: [{matches: [{path: {value: /}}]}]"
        .to_owned()
}

/// Any object of `bb`.
fn hostile_object() -> impl Strategy<Value = String> {
    let paths = ["/finance", "/finance/x", "/finance/admin/keys", "/", "/legal", "/financex", "//"];
    let hosts = [
        "www.io",
        "'*.io'",
        "'*.www.io'",
        "web.shop.svc",
        "web.shop",
        "x.www.io",
        "own.io",
        "x.own.io",
    ];
    let filters = [
        "",
        ", filters: [{type: RequestHeaderModifier, requestHeaderModifier: \
         {set: [{name: x-original-url, value: /}]}}]",
        ", filters: [{type: RequestRedirect, requestRedirect: {hostname: evil.io}}]",
    ];
    let any = (0..10_usize, 0..4_usize, 0..4_usize);
    let select = prop::sample::select::<&'static str>;
    (any, select(paths.to_vec()), select(hosts.to_vec()), select(filters.to_vec())).prop_map(
        |((kind, name, other), path, host, filter)| {
            let own = ["bb", "a", "b", "c"];
            let names = (own[name], own[other]);
            match kind {
                0..=4 => hostile_vertex(kind, names, path),
                _ => hostile_beside(kind, names, path, (host, filter)),
            }
        },
    )
}

/// An InboundRoute of `bb` without a host.
fn hostile_vertex(kind: usize, (name, other): (&str, &str), path: &str) -> String {
    match kind {
        0 | 1 => vertex("bb", name, "part: all", &format!("{{match: {path}, serve: {{}}}}")),
        2 => vertex("bb", name, "", &format!("{{match: {path}, delegate: {{name: {other}}}}}")),
        3 => vertex(
            "bb",
            name,
            "part: all",
            &format!("{{match: {path}, delegate: {{selector: {{matchLabels: {{part: all}}}}}}}}"),
        ),
        _ => vertex(
            "bb",
            name,
            "",
            &format!("{{match: {path}, delegate: {{kind: HTTPRoute, name: {other}}}}}"),
        ),
    }
}

/// A root, a policy or a route of `bb`.
fn hostile_beside(
    kind: usize,
    (name, other): (&str, &str),
    path: &str,
    (host, filter): (&str, &str),
) -> String {
    match kind {
        5 => owner("bb")
            .replace("name: www, namespace: shop", &format!("name: {name}, namespace: bb"))
            .replace("fqdn: www.io", &format!("fqdn: {host}"))
            .replace("2026-01-01", "2026-02-01"),
        6 => format!(
            "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
                 metadata: {{name: {name}, namespace: bb}}\n\
                 spec: {{targetRef: {{group: portcullis.dev, kind: InboundRoute, name: {other}}}, \
                 requiredAuthenticationRefs: []}}"
        ),
        7 => format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: HeaderRewritePolicy\n\
                 metadata: {{name: {name}, namespace: bb}}\n\
                 spec:\n  targetRef: {{group: portcullis.dev, kind: InboundRoute, name: {other}}}\n\
                 \x20 rules: [{{set: {{x-original-url: /}}}}]"
        ),
        _ => format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {{name: {name}, namespace: bb}}\n\
                 spec:\n  hostnames: [{host}, www.io]\n\
                 \x20 parentRefs: [{{group: portcullis.dev, kind: InboundRoute, name: {other}}}, \
                 {{group: policy.linkerd.io, kind: Server, name: web, namespace: shop}}]\n\
                 \x20 rules: [{{matches: [{{path: {{value: {path}}}, \
                 headers: [{{name: x, value: {}}}]}}]{filter}}}]",
            "v".repeat(1000)
        ),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever a child writes, a decision about what it was not given is the one that it was without it,
    /// by the same rule; of a port, too, that is too large for a message. Probes are decisions like others.
    #[test]
    fn a_child_decides_nothing_that_it_was_not_given(
        objects in prop::collection::vec(hostile_object(), 1..12),
        limit in 0_usize..4000,
        shared in any::<bool>(),
    ) {
        let ownership = if shared { "InterNamespaceAllowed" } else { "Strict" };
        let plain = common::route("shop", "own");
        let own = [others("bb"), vec![plain, attached(), super::hosts::admission(ownership)]].concat();
        let before = compiled(&own);
        let expected = outside(&before, &common::web(&before, 8080));
        let after = compiled(&[own, objects.clone()].concat());
        let policy = common::web(&after, 8080);
        prop_assert_eq!(&outside(&after, &policy), &expected, "{:#?}", objects);
        let fits = |policy: &ServerPolicy| (size(policy) <= limit).then(|| policy.clone());
        if let Some((less, lacking)) = fitted(&policy, Excess::Bytes(1), fits) {
            let found = outside(&after, &less);
            for (found, expected) in found.iter().zip(&expected) {
                // A sibling goes where the owner's part alone fits.
                let of_sibling = expected.contains(" /legal")
                    && lacking.iter().any(|one| &*one.namespace == "legal");
                prop_assert!(found == expected || of_sibling, "{} not {}: {:#?}", found, expected, objects);
            }
        }
    }
}
