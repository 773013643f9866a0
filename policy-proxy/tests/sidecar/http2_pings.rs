//! HTTP/2 PINGs: the connections that they end, and their number.

use crate::frames::{PREFACE, frame};
use crate::support::*;
use policy_core::Protocol;
use policy_tls::identity::IdentityHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
