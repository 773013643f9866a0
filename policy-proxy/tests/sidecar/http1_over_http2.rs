//! HTTP/1 requests of several users that one meshed peer sends in HTTP/2: none waits for another's.

use crate::direct::{Mesh, listen};
use crate::support::*;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_core::Protocol;
use policy_proto::transport::Session;
use policy_proxy::sidecar::Target;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

type Sender = SendRequest<Full<Bytes>>;

async fn peer(mesh: &Mesh) -> Sender {
    let io = TokioIo::new(mesh.open("bot", PORT, Some(Session::Http2)).await);
    let (sender, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A mesh whose sidecar forwards at most `most` such requests of a client at a time.
async fn bounded(most: usize) -> Mesh {
    Mesh::with(server(Protocol::Http1, everybody()), |config| {
        listen(config, Target::Direct);
        config.limits.http2_carried = Some(most);
    })
    .await
}

fn carried(method: &str, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(format!("http://web.example{path}"));
    request.header("l5d-orig-proto", "HTTP/1.1").body(Full::new(body.into())).unwrap()
}

/// Sends a request without waiting for its response.
fn ask(sender: &Sender, path: &str) -> tokio::task::JoinHandle<()> {
    let mut sender = sender.clone();
    let request = carried("GET", path, Vec::new());
    tokio::spawn(async move { drop(sender.send_request(request).await) })
}

async fn reached(app: &App, requests: usize) {
    for _ in 0..6000 {
        if app.requests() >= requests {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} of {requests} requests reached the application", app.requests());
}

async fn status(sender: &mut Sender, request: Request<Full<Bytes>>) -> StatusCode {
    let answer = tokio::time::timeout(Duration::from_secs(30), sender.send_request(request)).await;
    answer.expect("it waits for requests of others").unwrap().status()
}

#[tokio::test]
async fn requests_without_an_answer_do_not_stop_others_of_the_same_peer() {
    let mesh = Mesh::new(server(Protocol::Http1, everybody())).await;
    let mut sender = peer(&mesh).await;
    let waiting: Vec<_> = (0..200).map(|_| ask(&sender, "/never")).collect();
    reached(&mesh.app, 200).await;
    for _ in 0..50 {
        assert_eq!(status(&mut sender, carried("GET", "/a", Vec::new())).await, StatusCode::OK);
    }
    assert_eq!(mesh.app.connections(), 201, "a connection is used again");
    drop(waiting);
}

#[tokio::test]
async fn who_carries_more_than_the_bound_is_refused_and_told_so_until_others_end() {
    let mesh = bounded(2).await;
    let mut sender = peer(&mesh).await;
    let waiting = [ask(&sender, "/never"), ask(&sender, "/never")];
    reached(&mesh.app, 2).await;
    let request = carried("GET", "/a", Vec::new());
    let refused = tokio::time::timeout(Duration::from_secs(30), sender.send_request(request));
    let refused = refused.await.expect("it waits for requests of others").unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["l5d-proxy-error"], "service unavailable");
    mesh.setup.counted("inbound_http_errors_total{error=\"too_many_requests\"", 1).await;
    // Another peer has a limit of its own.
    let mut other = peer(&mesh).await;
    assert_eq!(status(&mut other, carried("GET", "/a", Vec::new())).await, StatusCode::OK);
    waiting[0].abort();
    assert_eq!(status(&mut sender, carried("GET", "/a", Vec::new())).await, StatusCode::OK);
}

/// The application answers without reading the request: its connection is in use while the request
/// is sent, and the client does not depend on that.
#[tokio::test]
async fn requests_that_were_answered_give_way_to_those_that_were_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 5];
            stream.read_exact(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            kept.push(stream);
        }
    });
    let mesh = Mesh::with(server(Protocol::Http1, everybody()), |config| {
        listen(config, Target::Direct);
        let Target::Fixed { upstream, .. } = &mut config.listeners[0].target else { panic!() };
        *upstream = address;
        config.limits.http2_carried = Some(2);
    })
    .await;
    // A client that goes on sending behind a response; the library's client would stop.
    let stream = mesh.open("bot", PORT, Some(Session::Http2)).await;
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut sending = Vec::new();
    for n in 0..5 {
        sender = sender.ready().await.unwrap();
        let request = carried("POST", "/", Vec::new()).map(|_| ());
        let (answer, mut stream) = sender.send_request(request, false).unwrap();
        stream.send_data(Bytes::from(vec![0; 20_000_000]), false).unwrap();
        sending.push(stream);
        let answer = tokio::time::timeout(Duration::from_secs(30), answer).await;
        assert_eq!(answer.unwrap().unwrap().status(), StatusCode::OK, "{n}");
    }
}
