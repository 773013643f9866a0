//! `OutboundPolicies` reaches Linkerd's controller and comes back as it is: clients of both services,
//! over one connection, of Linkerd's published types.

use crate::serve::{AuthzConfig, ServeConfig};
use crate::testing::mesh::{Mesh, OWN, get};
use crate::testing::soon;
use futures_util::stream::BoxStream;
use linkerd2_proxy_api::outbound::outbound_policies_client::OutboundPoliciesClient;
use linkerd2_proxy_api::outbound::outbound_policies_server::{
    OutboundPolicies, OutboundPoliciesServer,
};
use linkerd2_proxy_api::outbound::{OutboundPolicy, TrafficSpec, traffic_spec};
use policy_tls::control::ControllerAddress;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};

/// A stand-in for Linkerd's controller that echoes and records requests.
struct Linkerd {
    seen: mpsc::Sender<(MetadataMap, TrafficSpec)>,
}

fn answer(spec: &TrafficSpec) -> OutboundPolicy {
    let mut metadata = linkerd2_proxy_api::meta::Metadata::default();
    metadata.kind =
        Some(linkerd2_proxy_api::meta::metadata::Kind::Default(spec.source_workload.clone()));
    OutboundPolicy { metadata: Some(metadata), protocol: None }
}

#[tonic::async_trait]
impl OutboundPolicies for Linkerd {
    async fn get(&self, request: Request<TrafficSpec>) -> Result<Response<OutboundPolicy>, Status> {
        let (metadata, _, spec) = request.into_parts();
        self.seen.send((metadata, spec.clone())).await.unwrap();
        if spec.source_workload == "unknown" {
            return Err(Status::not_found("no such workload: é %"));
        }
        let mut response = Response::new(answer(&spec));
        response.metadata_mut().insert("x-linkerd", "1".parse().unwrap());
        Ok(response)
    }

    type WatchStream = BoxStream<'static, Result<OutboundPolicy, Status>>;

    async fn watch(
        &self,
        request: Request<TrafficSpec>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (metadata, _, spec) = request.into_parts();
        self.seen.send((metadata, spec.clone())).await.unwrap();
        let first = tokio_stream::once(Ok(answer(&spec)));
        let rest: Self::WatchStream = match spec.source_workload.as_str() {
            "ends" => Box::pin(tokio_stream::once(Err(Status::aborted("over")))),
            _ => Box::pin(tokio_stream::pending()),
        };
        Ok(Response::new(Box::pin(first.chain(rest))))
    }
}

type Seen = ReceiverStream<(MetadataMap, TrafficSpec)>;

/// Linkerd's controller on loopback, and a server of ours in front of it.
async fn beside() -> (Mesh, Seen) {
    let (address, seen) = linkerd().await;
    (in_front_of(address, ServeConfig::default()).await, seen)
}

async fn linkerd() -> (SocketAddr, Seen) {
    let (sender, seen) = mpsc::channel(16);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = OutboundPoliciesServer::new(Linkerd { seen: sender });
    let server = tonic::transport::Server::builder();
    let server = server.max_concurrent_streams(200).add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, ReceiverStream::new(seen))
}

async fn in_front_of(address: SocketAddr, config: ServeConfig) -> Mesh {
    let to = ControllerAddress::loopback(address).unwrap();
    Mesh::made(AuthzConfig::default(), config, |server, tls| server.with_outbound(to, Some(tls)))
        .await
}

fn spec(workload: &str) -> TrafficSpec {
    let target = traffic_spec::Target::Authority("web.ns.svc:80".to_owned());
    TrafficSpec { source_workload: workload.to_owned(), target: Some(target) }
}

#[tokio::test]
async fn outbound_policy_is_linkerds_and_inbound_policy_is_ours_on_one_connection() {
    let (mesh, mut seen) = beside().await;
    let channel = mesh.channel(OWN).await;
    let mut outbound = OutboundPoliciesClient::new(channel.clone());
    let mut request = Request::new(spec("ns:web-0"));
    request.metadata_mut().insert("x-mine", "2".parse().unwrap());
    let response = soon(outbound.get(request)).await.unwrap();
    assert_eq!(response.metadata().get("x-linkerd").unwrap(), "1");
    assert_eq!(response.into_inner(), answer(&spec("ns:web-0")));
    let (metadata, asked) = soon(seen.next()).await.unwrap();
    assert_eq!(asked, spec("ns:web-0"));
    assert_eq!(metadata.get("x-mine").unwrap(), "2");
    soon(get(channel, "ns:web-0")).await.unwrap();
}

