//! Connections: age, bounds, drain, health.

use crate::serve::{AuthzConfig, ServeConfig};
use crate::testing::mesh::{Mesh, OWN, SUFFIX};
use crate::testing::{Harness, policy, soon};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

fn spec() -> PortSpec {
    PortSpec { workload: "ns:web-0".into(), port: 80 }
}

/// Asks for the policy of the pod over this connection.
pub(super) async fn ask(stream: TcpStream) -> Result<(), Status> {
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        let stream = stream.take().ok_or_else(|| std::io::Error::other("one connection"));
        async move { stream }
    });
    let endpoint = Endpoint::from_static("http://policy.example");
    let channel = endpoint.connect_with_connector(connector).await;
    let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
    InboundServerPoliciesClient::new(channel).get_port(spec()).await.map(|_| ())
}

/// A harness with one pod and one policy.
async fn harness(config: ServeConfig) -> Harness {
    let harness = Harness::with(config).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    harness
}

async fn watch(channel: Channel) -> Streaming<Server> {
    let mut client = InboundServerPoliciesClient::new(channel);
    let mut stream = soon(client.watch_port(spec())).await.unwrap().into_inner();
    soon(stream.message()).await.unwrap().unwrap();
    stream
}

#[tokio::test]
async fn drain_ends_every_stream_with_ok_and_then_the_server() {
    let harness = harness(ServeConfig::default()).await;
    let mut stream = watch(harness.channel().await).await;
    let mut health = HealthClient::new(harness.channel().await);
    let request = HealthCheckRequest { service: String::new() };
    let mut watched = health.watch(request).await.unwrap().into_inner();
    soon(watched.message()).await.unwrap().unwrap();
    let began = Instant::now();
    harness.shutdown.cancel();
    assert!(soon(stream.message()).await.unwrap().is_none());
    assert!(soon(watched.message()).await.unwrap().is_none());
    soon(harness.served).await.unwrap();
    assert!(began.elapsed() < ServeConfig::default().drain_timeout / 2, "{:?}", began.elapsed());
    assert!(tokio::net::TcpStream::connect(harness.address).await.is_err());
}

#[tokio::test]
async fn a_connection_of_age_ends_its_streams_with_ok_and_a_new_one_is_served() {
    let config = ServeConfig {
        max_connection_age: Some(Duration::from_millis(300)),
        ..ServeConfig::default()
    };
    let harness = harness(config).await;
    let channel = harness.channel().await;
    let mut stream = watch(channel.clone()).await;
    let began = Instant::now();
    assert!(soon(stream.message()).await.unwrap().is_none());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    // The same channel connects anew.
    watch(channel).await;
}

