//! Messages that a peer does not read: a closed peer is detected, and no wait is unbounded.

use crate::frames::frame;
use crate::support::*;
use bytes::Bytes;
use h2::Reason;
use http::Request;
use policy_core::Protocol;
use policy_tls::identity::IdentityHandle;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const LONG: Duration = Duration::from_secs(60);
const CLIENTS: &str = "tcp_open_connections{direction=\"inbound\",peer=\"src\"";
const APPLICATIONS: &str = "tcp_open_connections{direction=\"inbound\",peer=\"dst\"";

/// An application that sends `answer` and reads nothing until released, then reports all bytes
/// received.
async fn deaf(
    answer: &'static [u8],
) -> (SocketAddr, oneshot::Sender<()>, oneshot::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (go, told) = oneshot::channel();
    let (tell, got) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(answer).await.unwrap();
        let _ = told.await;
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        let _ = tell.send(all.len());
    });
    (address, go, got)
}

/// Bytes that the sidecar has read from its client.
fn read(setup: &Setup) -> usize {
    let metrics = setup.metrics();
    let series = "tcp_read_bytes_total{direction=\"inbound\",peer=\"src\"";
    let line = metrics.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit(' ').next()).map_or(0, |bytes| bytes.parse().unwrap())
}

/// Sends a head and body data until the sidecar reads no more: unread data is in its socket buffer,
/// and not in the client's.
async fn fill(setup: &Setup, stream: &mut TcpStream, head: &str, piece: &[u8]) {
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut sent = head.len();
    loop {
        stream.write_all(piece).await.unwrap();
        sent += piece.len();
        assert!(sent < 90_000_000, "it was taken");
        let begun = Instant::now();
        while read(setup) < sent {
            if begun.elapsed() > Duration::from_secs(1) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A chunk of 32 KiB, and 32 KiB without chunking.
fn pieces() -> [Vec<u8>; 2] {
    let plain = vec![b'x'; 32_768];
    [[&b"8000\r\n"[..], &plain, b"\r\n"].concat(), plain]
}

#[tokio::test]
async fn a_client_that_is_gone_is_noticed_while_the_application_takes_nothing_of_its_request() {
    let early = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let framings = ["Transfer-Encoding: chunked", "Content-Length: 100000000"];
    for (answer, reset) in [(&b""[..], false), (b"", true), (early, false), (early, true)] {
        for (framing, piece) in framings.into_iter().zip(pieces()) {
            let (address, go, got) = deaf(answer).await;
            let setup = Setup::new(server(detect(), everybody()), address).await;
            let mut client = setup.connect().await;
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
            fill(&setup, &mut client, &head, &piece).await;
            setup.counted(CLIENTS, 1).await;
            setup.counted(APPLICATIONS, 1).await;
            if reset {
                socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            }
            drop(client);
            let shown = (framing, reset, answer.len());
            let ended = async {
                setup.counted(CLIENTS, 0).await;
                setup.counted(APPLICATIONS, 0).await;
            };
            let bound = tokio::time::timeout(Duration::from_secs(20), ended);
            assert!(bound.await.is_ok(), "{shown:?} stays open");
            go.send(()).unwrap();
            assert!(got.await.unwrap() < 100_000_000, "{shown:?}");
        }
    }
}

/// A client that closes its side behind a whole request is still there, however long that takes.
#[tokio::test]
async fn a_request_that_came_in_full_before_its_client_ended_its_side_is_sent_on() {
    let (address, go, got) =
        deaf(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let client = setup.connect().await;
    let bytes = 12_000_000;
    let (mut read, mut write) = client.into_split();
    let sending = tokio::spawn(async move {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
        write.write_all(head.as_bytes()).await.unwrap();
        write.write_all(&vec![b'x'; bytes]).await.unwrap();
        write.shutdown().await.unwrap();
    });
    tokio::time::sleep(Duration::from_secs(4)).await;
    go.send(()).unwrap();
    let got = tokio::time::timeout(LONG, got).await.unwrap().unwrap();
    assert!(got > bytes, "{got}");
    sending.await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(LONG, read.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
}

/// An application that reads nothing until released, and answers once it has read a request that
/// ends like [`END`].
async fn late() -> (SocketAddr, oneshot::Sender<()>, oneshot::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (go, told) = oneshot::channel();
    let (tell, got) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = told.await;
        let mut all = Vec::new();
        while !all.ends_with(END) && stream.read_buf(&mut all).await.unwrap() > 0 {}
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
        stream.write_all(answer).await.unwrap();
        let _ = tell.send(all.len());
    });
    (address, go, got)
}

const END: &[u8] = b"\r\n0\r\n\r\n";

/// The client has closed its side, and the rest of its request waits in front of the end.
#[tokio::test]
async fn a_whole_request_that_waits_behind_what_is_not_taken_is_answered() {
    let (address, go, got) = late().await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let mut client = setup.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    fill(&setup, &mut client, head, &pieces()[0]).await;
    let taken = read(&setup);
    answered(&setup, client, &END[2..], (go, got)).await;
    // The same without chunks: more is left than is read to reach the end.
    let (address, go, got) = late().await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let mut client = setup.connect().await;
    let body = vec![b'x'; taken + 200_000 - END.len()];
    let bytes = body.len() + END.len();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&body).await.unwrap();
    let all = answered(&setup, client, END, (go, got)).await;
    assert_eq!(all, head.len() + bytes);
}

/// Closes the client's side behind `end`; the application reads once the sidecar has read nothing
/// for some seconds. Returns the bytes that the application received.
async fn answered(
    setup: &Setup,
    mut client: TcpStream,
    end: &[u8],
    (go, got): (oneshot::Sender<()>, oneshot::Receiver<usize>),
) -> usize {
    client.write_all(end).await.unwrap();
    client.shutdown().await.unwrap();
    // Not a fixed time: on a busy machine the sidecar may still be reading by then, and a client
    // that ends its side before its request stalls is gone once the request was read.
    let mut before = None;
    while before != Some(read(setup)) {
        before = Some(read(setup));
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    go.send(()).unwrap();
    let got = tokio::time::timeout(LONG, got).await.unwrap().unwrap();
    let mut answer = String::new();
    tokio::time::timeout(LONG, client.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
    got
}

/// The last frame type of a stream that an HTTP/2 application without a window receives.
async fn shut() -> (SocketAddr, oneshot::Receiver<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        stream.write_all(b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0").await.unwrap();
        let mut last = 255;
        while let Some((kind, flags, id, _)) = frame(&mut stream).await {
            if (kind, flags) == (4, 0) {
                stream.write_all(b"\0\0\0\x04\x01\0\0\0\0").await.unwrap();
            }
            if kind == 1 {
                // It answers completely, without reading the request.
                let answer = [&b"\0\0\x01\x01\x05"[..], &id.to_be_bytes(), &[0x88]].concat();
                stream.write_all(&answer).await.unwrap();
            }
            last = kind;
            if kind == 3 {
                break;
            }
        }
        let _ = tell.send(last);
    });
    (address, told)
}

#[tokio::test]
async fn a_client_of_http_2_that_is_gone_takes_the_rest_of_an_answered_request_with_it() {
    for reset in [false, true] {
        let (address, told) = shut().await;
        let setup = Setup::new(server(Protocol::Http2, everybody()), address).await;
        let (sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut sender = sender.ready().await.unwrap();
        let request = Request::post("http://web.example/").body(()).unwrap();
        let (answer, mut stream) = sender.send_request(request, false).unwrap();
        assert_eq!(answer.await.unwrap().status(), 200);
        stream.reserve_capacity(65_535);
        poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
        stream.send_data(Bytes::from(vec![0; 60_000]), false).unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if reset {
            stream.send_reset(Reason::CANCEL);
        } else {
            connection.abort();
        }
        let last = tokio::time::timeout(Duration::from_secs(20), told).await;
        assert_eq!(last.expect("it is still being sent").unwrap(), 3, "RST_STREAM");
    }
}

async fn bounded(policy: Protocol, address: SocketAddr) -> Setup {
    let policy = Some(server(policy, everybody()));
    Setup::with(policy, address, IdentityHandle::empty(), |config| {
        config.timeouts.stall = Some(Duration::from_secs(2));
    })
    .await
}

/// Bound: `stall` (here two seconds).
#[tokio::test]
async fn a_message_that_nobody_takes_ends() {
    // The client reads nothing of its response.
    let app = App::start().await;
    let setup = bounded(detect(), app.address).await;
    let mut client = setup.connect().await;
    client.write_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    setup.counted(APPLICATIONS, 1).await;
    setup.counted(CLIENTS, 0).await;
    setup.counted(APPLICATIONS, 0).await;
    // The application reads nothing of a request.
    let (address, _go, _got) = deaf(b"").await;
    let setup = bounded(detect(), address).await;
    let mut client = setup.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n";
    fill(&setup, &mut client, head, &pieces()[1]).await;
    // A sidecar that had no processor for a second looked like a full one: what it still has room for is sent.
    let (mut read, mut write) = client.split();
    let sending = async {
        while write.write_all(&pieces()[1]).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let mut answer = vec![0; 12];
    tokio::select! {
        answered = tokio::time::timeout(LONG, read.read_exact(&mut answer)) => answered.unwrap().unwrap(),
        () = sending => unreachable!(),
    };
    assert_eq!(answer, b"HTTP/1.1 502");
    setup.counted(APPLICATIONS, 0).await;
}

/// Bound: the same, for one stream; a stream without data to send may be silent for ever.
#[tokio::test]
async fn a_stream_whose_window_stays_shut_ends_alone() {
    let app = App::start().await;
    let setup = bounded(Protocol::Http2, app.address).await;
    let mut builder = h2::client::Builder::new();
    builder.initial_connection_window_size(1 << 20);
    let handshake = builder.handshake::<_, Bytes>(setup.connect().await);
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    let mut ask = |path: &str| {
        let request = Request::get(format!("http://web.example{path}")).body(()).unwrap();
        sender.send_request(request, true).unwrap().0
    };
    let silent = ask("/never");
    let mut flood = ask("/flood").await.unwrap().into_body();
    let mut slow = ask("/flood").await.unwrap().into_body();
    let taking = async {
        // A window that opens a little from time to time is enough.
        for _ in 0..12 {
            let piece = slow.data().await.unwrap().unwrap();
            slow.flow_control().release_capacity(piece.len()).unwrap();
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    };
    taking.await;
    let broken = loop {
        match tokio::time::timeout(LONG, flood.data()).await.expect("it stays open") {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("an answer that was cut off must not look complete"),
        }
    };
    assert_eq!(broken.reason(), Some(Reason::CANCEL), "{broken}");
    assert_eq!(ask("/").await.unwrap().status(), 200);
    let silent = tokio::time::timeout(Duration::from_millis(10), silent).await;
    assert!(silent.is_err(), "who waits for an answer stalls nobody");
}