#[tokio::test]
async fn refusals_of_linkerds_controller_come_back_in_its_words() {
    let (mesh, _seen) = beside().await;
    let mut outbound = OutboundPoliciesClient::new(mesh.channel(OWN).await);
    let refusal = soon(outbound.get(spec("unknown"))).await.unwrap_err();
    assert_eq!((refusal.code(), refusal.message()), (Code::NotFound, "no such workload: é %"));
    let mut stream = soon(outbound.watch(spec("ends"))).await.unwrap().into_inner();
    assert_eq!(soon(stream.message()).await.unwrap(), Some(answer(&spec("ends"))));
    let end = soon(stream.message()).await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::Aborted, "over"));
}

#[tokio::test]
async fn a_forwarded_stream_counts_as_its_peers_and_ends_with_ok_when_its_connection_does() {
    let (address, _seen) = linkerd().await;
    let config = ServeConfig {
        max_streams_per_peer: 1,
        max_connection_age: Some(std::time::Duration::from_secs(3)),
        ..ServeConfig::default()
    };
    let mesh = in_front_of(address, config).await;
    let mut outbound = OutboundPoliciesClient::new(mesh.channel(OWN).await);
    let mut stream = soon(outbound.watch(spec("a"))).await.unwrap().into_inner();
    assert_eq!(soon(stream.message()).await.unwrap(), Some(answer(&spec("a"))));
    let refusal = soon(outbound.watch(spec("b"))).await.unwrap_err();
    assert_eq!(refusal.code(), Code::ResourceExhausted);
    assert_eq!(soon(stream.message()).await.unwrap(), None);
    // What it held is given back.
    let mut stream = soon(outbound.watch(spec("c"))).await.unwrap().into_inner();
    assert_eq!(soon(stream.message()).await.unwrap(), Some(answer(&spec("c"))));
}

/// A server accepts so many streams of a connection, and leaves further ones waiting.
#[tokio::test]
async fn more_watches_than_a_connection_may_have_streams_are_answered() {
    let (mesh, seen) = beside().await;
    tokio::spawn(async move {
        let mut seen = seen;
        while seen.next().await.is_some() {}
    });
    let mut outbound = OutboundPoliciesClient::new(mesh.channel(OWN).await);
    let mut watches = Vec::new();
    for n in 0..450 {
        let workload = spec(&format!("w{n}"));
        let mut stream = soon(outbound.watch(workload.clone())).await.unwrap().into_inner();
        assert_eq!(soon(stream.message()).await.unwrap(), Some(answer(&workload)), "{n}");
        watches.push(stream);
    }
}

#[tokio::test]
async fn without_linkerds_controller_the_answer_is_unavailable_and_inbound_policy_goes_on() {
    // Nobody listens where somebody did a moment ago.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mesh = in_front_of(gone, ServeConfig::default()).await;
    let channel = mesh.channel(OWN).await;
    let mut outbound = OutboundPoliciesClient::new(channel.clone());
    let refusal = soon(outbound.get(spec("a"))).await.unwrap_err();
    assert_eq!(refusal.code(), Code::Unavailable);
    assert!(refusal.message().contains(&gone.to_string()), "{refusal}");
    soon(get(channel, "ns:web-0")).await.unwrap();
}

#[tokio::test]
async fn a_client_without_credentials_asks_nobody() {
    let (mesh, _seen) = beside().await;
    let channel = mesh.connect(mesh.authority.stranger()).await.unwrap();
    let refusal = soon(OutboundPoliciesClient::new(channel).get(spec("a"))).await.unwrap_err();
    assert_eq!(refusal.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn where_nothing_is_forwarded_the_service_is_unimplemented() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let channel = mesh.channel(OWN).await;
    let refusal = soon(OutboundPoliciesClient::new(channel).get(spec("a"))).await.unwrap_err();
    assert_eq!(refusal.code(), Code::Unimplemented);
}
