//! The workload's own connections: each row of the table of destinations, on real sockets, with
//! answers that the test gives.

mod bounds;
mod clients;
mod database;
mod mesh;
mod reports;
mod streams;
mod traffic;

use crate::support::*;
use crate::tls::Mesh as _;
use policy_core::{
    Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason, ServiceDestination,
    ServiceName,
};
use policy_enforce::store::StoreConfig;
use policy_enforce::{PolicyStore, Telemetry};
use policy_proxy::outbound::settings::{OutboundMode, PlaintextAllowed, Unanswered};
use policy_proxy::outbound::{DestinationRef, Destinations};
use policy_proxy::sidecar::{Listener, Target};
use policy_proxy::{Sidecar, SidecarConfig};
use policy_testkit::{Authority, dns as san, free_port};
use policy_tls::identity::{Credentials, IdentityHandle, TlsIdentity};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The address of a Service, which nothing in this process listens on.
pub(crate) const SERVICE: &str = "10.96.0.1:80";

/// A sidecar with one outbound listener, and the use of its destination.
pub(crate) struct Outbound {
    pub(super) address: SocketAddr,
    pub(super) destinations: Destinations,
    pub(super) entry: Option<DestinationRef>,
    pub(super) store: PolicyStore,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) sidecar: Sidecar,
}

impl Outbound {
    pub(super) async fn to(dialled: &str) -> Self {
        Self::with(dialled, IdentityHandle::empty(), |_| {}).await
    }

    pub(crate) async fn with(
        dialled: &str,
        identity: IdentityHandle,
        change: impl FnOnce(&mut SidecarConfig),
    ) -> Self {
        let telemetry = Arc::new(Telemetry::new(1));
        let store = PolicyStore::new(StoreConfig::default(), telemetry.clone()).unwrap();
        let dialled: SocketAddr = dialled.parse().unwrap();
        let mut config = SidecarConfig::new("ns/client-0");
        config.listeners = vec![Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            target: Target::OutboundTo(dialled),
        }];
        config.outbound.networks.push("127.0.0.0/8".parse().unwrap());
        config.outbound.answer = Duration::from_millis(300);
        config.outbound.unknown = Duration::from_millis(300);
        change(&mut config);
        let looked_up = config.outbound.is_looked_up(dialled.ip());
        let destinations = config.destinations.clone();
        let sidecar = Sidecar::start(config, store.clone(), identity, None).unwrap();
        let address = sidecar.addresses()[0];
        // The answer to what nobody asks is dropped.
        let entry = looked_up.then(|| destinations.entry(dialled).ok()).flatten();
        Self { address, destinations, entry, store, telemetry, sidecar }
    }

    /// Answers about the destination.
    pub(crate) fn answer(&self, destination: Destination) {
        let entry = self.entry.as_ref().expect("the destination is looked up");
        self.destinations.answer(entry.address(), Arc::new(destination));
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends `bytes` and returns as many.
    pub(super) async fn echo(&self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        echo_on(&mut TcpStream::connect(self.address).await?, bytes).await
    }

    /// Asserts that a connection is reset before any byte, for this reason.
    pub(crate) async fn refuses(&self, reason: &str) {
        // The reset may come before this side has seen that it is connected.
        let read = async {
            let mut stream = TcpStream::connect(self.address).await?;
            stream.read(&mut [0]).await
        };
        let read = tokio::time::timeout(PATIENCE, read).await.unwrap();
        let kind = read.map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::ConnectionReset), "{reason}");
        let line = format!("reason=\"{reason}\"");
        self.counted("outbound_tcp_refused_total", &line, 1).await;
    }

    /// Waits until a series with this name and label has this value.
    pub(super) async fn counted(&self, name: &str, label: &str, value: u64) {
        let value = format!(" {value}");
        let begun = Instant::now();
        loop {
            let text = self.telemetry.encode(&self.store.status()).unwrap();
            let mut lines = text.lines().filter(|line| line.starts_with(name));
            if lines.any(|line| line.contains(label) && line.ends_with(&value)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{name} {label}{value} is not in {text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn echo_on(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(bytes).await?;
    let mut got = vec![0; bytes.len()];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut got)).await.unwrap()?;
    Ok(got)
}

/// A server that sends back what it reads.
pub(super) struct Echo {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Echo {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                    let _ = write.shutdown().await;
                });
            }
        });
        Self { address, connections }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// An address that refuses connections.
pub(super) fn closed() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()))
}

pub(super) fn plain(address: SocketAddr) -> Endpoint {
    Endpoint {
        address,
        owner: "deployment/web".into(),
        namespace: "shop".into(),
        mesh: EndpointMesh::Plaintext(PlaintextReason::Unmeshed),
    }
}

/// An endpoint that must prove to be `web`.
pub(super) fn meshed(address: SocketAddr, inbound_port: u16, opaque: bool) -> Endpoint {
    meshed_as("web", address, inbound_port, opaque)
}

