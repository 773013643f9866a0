//! How the endpoints of pods are reached.

use crate::world::{
    NOBODY, WEB, ask, bare_pod, mesh, object, opaque, pod, port, server, with, with_mesh, world,
    world_of,
};
use policy_core::{Destination, EndpointMesh, MeshEndpoint, PlaintextReason};
use policy_engine::ControllerConfig;
use policy_engine::outbound::{OutboundConfig, OutboundPeer};
use serde_json::{Value, json};

/// How the port 8080 of a pod is reached.
fn reached(pod: Value) -> EndpointMesh {
    on_port(&ControllerConfig::default(), &[pod], 8080)
}

fn on_port(config: &ControllerConfig, objects: &[Value], number: u16) -> EndpointMesh {
    let address = format!("10.42.0.1:{number}");
    match ask(&mut world_of(config, objects), &address) {
        Destination::Workload(endpoint) => {
            let mesh = endpoint.mesh.clone();
            assert_eq!(endpoint, with_mesh(&address, mesh.clone()));
            mesh
        }
        other @ (Destination::Unknown
        | Destination::Node
        | Destination::UndeclaredPort(_)
        | Destination::Service(_)) => panic!("{other:?}"),
    }
}

fn annotated(value: Value, name: &str, text: &str) -> Value {
    with(value, json!({"metadata": {"annotations": {name: text}}}))
}

fn marked(value: Value, mark: &Value) -> Value {
    annotated(value, "portcullis.dev/sidecar", &mark.to_string())
}

/// A mark with these fields more.
fn mark(more: Value) -> Value {
    let least = json!({
        "version": "1.0.0", "inboundPort": 4143, "outbound": "on", "capture": "init-container",
    });
    with(least, more)
}

fn plain(reason: PlaintextReason) -> EndpointMesh {
    EndpointMesh::Plaintext(reason)
}

#[test]
fn a_sidecar_is_reached_as_its_mark_says() {
    let pod = || pod("p", "10.42.0.1");
    assert_eq!(reached(pod()), mesh(WEB), "from before the mark");
    assert_eq!(reached(marked(pod(), &mark(json!({})))), mesh(WEB));
    // From before the mesh had another trust domain.
    let before = "web.shop.serviceaccount.identity.linkerd.example.org";
    let own = mark(json!({
        "identity": before, "serverName": "web.example.org", "inboundPort": 15,
    }));
    let expected = EndpointMesh::Meshed(MeshEndpoint {
        identity: before.into(),
        server_name: "web.example.org".into(),
        inbound_port: Some(port(15)),
        opaque: false,
    });
    let former = OutboundConfig {
        former_trust_domains: ["example.org".into()].into(),
        ..Default::default()
    };
    let config = ControllerConfig { outbound: Some(former), ..ControllerConfig::default() };
    let reached = |pod: Value| on_port(&config, &[pod], 8080);
    assert_eq!(reached(marked(pod(), &own)), expected);
    assert_eq!(reached(marked(pod(), &mark(json!({"identity": before})))), mesh(before));
}

/// Who may patch a pod could otherwise relay its clients, under their names, to the other one.
#[test]
fn a_mark_with_the_identity_of_another_leaves_the_pod_unreachable() {
    for identity in [
        "db.shop.serviceaccount.identity.linkerd.cluster.local",
        "web.bank.serviceaccount.identity.linkerd.cluster.local",
        "web.shop.bank.serviceaccount.identity.linkerd.cluster.local",
        "web.shop.serviceaccount.identity.",
        "web.shop.serviceaccount.identity.x.evil.example.org",
        "web.shop.serviceaccount.identity.linkerd.example.org",
        "web.shop.serviceaccount.identity.x.evil.serviceaccount.identity.linkerd.cluster.local",
        "web.shop",
        "web.example.org",
        "spiffe://example.org/web",
    ] {
        let forged = marked(pod("p", "10.42.0.1"), &mark(json!({"identity": identity})));
        assert_eq!(reached(forged), mesh(NOBODY), "{identity}");
    }
}

#[test]
fn a_sidecar_whose_identity_is_not_known_is_never_reached_otherwise() {
    let pod = || pod("p", "10.42.0.1");
    let unreadable = annotated(pod(), "portcullis.dev/sidecar", "{}");
    assert_eq!(reached(unreadable), mesh(NOBODY));
    assert_eq!(reached(marked(pod(), &mark(json!({"inboundPort": 0})))), mesh(NOBODY));
    let long = json!({"spec": {"serviceAccountName": "a".repeat(64)}});
    assert_eq!(reached(with(pod(), long.clone())), mesh(NOBODY), "it can have no certificate");
    assert_eq!(reached(marked(with(pod(), long), &mark(json!({})))), mesh(NOBODY));
}

#[test]
fn a_mark_counts_for_nothing_without_a_sidecar() {
    let bare = marked(bare_pod("p", "10.42.0.1"), &mark(json!({})));
    assert_eq!(reached(bare.clone()), plain(PlaintextReason::Unmeshed));
    let container = json!({"spec": {"containers": [{"name": "portcullis-proxy"}]}});
    assert_eq!(reached(with(bare, container)), mesh(WEB), "the container is there");
}

