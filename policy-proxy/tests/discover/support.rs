//! Fake servers, the client under test, and waits.

use policy_core::feature::Feature;
use policy_core::{DefaultPolicy, Denied, Facts, Revision, ServerPolicy};
use policy_enforce::store::{PortHandle, StoreConfig};
use policy_enforce::{PolicyStore, Telemetry};
use policy_proto::messages::policy_discovery_server::{PolicyDiscovery, PolicyDiscoveryServer};
use policy_proto::messages::watch_request::Kind as Say;
use policy_proto::messages::watch_response::Kind as Hear;
use policy_proto::messages::{self as m, WatchRequest, WatchResponse};
use policy_proto::native::{EncodedPort, encode_facts, encode_port, encode_revision};
use policy_proxy::discover;
use policy_proxy::discover::DiscoverConfig;
pub(crate) use policy_testkit::{soon, wait_until};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::IdentityHandle;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Request, Response, Status, Streaming};

/// A timeout that is longer than any step on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(10);

/// A server of the native service that hands every stream to the test.
pub(crate) struct Fake {
    opened: mpsc::UnboundedSender<Stream>,
    /// Status that is returned instead of opening a stream.
    refusal: Option<Status>,
}

/// A stream, as its server sees it.
pub(crate) struct Stream {
    pub(crate) said: Streaming<WatchRequest>,
    pub(crate) say: mpsc::Sender<Result<WatchResponse, Status>>,
}

impl Fake {
    pub(crate) fn new(opened: mpsc::UnboundedSender<Stream>) -> Self {
        Self { opened, refusal: None }
    }
}

#[tonic::async_trait]
impl PolicyDiscovery for Fake {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (say, stream) = mpsc::channel(64);
        let _ = self.opened.send(Stream { said: request.into_inner(), say });
        match &self.refusal {
            Some(status) => Err(status.clone()),
            None => Ok(Response::new(ReceiverStream::new(stream))),
        }
    }
}

/// A fake server and the streams that were opened.
pub(crate) struct Controller {
    pub(crate) address: SocketAddr,
    pub(crate) opened: mpsc::UnboundedReceiver<Stream>,
}

impl Controller {
    pub(crate) async fn start() -> Self {
        Self::refusing(None).await
    }

    pub(crate) async fn refusing(refusal: Option<Status>) -> Self {
        let (opened, streams) = mpsc::unbounded_channel();
        let service = PolicyDiscoveryServer::new(Fake { opened, refusal });
        let address = serve(tonic::transport::Server::builder().add_service(service)).await;
        Self { address, opened: streams }
    }

    pub(crate) async fn stream(&mut self) -> Stream {
        soon(self.opened.recv()).await.unwrap()
    }
}

/// Serves on a free port of loopback until the test's runtime ends.
pub(crate) async fn serve(router: tonic::transport::server::Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

impl Stream {
    /// The next message of the client.
    pub(crate) async fn next(&mut self) -> Say {
        soon(self.said.message()).await.unwrap().unwrap().kind.unwrap()
    }

    pub(crate) async fn hello(&mut self) -> m::Hello {
        let said = self.next().await;
        let Say::Hello(hello) = said else { panic!("not Hello: {said:?}") };
        hello
    }

    pub(crate) async fn ack(&mut self) -> m::Ack {
        let said = self.next().await;
        let Say::Ack(ack) = said else { panic!("not Ack: {said:?}") };
        ack
    }

    pub(crate) async fn nack(&mut self) -> m::Nack {
        let said = self.next().await;
        let Say::Nack(nack) = said else { panic!("not Nack: {said:?}") };
        nack
    }

    /// True if the client sends nothing for a while.
    pub(crate) async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(150), self.said.message()).await.is_err()
    }

    pub(crate) async fn send(&self, kind: Hear) {
        self.say.send(Ok(WatchResponse { kind: Some(kind) })).await.unwrap();
    }

    pub(crate) async fn workload(&self, ports: &[u32], undeclared: m::Undeclared) {
        let facts = Facts { pod_addresses: vec!["10.1.2.3".parse().unwrap()], ..Facts::default() };
        self.send(Hear::Workload(m::Workload {
            name: "pod ns/web-0".to_owned(),
            facts: Some(encode_facts(&facts)),
            declared_ports: ports.to_vec(),
            undeclared: undeclared.into(),
            revision: Some(encode_revision(&revision(7))),
            takes_refusals: false,
        }))
        .await;
    }

    /// Sends the workload with port 80 and its whole policy, and waits until it is acknowledged.
    pub(crate) async fn begin(&mut self, policy: &ServerPolicy) -> EncodedPort {
        self.workload(&[80], m::Undeclared::Default).await;
        let encoded = encode(policy);
        self.send(Hear::Port(encoded.full(port(80), &revision(1)))).await;
        assert_eq!(self.ack().await.revision.unwrap().content, encoded.content());
        encoded
    }
}

/// The client under test, which ends on drop.
pub(crate) struct Client {
    pub(crate) store: PolicyStore,
    _shutdown: DropGuard,
}

impl Client {
    pub(crate) fn of(address: SocketAddr) -> Self {
        Self::start(config(address), StoreConfig::default(), IdentityHandle::empty())
    }

    pub(crate) fn start(
        config: DiscoverConfig,
        store: StoreConfig,
        identity: IdentityHandle,
    ) -> Self {
        let store = PolicyStore::new(store, Arc::new(Telemetry::new(1))).unwrap();
        let shutdown = CancellationToken::new();
        tokio::spawn(discover::run(config, store.clone(), identity, shutdown.clone()));
        Self { store, _shutdown: shutdown.drop_guard() }
    }

    pub(crate) fn port(&self, number: u16) -> PortHandle {
        self.store.port(port(number))
    }

    pub(crate) fn policy(&self, number: u16) -> Result<Arc<ServerPolicy>, Denied> {
        let handle = self.port(number);
        let live = handle.live();
        live.in_force().map(|policy| Arc::clone(policy.evaluator.policy()))
    }

    pub(crate) fn state(&self, number: u16) -> &'static str {
        let status = self.store.status();
        status
            .iter()
            .find(|status| status.port == port(number))
            .map_or("absent", |status| status.state)
    }

    /// Waits until the port is in this state.
    pub(crate) async fn becomes(&self, number: u16, state: &str) {
        wait_until(&format!("port {number} is {state}"), async || self.state(number) == state)
            .await;
    }
}

pub(crate) fn config(address: SocketAddr) -> DiscoverConfig {
    let controller = ControllerAddress::loopback(address).unwrap();
    let mut config = DiscoverConfig::new(controller, "ns:web-0");
    config.backoff = (Duration::from_millis(5), Duration::from_millis(20));
    config
}

pub(crate) fn encode(policy: &ServerPolicy) -> EncodedPort {
    encode_port(policy, &Feature::ALL.into_iter().collect())
}

pub(crate) fn policy(default: DefaultPolicy) -> ServerPolicy {
    policy_core::testing::default_policy(default)
}

pub(crate) fn revision(version: u64) -> Revision {
    let versions = [("policy.linkerd.io/Server".into(), version)].into();
    Revision { epoch: "test".into(), content: 0, versions }
}

pub(crate) fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}
