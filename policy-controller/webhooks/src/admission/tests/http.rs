//! The port as an API server sees it: TLS, HTTP/1.1 and HTTP/2, limits, graceful shutdown.

use super::{object, review, value};
use crate::admission::{Admission, AdmissionSettings, CertificateFiles, CertificateSource};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_crds::Kind;
use policy_tls::identity::provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) struct Webhook {
    pub(super) address: SocketAddr,
    pub(super) stop: DropGuard,
    pub(super) served: tokio::task::JoinHandle<()>,
    pub(super) folder: tempfile::TempDir,
}

/// Writes a new certificate and key and returns the roots that verify it.
pub(super) fn write_pair(folder: &Path) -> RootCertStore {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    roots
}

pub(super) async fn webhook() -> (Webhook, RootCertStore) {
    webhook_after(|_, roots| roots).await
}

/// Starts a webhook; `change` runs between reading its files and its start.
pub(super) async fn webhook_after(
    change: impl FnOnce(&Path, RootCertStore) -> RootCertStore,
) -> (Webhook, RootCertStore) {
    let folder = tempfile::tempdir().unwrap();
    let roots = write_pair(folder.path());
    let settings = AdmissionSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate: CertificateSource::Files(CertificateFiles {
            certificates: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
        }),
        linkerd_compatible: false,
    };
    let admission = Admission::new(settings, None, None).await.unwrap();
    let roots = change(folder.path(), roots);
    let address = admission.address();
    let stop = CancellationToken::new();
    let served = tokio::spawn(admission.run(stop.clone()));
    (Webhook { address, stop: stop.drop_guard(), served, folder }, roots)
}

pub(super) async fn connect(
    address: SocketAddr,
    roots: &RootCertStore,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_from([127, 0, 0, 1], address, roots, protocol).await
}

/// A connection of a client at another address of loopback.
pub(super) async fn connect_from(
    source: [u8; 4],
    address: SocketAddr,
    roots: &RootCertStore,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((source, 0)))?;
    let stream = socket.connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

pub(super) async fn http1(address: SocketAddr, roots: &RootCertStore) -> Sender {
    http1_over(connect(address, roots, b"http/1.1").await.unwrap()).await
}

pub(super) async fn http1_over(stream: TlsStream<TcpStream>) -> Sender {
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    request.body(Full::new(body.into())).unwrap()
}

pub(super) fn sound() -> Request<Full<Bytes>> {
    let server = object(Kind::Server, "{podSelector: {}, port: 80}");
    let review = review("CREATE", &value(&server), &Value::Null);
    request(Method::POST, "/", review.to_string())
}

pub(super) async fn allowed(response: Response<Incoming>) -> bool {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    answer["response"]["allowed"].as_bool().unwrap()
}

#[tokio::test]
async fn both_versions_of_http_are_spoken() {
    let (webhook, roots) = webhook().await;
    let mut sender = http1(webhook.address, &roots).await;
    for _ in 0..3 {
        assert!(allowed(sender.send_request(sound()).await.unwrap()).await);
    }
    let stream = connect(webhook.address, &roots, b"h2").await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut absolute = sound();
    *absolute.uri_mut() = "https://localhost/".parse().unwrap();
    assert!(allowed(sender.send_request(absolute).await.unwrap()).await);
}

#[tokio::test]
async fn only_reviews_posted_to_the_root_are_answered() {
    let (webhook, roots) = webhook().await;
    let mut sender = http1(webhook.address, &roots).await;
    let posts = [
        (Method::GET, "/", "", StatusCode::NOT_FOUND),
        (Method::POST, "/validate", "{}", StatusCode::NOT_FOUND),
        (Method::POST, "/", "no json", StatusCode::BAD_REQUEST),
        (Method::POST, "/", "{}", StatusCode::OK),
    ];
    for (method, path, body, status) in posts {
        let response = sender.send_request(request(method, path, body)).await.unwrap();
        assert_eq!(response.status(), status, "{path} {body}");
        response.into_body().collect().await.unwrap();
    }
}

#[tokio::test]
async fn a_body_over_the_bound_is_refused_unread() {
    let (webhook, roots) = webhook().await;
    let mut sender = http1(webhook.address, &roots).await;
    let large = vec![b' '; 8 * 1024 * 1024 + 1];
    // The response arrives while the body is still being sent, so sending may fail.
    match sender.send_request(request(Method::POST, "/", large)).await {
        Ok(response) => assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE),
        Err(error) => assert!(!error.is_parse(), "{error}"),
    }
    let mut sender = http1(webhook.address, &roots).await;
    assert!(allowed(sender.send_request(sound()).await.unwrap()).await);
}

#[tokio::test]
async fn a_body_that_takes_much_more_memory_than_it_is_long_is_refused_unparsed() {
    let (webhook, roots) = webhook().await;
    let mut sender = http1(webhook.address, &roots).await;
    for part in ["{\"\":0},", "[[[0]]],", "0,"] {
        let bomb = format!("[{}0]", part.repeat(7 * 1024 * 1024 / part.len()));
        let response = sender.send_request(request(Method::POST, "/", bomb)).await.unwrap();
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE, "{part}");
        response.into_body().collect().await.unwrap();
    }
    // As many networks as the API server can store, before and after.
    let networks = "{cidr: 10.0.0.0/8},".repeat(60_000);
    let object = object(Kind::NetworkAuthentication, &format!("{{networks: [{networks}]}}"));
    let (new, mut old) = (value(&object), value(&object));
    old["spec"]["networks"][0]["cidr"] = "11.0.0.0/8".into();
    let review = review("UPDATE", &new, &old).to_string();
    let response = sender.send_request(request(Method::POST, "/", review)).await.unwrap();
    assert!(allowed(response).await);
}

#[tokio::test]
async fn a_body_takes_room_for_the_bytes_that_came_and_one_that_lags_is_answered_408() {
    let (webhook, roots) = webhook().await;
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{{",
        8 * 1024 * 1024
    );
    let mut slow = Vec::new();
    for _ in 0..9 {
        let mut stream = connect(webhook.address, &roots, b"http/1.1").await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        slow.push(stream);
    }
    let mut sender = http1(webhook.address, &roots).await;
    let response = tokio::time::timeout(Duration::from_secs(1), sender.send_request(sound())).await;
    assert!(allowed(response.expect("it waited for the slow ones").unwrap()).await);
    for stream in &mut slow {
        let mut answer = [0; 12];
        let read = stream.read_exact(&mut answer);
        tokio::time::timeout(Duration::from_secs(8), read).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 408");
    }
}

#[tokio::test]
async fn an_end_lets_requests_finish_and_closes_idle_connections() {
    let (webhook, roots) = webhook().await;
    let mut sender = http1(webhook.address, &roots).await;
    assert!(allowed(sender.send_request(sound()).await.unwrap()).await);
    drop(webhook.stop);
    tokio::time::timeout(Duration::from_secs(8), webhook.served).await.unwrap().unwrap();
    assert!(sender.send_request(sound()).await.is_err());
    assert!(TcpStream::connect(webhook.address).await.is_err());
}
