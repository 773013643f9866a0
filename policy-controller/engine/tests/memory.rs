//! The memory that manifests take in a controller, per byte of YAML: hostile ones of every kind of policy
//! (docs/operations.md, *Memory of manifests*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::{POD, objects};
use policy_engine::{ControllerConfig, compile_objects};

/// The bytes that stay allocated at most, in multiples of those of the YAML.
const MOST: usize = 100;

fn list(count: usize, each: impl Fn(usize) -> String) -> String {
    (0..count).map(each).collect::<Vec<_>>().join(", ")
}

fn object(api: &str, kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\nspec: {spec}"
    )
}

const LINKERD: &str = "policy.linkerd.io/v1alpha1";
const OWN: &str = "portcullis.dev/v1alpha1";
const GATEWAY: &str = "gateway.networking.k8s.io/v1";
const ON_SERVER: &str = "{group: policy.linkerd.io, kind: Server, name: web}";

fn route(kind: &str, name: &str, matches: &str) -> String {
    let parent = format!("parentRefs: [{ON_SERVER}]");
    object(GATEWAY, kind, name, &format!("{{{parent}, rules: [{{matches: [{matches}]}}]}}"))
}

/// Expressions that are short and large when compiled.
fn expressions(count: usize) -> String {
    list(count, |n| {
        format!("{{headers: [{{name: x, type: RegularExpression, value: '\\pL{{3}}{n}'}}]}}")
    })
}

fn group(name: &str, routes: &str) -> String {
    object(OWN, "HttpRouteGroup", name, &format!("{{routes: [{routes}]}}"))
}

/// Many objects.
fn many(count: usize, each: impl Fn(usize) -> String) -> Vec<String> {
    (0..count).map(each).collect()
}

/// Servers, routes, policies and authentications.
fn of_linkerd() -> Vec<(&'static str, Vec<String>)> {
    let server = |n: usize| {
        let spec = format!("{{podSelector: {{matchLabels: {{app: web}}}}, port: {}}}", n + 1);
        object("policy.linkerd.io/v1beta3", "Server", &format!("s{n}"), &spec)
    };
    let of = |kind: &'static str, matches: String| {
        move |n: usize| route(kind, &format!("r{n}"), &matches)
    };
    let grant = |n: usize| {
        let spec = format!("{{targetRef: {ON_SERVER}, requiredAuthenticationRefs: []}}");
        object(LINKERD, "AuthorizationPolicy", &format!("p{n}"), &spec)
    };
    let identities = format!("{{identities: [{}]}}", list(1000, |n| format!("a{n}")));
    let network = |n: usize| format!("{{cidr: 10.{}.{}.0/24}}", n / 250, n % 250);
    let networks = format!("{{networks: [{}]}}", list(1000, network));
    vec![
        ("Servers", many(200, server)),
        ("HTTPRoutes with expressions", many(12, of("HTTPRoute", expressions(50)))),
        ("HTTPRoutes with empty matches", many(12, of("HTTPRoute", list(64, |_| "{}".into())))),
        ("small HTTPRoutes", many(200, of("HTTPRoute", "{}".into()))),
        ("GRPCRoutes with expressions", many(12, of("GRPCRoute", expressions(50)))),
        ("small GRPCRoutes", many(200, of("GRPCRoute", "{}".into()))),
        ("AuthorizationPolicies", many(400, grant)),
        ("identities", vec![object(LINKERD, "MeshTLSAuthentication", "m", &identities)]),
        ("networks", vec![object(LINKERD, "NetworkAuthentication", "nets", &networks)]),
    ]
}

/// A root with as many claims as it may have.
fn claims(n: usize) -> String {
    claims_on(n, n)
}

/// One that loses them to that of the same hosts and another number.
fn lost_claims(n: usize) -> String {
    claims_on(n, 0)
}

fn claims_on(n: usize, host: usize) -> String {
    let aliases = list(16, |a| format!("a{a}.h{host}.io"));
    let own = format!("fqdn: h{host}.io, aliases: [{aliases}], targetRef: {ON_SERVER}");
    let rules = list(64, |p| format!("{{match: /p{p}, serve: {{}}}}"));
    let spec = format!("{{virtualhost: {{{own}}}, routes: [{rules}]}}");
    object(OWN, "InboundRoute", &format!("r{n}"), &spec)
}