#[test]
fn ports_that_the_sidecar_does_not_get_are_reached_in_plaintext() {
    let config = ControllerConfig::default();
    let skips = mark(json!({"skippedInboundPorts": "25,8000-8080"}));
    let marked = marked(pod("p", "10.42.0.1"), &skips);
    // What people write after injection changes nothing.
    let live = annotated(marked, "config.linkerd.io/skip-inbound-ports", "9090");
    let init = |ports: &str| {
        let args = [format!("--skip-inbound-ports={ports}")];
        json!({"spec": {"initContainers": [{"name": "portcullis-init", "args": args}]}})
    };
    // A mark that names other ports than the container was started with is forged.
    let forged = with(live.clone(), init("25"));
    assert_eq!(on_port(&config, &[forged], 8080), mesh(NOBODY));
    let unmarked = with(pod("p", "10.42.0.1"), init("25,8000-8080"));
    for pod in [with(live, init("25,8000-8080")), unmarked] {
        let pod = std::slice::from_ref(&pod);
        for number in [25, 8000, 8080] {
            assert_eq!(on_port(&config, pod, number), plain(PlaintextReason::Skipped));
        }
        for number in [26, 9090] {
            assert_eq!(on_port(&config, pod, number), mesh(WEB));
        }
    }
}

#[test]
fn a_port_is_opaque_as_its_policy_says() {
    let config = ControllerConfig::default();
    let listed = || annotated(pod("p", "10.42.0.1"), "config.linkerd.io/opaque-ports", "http");
    let hint = |objects: &[Value]| on_port(&config, objects, 8080);
    assert_eq!(hint(&[listed()]), opaque(mesh(WEB)));
    assert_eq!(on_port(&config, &[listed()], 8081), mesh(WEB));
    assert_eq!(hint(&[listed(), server("http", "HTTP/1")]), mesh(WEB), "the Server decides");
    assert_eq!(hint(&[pod("p", "10.42.0.1"), server("http", "opaque")]), opaque(mesh(WEB)));
    assert_eq!(hint(&[pod("p", "10.42.0.1"), server("http", "TLS")]), mesh(WEB));
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"},
    });
    let namespace = annotated(namespace, "config.linkerd.io/opaque-ports", "8080");
    assert_eq!(hint(&[pod("p", "10.42.0.1"), namespace]), opaque(mesh(WEB)));
    let mut history = world(&[pod("p", "10.42.0.1")]);
    let before = Destination::Workload(with_mesh("10.42.0.1:8080", mesh(WEB)));
    assert_eq!(ask(&mut history, "10.42.0.1:8080"), before);
    history.apply(vec![Ok(object(&server("http", "opaque")))]);
    let after = Destination::Workload(with_mesh("10.42.0.1:8080", opaque(mesh(WEB))));
    assert_eq!(ask(&mut history, "10.42.0.1:8080"), after);
}

#[test]
fn a_pod_of_another_mesh_is_reached_in_plaintext_unless_it_is_a_peer() {
    let foreign = |control_plane: &str| {
        let label = json!({"metadata": {"labels": {"linkerd.io/control-plane-ns": control_plane}}});
        with(bare_pod("p", "10.42.0.1"), label)
    };
    let peer = OutboundPeer { namespace: "linkerd".into(), trust_domain: "example.org".into() };
    let outbound = OutboundConfig { peers: [peer].into(), ..Default::default() };
    let config = ControllerConfig { outbound: Some(outbound), ..ControllerConfig::default() };
    let pod = foreign("linkerd");
    assert_eq!(reached(pod.clone()), plain(PlaintextReason::ForeignMesh));
    assert_eq!(on_port(&config, &[foreign("other")], 8080), plain(PlaintextReason::ForeignMesh));
    let identity = "web.shop.serviceaccount.identity.linkerd.example.org";
    let on = |pod: &Value, number: u16| on_port(&config, std::slice::from_ref(pod), number);
    assert_eq!(on(&pod, 8080), mesh(identity));
    assert_eq!(on(&pod, 4191), plain(PlaintextReason::Skipped), "its own port");
    let listed = annotated(pod.clone(), "config.linkerd.io/opaque-ports", "5432");
    assert_eq!(on(&listed, 5432), opaque(mesh(identity)));
    let skips = annotated(pod.clone(), "config.linkerd.io/skip-inbound-ports", "5432,8000-8100");
    assert_eq!(on(&skips, 8080), plain(PlaintextReason::Skipped));
    // A sidecar of ours is ours, whatever Linkerd's label says.
    let ours = with(pod, json!({"metadata": {"labels": {"portcullis.dev/proxy": "injected"}}}));
    assert_eq!(on(&ours, 8080), mesh(WEB));
}

#[test]
fn what_belongs_to_nothing_is_named_by_itself() {
    let mut alone = pod("p", "10.42.0.1");
    alone["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    let Destination::Workload(endpoint) = ask(&mut world(&[alone]), "10.42.0.1:80") else {
        panic!("no workload")
    };
    assert_eq!((&*endpoint.owner, &*endpoint.namespace), ("pod/p", "shop"));
}
