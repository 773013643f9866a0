//! Policy is accepted from the configured server identity alone.

use crate::support::*;
use policy_core::DefaultPolicy;
use policy_enforce::store::StoreConfig;
use policy_proto::messages::policy_discovery_server::PolicyDiscoveryServer;
use policy_proxy::discover::DiscoverConfig;
use policy_testkit::Authority;
use policy_tls::control::ControllerAddress;
use policy_tls::identity::{Credentials, IdentityHandle, TlsIdentity};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// The TLS identity of a server of this name.
fn identity(authority: &Authority, name: &str) -> TlsIdentity {
    let leaf = authority.certify(name);
    let (server_name, roots) = (name.into(), vec![authority.root()]);
    TlsIdentity::new(Credentials { server_name, roots, chain: leaf.chain, key: leaf.key }).unwrap()
}

/// A TLS connection for a gRPC server.
struct Tls(TlsStream<TcpStream>);

impl Connected for Tls {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Tls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tls {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Starts a controller with this identity, which reports if each client authenticated itself.
async fn controller(identity: &TlsIdentity) -> (Controller, mpsc::UnboundedReceiver<bool>) {
    let mut config = rustls::ServerConfig::clone(identity.server());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (opened, streams) = mpsc::unbounded_channel();
    let (proved, clients) = mpsc::unbounded_channel();
    let (accepted, incoming) = mpsc::channel(8);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                let certificates = stream.get_ref().1.peer_certificates();
                let _ = proved.send(certificates.is_some_and(|chain| !chain.is_empty()));
                let _ = accepted.send(Ok::<_, std::io::Error>(Tls(stream))).await;
            }
        }
    });
    let service = PolicyDiscoveryServer::new(Fake::new(opened));
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(ReceiverStream::new(incoming)));
    (Controller { address, opened: streams }, clients)
}

/// A client that expects the identity `expected`. The address is loopback, where plaintext would be
/// allowed, so that it uses another name.
fn client(controller: &Controller, expected: &str, identity: IdentityHandle) -> Client {
    let address = format!("localhost:{}", controller.address.port());
    let address = ControllerAddress::parse(&address, Some(expected)).unwrap();
    let mut config = DiscoverConfig::new(address, "ns:web-0");
    config.backoff = (Duration::from_millis(5), Duration::from_millis(20));
    Client::start(config, StoreConfig::default(), identity)
}

#[tokio::test]
async fn the_configured_server_is_believed_and_learns_who_asks() {
    let authority = Authority::new();
    let (mut controller, mut clients) = controller(&identity(&authority, "policy.example")).await;
    let own = IdentityHandle::new(identity(&authority, "web.example"));
    let client = client(&controller, "policy.example", own);
    let mut stream = controller.stream().await;
    stream.hello().await;
    stream.begin(&policy(DefaultPolicy::AllUnauthenticated)).await;
    assert_eq!(client.store.unready(), None);
    assert!(soon(clients.recv()).await.unwrap(), "mutual TLS");
}

#[tokio::test]
async fn another_identity_of_the_same_mesh_is_not_believed() {
    let authority = Authority::new();
    let (mut controller, _clients) = controller(&identity(&authority, "web.example")).await;
    let own = IdentityHandle::new(identity(&authority, "web.example"));
    let client = client(&controller, "policy.example", own);
    refused(&client, &mut controller).await;
}

#[tokio::test]
async fn the_right_name_from_another_authority_is_not_believed() {
    let same_name = || Authority::named("the name of both");
    for (ours, theirs) in [(Authority::new(), Authority::new()), (same_name(), same_name())] {
        let (mut controller, _clients) = controller(&identity(&theirs, "policy.example")).await;
        let own = IdentityHandle::new(identity(&ours, "web.example"));
        let client = client(&controller, "policy.example", own);
        refused(&client, &mut controller).await;
    }
}

#[tokio::test]
async fn nothing_is_asked_before_there_is_an_identity_of_our_own() {
    let authority = Authority::new();
    let (mut controller, _clients) = controller(&identity(&authority, "policy.example")).await;
    let own = IdentityHandle::empty();
    let client = client(&controller, "policy.example", own.clone());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let discovery = &client.store.telemetry().discovery;
    assert_eq!(discovery.attempts.get(), 0, "nor is there an attempt to warn of");
    own.replace(identity(&authority, "web.example"));
    controller.stream().await.hello().await;
    assert_eq!((discovery.attempts.get(), discovery.ended.get()), (1, 0));
}

/// Waits until the client has tried several times without opening a stream.
async fn refused(client: &Client, controller: &mut Controller) {
    let attempts = || client.store.telemetry().discovery.attempts.get();
    wait_until("three attempts", async || attempts() >= 3).await;
    assert!(controller.opened.try_recv().is_err(), "no stream was opened");
    assert!(client.store.unready().unwrap().workload);
}
