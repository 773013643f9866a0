//! Bodies in very small frames that a peer does not read: they block only themselves.

use crate::frames::frame;
use crate::support::*;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::Request;
use policy_core::Protocol;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// As many small frames as fit a stream's window.
const MANY: usize = 60_000;

/// `:status 200`, with END_STREAM if `last`.
fn head(id: u32, last: bool) -> Vec<u8> {
    [&[0, 0, 1, 1, if last { 5 } else { 4 }][..], &id.to_be_bytes(), &[0x88]].concat()
}

fn data(id: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, 0, flags][..], &id.to_be_bytes(), payload].concat()
}

/// An application that opens no window, and answers complete requests, with `body` if not empty.
async fn application(body: impl Fn(u32) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        // INITIAL_WINDOW_SIZE 0.
        stream.write_all(b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0").await.unwrap();
        while let Some((kind, flags, id, payload)) = frame(&mut stream).await {
            let answer = match (kind, flags & 1) {
                (4, 0) => b"\0\0\0\x04\x01\0\0\0\0".to_vec(),
                (6, 0) => [&b"\0\0\x08\x06\x01\0\0\0\0"[..], &payload].concat(),
                (1, 1) => {
                    let body = body(id);
                    [head(id, body.is_empty()), body].concat()
                }
                _ => continue,
            };
            stream.write_all(&answer).await.unwrap();
        }
    });
    address
}

async fn client(setup: &Setup, window: u32) -> SendRequest<Bytes> {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(1 << 24);
    let (sender, connection) = builder.handshake(setup.connect().await).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

async fn get(sender: &SendRequest<Bytes>) -> (u16, RecvStream) {
    let mut sender = sender.clone().ready().await.unwrap();
    let request = Request::get("http://web.example/").body(()).unwrap();
    let answer = sender.send_request(request, true).unwrap().0;
    let answer = tokio::time::timeout(Duration::from_secs(60), answer).await;
    let answer = answer.expect("its neighbour's frames stop it").unwrap();
    (answer.status().as_u16(), answer.into_body())
}

/// Sends as much as the window allows, each byte in a frame of its own, every other one behind an
/// empty frame.
async fn trickle(stream: &mut SendStream<Bytes>, bytes: usize, empty: bool) {
    stream.reserve_capacity(bytes);
    for _ in 0..bytes {
        while stream.capacity() == 0 {
            poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
        }
        if empty {
            stream.send_data(Bytes::new(), false).unwrap();
        }
        stream.send_data(Bytes::from_static(b"x"), false).unwrap();
    }
}

#[tokio::test]
async fn uploads_of_small_frames_that_the_application_does_not_take_stall_alone() {
    let address = application(|_| Vec::new()).await;
    let setup = Setup::new(server(Protocol::Http2, everybody()), address).await;
    let mut sender = client(&setup, 65_535).await;
    assert_eq!(get(&sender).await.0, 200);
    let mut stalled = Vec::new();
    for _ in 0..4 {
        let request = Request::post("http://web.example/").body(()).unwrap();
        let (answer, mut stream) = sender.send_request(request, false).unwrap();
        trickle(&mut stream, MANY, false).await;
        stalled.push((answer, stream));
        sender = sender.ready().await.unwrap();
        assert_eq!(get(&sender).await.0, 200);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(get(&sender).await.0, 200);
    for (answer, _) in &mut stalled {
        assert!(futures_util::poll!(answer).is_pending(), "it broke off");
    }
}

#[tokio::test]
async fn answers_of_small_frames_that_the_client_does_not_take_stall_alone_and_lose_nothing() {
    let expected: Vec<u8> = (0..MANY).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let body = expected.clone();
    let frames = move |id: u32| {
        let pieces = body.iter().map(|byte| data(id, 0, &[*byte]));
        // Every eighth answer is short.
        if id % 8 == 1 {
            data(id, 1, b"short")
        } else {
            [pieces.flatten().collect(), data(id, 1, b"")].concat()
        }
    };
    let address = application(frames).await;
    let setup = Setup::new(server(Protocol::Http2, everybody()), address).await;
    let sender = client(&setup, 1).await;
    let mut stalled = Vec::new();
    // Twelve of them fill no connection's window, which is for all of them.
    for id in (1..32).step_by(2) {
        let (status, body) = get(&sender).await;
        assert_eq!(status, 200, "{id}");
        stalled.push(body);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The windows are one byte wide: two of them are read to their end.
    for (n, mut body) in stalled.into_iter().enumerate() {
        let mut all = Vec::new();
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            all.extend_from_slice(&piece);
            body.flow_control().release_capacity(piece.len()).unwrap();
            if all.len() > 1_000 && n > 1 {
                break;
            }
        }
        let whole = if n % 4 == 0 { &b"short"[..] } else { &expected };
        assert!(whole.starts_with(&all) && (n > 1 || whole == all), "{n}");
    }
    assert_eq!(get(&sender).await.0, 200);
}

/// The library ends a connection at the hundred and first empty frame of its life.
#[tokio::test]
async fn bodies_with_empty_frames_wear_no_connection_out() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Http2, everybody()), app.address).await;
    let mut sender = client(&setup, 65_535).await;
    for _ in 0..3 {
        let request = Request::post("http://web.example/upload").body(()).unwrap();
        let (answer, mut stream) = sender.send_request(request, false).unwrap();
        trickle(&mut stream, 200, true).await;
        stream.send_data(Bytes::new(), true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "200 bytes\n");
        sender = sender.ready().await.unwrap();
    }
    let flushing = |id: u32| {
        let piece = [data(id, 0, b""), data(id, 0, b"a"), data(id, 0, b"")].concat();
        [piece.repeat(200), data(id, 1, b"")].concat()
    };
    let setup = Setup::new(server(Protocol::Http2, everybody()), application(flushing).await).await;
    let sender = client(&setup, 65_535).await;
    for _ in 0..3 {
        let (status, mut body) = get(&sender).await;
        let mut bytes = 0;
        while let Some(piece) = body.data().await {
            bytes += piece.unwrap().len();
        }
        assert_eq!((status, bytes), (200, 200));
    }
}
