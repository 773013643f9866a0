//! From a file to a client: a directory of manifests, the controller embedded, and both APIs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

mod process;

use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::{PortSpec, proxy_protocol::Kind as Protocol};
use policy_controller::directory::DirectorySource;
use policy_controller::run::{Embedded, start_embedded};
use policy_core::feature::Feature;
use policy_engine::ControllerConfig;
use policy_proto::messages::policy_discovery_client::PolicyDiscoveryClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::messages::{Hello, PortUpdate, WatchRequest, WatchResponse};
use policy_proto::native::{PortState, encode_features};
use policy_testkit::soon;
use process::{Controller, MANIFESTS, route};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

async fn embedded(directory: &Path) -> (Embedded, Channel) {
    let config = ControllerConfig::default();
    let source = DirectorySource::new(directory, config.limits);
    let embedded = start_embedded(config, source, ([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut synced = embedded.policies.synced();
    soon(synced.wait_for(|synced| *synced)).await.unwrap();
    let address = format!("http://{}", embedded.addr);
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    (embedded, channel)
}

/// The next update of a port; the workload's own messages are passed over.
async fn update(stream: &mut Streaming<WatchResponse>) -> PortUpdate {
    loop {
        let response = soon(stream.message()).await.unwrap().expect("the stream goes on");
        if let Answer::Port(update) = response.kind.unwrap() {
            return update;
        }
    }
}

async fn watch(channel: Channel, workload: &str) -> Streaming<WatchResponse> {
    let features = encode_features(&Feature::ALL.into_iter().collect());
    let hello = Hello { workload: workload.into(), features, ..Hello::default() };
    let request = WatchRequest { kind: Some(Kind::Hello(hello)) };
    // The request stream stays open.
    let requests =
        tokio_stream::StreamExt::chain(tokio_stream::once(request), tokio_stream::pending());
    PolicyDiscoveryClient::new(channel).watch(requests).await.unwrap().into_inner()
}

#[tokio::test]
async fn an_edit_of_a_file_reaches_both_kinds_of_client() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("base.yaml"), MANIFESTS).unwrap();
    std::fs::write(directory.path().join("a.yaml"), route("a")).unwrap();
    let (embedded, channel) = embedded(directory.path()).await;
    let mut native = watch(channel.clone(), "shop:web").await;
    let mut state = PortState::default();
    let first = state.apply(&update(&mut native).await).unwrap();
    let spec = PortSpec { workload: "shop:web".into(), port: 8080 };
    let mut client = InboundServerPoliciesClient::new(channel);
    let mut compatible = client.watch_port(spec).await.unwrap().into_inner();
    let server = soon(compatible.message()).await.unwrap().unwrap();
    assert_eq!(server.labels["name"], "web");
    let routes = |server: linkerd2_proxy_api::inbound::Server| match server.protocol.unwrap().kind {
        Some(Protocol::Http1(http)) => http.routes.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((first.routes.routes.len(), routes(server)), (1, 1));

    std::fs::write(directory.path().join("b.yaml"), route("b")).unwrap();
    let change = update(&mut native).await;
    assert_eq!(change.routes.len(), 1, "only the new route: {change:?}");
    assert_eq!(state.apply(&change).unwrap().routes.routes.len(), 2);
    assert_eq!(routes(soon(compatible.message()).await.unwrap().unwrap()), 2);

    // The pod goes: both streams end with OK.
    std::fs::write(directory.path().join("base.yaml"), "").unwrap();
    assert!(soon(native.message()).await.unwrap().is_none());
    assert!(soon(compatible.message()).await.unwrap().is_none());
    soon(embedded.shutdown()).await;
}

#[tokio::test]
async fn shutdown_ends_streams_with_ok() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("base.yaml"), MANIFESTS).unwrap();
    let (embedded, channel) = embedded(directory.path()).await;
    let mut native = watch(channel, "shop:web").await;
    update(&mut native).await;
    let ended = tokio::spawn(embedded.shutdown());
    assert!(soon(native.message()).await.unwrap().is_none());
    soon(ended).await.unwrap();
}

/// A pod with a probe, on a node with a pod network.
const ON_NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {podCIDR: 10.42.1.0/24}
status: {addresses: [{type: InternalIP, address: 172.18.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  nodeName: node-1
  containers:
  - name: app
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /ready, port: http}}
status: {podIPs: [{ip: 10.42.1.7}]}
";

const NODE: Ipv4Addr = Ipv4Addr::new(172, 18, 0, 2);
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 42, 1, 1);

/// The networks that clients of a controller with these flags get for the node and for the first
/// address of its pod network: by the native API as the node's and as proposed, by Linkerd's as
/// networks of a grant.
async fn told(flags: &[&str]) -> ([bool; 2], [bool; 2], [bool; 2]) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("base.yaml"), ON_NODE).unwrap();
    let controller = Controller::start(directory.path(), "127.0.0.1:0", flags);
    controller.ready();
    let address = format!("http://{}", controller.grpc);
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let mut native = watch(channel.clone(), "shop:web").await;
    let first = soon(native.message()).await.unwrap().unwrap();
    let Some(Answer::Workload(workload)) = first.kind else { panic!("{first:?}") };
    let facts = policy_proto::native::decode_facts(&workload.facts.unwrap()).unwrap();
    let local =
        |address: Ipv4Addr| facts.node_local.iter().any(|net| net.contains(&IpAddr::from(address)));
    let proposed = |address: Ipv4Addr| facts.pod_gateways.contains(&address.into());
    let spec = PortSpec { workload: "shop:web".into(), port: 8080 };
    let port = soon(InboundServerPoliciesClient::new(channel).get_port(spec)).await.unwrap();
    let text = format!("{:?}", port.into_inner());
    let named = |address: Ipv4Addr| text.contains(&format!("Ipv4({})", u32::from(address)));
    let of = |told: &dyn Fn(Ipv4Addr) -> bool| [told(NODE), told(FIRST)];
    (of(&local), of(&proposed), of(&named))
}

#[tokio::test]
async fn a_compatible_client_is_told_the_first_address_of_a_pod_network_by_the_flag_alone() {
    let (neither, node, first, both) = ([false; 2], [true, false], [false, true], [true; 2]);
    let proposed = told(&["--default-policy=deny"]).await;
    assert_eq!(proposed, (node, first, node), "the native client decides");
    let forced = told(&["--default-policy=deny", "--pod-gateways=of-node"]).await;
    assert_eq!(forced, (both, neither, both));
    let forbidden = told(&["--default-policy=deny", "--pod-gateways=of-pods"]).await;
    assert_eq!(forbidden, (node, neither, node));
}
