//! Clients that hold all they can of the port, and one that is served meanwhile.
#![allow(clippy::arithmetic_side_effects, reason = "test amounts are small")]

use super::http::{allowed, connect_from, http1_over, sound, webhook};
use rustls::RootCertStore;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Clients of different networks.
const HOLDERS: [[u8; 4]; 4] = [[127, 1, 0, 1], [127, 2, 0, 1], [127, 3, 0, 1], [127, 4, 0, 1]];

/// A client that holds nothing.
const OTHER: [u8; 4] = [127, 9, 0, 1];

/// Half of the five seconds after which API servers give up.
const IN_TIME: Duration = Duration::from_millis(2500);

async fn another_is_answered(address: SocketAddr, roots: &RootCertStore) {
    let asking = async {
        let stream = connect_from(OTHER, address, roots, b"http/1.1").await.unwrap();
        allowed(http1_over(stream).await.send_request(sound()).await.unwrap()).await
    };
    assert!(tokio::time::timeout(IN_TIME, asking).await.expect("in time"));
}

/// The number of connections that the server has ended or answered.
async fn over(streams: &mut [TlsStream<TcpStream>]) -> usize {
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut over = 0;
    for stream in streams {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte));
        over += usize::from(read.await.is_ok());
    }
    over
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_client_is_answered_though_four_others_hold_every_connection_of_the_port() {
    let (webhook, roots) = webhook().await;
    let mut open = Vec::new();
    for _ in 0..64 {
        for source in HOLDERS {
            let connected = connect_from(source, webhook.address, &roots, b"http/1.1").await;
            open.extend(connected.ok());
        }
    }
    assert!(open.len() > 128, "{} connections", open.len());
    let before = over(&mut open).await;
    another_is_answered(webhook.address, &roots).await;
    let ended = over(&mut open).await;
    assert!(ended > 0, "nobody made room");
    assert!(open.len() - ended >= 100, "{before}, then {ended} of {} were ended", open.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_client_is_answered_though_four_others_hold_all_the_room_for_reviews() {
    const BODY: usize = 7 * 1024 * 1024;
    let (webhook, roots) = webhook().await;
    let mut open = Vec::new();
    let mut sending = Vec::new();
    for source in HOLDERS {
        for _ in 0..5 {
            let connected = connect_from(source, webhook.address, &roots, b"http/1.1").await;
            let mut stream = connected.unwrap();
            sending.push(tokio::spawn(async move {
                let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {BODY}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                // Its last byte does not come. Who is refused meanwhile is not read to the end.
                let _ = stream.write_all(&vec![b' '; BODY - 1]).await;
                let _ = stream.flush().await;
                stream
            }));
        }
    }
    for sent in sending {
        open.push(sent.await.unwrap());
    }
    another_is_answered(webhook.address, &roots).await;
    // 64 MiB hold nine of them.
    let ended = over(&mut open).await;
    assert!((11..20).contains(&ended), "{ended} of 20 were refused");
}