pub(super) fn meshed_as(
    who: &str,
    address: SocketAddr,
    inbound_port: u16,
    opaque: bool,
) -> Endpoint {
    let mesh = MeshEndpoint {
        identity: name(who).into(),
        server_name: name("web").into(),
        inbound_port: NonZeroU16::new(inbound_port),
        opaque,
    };
    Endpoint { mesh: EndpointMesh::Meshed(mesh), ..plain(address) }
}

pub(super) fn service(endpoints: &[Endpoint]) -> Destination {
    let mut endpoints = endpoints.to_vec();
    endpoints.sort();
    Destination::Service(ServiceDestination {
        service: service_name(),
        port: NonZeroU16::new(80).unwrap(),
        affinity: None,
        endpoints: endpoints.into(),
    })
}

pub(super) fn service_name() -> ServiceName {
    ServiceName { namespace: "shop".into(), name: "web".into() }
}

/// The identity of the client, which trusts `authority`.
pub(super) fn client_of(authority: &Authority) -> TlsIdentity {
    let leaf = authority.leaf(&[san(&name("client"))]);
    let (server_name, roots) = (name("client").into(), vec![authority.root()]);
    TlsIdentity::new(Credentials { server_name, roots, chain: leaf.chain, key: leaf.key }).unwrap()
}

const WEB: &str = "dst_namespace=\"shop\",dst_service=\"web\",dst_port=\"80\"";

#[tokio::test]
async fn a_service_and_a_pod_outside_the_mesh_are_reached_in_plaintext() {
    let (echo, outbound) = (Echo::start().await, Outbound::to(SERVICE).await);
    outbound.answer(service(&[plain(echo.address)]));
    assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
    let label = format!(
        "{WEB},dst_owner=\"deployment/web\",tls=\"no_identity\",server_id=\"\",no_tls_reason=\"unmeshed\""
    );
    outbound.counted("outbound_tcp_closed_total", &label, 1).await;
    outbound.counted("outbound_tcp_sent_bytes_total", &label, 5).await;
    outbound.counted("outbound_tcp_received_bytes_total", &label, 5).await;
    outbound.answer(Destination::Workload(plain(echo.address)));
    assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
    let label =
        "dst_namespace=\"shop\",dst_service=\"\",dst_port=\"\",dst_owner=\"deployment/web\"";
    outbound.counted("outbound_tcp_opened_total", label, 1).await;
}

