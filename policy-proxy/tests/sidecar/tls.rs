//! Mesh TLS: authenticated clients and their permissions.

use crate::support::*;
use http::StatusCode;
use policy_core::Identity;
use policy_testkit::{Authority, Leaf, dns as san, uri};
use policy_tls::identity;
use policy_tls::identity::{Credentials, IdentityHandle, TlsIdentity};
use rcgen::{ExtendedKeyUsagePurpose, SanType};
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Certificates for the workload under test and its clients from an authority.
pub(crate) trait Mesh {
    /// The identity of the workload under test.
    fn workload(&self) -> TlsIdentity;

    /// The same, with these roots.
    fn workload_with(&self, roots: Vec<CertificateDer<'static>>) -> TlsIdentity;

    /// A client that presents `leaf`.
    fn client(&self, leaf: Leaf) -> TlsConnector;

    /// The same, with these roots.
    fn client_trusting(&self, leaf: Leaf, roots: Vec<CertificateDer<'static>>) -> TlsConnector;

    /// A client without a certificate.
    fn anonymous(&self) -> TlsConnector;
}

impl Mesh for Authority {
    fn workload(&self) -> TlsIdentity {
        self.workload_with(vec![self.root()])
    }

    fn workload_with(&self, roots: Vec<CertificateDer<'static>>) -> TlsIdentity {
        let leaf = self.leaf(&[san(&name("web"))]);
        let server_name = name("web").into();
        TlsIdentity::new(Credentials { server_name, roots, chain: leaf.chain, key: leaf.key })
            .unwrap()
    }

    fn client(&self, leaf: Leaf) -> TlsConnector {
        self.client_trusting(leaf, vec![self.root()])
    }

    fn client_trusting(&self, leaf: Leaf, roots: Vec<CertificateDer<'static>>) -> TlsConnector {
        let server_name = "client.example".into();
        let own = Credentials { server_name, roots, chain: leaf.chain, key: leaf.key };
        let config = TlsIdentity::new(own).unwrap().client(dns("web")).unwrap();
        TlsConnector::from(Arc::new(config))
    }

    fn anonymous(&self) -> TlsConnector {
        let config = identity::anonymous_client(vec![self.root()], dns("web")).unwrap();
        TlsConnector::from(Arc::new(config))
    }
}

pub(crate) fn web() -> ServerName<'static> {
    ServerName::try_from(name("web")).unwrap()
}

/// A ClientHello for `name`.
pub(crate) fn hello_for(name: &str) -> Vec<u8> {
    let config = identity::anonymous_client(vec![Authority::new().root()], dns("web")).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

async fn setup(authority: &Authority, policy: policy_core::ServerPolicy) -> (App, Setup) {
    let app = App::start().await;
    let identity = IdentityHandle::new(authority.workload());
    let setup = Setup::with(Some(policy), app.address, identity, |_| {}).await;
    (app, setup)
}

pub(crate) async fn connect(
    setup: &Setup,
    connector: &TlsConnector,
) -> std::io::Result<TlsStream<TcpStream>> {
    connector.connect(web(), setup.connect().await).await
}

/// The status of a request by a client with this certificate; `None` if the handshake fails.
async fn status(setup: &Setup, connector: &TlsConnector) -> Option<StatusCode> {
    let mut stream = connect(setup, connector).await.ok()?;
    // With TLS 1.3 a client learns only after its handshake that its certificate was rejected.
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    StatusCode::from_bytes(answer.get(9..12)?).ok()
}

#[tokio::test]
async fn the_identity_in_the_certificate_decides() {
    let authority = Authority::new();
    let policy = server(detect(), identities(&[&name("bot"), "spiffe://td/ns/x/sa/y"]));
    let (_app, setup) = setup(&authority, policy).await;
    let ok = Some(StatusCode::OK);
    let forbidden = Some(StatusCode::FORBIDDEN);
    let status_of =
        async |names: &[SanType]| status(&setup, &authority.client(authority.leaf(names))).await;
    assert_eq!(status_of(&[san(&name("bot"))]).await, ok);
    assert_eq!(status_of(&[uri("spiffe://td/ns/x/sa/y")]).await, ok);
    assert_eq!(status_of(&[uri("spiffe://td/ns/x/sa/y"), san("other.example")]).await, ok);
    assert_eq!(status_of(&[san(&name("other"))]).await, forbidden);
    assert_eq!(
        status_of(&[san(&name("bot")), san("second.example")]).await,
        forbidden,
        "two names"
    );
    assert_eq!(status_of(&[]).await, forbidden, "no name");
    assert_eq!(status(&setup, &authority.anonymous()).await, forbidden, "no certificate");
    setup.logged(&format!("allow - {} GET / 200", name("bot"))).await;
    setup.logged("deny unauthorized - GET / 403").await;
}

#[tokio::test]
async fn certificates_that_do_not_verify_fail_the_handshake_and_are_counted() {
    let authority = Authority::named("the name of both");
    let (app, setup) = setup(&authority, server(detect(), everybody())).await;
    let bot = [san(&name("bot"))];
    let expired = authority.leaf_with(&bot, |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let server_only = authority.leaf_with(&bot, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let foreign = Authority::new().leaf(&bot);
    let forged = Authority::named("the name of both").leaf(&bot);
    for leaf in [expired, server_only, foreign, forged] {
        assert_eq!(status(&setup, &authority.client(leaf)).await, None);
    }
    assert_eq!(app.requests(), 0);
    for (error, count) in [("tls_certificate_expired", 1), ("tls_certificate_untrusted", 3)] {
        setup.counted(&format!("inbound_tcp_errors_total{{error=\"{error}\"}}"), count).await;
    }
}

#[tokio::test]
async fn tls_1_2_is_refused() {
    let authority = Authority::new();
    let (_app, setup) = setup(&authority, server(detect(), everybody())).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.root()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(identity::provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let error = connect(&setup, &connector).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("version"), "{error}");
}

#[tokio::test]
async fn the_application_is_told_the_verified_identity_and_nothing_else() {
    let authority = Authority::new();
    let (_app, setup) = setup(&authority, informing(server(detect(), everybody()))).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let mut client = Client::new(connect(&setup, &connector).await.unwrap()).await;
    let got = client.ask("/", &[("l5d-client-id", "root"), ("L5D_Client-ID", "root")]).await;
    let line = format!("l5d-client-id: {}\n", name("bot"));
    assert!(got.body.contains(&line) && !got.body.contains("root"), "{}", got.body);
}

#[tokio::test]
async fn a_meshed_peer_is_told_why_and_a_stranger_is_not() {
    let authority = Authority::new();
    let (_app, setup) = setup(&authority, server(detect(), nobody())).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let mut client = Client::new(connect(&setup, &connector).await.unwrap()).await;
    let got = client.get("/").await;
    assert_eq!(got.headers["l5d-proxy-error"], "unauthorized");
    let mut client = Client::new(connect(&setup, &authority.anonymous()).await.unwrap()).await;
    assert!(!client.get("/").await.headers.contains_key("l5d-proxy-error"));
}

#[tokio::test]
async fn a_hello_one_byte_at_a_time_is_still_ours() {
    let authority = Authority::new();
    let (_app, setup) = setup(&authority, server(detect(), everybody())).await;
    let (near, mut far) = tokio::io::duplex(64 * 1024);
    let stream = setup.connect().await;
    stream.set_nodelay(true).unwrap();
    let (mut read, mut write) = stream.into_split();
    tokio::spawn(async move {
        let (mut from, mut to) = tokio::io::split(&mut far);
        let up = async {
            let mut byte = [0; 1];
            while from.read_exact(&mut byte).await.is_ok() {
                write.write_all(&byte).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let down = async { tokio::io::copy(&mut read, &mut to).await };
        let _ = tokio::join!(up, down);
    });
    let tls = authority.anonymous().connect(web(), near).await.unwrap();
    let mut client = Client::new(tls).await;
    assert_eq!(client.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_identity_can_be_replaced_while_serving() {
    let (old, new) = (Authority::new(), Authority::new());
    let app = App::start().await;
    let identity = IdentityHandle::new(old.workload());
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, identity.clone(), |_| {}).await;
    let mut open = Client::new(connect(&setup, &old.anonymous()).await.unwrap()).await;
    assert_eq!(open.get("/").await.status, StatusCode::OK);
    identity.replace(new.workload());
    assert_eq!(status(&setup, &old.anonymous()).await, None);
    assert_eq!(status(&setup, &new.anonymous()).await, Some(StatusCode::OK));
    assert_eq!(open.get("/").await.status, StatusCode::OK, "open connections go on");
}

#[tokio::test]
async fn before_the_first_certificate_plaintext_is_decided_and_tls_is_foreign() {
    let authority = Authority::new();
    let app = App::start().await;
    let identity = IdentityHandle::empty();
    let policy = Some(server(detect(), identities(&["*"])));
    let setup = Setup::with(policy, app.address, identity.clone(), |_| {}).await;
    let mut plain = Client::new(setup.connect().await).await;
    assert_eq!(plain.get("/").await.status, StatusCode::FORBIDDEN, "it proves nothing");
    let bot = authority.client(authority.leaf(&[san(&name("bot"))]));
    assert_eq!(status(&setup, &bot).await, None, "nor does TLS that nobody terminates");
    assert_eq!(app.connections(), 0);

    setup.apply(server(detect(), everybody())).await;
    let mut plain = Client::new(setup.connect().await).await;
    assert_eq!(plain.get("/").await.status, StatusCode::OK);
    // The application terminates TLS itself, if anybody does.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = listener.local_addr().unwrap();
    let policy = Some(server(detect(), everybody()));
    let behind = Setup::with(policy, upstream, identity.clone(), |_| {}).await;
    let hello = hello_for(&name("web"));
    let mut client = behind.connect().await;
    client.write_all(&hello).await.unwrap();
    let (mut application, _) = listener.accept().await.unwrap();
    let mut read = vec![0; hello.len()];
    application.read_exact(&mut read).await.unwrap();
    assert_eq!(read, hello, "unread and unchanged");
    behind.logged("allow - - connection").await;

    identity.replace(authority.workload());
    assert_eq!(status(&setup, &bot).await, Some(StatusCode::OK));
    setup.logged(&format!("allow - {} GET / 200", name("bot"))).await;
}

#[tokio::test]
async fn a_client_accepts_only_the_server_it_expects() {
    let authority = Authority::new();
    let (_app, setup) = setup(&authority, server(detect(), everybody())).await;
    let expected = Identity::Spiffe("spiffe://td/somebody/else".into());
    let config = identity::anonymous_client(vec![authority.root()], expected).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    assert!(connect(&setup, &connector).await.is_err());
}

#[tokio::test]
async fn a_tls_server_wants_a_client_hello_inside_the_mesh_too() {
    let authority = Authority::new();
    let (app, setup) = setup(&authority, server(policy_core::Protocol::Tls, everybody())).await;
    let mut stream = connect(&setup, &authority.anonymous()).await.unwrap();
    stream.write_all(b"not a ClientHello").await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(2), read).await.unwrap();
    assert_eq!((answer.len(), app.connections()), (0, 0));
    setup.logged("deny tls_required - connection").await;
}

#[tokio::test]
async fn a_meshed_peer_may_carry_http_1_in_http_2() {
    let authority = Authority::new();
    let (app, setup) = setup(&authority, server(policy_core::Protocol::Http1, everybody())).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let io = hyper_util::rt::TokioIo::new(connect(&setup, &connector).await.unwrap());
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let ask = |n: usize| {
        let mut sender = sender.clone();
        let mut carried = request(&format!("http://web.example/{n}?x"), &[]);
        carried.headers_mut().remove("host");
        let version = http::HeaderValue::from_static("HTTP/1.1");
        carried.headers_mut().insert("l5d-orig-proto", version);
        async move { got(sender.send_request(carried).await.unwrap()).await }
    };
    let all = futures_util::future::join_all((0..40).map(ask));
    for (n, got) in all.await.into_iter().enumerate() {
        assert_eq!(got.body, format!("GET /{n}?x\nhost: web.example\n"));
        assert_eq!(got.headers["l5d-orig-proto"], "HTTP/1.1");
    }
    let connections = app.connections();
    assert!(connections <= 40, "{connections} connections");
    for n in 0..20 {
        ask(n).await;
    }
    assert_eq!(app.connections(), connections, "those that are kept are used again");
}
