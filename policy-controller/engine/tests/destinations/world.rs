//! Services, pods and what else holds addresses, and the questions about them.

use policy_core::{
    Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, ServiceDestination,
    ServiceName,
};
use policy_crds::Object;
use policy_engine::{
    ControllerConfig, DestinationKey, DestinationQuestion, DestinationScope, History,
    PublishedDestination, ScopeKind, ServicePortKey,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// The identity of the ServiceAccount `web` of the namespace `shop`.
pub(crate) const WEB: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";

/// The identity that nobody can prove.
pub(crate) const NOBODY: &str = "unknown-identity.portcullis.invalid";

pub(crate) fn object(value: &Value) -> Object {
    let mut all = policy_crds::parse_all(value);
    assert_eq!(all.len(), 1, "{value}");
    all.remove(0).unwrap()
}

/// Puts the fields of `more` into `value`, mapping by mapping.
pub(crate) fn with(mut value: Value, more: Value) -> Value {
    fn merge(into: &mut Value, more: Value) {
        match (into, more) {
            (Value::Object(into), Value::Object(more)) => {
                for (name, value) in more {
                    merge(into.entry(name).or_insert(Value::Null), value);
                }
            }
            (into, more) => *into = more,
        }
    }
    merge(&mut value, more);
    value
}

/// A pod of the Deployment `web` with our sidecar, from before the mark.
pub(crate) fn pod(name: &str, address: &str) -> Value {
    with(
        bare_pod(name, address),
        json!({"metadata": {"labels": {"portcullis.dev/proxy": "injected"}}}),
    )
}

/// The same without a sidecar.
pub(crate) fn bare_pod(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop",
            "labels": {"app": "web", "pod-template-hash": "abc"}, "uid": uid_at(address),
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-abc", "controller": true}],
        },
        "spec": {
            "serviceAccountName": "web", "nodeName": "n1",
            "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}],
        },
        "status": {
            "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "podIPs": [{"ip": address}],
        },
    })
}

/// A Service of the namespace `shop` with the port `http` at 80.
pub(crate) fn service(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIPs": [address], "ports": [{"name": "http", "port": 80}]},
    })
}

/// An EndpointSlice of a Service with the port `http` at 8080.
pub(crate) fn slice(service: &str, name: &str, endpoints: Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": "shop",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": endpoints,
    })
}

/// A ready endpoint, as the controller of slices writes it for a pod.
pub(crate) fn of_pod(address: &str) -> Value {
    json!({
        "addresses": [address], "conditions": {"ready": true},
        "nodeName": "n1", "targetRef": {"kind": "Pod", "name": "any", "uid": uid_at(address)},
    })
}

/// The uid of the pod that holds an address from the start.
fn uid_at(address: &str) -> String {
    format!("of-{address}")
}

/// A ready endpoint that somebody wrote.
pub(crate) fn written(address: &str) -> Value {
    json!({"addresses": [address]})
}

pub(crate) fn node(name: &str, address: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    })
}

pub(crate) fn machine(namespace: &str, name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "workload.linkerd.io/v1beta1", "kind": "ExternalWorkload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "meshTLS": {"identity": format!("{name}.example"), "serverName": format!("{name}.sni")},
            "workloadIPs": [{"ip": address}],
        },
    })
}

pub(crate) fn server(port: &str, protocol: &str) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "web"}}, "port": port,
            "proxyProtocol": protocol,
        },
    })
}

/// Objects in an index.
pub(crate) fn world(objects: &[Value]) -> History {
    world_of(&ControllerConfig::default(), objects)
}

pub(crate) fn world_of(config: &ControllerConfig, objects: &[Value]) -> History {
    let mut history = History::new(config);
    history.apply(objects.iter().map(|value| Ok(object(value))).collect());
    history
}

pub(crate) fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

pub(crate) fn question(address: &str, scope: &DestinationScope) -> DestinationQuestion {
    let address: SocketAddr = address.parse().unwrap();
    DestinationQuestion::Address(DestinationKey {
        address: address.ip(),
        port: port(address.port()),
        scope: scope.clone(),
    })
}

pub(crate) fn by_name(name: &str, number: u16) -> DestinationQuestion {
    let service = ServiceName { namespace: "shop".into(), name: name.into() };
    let scope = DestinationScope::All;
    DestinationQuestion::Service(ServicePortKey { service, port: port(number), scope })
}

pub(crate) fn published(
    history: &mut History,
    question: &DestinationQuestion,
) -> PublishedDestination {
    (*history.follow_destination(question).unwrap().current()).clone()
}

/// What an address and port lead to, for all clients.
pub(crate) fn ask(history: &mut History, address: &str) -> Destination {
    let answer = published(history, &question(address, &DestinationScope::All));
    assert_eq!(answer.needs, ScopeKind::All, "{address}");
    answer.destination
}

/// The port `http` of the Service `shop/web` with these endpoints.
pub(crate) fn web(endpoints: &[Endpoint]) -> Destination {
    of_service("web", 80, None, endpoints)
}

pub(crate) fn of_service(
    name: &str,
    number: u16,
    affinity: Option<Duration>,
    endpoints: &[Endpoint],
) -> Destination {
    Destination::Service(ServiceDestination {
        service: ServiceName { namespace: "shop".into(), name: name.into() },
        port: port(number),
        affinity,
        endpoints: Arc::from(endpoints),
    })
}

pub(crate) fn undeclared(name: &str) -> Destination {
    Destination::UndeclaredPort(ServiceName { namespace: "shop".into(), name: name.into() })
}

/// An endpoint of the Deployment `web` with our sidecar and the identity of its ServiceAccount.
pub(crate) fn meshed(address: &str) -> Endpoint {
    with_mesh(address, mesh(WEB))
}

pub(crate) fn plaintext(address: &str, reason: PlaintextReason) -> Endpoint {
    with_mesh(address, EndpointMesh::Plaintext(reason))
}

/// The sidecar with this identity at the usual port.
pub(crate) fn mesh(identity: &str) -> EndpointMesh {
    EndpointMesh::Meshed(MeshEndpoint {
        identity: identity.into(),
        server_name: identity.into(),
        inbound_port: Some(port(4143)),
        opaque: false,
    })
}

pub(crate) fn opaque(mesh: EndpointMesh) -> EndpointMesh {
    match mesh {
        EndpointMesh::Meshed(mesh) => EndpointMesh::Meshed(MeshEndpoint { opaque: true, ..mesh }),
        EndpointMesh::Plaintext(reason) => panic!("{reason}"),
    }
}

pub(crate) fn with_mesh(address: &str, mesh: EndpointMesh) -> Endpoint {
    Endpoint {
        address: address.parse().unwrap(),
        owner: "deployment/web".into(),
        namespace: "shop".into(),
        mesh,
    }
}

/// An endpoint of nobody known.
pub(crate) fn unknown(address: &str) -> Endpoint {
    let mesh = EndpointMesh::Plaintext(PlaintextReason::Unmeshed);
    Endpoint { address: address.parse().unwrap(), owner: "".into(), namespace: "".into(), mesh }
}

/// A machine outside the cluster.
pub(crate) fn outside(namespace: &str, name: &str, address: &str) -> Endpoint {
    Endpoint {
        address: address.parse().unwrap(),
        owner: format!("externalworkload/{name}").into(),
        namespace: namespace.into(),
        mesh: EndpointMesh::Meshed(MeshEndpoint {
            identity: format!("{name}.example").into(),
            server_name: format!("{name}.sni").into(),
            inbound_port: Some(port(4143)),
            opaque: false,
        }),
    }
}
