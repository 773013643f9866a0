//! Cost of resolving objects: all of them at once, and the changes of one event.
//!
//! `bench/functions` runs it; `cargo bench -p policy-controller` measures time alone.

#![allow(clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use policy_core::WorkloadKey;
use policy_crds::{Object, parse_all};
use policy_engine::{
    Compiled, ControllerConfig, DestinationKey, DestinationQuestion, DestinationScope, History,
    Latest, PublishedDestination, compile_objects,
};
use policy_measure::Function;
use serde_json::{Value, json};
use std::num::NonZeroU16;
use std::sync::Arc;

const NAMESPACE: &str = "shop";

fn object(value: &Value) -> Object {
    let mut all = parse_all(value);
    assert_eq!(all.len(), 1, "{value}");
    all.remove(0).expect("the object can be named")
}

fn pod(number: usize, label: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("p{number}"), "namespace": NAMESPACE,
            "labels": {"app": format!("app{}", number % 10), "free": label},
        },
        "spec": {"containers": [{
            "name": "c",
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
        }]},
    })
}

fn server(app: usize) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
        "metadata": {"name": format!("app{app}"), "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": {"app": format!("app{app}")}},
            "port": "http", "proxyProtocol": "HTTP/1",
        },
    })
}

/// One to the first Server, by a route of its own where it has one.
fn policy(number: usize, kind: &str, target: &str) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "AuthorizationPolicy",
        "metadata": {"name": format!("a{number}"), "namespace": NAMESPACE},
        "spec": {
            "targetRef": {"group": "policy.linkerd.io", "kind": kind, "name": target},
            "requiredAuthenticationRefs": [{"kind": "ServiceAccount", "name": format!("s{number}")}],
        },
    })
}

fn route(number: usize) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1beta3", "kind": "HTTPRoute",
        "metadata": {"name": format!("r{number}"), "namespace": NAMESPACE},
        "spec": {
            "parentRefs": [{"group": "policy.linkerd.io", "kind": "Server", "name": "app0"}],
            "rules": [{"matches": [{"path": {"type": "Exact", "value": format!("/items/{number}")}}]}],
        },
    })
}

/// Pods of ten apps, a Server each.
fn pods(count: usize) -> Vec<Object> {
    let pods = (0..count).map(|number| object(&pod(number, "no")));
    pods.chain((0..10).map(|app| object(&server(app)))).collect()
}

/// One pod whose Server has so many routes, each with an authorization of its own.
fn routes(count: usize) -> Vec<Object> {
    let routes = (0..count).flat_map(|number| {
        [object(&route(number)), object(&policy(number, "HTTPRoute", &format!("r{number}")))]
    });
    pods(1).into_iter().chain(routes).collect()
}

/// An InboundRoute.
fn inbound(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "InboundRoute",
        "metadata": {"name": name, "namespace": namespace,
                     "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1},
        "spec": spec,
    })
}

/// A vertex that the root `r<root>` of another namespace delegates to.
fn vertex(root: usize, number: usize, path: &str) -> Value {
    inbound(
        &format!("team{root}"),
        &format!("v{number}"),
        &json!({
            "delegatedFrom": [{"fqdn": format!("h{root}.example")}],
            "routes": [{"match": format!("/p{number}{path}"), "serve": {}}],
        }),
    )
}

/// The grant of a team to those who may delegate to it.
fn grant(root: usize, to: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": format!("team{root}")},
        "spec": {
            "from": [{"group": "portcullis.dev", "kind": "InboundRoute", "namespace": to}],
            "to": [{"group": "portcullis.dev", "kind": "InboundRoute"}],
        },
    })
}

/// A root of a host, with rules that lead to its vertices.
fn root(number: usize, host: &str, rules: impl Iterator<Item = Value>) -> Value {
    let server = json!({
        "group": "policy.linkerd.io", "kind": "Server", "name": format!("app{}", number % 10),
    });
    let host = json!({"fqdn": host, "targetRef": server});
    let rules: Vec<Value> = rules.collect();
    inbound(NAMESPACE, &format!("r{number}"), &json!({"virtualhost": host, "routes": rules}))
}

