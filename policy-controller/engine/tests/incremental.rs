//! Random histories: what is in force depends on the objects alone, never on how they came to be.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::objects;
use policy_core::{
    Connection, Decision, Facts, Identity, Owner, RequestView, ServerPolicy, Tls, Unmatched,
    WorkloadKey, naive,
};
use policy_crds::{Body, Claims, FieldError, Invalid, Kind, Object, ObjectKey};
use policy_engine::{ControllerConfig, History, compile_objects};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Number of objects of the catalogue.
const CATALOGUE: usize = 46;

#[test]
fn histories_are_of_the_whole_catalogue() {
    assert_eq!(catalogue().len(), CATALOGUE);
}

/// Every object that a history may contain, several versions of some.
fn catalogue() -> Vec<Object> {
    let pod = |name: &str, app: &str, annotations: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, \
             labels: {{app: {app}, other: {name}}}, annotations: {{{annotations}}}}}\n\
             spec: {{nodeName: node-1, containers: [{{name: a, ports: [{{name: http, containerPort: 8080}}], \
             readinessProbe: {{httpGet: {{path: /ready, port: http}}}}}}]}}\nstatus: {{podIP: 10.42.1.9}}"
        )
    };
    let server = |name: &str, app: &str, port: &str, protocol: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {{name: {name}, namespace: shop, \
             labels: {{app: {app}}}}}\nspec: {{podSelector: {{matchLabels: {{app: {app}}}}}, port: {port}, \
             proxyProtocol: {protocol}}}"
        )
    };
    let route = |namespace: &str, path: &str, kind: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: r, namespace: {namespace}}}\n\
             spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: a, namespace: shop}}]\n\
             \x20 rules: [{path}]"
        )
    };
    let policy = common::policy;
    let mesh = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m, namespace: auth}";
    let get = "{matches: [{path: {value: /get}}]}";
    let texts = [
        pod("p0", "a", ""),
        pod("p0", "b", "config.linkerd.io/default-inbound-policy: deny"),
        pod("p1", "a", "config.linkerd.io/opaque-ports: '8080'"),
        pod("p2", "a", ""),
        server("a", "a", "http", "HTTP/2"),
        server("a", "a", "9090", "opaque"),
        server("a", "a", "http", "nonsense"),
        server("b", "b", "8080", "unknown"),
        server("c", "a", "8080", "HTTP/1"),
        route("shop", get, "HTTPRoute"),
        route("shop", "{matches: [{path: {value: bad}}]}", "HTTPRoute"),
        route("strange", get, "HTTPRoute"),
        route("shop", "{matches: [{method: {service: s}}]}", "GRPCRoute"),
        policy("on-server", "group: policy.linkerd.io, kind: Server, name: a", mesh),
        policy("on-namespace", "kind: Namespace, name: shop", "{kind: ServiceAccount, name: c}"),
        policy("on-route", "group: gateway.networking.k8s.io, kind: HTTPRoute, name: r", ""),
        common::mesh_tls("auth", "m", "'*'"),
        common::mesh_tls("auth", "m", "'x.y'"),
        common::mesh_tls("auth", "m", ""),
        "apiVersion: policy.linkerd.io/v1beta1\nkind: ServerAuthorization\nmetadata: {name: z, namespace: shop}\n\
         spec: {server: {selector: {matchLabels: {app: a}}}, client: {unauthenticated: true}}".to_owned(),
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: HTTPLocalRateLimitPolicy\nmetadata: {name: l, namespace: shop}\n\
         spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: a}, total: {requestsPerSecond: 5}}".to_owned(),
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: \
         {config.linkerd.io/default-inbound-policy: cluster-unauthenticated, \
         config.linkerd.io/proxy-require-identity-inbound-ports: 'http,9090'}}".to_owned(),
        "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\nspec: {podCIDR: 10.42.1.0/24}\n\
         status: {addresses: [{type: InternalIP, address: 172.18.0.2}]}".to_owned(),
        grant("auth", "AuthorizationPolicy", "shop", "MeshTLSAuthentication"),
        grant("shop", "HTTPRoute", "strange", "Server"),
    ];
    // Two whose parents cannot be read, one of them of another namespace.
    let unread = ["shop", "strange"].map(unread);
    let all = texts.into_iter().chain(unread).chain(about_requests());
    all.flat_map(|text| objects(&[&text])).collect()
}

