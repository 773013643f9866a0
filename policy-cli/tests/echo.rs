//! The echo application and the client, against each other over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test fails by panicking"
)]

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use policy_cli::echo::http::ReceivedRequest;
use policy_cli::echo::{self, EchoOptions};
use policy_cli::request::{ClientRequest, Credentials, Outcome, Protocol, RequestError, Tls, send};
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

async fn plain() -> echo::EchoServer {
    echo::start(
        ([127, 0, 0, 1], 0).into(),
        EchoOptions { name: Some("shop/web:80".into()), ..EchoOptions::default() },
    )
    .await
    .unwrap()
}

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[tokio::test]
async fn http1_is_answered_with_what_arrived() {
    let server = plain().await;
    let mut question = ClientRequest::get(server.address(), "/a/%2e?b=1");
    question.headers = headers(&[("x-team", "one")]);
    let answer = send(&question).await.unwrap();
    assert_eq!(answer.status, Some(200));
    let received: ReceivedRequest = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(received.name.as_deref(), Some("shop/web:80"));
    assert_eq!((received.method.as_str(), received.path.as_str()), ("GET", "/a/%2e?b=1"));
    assert_eq!(received.version, "HTTP/1.1");
    assert_eq!(received.headers["x-team"], ["one"]);
    assert_eq!(Some(received.client), answer.local);
    assert_eq!(server.counters().requests(), 1);
}

#[tokio::test]
async fn http2_is_recognised_on_the_same_port() {
    let server = plain().await;
    let mut question = ClientRequest::get(server.address(), "/path");
    question.protocol = Protocol::Http2;
    question.body = Bytes::from_static(b"12345");
    let answer = send(&question).await.unwrap();
    let received: ReceivedRequest = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(received.version, "HTTP/2.0");
    assert_eq!(received.body_bytes, 5);
    assert_eq!(received.authority, Some(server.address().to_string()));
}

#[tokio::test]
async fn grpc_calls_get_their_messages_and_trailers_back() {
    let server = plain().await;
    let mut question = ClientRequest::grpc(server.address(), "/shop.v1.Cart/Add");
    question.body = Bytes::from_static(b"message");
    let answer = send(&question).await.unwrap();
    assert_eq!(answer.grpc_status, Some(0));
    assert_eq!(answer.outcome, Outcome::Ok);
    assert_eq!(answer.body.as_bytes(), b"\0\0\0\0\x07message");
    assert_eq!(answer.header("echo-path"), Some("/shop.v1.Cart/Add"));
    assert!(answer.trailers.iter().any(|(name, _)| name == "grpc-status"));
}

#[tokio::test]
async fn grpc_health_is_serving() {
    let server = plain().await;
    let answer = send(&ClientRequest::grpc(server.address(), "/grpc.health.v1.Health/Check")).await;
    let answer = answer.unwrap();
    assert_eq!(answer.grpc_status, Some(0));
    assert_eq!(answer.body.as_bytes(), [0, 0, 0, 0, 2, 8, 1]);
}

#[tokio::test]
async fn a_wanted_grpc_status_decides_the_outcome() {
    let server = plain().await;
    let mut question = ClientRequest::grpc(server.address(), "/shop.v1.Cart/Add");
    question.headers = headers(&[("grpc-status-wanted", "7")]);
    let answer = send(&question).await.unwrap();
    assert_eq!(answer.outcome, Outcome::Refused);
}

#[tokio::test]
async fn raw_bytes_come_back_and_the_end_is_passed_on() {
    let server = plain().await;
    let mut question = ClientRequest::tcp(server.address());
    question.body = Bytes::from_static(b"\x00\x01two\nlines");
    let answer = send(&question).await.unwrap();
    assert_eq!(answer.body.as_bytes(), b"\x00\x01two\nlines");
    assert_eq!(answer.outcome, Outcome::Ok);
}

#[tokio::test]
async fn headers_change_status_and_body() {
    let server = plain().await;
    let mut question = ClientRequest::get(server.address(), "/");
    question.headers = headers(&[("echo-status", "503")]);
    assert_eq!(send(&question).await.unwrap().outcome, Outcome::Failed);
    question.headers = headers(&[("echo-stream", "3"), ("echo-interval-ms", "1")]);
    assert_eq!(send(&question).await.unwrap().body, "0\n1\n2\n");
    question.headers = headers(&[("echo-body", "true")]);
    question.body = Bytes::from_static(b"mine");
    assert_eq!(send(&question).await.unwrap().body, "mine");
}

#[tokio::test]
async fn the_source_address_is_the_one_asked_for() {
    let server = plain().await;
    let mut question = ClientRequest::get(server.address(), "/");
    let from = IpAddr::V4(Ipv4Addr::new(127, 9, 8, 7));
    question.from = Some(from);
    let answer = send(&question).await.unwrap();
    let received: ReceivedRequest = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(received.client.ip(), from);
}

#[tokio::test]
async fn tls_is_terminated_and_verified() {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(["web.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let tls = echo::server_config(vec![certificate.der().clone()], key).unwrap();
    let mut options = EchoOptions { tls: Some(tls), ..EchoOptions::default() };
    let server = echo::start(([127, 0, 0, 1], 0).into(), options.clone()).await.unwrap();
    let mut question = ClientRequest::get(server.address(), "/");
    let credentials = Credentials::anonymous(Arc::new(roots));
    let server_name = ServerName::try_from("web.example").unwrap();
    question.tls = Some(Tls { credentials: credentials.clone(), server_name });
    assert_eq!(send(&question).await.unwrap().status, Some(200));
    let server_name = ServerName::try_from("other.example").unwrap();
    question.tls = Some(Tls { credentials, server_name });
    assert!(matches!(send(&question).await, Err(RequestError::Handshake { .. })));
    question.tls = None;
    assert!(matches!(send(&question).await, Err(RequestError::Closed { .. })));
    options.plaintext_too = true;
    let server = echo::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    question.address = server.address();
    assert_eq!(send(&question).await.unwrap().status, Some(200));
}

#[tokio::test]
async fn questions_without_an_answer_say_why() {
    let closed = SocketAddr::from(([127, 0, 0, 1], 1));
    assert!(matches!(
        send(&ClientRequest::get(closed, "/")).await,
        Err(RequestError::Connect { .. })
    ));
    let server = plain().await;
    let mut question = ClientRequest::get(server.address(), "/");
    question.from = Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    assert!(matches!(send(&question).await, Err(RequestError::From { .. })));
    question.from = None;
    question.headers = headers(&[("echo-delay-ms", "5000")]);
    question.timeout = Duration::from_millis(50);
    assert!(matches!(send(&question).await, Err(RequestError::Timeout { .. })));
}