/// The root `r<number>`, with so many vertices.
fn own_root(number: usize, host: &str, vertices: usize) -> Value {
    let rule = |vertex: usize| {
        let to = json!({"name": format!("v{vertex}"), "namespace": format!("team{number}")});
        json!({"match": format!("/p{vertex}"), "delegate": to})
    };
    root(number, host, (0..vertices).map(rule))
}

/// 500 roots on ten Servers, each with 20 vertices of a namespace of their own.
fn trees() -> Vec<Object> {
    let all = (0..500).flat_map(|number| {
        let own = own_root(number, &format!("h{number}.example"), 20);
        let vertices = (0..20).map(move |vertex_number| vertex(number, vertex_number, ""));
        vertices.chain([own, grant(number, NAMESPACE)])
    });
    all.map(|value| object(&value)).chain(pods(10)).collect()
}

/// The same, with one more root of a wildcard that covers all their hosts.
fn trees_under_wildcard() -> Vec<Object> {
    let admission = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "RouteAdmissionPolicy",
        "metadata": {"name": "default"}, "spec": {"wildcardPolicy": "WildcardsAllowed"},
    });
    let wide = own_root(500, "*.example", 20);
    trees().into_iter().chain([object(&admission), object(&wide)]).collect()
}

/// One of 10,000 vertices of one namespace, of which 20 have the same label.
fn labelled(number: usize, path: &str) -> Value {
    let of = number / 20;
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "InboundRoute",
        "metadata": {
            "name": format!("v{number}"), "namespace": "team0",
            "labels": {"of": format!("n{of}")},
        },
        "spec": {
            "delegatedFrom": [{"fqdn": format!("h{of}.example")}],
            "routes": [{"match": format!("/p{number}{path}"), "serve": {}}],
        },
    })
}

/// 500 roots, each of which selects 20 of 10,000 vertices by a label.
fn selecting_trees() -> Vec<Object> {
    let roots = (0..500).map(|number| {
        let labels = json!({"matchLabels": {"of": format!("n{number}")}});
        let to = json!({"selector": labels, "namespace": "team0"});
        let rule = json!({"match": "/", "delegate": to});
        root(number, &format!("h{number}.example"), std::iter::once(rule))
    });
    let vertices = (0..10_000).map(|number| labelled(number, ""));
    let all = roots.chain(vertices).chain([grant(0, NAMESPACE)]);
    all.map(|value| object(&value)).chain(pods(10)).collect()
}

fn compiled(objects: Vec<Object>) -> Compiled {
    compile_objects(objects, &ControllerConfig::default())
}

fn compile(name: &str, objects: fn() -> Vec<Object>) -> Function {
    Function::new(name, objects, |objects| compiled(std::mem::take(objects)))
}

/// Resolves the changes of one event, with everything else known.
fn resolve(name: &str, objects: fn() -> Vec<Object>, change: fn() -> Object) -> Function {
    let setup = move || (compiled(objects()), Some(change()));
    Function::new(name, setup, |(compiled, change)| change.take().map(|c| compiled.update(c)))
}

/// Compiles the policy of a port that was not requested before, with everything else known.
fn compile_port(name: &str, objects: fn() -> Vec<Object>) -> Function {
    let setup = move || compiled(objects());
    Function::new(name, setup, |compiled| {
        let key = WorkloadKey::pod(NAMESPACE, "p0");
        compiled.port(&key, NonZeroU16::new(9999).expect("it is not 0"))
    })
}

/// A pod with a sidecar, the `number`th of 10,000.
fn endpoint_pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("p{number}"), "namespace": NAMESPACE,
            "labels": {"app": format!("app{}", number / 10), "portcullis.dev/proxy": "injected"},
        },
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": pod_address(number)}]},
    })
}

fn pod_address(number: usize) -> String {
    format!("10.42.{}.{}", number / 250, number % 250)
}

fn service(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("s{number}"), "namespace": NAMESPACE},
        "spec": {
            "clusterIPs": [format!("10.96.{}.{}", number / 250, number % 250)],
            "internalTrafficPolicy": if number == 0 { "Local" } else { "Cluster" },
            "ports": [{"port": 80}],
        },
    })
}