#[tokio::test]
async fn the_endpoints_of_a_service_share_its_connections() {
    let outbound = Outbound::to(SERVICE).await;
    let echoes = [Echo::start().await, Echo::start().await, Echo::start().await];
    outbound.answer(service(&echoes.each_ref().map(|echo| plain(echo.address))));
    let mut open = Vec::new();
    for _ in 0..30 {
        let mut stream = outbound.connect().await;
        echo_on(&mut stream, b"a").await.unwrap();
        open.push(stream);
    }
    let counts = echoes.each_ref().map(Echo::connections);
    assert!(counts.iter().all(|count| (7..=13).contains(count)), "{counts:?}");
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_passed_over_and_then_avoided() {
    let (echo, outbound) = (Echo::start().await, Outbound::to(SERVICE).await);
    outbound.answer(service(&[plain(closed()), plain(echo.address)]));
    for _ in 0..20 {
        assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
    }
    // Chosen once by half of the first connections, and left alone from then on.
    outbound.counted("outbound_tcp_attempts_failed_total", "reason=\"connect\"", 1).await;
}

#[tokio::test]
async fn a_service_without_endpoints_and_a_port_that_it_does_not_declare_are_refused() {
    let outbound = Outbound::to(SERVICE).await;
    outbound.answer(service(&[]));
    outbound.refuses("no_endpoint").await;
    outbound.answer(Destination::UndeclaredPort(service_name()));
    outbound.refuses("undeclared_port").await;
}

#[tokio::test]
async fn three_endpoints_are_tried_and_then_the_connection_is_reset() {
    let outbound = Outbound::to(SERVICE).await;
    let endpoints: Vec<_> = (0..5).map(|_| plain(closed())).collect();
    outbound.answer(service(&endpoints));
    outbound.refuses("connect").await;
    outbound.counted("outbound_tcp_attempts_failed_total", "reason=\"connect\"", 3).await;
    // The avoided ones are tried when there are no others.
    outbound.counted("outbound_tcp_refused_total", "dst_service=\"web\"", 1).await;
    assert!(outbound.echo(b"a").await.is_err());
    outbound.counted("outbound_tcp_attempts_failed_total", "reason=\"connect\"", 6).await;
}

#[tokio::test]
async fn what_is_outside_the_networks_goes_straight_on_without_a_lookup() {
    let echo = Echo::start().await;
    for mode in [OutboundMode::On, OutboundMode::MeshOnly] {
        let outbound =
            Outbound::with(&echo.address.to_string(), IdentityHandle::empty(), |config| {
                config.outbound.networks.clear();
                config.outbound.mode = mode;
            })
            .await;
        assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
        assert!(outbound.destinations.is_empty());
        let label = "dst_service=\"\",dst_port=\"\",dst_owner=\"\",tls=\"no_identity\",server_id=\"\",no_tls_reason=\"external\"";
        outbound.counted("outbound_tcp_closed_total", label, 1).await;
    }
}

#[tokio::test]
async fn a_node_is_reached_in_plaintext_unless_mesh_only_refuses() {
    let echo = Echo::start().await;
    let to = echo.address.to_string();
    let outbound = Outbound::to(&to).await;
    outbound.answer(Destination::Node);
    assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
    outbound.counted("outbound_tcp_closed_total", "no_tls_reason=\"node_port\"", 1).await;
    let outbound = mesh_only(&to, Vec::new()).await;
    outbound.answer(Destination::Node);
    outbound.refuses("node_port").await;
    assert_eq!(echo.connections(), 1);
}

async fn mesh_only(dialled: &str, allowed: Vec<PlaintextAllowed>) -> Outbound {
    Outbound::with(dialled, IdentityHandle::empty(), |config| {
        config.outbound.mode = OutboundMode::MeshOnly;
        config.outbound.plaintext_allowed = allowed;
    })
    .await
}

#[tokio::test]
async fn mesh_only_refuses_plaintext_but_to_what_is_allowed() {
    let echo = Echo::start().await;
    let outbound = mesh_only(SERVICE, Vec::new()).await;
    outbound.answer(service(&[plain(echo.address)]));
    outbound.refuses("mesh_only").await;
    let outbound = mesh_only(&echo.address.to_string(), Vec::new()).await;
    outbound.answer(Destination::Unknown);
    outbound.refuses("mesh_only").await;
    assert_eq!(echo.connections(), 0);
    let outbound = mesh_only(SERVICE, vec![PlaintextAllowed::Service(service_name())]).await;
    outbound.answer(service(&[plain(echo.address)]));
    assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
    let network = PlaintextAllowed::Network("127.0.0.0/8".parse().unwrap());
    let outbound = mesh_only(&echo.address.to_string(), vec![network]).await;
    outbound.answer(Destination::Unknown);
    assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
}

#[tokio::test]
async fn an_address_that_nobody_holds_delays_its_first_connection_alone() {
    let echo = Echo::start().await;
    let outbound = Outbound::to(&echo.address.to_string()).await;
    outbound.answer(Destination::Unknown);
    let begun = Instant::now();
    assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
    assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
    outbound.counted("outbound_tcp_closed_total", "no_tls_reason=\"unknown\"", 2).await;
}

#[tokio::test]
async fn an_answer_that_comes_while_a_connection_waits_is_followed() {
    let (echo, other) = (Echo::start().await, Echo::start().await);
    // A pod that the controller learns of after its first connection was made.
    let outbound = Outbound::with(&other.address.to_string(), IdentityHandle::empty(), |config| {
        config.outbound.answer = PATIENCE;
        config.outbound.unknown = PATIENCE;
    })
    .await;
    let mut stream = outbound.connect().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    outbound.answer(Destination::Unknown);
    tokio::time::sleep(Duration::from_millis(50)).await;
    outbound.answer(Destination::Workload(plain(echo.address)));
    assert_eq!(echo_on(&mut stream, b"hello").await.unwrap(), b"hello");
    assert_eq!((echo.connections(), other.connections()), (1, 0));
}

#[tokio::test]
async fn no_answer_is_no_answer() {
    let echo = Echo::start().await;
    let to = echo.address.to_string();
    let outbound = Outbound::to(&to).await;
    outbound.refuses("discovery_unavailable").await;
    let entry = outbound.entry.as_ref().unwrap();
    outbound.destinations.refuse(entry.address(), "too many");
    let begun = Instant::now();
    assert!(outbound.echo(b"hello").await.is_err());
    assert!(begun.elapsed() < Duration::from_millis(300), "a refusal is not waited for");
    outbound.counted("outbound_tcp_refused_total", "reason=\"discovery_unavailable\"", 2).await;
    assert_eq!(echo.connections(), 0);
    let outbound = Outbound::with(&to, IdentityHandle::empty(), |config| {
        config.outbound.unanswered = Unanswered::Plaintext;
    })
    .await;
    assert_eq!(outbound.echo(b"hello").await.unwrap(), b"hello");
    outbound.counted("outbound_tcp_closed_total", "no_tls_reason=\"unknown\"", 1).await;
}

#[tokio::test]
async fn the_listener_itself_is_no_destination() {
    let port = free_port().unwrap();
    let own = format!("127.0.0.1:{port}");
    let outbound = Outbound::with(&own, IdentityHandle::empty(), |config| {
        config.listeners[0].address = own.parse().unwrap();
    })
    .await;
    outbound.refuses("loop").await;
    // Nobody redirected this connection: it was made to the listener.
    let outbound = Outbound::with(SERVICE, IdentityHandle::empty(), |config| {
        config.listeners[0].target = Target::Outbound;
    })
    .await;
    outbound.refuses("loop").await;
}