/// A root each of whose rules selects the same objects.
fn selected() -> Vec<String> {
    let child = |n: usize| {
        let rules = format!("{{match: /p{n}/x, serve: {{}}}}");
        let spec = format!("{{delegatedFrom: [{{fqdn: h.io}}], routes: [{rules}]}}");
        let labels = "namespace: shop, labels: {p: q}}";
        object(OWN, "InboundRoute", &format!("c{n}"), &spec).replace("namespace: shop}", labels)
    };
    let delegate = "delegate: {selector: {matchLabels: {p: q}}}";
    let rules = list(64, |p| format!("{{match: /p{p}, {delegate}}}"));
    let own = format!("fqdn: h.io, targetRef: {ON_SERVER}");
    let spec = format!("{{virtualhost: {{{own}}}, routes: [{rules}]}}");
    many(32, child).into_iter().chain([object(OWN, "InboundRoute", "r", &spec)]).collect()
}

/// Groups each of which includes another many times, and is bound. `labels` of an include.
fn included(labels: impl Fn(usize) -> String) -> Vec<String> {
    let base = group("base", &list(64, |n| format!("{{path: /a{n}}}")));
    let include = |n: usize| format!("{{routeGroupRef: {{name: base}}{}}}", labels(n));
    let including = |n: usize| group(&format!("g{n}"), &list(15, include));
    let binding = |n: usize| {
        let spec = format!("{{targetRef: {ON_SERVER}, routeRefs: [{{name: g{n}}}]}}");
        object(OWN, "HttpRouteBinding", &format!("b{n}"), &spec)
    };
    let rest = many(20, including).into_iter().chain(many(20, binding));
    [base].into_iter().chain(rest).collect()
}

/// A group of 4,096 matches that is bound to so many Servers, each with a port of the pod.
fn bound(servers: usize) -> Vec<String> {
    let methods = "methods: [GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH]";
    let base = group("base", &list(256, |n| format!("{{path: /a{n}, {methods}}}")));
    let server = |n: usize| {
        let port = 10_000 + n;
        let spec = format!(
            "{{podSelector: {{matchLabels: {{app: web}}}}, port: {port}, proxyProtocol: HTTP/1}}"
        );
        object("policy.linkerd.io/v1beta3", "Server", &format!("b{n}"), &spec)
    };
    let binding = |n: usize| {
        let on = format!("{{group: policy.linkerd.io, kind: Server, name: b{n}}}");
        let spec = format!("{{targetRef: {on}, routeRefs: [{{name: base}}]}}");
        object(OWN, "HttpRouteBinding", &format!("b{n}"), &spec)
    };
    let rest = many(servers, server).into_iter().chain(many(servers, binding));
    [base].into_iter().chain(rest).collect()
}

/// One group bound to many Servers of its namespace took memory without bound.
#[test]
fn the_routes_of_bindings_of_a_namespace_have_a_bound_of_bytes() {
    let (few, _) = taken(&bound(16));
    let (many, text) = taken(&bound(200));
    println!(
        "a group bound to 16 Servers: {few} bytes; to 200: {many} bytes of {text} bytes of YAML"
    );
    assert!(many < 128 * 1024 * 1024, "{many}");
}

/// Kinds of this project.
fn of_ours() -> Vec<(&'static str, Vec<String>)> {
    let paths = group("g", &list(500, |n| format!("{{path: /a{n}}}")));
    vec![
        ("claims of InboundRoutes", many(10, claims)),
        ("claims of InboundRoutes that are lost", many(10, lost_claims)),
        ("InboundRoutes that labels select", selected()),
        ("a group of routes", vec![paths]),
        ("groups that include others", included(|_| String::new())),
        ("groups that label what they include", included(|n| format!(", labels: {{a: b{n}}}"))),
    ]
}

const SMI_ACCESS: &str = "access.smi-spec.io/v1alpha4";
const SMI_SPECS: &str = "specs.smi-spec.io/v1alpha4";

