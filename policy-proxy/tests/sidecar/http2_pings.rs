//! HTTP/2 PINGs: the connections that they end, and their number.

use crate::frames::{PREFACE, frame};
use crate::support::*;
use policy_core::Protocol;
use policy_tls::identity::IdentityHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Bound: one per round trip that measures something; here nothing follows one DATA frame.
#[tokio::test]
async fn windows_that_follow_a_client_cost_no_ping_while_it_sends_nothing() {
    let app = App::start().await;
    let policy = Some(server(Protocol::Http2, everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.limits.http2_adaptive_window = true;
    })
    .await;
    let mut stream = setup.connect().await;
    stream.write_all(PREFACE).await.unwrap();
    // HEADERS (POST /early), whose body goes on behind the answer.
    let head = [&[0x83, 0x86, 0x44, 6][..], b"/early", &[0x41, 1, b'a']].concat();
    let length = u8::try_from(head.len()).unwrap();
    stream.write_all(&[&[0, 0, length, 1, 4, 0, 0, 0, 1], &head[..]].concat()).await.unwrap();
    stream.write_all(b"\x00\x00\x04\x00\x00\x00\x00\x00\x01some").await.unwrap();
    let mut pings = 0;
    loop {
        let (kind, flags, _, payload) = frame(&mut stream).await.unwrap();
        match (kind, flags) {
            (4, 0) => {
                stream.write_all(b"\x00\x00\x00\x04\x01\x00\x00\x00\x00").await.unwrap();
            }
            (6, 0) => {
                pings += 1;
                let pong = [&b"\x00\x00\x08\x06\x01\x00\x00\x00\x00"[..], &payload].concat();
                stream.write_all(&pong).await.unwrap();
                if pings == 1 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    // A PING of its own, whose acknowledgement follows all pending frames.
                    stream
                        .write_all(b"\x00\x00\x08\x06\x00\x00\x00\x00\x00whatever")
                        .await
                        .unwrap();
                }
            }
            (6, _) => break,
            _ => {}
        }
    }
    assert_eq!(pings, 1);
}

/// Bound: `http2_ping` and `http2_ping_answer` (here a second each).
#[tokio::test]
async fn a_byte_now_and_then_inside_a_head_is_no_sign_of_life() {
    let app = App::start().await;
    let policy = Some(server(Protocol::Http2, everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.timeouts.http2_ping = Duration::from_secs(1);
        config.timeouts.http2_ping_answer = Duration::from_secs(1);
    })
    .await;
    let mut stream = setup.connect().await;
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&[0, 0x10, 0, 1, 5, 0, 0, 0, 1, 0x82]).await.unwrap();
    let (mut read, mut write) = stream.split();
    let trickle = async {
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if write.write_all(&[0x82]).await.is_err() {
                return;
            }
        }
    };
    let ended = async {
        let mut buffer = vec![0; 4096];
        while matches!(read.read(&mut buffer).await, Ok(1..)) {}
    };
    let bound = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::select! { () = trickle => {} () = ended => {} }
    });
    assert!(bound.await.is_ok(), "still open");
}

/// Servers of gRPC end a connection by GOAWAY (ENHANCE_YOUR_CALM, "too_many_pings") whose client sends
/// PINGs more often than every five minutes, and with it a stream that is quiet for some minutes.
#[tokio::test]
async fn an_application_gets_no_ping_while_a_stream_is_quiet() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, address, IdentityHandle::empty(), |config| {
        config.timeouts.http2_ping = Duration::from_millis(200);
    })
    .await;
    let (mut sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
    tokio::spawn(connection);
    let asked = http::Request::get("http://web.example/").body(()).unwrap();
    let (answer, _) = sender.send_request(asked, true).unwrap();
    let (mut application, _) = listener.accept().await.unwrap();
    application.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
    application.read_exact(&mut [0; 24]).await.unwrap();
    let mut kinds = Vec::new();
    let frames = async {
        while let Some((kind, ..)) = frame(&mut application).await {
            kinds.push(kind);
        }
    };
    // The time of ten PINGs.
    let quiet = tokio::time::timeout(Duration::from_secs(2), frames).await;
    assert!(quiet.is_err() && kinds.contains(&1), "the stream is open: {kinds:?}");
    // PING (RFC 9113 section 6.7).
    assert!(!kinds.contains(&6), "{kinds:?}");
    drop(answer);
}
