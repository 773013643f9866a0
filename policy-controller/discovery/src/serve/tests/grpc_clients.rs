//! The documented bounds of a connection, held at once by the gRPC libraries that clients use.

use crate::serve::ServeConfig;
use crate::testing::{Harness, policy, soon};
use linkerd2_proxy_api::inbound::PortSpec;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use policy_proto::messages::destination_request::Kind as Ask;
use policy_proto::messages::watch_request::Kind as Say;
use policy_proto::messages::{Ack, Begin, DestinationRequest, Hello, Revision, WatchRequest};
use policy_proto::native::destination::encode_lookup;
use prost::Message;
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WORKLOAD: &str = "ns:web-0";

/// The streams that a client may have, on one connection; and the lookups of one stream.
const STREAMS: usize = 1024;
const LOOKUPS: u32 = 4096;

/// Messages of a stream that its reader finds all at once.
const ACKS: usize = 2000;

async fn harness() -> Harness {
    let config = ServeConfig::default();
    let bounds = (config.max_streams_per_peer, config.max_concurrent_streams);
    assert_eq!(bounds.0.min(bounds.1) as usize, STREAMS);
    assert_eq!(config.max_lookups_per_stream, LOOKUPS as usize);
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    harness
}

fn hex(message: &impl Message) -> String {
    message.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Watches, all of them at once, and acknowledgements on one.
fn watches() -> Value {
    let said = |kind| hex(&WatchRequest { kind: Some(kind) });
    let revision = Some(Revision { content: 1, ..Revision::default() });
    json!({
        "method": "/portcullis.policy.v1.PolicyDiscovery/Watch",
        "streams": STREAMS,
        "first": [said(Say::Hello(Hello { workload: WORKLOAD.into(), ..Hello::default() }))],
        "more": vec![said(Say::Ack(Ack { port: 80, revision })); ACKS],
        // The workload and its port.
        "answers": 2,
    })
}

/// The lookups of one stream, all of them at once.
fn lookups() -> Value {
    let said = |kind| DestinationRequest { kind: Some(kind) };
    let lookup = |id: u32| {
        let address = std::net::Ipv4Addr::from_bits(0x0a01_0000 + id);
        hex(&said(Ask::Lookup(encode_lookup(id, SocketAddr::new(address.into(), 80)))))
    };
    let begin = Begin { workload: WORKLOAD.into(), client: "test".into() };
    json!({
        "method": "/portcullis.policy.v1.DestinationDiscovery/Watch",
        "streams": 1,
        // Only a lookup is answered.
        "first": [hex(&said(Ask::Begin(begin))), lookup(1)],
        "more": (2..=LOOKUPS).map(lookup).collect::<Vec<_>>(),
        "answers": LOOKUPS,
    })
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Runs a client by a plan against a server and returns what it reports.
async fn report(mut client: Command, plan: Value) -> Value {
    let harness = harness().await;
    client.arg(harness.address.to_string()).stdin(Stdio::piped());
    client.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let run = move || {
        let mut running = client.spawn().unwrap();
        running.stdin.take().unwrap().write_all(plan.to_string().as_bytes()).unwrap();
        running.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Both plans, to a client of its own each.
async fn holds_its_bounds(client: impl Fn() -> Command) {
    let of = |streams: usize, answers: u32| json!({"ready": streams, "ended": 0, "error": "", "answers": answers});
    assert_eq!(report(client(), watches()).await, of(STREAMS, 2));
    assert_eq!(report(client(), lookups()).await, of(1, LOOKUPS));
}

/// The connection ended with ENHANCE_YOUR_CALM, and with it all of its streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_grpcio_has_as_many_streams_and_messages_as_are_documented() {
    let client = || {
        let mut client = Command::new(policy_testkit::python());
        client.arg(clients().join("streams.py"));
        client
    };
    holds_its_bounds(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_grpc_go_has_as_many_streams_and_messages_as_are_documented() {
    let client = || {
        let mut client = Command::new("go");
        client.current_dir(clients().join("go")).args(["run", "."]);
        client
    };
    holds_its_bounds(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_grpc_js_has_as_many_streams_and_messages_as_are_documented() {
    let client = || {
        let mut client = Command::new("node");
        client.arg(clients().join("streams.js")).env("NODE_PATH", policy_testkit::node_modules());
        client
    };
    holds_its_bounds(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_tonic_has_as_many_streams_as_are_documented() {
    let harness = harness().await;
    let client = InboundServerPoliciesClient::new(harness.channel().await);
    let opening = (0..STREAMS).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let spec = PortSpec { workload: WORKLOAD.into(), port: 80 };
            let mut stream = client.watch_port(spec).await?.into_inner();
            let first = stream.message().await?;
            Ok::<_, tonic::Status>(first.map(|_| stream))
        })
    });
    let mut open = Vec::new();
    for opened in opening.collect::<Vec<_>>() {
        open.push(soon(opened).await.unwrap().unwrap().expect("a policy"));
    }
    assert_eq!(open.len(), STREAMS);
}