/// The slice of a Service of ten pods on as many nodes, the first of which is ready or not.
fn slice(number: usize, first: bool) -> Value {
    let endpoint = |pod: usize| {
        json!({
            "addresses": [pod_address(number.saturating_mul(10).saturating_add(pod))], "nodeName": format!("n{pod}"),
            "conditions": {"ready": pod != 0 || first}, "targetRef": {"kind": "Pod"},
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("s{number}"), "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": format!("s{number}")},
        },
        "addressType": "IPv4", "ports": [{"port": 8080}],
        "endpoints": (0..10).map(endpoint).collect::<Vec<_>>(),
    })
}

/// 10,000 pods of 1,000 Services, and 100 clients of a Service, each with what it was told.
fn watched_services(
    service_number: usize,
    place: fn(usize) -> DestinationScope,
) -> (History, Vec<Latest<Arc<PublishedDestination>>>) {
    let services = (0..1000).flat_map(|number| [service(number), slice(number, true)]);
    let all = services.chain((0..10_000).map(endpoint_pod));
    let mut history = History::new(&ControllerConfig::default());
    history.apply(all.map(|value| Ok(object(&value))).collect());
    let port = NonZeroU16::new(80).expect("it is not 0");
    let address = [10, 96, 0, u8::try_from(service_number).expect("a number of the first")].into();
    let clients = (0..100).map(|client| {
        let key = DestinationKey { address, port, scope: place(client) };
        let question = DestinationQuestion::Address(key);
        history.follow_destination(&question).expect("discovery is on")
    });
    let clients = clients.collect();
    (history, clients)
}

/// Publishes the event of one endpoint of a Service to its 100 clients.
fn publish_endpoint(
    name: &str,
    service_number: usize,
    place: fn(usize) -> DestinationScope,
) -> Function {
    let setup = move || {
        (watched_services(service_number, place), Some(object(&slice(service_number, false))))
    };
    Function::new(name, setup, |((history, clients), change)| {
        history.apply(change.take().map(Ok).into_iter().collect());
        clients.iter().filter(|client| client.has_changed()).count()
    })
}

fn main() {
    policy_measure::main(vec![
        Function::shared("parse-pod", || pod(0, "no"), parse_all),
        Function::shared("parse-authorization-policy", || policy(0, "Server", "app0"), parse_all),
        compile("compile-1000-pods", || pods(1000)),
        compile("compile-1000-routes", || routes(1000)),
        compile_port("compile-port", || pods(1000)),
        resolve("resolve-pod-label-of-1000-pods", || pods(1000), || object(&pod(0, "yes"))),
        resolve(
            "resolve-policy-of-1000-pods",
            || pods(1000),
            || object(&policy(0, "Server", "app0")),
        ),
        resolve(
            "resolve-policy-of-1000-routes",
            || routes(1000),
            || object(&policy(1000, "HTTPRoute", "r0")),
        ),
        resolve("resolve-vertex-of-500-trees", trees, || object(&vertex(0, 0, "/a"))),
        resolve("resolve-grant-of-500-trees", trees, || object(&grant(0, "nobody"))),
        resolve("resolve-root-of-500-trees", trees, || object(&own_root(0, "h0.example", 19))),
        resolve("resolve-vertex-under-a-wildcard-over-500-hosts", trees_under_wildcard, || {
            object(&vertex(0, 0, "/a"))
        }),
        resolve("resolve-root-under-a-wildcard-over-500-hosts", trees_under_wildcard, || {
            object(&own_root(0, "h0.example", 19))
        }),
        resolve("resolve-one-of-10000-labelled-vertices", selecting_trees, || {
            object(&labelled(0, "/a"))
        }),
        publish_endpoint("publish-endpoint-to-100-clients", 1, |_| DestinationScope::All),
        publish_endpoint("publish-endpoint-to-clients-on-100-nodes", 0, |client| {
            DestinationScope::Node(format!("n{client}").into())
        }),
    ]);
}