/// Policies about requests, and what describes and binds these.
fn about_requests() -> Vec<String> {
    let ours = |kind: &str, name: &str, spec: &str| {
        format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: {kind}\n\
             metadata: {{name: {name}, namespace: shop}}\nspec: {{{spec}}}"
        )
    };
    let on_a = "targetRef: {group: policy.linkerd.io, kind: Server, name: a}";
    let on_class = "group: portcullis.dev, kind: HttpRouteClass, name: k";
    vec![
        ours("HttpRouteGroup", "g", "routes: [{path: '/g/:id'}, {routeGroupRef: {name: i}}]"),
        ours("HttpRouteGroup", "g", "routes: [{path: '/g/:id', methods: [GET]}]"),
        ours("HttpRouteGroup", "i", "routes: [{path: '/i', labels: {a: b}}]"),
        ours("HttpRouteGroup", "i", "routes: [{routeGroupRef: {name: g}}]"),
        ours("HttpRouteBinding", "b", &format!("{on_a}, routeRefs: [{{name: g}}]")),
        ours(
            "HttpRouteBinding",
            "b",
            &format!("{on_a}, routeRefs: [{{name: i}}], hostnames: [web]"),
        ),
        ours("HttpRouteBinding", "b", "routeRefs: []"),
        ours("HttpRouteClass", "k", &format!("{on_a}, routeSelector: {{matchLabels: {{a: b}}}}")),
        ours("HttpRouteClass", "k", &format!("{on_a}, routeSelector: {{}}")),
        common::policy("on-class", on_class, ""),
        ours("GrpcService", "s", "service: x.S"),
        ours("GrpcServiceBinding", "s", &format!("{on_a}, serviceRefs: [{{name: s}}]")),
        effect("TimeoutPolicy", "t", on_class, "timeouts: {response: 1s}"),
        effect("TimeoutPolicy", "t", ON_A, "timeouts: {request: 10s}"),
        effect("TimeoutPolicy", "t", ON_R, "timeouts: {request: 3s, idle: 5s}"),
        effect("HeaderRewritePolicy", "h", ON_R, "rules: [{clear: [x-a]}]"),
        effect("HeaderRewritePolicy", "h", ON_A, "rules: [{clear: [host]}], failure: Deny"),
        effect("HeaderRewritePolicy", "s", ON_A, "rules: [{set: {x-a: b}}]"),
        // One whose target cannot be read.
        effect("HeaderRewritePolicy", "s", "kind: Pod, name: a", "rules: [], failure: Deny"),
    ]
}

const ON_A: &str = "kind: Server, name: a";
const ON_R: &str = "group: gateway.networking.k8s.io, kind: HTTPRoute, name: r";

fn effect(kind: &str, name: &str, target: &str, spec: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{targetRef: {{{target}}}, {spec}}}"
    )
}

fn unread(namespace: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
         metadata: {{name: unread, namespace: {namespace}}}\nspec: {{parentRefs: 7}}"
    )
}

fn grant(namespace: &str, from: &str, from_namespace: &str, to: &str) -> String {
    let group = if from == "HTTPRoute" { "gateway.networking.k8s.io" } else { "policy.linkerd.io" };
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n\
         metadata: {{name: g, namespace: {namespace}}}\nspec:\n\
         \x20 from: [{{group: {group}, kind: {from}, namespace: {from_namespace}}}]\n\
         \x20 to: [{{group: policy.linkerd.io, kind: {to}}}]"
    )
}

#[derive(Clone, Debug)]
enum Step {
    Apply(usize),
    Delete(usize),
    Sweep,
}

fn steps(size: usize) -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = prop_oneof![
        6 => (0..size).prop_map(Step::Apply),
        2 => (0..size).prop_map(Step::Delete),
        1 => Just(Step::Sweep),
    ];
    prop::collection::vec(prop::collection::vec(step, 1..4), 1..25)
}

