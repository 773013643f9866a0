//! Many concurrent streams of one connection, and one side of a stream when the other ends.

use crate::support::*;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use policy_tls::identity::IdentityHandle;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Each larger than a stream's window, all together larger than the connection's.
#[tokio::test]
async fn bodies_of_many_streams_arrive_whole_in_both_directions_whatever_the_windows() {
    let app = App::start().await;
    for (adaptive, buffer) in [(false, None), (true, None), (false, Some(1))] {
        let policy = Some(server(detect(), everybody()));
        let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
            config.limits.http2_adaptive_window = adaptive;
            config.limits.http2_send_buffer = buffer;
        })
        .await;
        let sender = crate::http2::client(&setup).await;
        let all = (0..100_u8).map(|n| {
            let mut sender = sender.clone();
            async move {
                let sent = Bytes::from(vec![n; 100_000 + usize::from(n)]);
                let call = Request::post("http://web.example/pkg.Echo/Call");
                let call = call.header("content-type", "application/grpc").header("te", "trailers");
                let call = call.body(Full::new(sent.clone())).unwrap();
                let answer = sender.send_request(call).await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
                let answer = answer.into_body().collect().await.unwrap();
                let status = answer.trailers().and_then(|trailers| trailers.get("grpc-status"));
                assert_eq!(status, Some(&HeaderValue::from_static("0")));
                assert!(answer.to_bytes() == sent, "stream {n}");
            }
        });
        futures_util::future::join_all(all).await;
    }
}

#[tokio::test]
async fn an_upload_goes_on_behind_its_complete_answer_and_is_watched() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    // A client that ignores responses; the library's client would stop.
    let (mut sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("http://web.example/early").body(()).unwrap();
    let (answer, mut upload) = sender.send_request(request, false).unwrap();
    upload.send_data(Bytes::from_static(b"some"), false).unwrap();
    let mut answer = answer.await.unwrap().into_body();
    while answer.data().await.transpose().unwrap().is_some() {}
    upload.send_data(Bytes::from_static(b"more"), false).unwrap();
    swallows(&app, 8).await;
    setup.apply(server(detect(), nobody())).await;
    for _ in 0..20 {
        let _ = upload.send_data(Bytes::from_static(b"some"), false);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(app.swallowed(), 8, "not a byte more");
}

async fn swallows(app: &App, bytes: usize) {
    let begun = Instant::now();
    while app.swallowed() != bytes {
        assert!(begun.elapsed().as_secs() < 60, "{} bytes", app.swallowed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An application that ends each connection after one request: by GOAWAY, or by closing.
async fn one_each(politely: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let (_, mut respond) = connection.accept().await.unwrap().unwrap();
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                body.send_data(Bytes::from_static(b"whole"), true).unwrap();
                if politely {
                    connection.graceful_shutdown();
                    while connection.accept().await.is_some() {}
                } else {
                    let soon = Duration::from_millis(50);
                    let _ = tokio::time::timeout(soon, connection.accept()).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn an_application_that_ends_its_connection_is_connected_to_again() {
    for politely in [true, false] {
        let address = one_each(politely).await;
        let setup = Setup::new(server(detect(), everybody()), address).await;
        let mut sender = crate::http2::client(&setup).await;
        for _ in 0..5 {
            let request = Request::get("http://web.example/").body(Full::default()).unwrap();
            let got = got(sender.send_request(request).await.unwrap()).await;
            assert_eq!((got.status.as_u16(), got.body.as_str()), (200, "whole"));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // Each connection ended.
        setup.counted("tcp_open_connections{direction=\"inbound\",peer=\"dst\"", 0).await;
    }
}
