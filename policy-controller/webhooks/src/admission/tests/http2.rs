//! HTTP/2 with the smallest window, and from far away.
#![allow(clippy::arithmetic_side_effects, reason = "test amounts are small")]

use super::http::{allowed, connect, sound, webhook};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::RootCertStore;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until, timeout};

/// Opens a connection with this receive window.
async fn http2(
    address: SocketAddr,
    roots: &RootCertStore,
    window: Option<u32>,
) -> SendRequest<Full<Bytes>> {
    let stream = connect(address, roots, b"h2").await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Returns a valid review, padded with this many spaces.
async fn padded(blanks: usize) -> Request<Full<Bytes>> {
    let (mut head, body) = sound().into_parts();
    head.uri = "https://localhost/".parse().unwrap();
    let mut body = body.collect().await.unwrap().to_bytes().to_vec();
    body.resize(body.len() + blanks, b' ');
    Request::from_parts(head, Full::new(body.into()))
}

#[tokio::test]
async fn an_answer_that_is_not_read_keeps_its_room() {
    let (webhook, roots) = webhook().await;
    let mut sender = http2(webhook.address, &roots, Some(1)).await;
    let (mut statuses, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let response = sender.send_request(padded(7 * 1024 * 1024 + 512 * 1024).await).await;
        let response = response.unwrap();
        statuses.push(response.status());
        unread.push(response);
    }
    // One network may hold 32 MiB.
    assert_eq!(statuses[..4], [StatusCode::OK; 4]);
    assert_eq!(statuses[4], StatusCode::SERVICE_UNAVAILABLE);
    // Capacity is released when the client reads.
    for response in unread.drain(..4) {
        assert!(allowed(response).await);
    }
    let response = sender.send_request(padded(7 * 1024 * 1024).await).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

/// Returns an address that forwards to `address` and delays every byte, in both directions.
async fn far_from(address: SocketAddr, one_way: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (near, _) = listener.accept().await.unwrap();
        let far = TcpStream::connect(address).await.unwrap();
        near.set_nodelay(true).unwrap();
        far.set_nodelay(true).unwrap();
        let ((near_read, near_write), (far_read, far_write)) =
            (near.into_split(), far.into_split());
        tokio::join!(delay(near_read, far_write, one_way), delay(far_read, near_write, one_way));
    });
    relay
}

async fn delay(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    one_way: Duration,
) {
    let (late, mut due) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            _ = late.send((Instant::now() + one_way, piece[..read].to_vec()));
        }
    });
    while let Some((when, piece)) = due.recv().await {
        sleep_until(when).await;
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn large_reviews_of_a_distant_api_server_are_answered_in_time() {
    let (webhook, roots) = webhook().await;
    let far = far_from(webhook.address, Duration::from_millis(100)).await;
    let sender = http2(far, &roots, None).await;
    let review = padded(3 * 1024 * 1024).await;
    let (mut one, mut other) = (sender.clone(), sender);
    let both = async {
        tokio::join!(one.send_request(review.clone()), other.send_request(review.clone()))
    };
    // API servers give up after five seconds.
    let (one, other) = timeout(Duration::from_secs(5), both).await.expect("they took too long");
    assert!(allowed(one.unwrap()).await && allowed(other.unwrap()).await);
}
