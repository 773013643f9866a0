//! Differences that no single message shows: what was there before decides in Linkerd's controller.

use crate::messages::*;
use crate::process::Controller;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use policy_testkit::{soon, wait_for};
use tonic::transport::Endpoint;

const POD: &str = "apiVersion: v1\nkind: Pod\n\
    metadata: {name: web, namespace: shop, labels: {app: web, linkerd.io/control-plane-ns: linkerd}}\n\
    spec: {containers: [{name: web, image: x, ports: [{name: http, containerPort: 8080}]}]}\n";

const POLICY: &str = "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
    metadata: {name: web, namespace: shop}\n\
    spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: opaque}\n\
    ---\n\
    apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
    metadata: {name: all, namespace: shop}\n\
    spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, \
    requiredAuthenticationRefs: []}\n";

/// The first message of a port with the preset, and the one after a file was edited.
async fn edited(port: u32, file: &str, text: &str) -> (Server, Server) {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("pod.yaml"), POD).unwrap();
    std::fs::write(manifests.path().join("policy.yaml"), POLICY).unwrap();
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", &["--linkerd-compatible"]);
    controller.ready();
    let address = format!("http://{}", controller.grpc);
    let channel = soon(Endpoint::from_shared(address).unwrap().connect()).await.unwrap();
    let mut client = InboundServerPoliciesClient::new(channel);
    let spec = PortSpec { workload: "shop:web".to_owned(), port };
    let mut stream = soon(client.watch_port(spec)).await.unwrap().into_inner();
    let first = soon(stream.message()).await.unwrap().unwrap();
    std::fs::write(manifests.path().join(file), text).unwrap();
    let second = soon(stream.message()).await.unwrap().unwrap();
    (first, second)
}

#[tokio::test]
async fn an_invalid_update_ends_what_the_object_granted() {
    let invalid = POLICY.replace("requiredAuthenticationRefs: []", "requiredAuthenticationRefs: 1");
    let (first, second) = edited(8080, "policy.yaml", &invalid).await;
    assert_eq!(first, owned_port(opaque(), vec![by_policy("all", None)]));
    assert_eq!(second, owned_port(opaque(), Vec::new()));
}

#[tokio::test]
async fn a_pod_of_the_same_name_has_its_own_ports() {
    let (first, second) = edited(9090, "pod.yaml", &POD.replace("8080", "9090")).await;
    let open =
        default_port("all-unauthenticated", detect(vec![default_route()]), vec![everybody()]);
    assert_eq!(first, open);
    assert_eq!(second, owned_port(opaque(), vec![by_policy("all", None)]));
}

const LIMIT: &str = "apiVersion: policy.linkerd.io/v1alpha1\nkind: HTTPLocalRateLimitPolicy\n\
    metadata: {name: limit, namespace: shop}\n\
    spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, \
    total: {requestsPerSecond: 5}}\n";

const CALLS: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\n\
    metadata: {name: calls, namespace: shop}\n\
    spec: {parentRefs: [{kind: Server, group: policy.linkerd.io, name: web}], \
    rules: [{matches: [{method: {service: a}}]}]}\n";

/// The message of a port after the pod and its Server, of this protocol, were deleted and created
/// again, while the object `kept` stayed.
async fn recreated(protocol: &str, kept: &str) -> Server {
    let manifests = tempfile::tempdir().unwrap();
    let rest = format!("{POD}---\n{}", POLICY.replace("opaque", protocol));
    let file = manifests.path().join("rest.yaml");
    std::fs::write(manifests.path().join("kept.yaml"), kept).unwrap();
    std::fs::write(&file, &rest).unwrap();
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", &["--linkerd-compatible"]);
    controller.ready();
    let address = format!("http://{}", controller.grpc);
    let channel = soon(Endpoint::from_shared(address).unwrap().connect()).await.unwrap();
    let client = InboundServerPoliciesClient::new(channel);
    let spec = PortSpec { workload: "shop:web".to_owned(), port: 8080 };
    let mut stream = soon(client.clone().watch_port(spec.clone())).await.unwrap().into_inner();
    soon(stream.message()).await.unwrap().unwrap();
    std::fs::remove_file(&file).unwrap();
    while soon(stream.message()).await.unwrap().is_some() {}
    std::fs::write(&file, &rest).unwrap();
    let found = wait_for("the pod", || async { client.clone().get_port(spec.clone()).await.ok() });
    found.await.into_inner()
}

#[tokio::test]
async fn limits_and_calls_outlive_the_rest_of_their_namespace() {
    let everybody = || vec![by_policy("all", None)];
    let limited = limited_http2(vec![default_route()], "limit", 5);
    assert_eq!(recreated("HTTP/2", LIMIT).await, owned_port(limited, everybody()));
    let called = grpc(vec![calls(call_of("a"))]);
    assert_eq!(recreated("gRPC", CALLS).await, owned_port(called, everybody()));
}