/// An HTTPRouteGroup whose matches stand for eight requests each.
fn methods(count: usize) -> String {
    let methods = "methods: [GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH]";
    let matches = list(count, |n| format!("{{name: m{n}, pathRegex: /a{n}, {methods}}}"));
    object(SMI_SPECS, "HTTPRouteGroup", "g", &format!("{{matches: [{matches}]}}"))
}

fn target(name: &str, rules: &str, source: &str) -> String {
    let destination = "destination: {kind: ServiceAccount, name: web}";
    let spec = format!("{{{destination}, rules: [{rules}], sources: [{source}]}}");
    object(SMI_ACCESS, "TrafficTarget", name, &spec)
}

/// Objects of SMI, of which one multiplies another.
fn of_smi() -> Vec<(&'static str, Vec<String>)> {
    let client = "{kind: ServiceAccount, name: a}";
    let all = "{kind: HTTPRouteGroup, name: g}";
    let rule = |n: usize| format!("{{kind: HTTPRouteGroup, name: g, matches: [m0, m{n}]}}");
    let many_rules = |n: usize| target(&format!("t{n}"), &list(200, rule), client);
    let same = |n: usize| target(&format!("t{n}"), &list(200, |_| all.to_owned()), client);
    let small = |n: usize| target(&format!("t{n}"), all, client);
    let of = |group: String, targets: Vec<String>| [group].into_iter().chain(targets).collect();
    let spiffe = list(1000, |n| format!("'spiffe://a/{n}'"));
    let binding = object(
        SMI_ACCESS,
        "IdentityBinding",
        "b",
        &format!("{{schemes: {{spiffeIdentities: [{spiffe}]}}}}"),
    );
    let bytes = "{kind: TCPRoute, name: r}";
    let bound = |n: usize| target(&format!("t{n}"), bytes, "{kind: IdentityBinding, name: b}");
    let every = object(SMI_SPECS, "TCPRoute", "r", "{}");
    let ports = |n: usize| {
        let ports = list(200, |port| (1 + 200 * n + port).to_string());
        let route = object(
            SMI_SPECS,
            "TCPRoute",
            &format!("r{n}"),
            &format!("{{matches: {{ports: [{ports}]}}}}"),
        );
        let rule = format!("{{kind: TCPRoute, name: r{n}}}");
        format!("{route}\n---\n{}", target(&format!("t{n}"), &rule, client))
    };
    vec![
        ("TrafficTargets of many rules", of(methods(250), many(20, many_rules))),
        ("TrafficTargets that repeat a rule", of(methods(250), many(20, same))),
        ("TrafficTargets of one group", of(methods(100), many(200, small))),
        ("TrafficTargets of one IdentityBinding", of(every, of(binding, many(200, bound)))),
        ("TrafficTargets of many ports", many(40, ports)),
    ]
}

/// Retained bytes, and bytes of text.
fn taken(documents: &[String]) -> (usize, usize) {
    let server = common::server("HTTP/1", "all-unauthenticated");
    let text: usize = documents.iter().map(String::len).sum();
    let measured = |documents: &[&str]| {
        let mut held = None;
        let counted = allocation_counter::measure(|| {
            let compiled = compile_objects(objects(documents), &ControllerConfig::default());
            let policy = common::web(&compiled, 8080);
            held = Some((compiled, policy));
        });
        assert!(held.is_some());
        usize::try_from(counted.bytes_current).unwrap()
    };
    let without = measured(&[POD, &server]);
    let mut all = vec![POD, &*server];
    all.extend(documents.iter().map(String::as_str));
    (measured(&all).saturating_sub(without), text)
}

/// 600 KiB of YAML took all that a controller may have.
#[test]
fn manifests_take_no_more_memory_than_is_stated() {
    let mut over = Vec::new();
    for (what, documents) in of_linkerd().into_iter().chain(of_ours()).chain(of_smi()) {
        let (bytes, text) = taken(&documents);
        let times = bytes / text;
        println!("{what}: {text} bytes of YAML take {bytes}: {times} times");
        if times > MOST {
            over.push((what, times));
        }
    }
    assert_eq!(over, []);
}