#[tokio::test]
async fn connections_over_the_bound_of_a_peer_are_closed() {
    let config = ServeConfig { max_connections_per_peer: 1, ..ServeConfig::default() };
    let harness = harness(config).await;
    let channel = harness.channel().await;
    let _stream = watch(channel).await;
    let mut second = tokio::net::TcpStream::connect(harness.address).await.unwrap();
    let mut buffer = [0; 1];
    let read = soon(second.read(&mut buffer)).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[tokio::test]
async fn streams_over_the_bound_of_a_connection_wait() {
    let config = ServeConfig { max_concurrent_streams: 1, ..ServeConfig::default() };
    let harness = harness(config).await;
    let channel = harness.channel().await;
    let stream = watch(channel.clone()).await;
    let mut client = InboundServerPoliciesClient::new(channel);
    let second = tokio::time::timeout(Duration::from_millis(300), client.get_port(spec())).await;
    assert!(second.is_err(), "{second:?}");
    drop(stream);
    soon(client.get_port(spec())).await.unwrap();
}

/// A request whose message does not come waits for it.
#[tokio::test]
async fn requests_that_wait_are_bounded_for_each_client_and_another_one_is_served() {
    let config = ServeConfig { max_streams_per_peer: 3, ..ServeConfig::default() };
    let mesh = Mesh::made(AuthzConfig::default(), config, |server, _| server).await;
    let greedy = mesh.channel(&format!("greedy.ns.{SUFFIX}")).await;
    let waiting = (0..4).map(|_| {
        let mut client = tonic::client::Grpc::new(greedy.clone());
        tokio::spawn(async move {
            client.ready().await.unwrap();
            let path = "/io.linkerd.proxy.inbound.InboundServerPolicies/GetPort";
            let never = tonic::Request::new(futures_util::stream::pending::<PortSpec>());
            let codec = tonic_prost::ProstCodec::<PortSpec, Server>::default();
            client.streaming(never, PathAndQuery::from_static(path), codec).await.map(|_| ())
        })
    });
    let waiting: Vec<_> = waiting.collect();
    let finished = || waiting.iter().filter(|request| request.is_finished()).count();
    crate::testing::client::until(|| finished() == 1).await;
    let mut client = InboundServerPoliciesClient::new(greedy);
    let refused = soon(client.get_port(spec())).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let mut other = InboundServerPoliciesClient::new(mesh.channel(OWN).await);
    soon(other.get_port(spec())).await.unwrap();
    assert_eq!(finished(), 1, "the others wait");
}

#[tokio::test]
async fn a_request_over_the_size_bound_is_refused() {
    let config = ServeConfig { max_request_bytes: 64, ..ServeConfig::default() };
    let harness = harness(config).await;
    let mut client = InboundServerPoliciesClient::new(harness.channel().await);
    let long = PortSpec { workload: format!("ns:{}", "a".repeat(200)), port: 80 };
    let status = soon(client.get_port(long)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    soon(client.get_port(spec())).await.unwrap();
}

#[tokio::test]
async fn a_client_that_speaks_no_http2_is_let_go_and_harms_nobody() {
    let harness = harness(ServeConfig::default()).await;
    let mut stranger = tokio::net::TcpStream::connect(harness.address).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    _ = soon(stranger.read_to_end(&mut answer)).await;
    watch(harness.channel().await).await;
}

#[tokio::test]
async fn a_dead_connection_is_noticed_by_its_unanswered_ping() {
    let config = ServeConfig {
        keepalive_interval: Duration::from_millis(100),
        keepalive_timeout: Duration::from_millis(100),
        ..ServeConfig::default()
    };
    let harness = harness(config).await;
    let mut mute = tokio::net::TcpStream::connect(harness.address).await.unwrap();
    // The preface and empty settings, and never an answer to anything.
    mute.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut answer = Vec::new();
    // Closed, in one way or another; a connection that is not would run out of patience here.
    _ = soon(mute.read_to_end(&mut answer)).await;
    let ping = answer.windows(5).any(|frame| frame == [0, 0, 8, 6, 0]);
    assert!(ping, "it was asked first: {answer:?}");
}

#[tokio::test]
async fn health_follows_the_first_complete_list() {
    let harness = harness(ServeConfig::default()).await;
    harness.index.set_synced(false);
    let mut health = HealthClient::new(harness.channel().await);
    let native = "portcullis.policy.v1.PolicyDiscovery";
    let compatible = "io.linkerd.proxy.inbound.InboundServerPolicies";
    for service in ["", native, compatible] {
        let request = HealthCheckRequest { service: service.into() };
        let status = health.check(request).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::NotServing, "{service}");
    }
    let request = HealthCheckRequest { service: String::new() };
    let mut watched = health.watch(request.clone()).await.unwrap().into_inner();
    let next = soon(watched.message()).await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::NotServing);
    harness.index.set_synced(true);
    let next = soon(watched.message()).await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::Serving);
    let unknown = HealthCheckRequest { service: "other".into() };
    assert_eq!(health.check(unknown).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn an_unknown_method_is_unimplemented() {
    let harness = harness(ServeConfig::default()).await;
    let mut grpc = tonic::client::Grpc::new(harness.channel().await);
    for path in [
        "/portcullis.policy.v1.PolicyDiscovery/Other",
        "/io.linkerd.proxy.inbound.InboundServerPolicies/Other",
        "/other.Service/Method",
    ] {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<PortSpec, Server>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        let status = grpc.unary(tonic::Request::new(spec()), path, codec).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
    }
}