const PORTS: [u16; 3] = [8080, 9090, 7777];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// After every transaction, the policies that were kept up to date are those that a fresh
    /// index compiles from the same objects, and equal ones are one allocation.
    #[test]
    fn what_is_kept_up_to_date_equals_a_fresh_start(history in steps(CATALOGUE)) {
        let all = catalogue();
        let config = ControllerConfig::default();
        let mut kept = History::new(&config);
        let mut present: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        for transaction in history {
            let mut changes = Vec::new();
            for step in transaction {
                match step {
                    Step::Apply(i) => {
                        present.insert(all[i].meta.key.clone(), all[i].clone());
                        changes.push(Ok(all[i].clone()));
                    }
                    Step::Delete(i) => {
                        present.remove(&all[i].meta.key);
                        changes.push(Err(all[i].meta.key.clone()));
                    }
                    Step::Sweep => kept.sweep(),
                }
            }
            kept.apply(changes);
            let fresh = compile_objects(present.values().cloned().collect(), &config);
            prop_assert_eq!(kept.conditions(), &fresh.conditions);
            let mut alive: Vec<Arc<ServerPolicy>> = Vec::new();
            for name in ["p0", "p1", "p2"] {
                let key = WorkloadKey::pod("shop", name);
                let state = fresh.workloads.get(&key).map(|w| w.state.clone());
                prop_assert_eq!(kept.followed_state(&key), state);
                for port in PORTS.map(|p| NonZeroU16::new(p).unwrap()) {
                    let followed = kept.followed_port(&key, port);
                    prop_assert_eq!(&followed, &fresh.port(&key, port), "{} {}", name, port);
                    if let Some(policy) = followed {
                        let equal = alive.iter().find(|other| ***other == *policy);
                        prop_assert!(equal.is_none_or(|other| Arc::ptr_eq(other, &policy)));
                        alive.push(policy);
                    }
                }
            }
        }
    }

    /// The order in which objects arrive does not matter.
    #[test]
    fn the_order_of_events_does_not_matter(order in Just((0..CATALOGUE).collect::<Vec<usize>>()).prop_shuffle()) {
        let all = catalogue();
        let config = ControllerConfig::default();
        // Of several versions of an object the last of the catalogue is meant.
        let last: BTreeMap<ObjectKey, Object> =
            all.iter().map(|object| (object.meta.key.clone(), object.clone())).collect();
        let sorted = compile_objects(last.values().cloned().collect(), &config);
        let mut kept = History::new(&config);
        for i in order {
            kept.apply(vec![Ok(last[&all[i].meta.key].clone())]);
        }
        prop_assert_eq!(kept.conditions(), &sorted.conditions);
        for (key, workload) in &sorted.workloads {
            for (port, policy) in &workload.policy.ports {
                prop_assert_eq!(kept.followed_port(key, *port), Some(policy.clone()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Removing a grant, an authentication or an authorization never admits a client, and neither
    /// does making it invalid.
    #[test]
    fn taking_away_never_permits(
        score in prop::collection::vec(0_u8..8, CATALOGUE),
        gone in any::<prop::sample::Index>(),
    ) {
        const GRANTING: [Kind; 5] = [
            Kind::AuthorizationPolicy,
            Kind::ServerAuthorization,
            Kind::MeshTlsAuthentication,
            Kind::NetworkAuthentication,
            Kind::ReferenceGrant,
        ];
        let all = catalogue();
        // A grant for a route may cover a wider local one (full trust, which is documented).
        let granting: Vec<&ObjectKey> = all
            .iter()
            .map(|object| &object.meta.key)
            .filter(|key| GRANTING.contains(&key.kind))
            .filter(|key| !(key.kind == Kind::ReferenceGrant && &*key.namespace == "shop"))
            .collect();
        let removed = *gone.get(&granting);
        let config = ControllerConfig::default();
        // Of several versions the one with the highest score, if that is high enough.
        let mut ranked: Vec<(u8, &Object)> = score.iter().copied().zip(&all).collect();
        ranked.sort_by_key(|(score, _)| *score);
        let with: BTreeMap<ObjectKey, Object> = ranked
            .into_iter()
            .filter(|(score, object)| *score >= 4 || object.meta.key == *removed)
            .map(|(_, object)| (object.meta.key.clone(), object.clone()))
            .collect();
        let without = with.values().filter(|o| o.meta.key != *removed).cloned().collect();
        let before = compile_objects(with.values().cloned().collect(), &config);
        let after = compile_objects(without, &config);
        let mut broken = with.clone();
        if let Some(object) = broken.get_mut(removed) {
            let error = FieldError { field: "spec".to_owned(), message: "is broken".to_owned() };
            object.body = Body::Invalid(Invalid { errors: vec![error], claims: Claims::Nothing });
        }
        let invalid = compile_objects(broken.into_values().collect(), &config);
        let compared = after.workloads.iter().map(|(key, workload)| (key, workload, &after));
        let compared = compared.chain(invalid.workloads.iter().map(|(k, w)| (k, w, &invalid)));
        for (key, workload, after) in compared {
            for port in PORTS.map(|p| NonZeroU16::new(p).unwrap()) {
                let (old, new) = (before.port(key, port).unwrap(), after.port(key, port).unwrap());
                for query in QUESTIONS {
                    let permitted = permits(&new, &workload.state.facts, query);
                    prop_assert!(!permitted || permits(&old, &workload.state.facts, query));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A route whose parents cannot be read never admits a client on a port of a Server of its
    /// namespace, and leaves no such port without routes; other namespaces are unaffected.
    #[test]
    fn a_route_whose_parents_cannot_be_read_binds_every_server(
        score in prop::collection::vec(0_u8..8, CATALOGUE),
    ) {
        let all = catalogue();
        let config = ControllerConfig::default();
        let chosen = score.iter().zip(&all).filter(|(score, _)| **score >= 4);
        let mut with: BTreeMap<ObjectKey, Object> =
            chosen.map(|(_, object)| (object.meta.key.clone(), object.clone())).collect();
        with.retain(|key, _| &*key.name != "unread");
        let before = compile_objects(with.values().cloned().collect(), &config);
        let compiled = |namespace: &str| {
            let added = objects(&[&unread(namespace)]);
            compile_objects(with.values().cloned().chain(added).collect(), &config)
        };
        let (own, strange) = (compiled("shop"), compiled("strange"));
        for (key, workload) in &own.workloads {
            for port in PORTS.map(|p| NonZeroU16::new(p).unwrap()) {
                let (old, new) = (before.port(key, port).unwrap(), own.port(key, port).unwrap());
                prop_assert_eq!(&old, &strange.port(key, port).unwrap());
                if matches!(new.owner, Owner::Server(_)) {
                    prop_assert_ne!(&new.routes.otherwise, &Unmatched::DefaultRoute);
                }
                for query in QUESTIONS {
                    let permitted = permits(&new, &workload.state.facts, query);
                    prop_assert!(!permitted || permits(&old, &workload.state.facts, query));
                }
            }
        }
    }
}

/// Address, identity, path.
const QUESTIONS: [(&str, Option<&str>, &str); 7] = [
    ("203.0.113.1", None, "/get"),
    ("10.1.1.1", None, "/get"),
    ("203.0.113.1", None, "/"),
    ("10.1.1.1", Some("c.shop.serviceaccount.identity.linkerd.cluster.local"), "/get"),
    ("203.0.113.1", Some("x.y"), "/get"),
    ("10.1.1.1", Some("other"), "/s/m"),
    ("172.18.0.2", None, "/ready"),
];

fn permits(policy: &ServerPolicy, facts: &Facts, query: (&str, Option<&str>, &str)) -> bool {
    let (address, name, path) = query;
    let identity = name.map(|name| Identity::Dns(name.into()));
    let tls = identity.as_ref().map_or(Tls::Absent, |identity| Tls::Terminated(Some(identity)));
    let connection = Connection { client: address.parse().unwrap(), tls, facts };
    let headers = http::HeaderMap::new();
    let view = RequestView {
        method: &http::Method::GET,
        host: None,
        path,
        query: None,
        headers: &headers,
    };
    let decision = match policy.protocol.is_http() {
        true => naive::decide_request(policy, &connection, &view),
        false => naive::decide_connection(policy, &connection),
    };
    matches!(decision, Decision::Permit(_))
}
