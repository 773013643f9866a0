//! Tunnels, streams and uploads end with their grant.

use crate::support::*;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{any, post};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use policy_testkit::http1_client;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Switches protocols and returns what it gets.
async fn echo(mut request: Request) -> Response {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        let mut bytes = [0; 64];
        while let Ok(read @ 1..) = stream.read(&mut bytes).await {
            stream.write_all(&bytes[..read]).await.unwrap();
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(Body::empty())
        .unwrap()
}

async fn tunnel(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        "GET /open/x HTTP/1.1\r\nhost: web.example\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    stream
}

#[tokio::test]
async fn a_revocation_ends_tunnels_streams_and_uploads_and_nothing_else() {
    let folder = manifests();
    let policies = policies(folder.path()).await;
    let slow = |request: Request| async move {
        // As long as the upload goes on.
        let _ = request.into_body().collect().await;
        "whole"
    };
    let silent = || async {
        let (sender, frames) = mpsc::channel::<Result<Bytes, Infallible>>(1);
        sender.send(Ok(Bytes::from_static(b"first"))).await.unwrap();
        tokio::spawn(async move { sender.closed().await });
        Body::from_stream(ReceiverStream::new(frames))
    };
    let router = Router::new()
        .route("/open/x", any(echo))
        .route("/open/upload", post(slow))
        .route("/open/stream", any(silent));
    let address = serve(&policies, router).await;
    let mut tunnel = tunnel(address).await;
    tunnel.write_all(b"ping").await.unwrap();
    let mut four = [0; 4];
    tunnel.read_exact(&mut four).await.unwrap();
    assert_eq!(&four, b"ping");
    let mut stream = ask(address, "/open/stream").await;
    let first = stream.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "first");
    let (part, parts) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    part.send(Ok(Frame::data(Bytes::from_static(b"part")))).await.unwrap();
    let mut client = http1_client(TcpStream::connect(address).await.unwrap()).await;
    let upload = http::Request::post("/open/upload").header("host", "web.example");
    let upload = upload.body(StreamBody::new(ReceiverStream::new(parts))).unwrap();
    let upload = tokio::spawn(async move { client.send_request(upload).await });
    // A change that takes nothing from them ends none of them.
    std::fs::write(
        folder.path().join("more.yaml"),
        OPEN.replace("open", "more").replace("/x", "/y"),
    )
    .unwrap();
    wait_for_status(address, "/more", 404).await;
    tunnel.write_all(b"pong").await.unwrap();
    tunnel.read_exact(&mut four).await.unwrap();
    assert_eq!(&four, b"pong");
    assert!(!upload.is_finished());
    // Whatever is not written anew is taken away.
    std::fs::remove_file(folder.path().join("more.yaml")).unwrap();
    std::fs::remove_file(folder.path().join("open.yaml")).unwrap();
    wait_for_status(address, "/open/x", 404).await;
    let second = Duration::from_secs(1);
    let ended = tokio::time::timeout(second, tunnel.read(&mut four)).await.expect("a second");
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
    let broken = tokio::time::timeout(second, stream.frame()).await.expect("a second");
    assert!(!matches!(broken, Some(Ok(_))), "{broken:?}");
    let refused = tokio::time::timeout(second, upload).await.expect("a second").unwrap();
    assert_eq!(refused.unwrap().status(), 403);
    drop(part);
}
