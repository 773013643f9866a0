//! Streams of HTTP/2 that the application resets, refuses, or loses with its connection.

use crate::frames::frame;
use crate::support::*;
use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Request, Response};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a client saw of an answer: its status if it has a head, its bytes, and its trailers or the
/// reason of its reset.
type Seen = (Option<u16>, usize, Result<HeaderMap, Option<Reason>>);

async fn client(setup: &Setup) -> SendRequest<Bytes> {
    let (sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

async fn see(answer: h2::client::ResponseFuture) -> Seen {
    let answer = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap();
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return (None, 0, Err(error.reason())),
    };
    let (status, mut bytes) = (Some(answer.status().as_u16()), 0);
    let mut body = answer.into_body();
    while let Some(piece) = body.data().await {
        match piece {
            Ok(piece) => bytes += piece.len(),
            Err(error) => return (status, bytes, Err(error.reason())),
        }
    }
    let trailers = body.trailers().await.map_err(|error| error.reason());
    (status, bytes, trailers.map(Option::unwrap_or_default))
}

async fn ask(sender: &SendRequest<Bytes>, path: &str, kind: &str) -> Seen {
    let mut sender = sender.clone().ready().await.unwrap();
    let request = Request::post(format!("http://web.example{path}")).header("content-type", kind);
    see(sender.send_request(request.body(()).unwrap(), true).unwrap().0).await
}

/// An application that ends each exchange as its path says.
async fn losing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let path = request.uri().path().to_owned();
                    if path == "/reset" {
                        respond.send_reset(Reason::ENHANCE_YOUR_CALM);
                        continue;
                    }
                    let mut body = match path.as_str() {
                        "/lost" => None,
                        _ => Some(respond.send_response(Response::new(()), false).unwrap()),
                    };
                    // A message of five bytes, or its beginning.
                    let data = &b"\0\0\0\0\x05hello"[..if path == "/middle" { 7 } else { 10 }];
                    if let Some(body) = &mut body {
                        body.send_data(Bytes::from_static(data), false).unwrap();
                    }
                    if path == "/then-reset" {
                        let write = connection.accept();
                        let _ = tokio::time::timeout(Duration::from_millis(50), write).await;
                        body.unwrap().send_reset(Reason::CANCEL);
                        continue;
                    }
                    if path == "/goaway" {
                        connection.graceful_shutdown();
                    }
                    // What it has said is written; the connection is closed within the stream.
                    let write = connection.accept();
                    let _ = tokio::time::timeout(Duration::from_millis(50), write).await;
                    return;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_call_whose_application_is_lost_is_unavailable() {
    let address = losing().await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let sender = client(&setup).await;
    let grpc = "application/grpc";
    let unavailable =
        || HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("14"))]);
    // Its head, one message, and the status that is known by now; also in the middle of a message.
    assert_eq!(ask(&sender, "/stream", grpc).await, (Some(200), 10, Ok(unavailable())));
    assert_eq!(ask(&sender, "/goaway", grpc).await, (Some(200), 10, Ok(unavailable())));
    assert_eq!(ask(&sender, "/middle", grpc).await, (Some(200), 7, Ok(unavailable())));
    let mut again = sender.clone().ready().await.unwrap();
    let request = Request::post("http://web.example/lost").header("content-type", grpc);
    let lost = again.send_request(request.body(()).unwrap(), true).unwrap().0.await.unwrap();
    assert_eq!(
        (lost.status().as_u16(), &lost.headers()["grpc-status"]),
        (200, &"14".parse().unwrap())
    );
    // Other clients see a break, never an end.
    for path in ["/stream", "/goaway"] {
        let seen = ask(&sender, path, "text/plain").await;
        assert_eq!(seen, (Some(200), 10, Err(Some(Reason::INTERNAL_ERROR))), "{path}");
    }
}

#[tokio::test]
async fn a_reset_of_the_application_keeps_its_code() {
    let address = losing().await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let sender = client(&setup).await;
    for kind in ["application/grpc", "text/plain"] {
        let reset = (None, 0, Err(Some(Reason::ENHANCE_YOUR_CALM)));
        assert_eq!(ask(&sender, "/reset", kind).await, reset, "{kind}");
        let reset = (Some(200), 10, Err(Some(Reason::CANCEL)));
        assert_eq!(ask(&sender, "/then-reset", kind).await, reset, "{kind}");
    }
    setup.logged("allow - - POST /reset 502").await;
}

/// HEADERS with `:status 200`, END_STREAM and END_HEADERS.
fn ok(id: u32) -> Vec<u8> {
    [&b"\x00\x00\x01\x01\x05"[..], &id.to_be_bytes(), &[0x88]].concat()
}

fn refused(id: u32) -> Vec<u8> {
    [&b"\x00\x00\x04\x03\x00"[..], &id.to_be_bytes(), &[0, 0, 0, 7]].concat()
}

fn goaway(last: u32) -> Vec<u8> {
    [&b"\x00\x00\x08\x07\x00\x00\x00\x00\x00"[..], &last.to_be_bytes(), &[0; 4]].concat()
}

/// Answers the frames of one connection by `answer`, which is given kind, flags and stream. Its
/// SETTINGS follow after `pause`, with this limit of streams.
async fn script(
    mut stream: TcpStream,
    (pause, limit): (Duration, u8),
    mut answer: impl FnMut(u8, u8, u32) -> Vec<u8>,
) {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    tokio::time::sleep(pause).await;
    let settings = [&b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00"[..], &[limit]];
    stream.write_all(&settings.concat()).await.unwrap();
    while let Some((kind, flags, id, payload)) = frame(&mut stream).await {
        let own = match (kind, flags & 1) {
            (4, 0) => b"\0\0\0\x04\x01\0\0\0\0".to_vec(),
            (6, 0) => [&b"\0\0\x08\x06\x01\0\0\0\0"[..], &payload].concat(),
            _ => answer(kind, flags, id),
        };
        if stream.write_all(&own).await.is_err() {
            return;
        }
    }
}

/// An application of scripted connections, and the streams that it saw of each.
async fn scripted<A>(
    settings: (Duration, u8),
    each: impl Fn(usize) -> A + Send + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<(usize, u32)>>>)
where
    A: FnMut(u8, u8, u32) -> Vec<u8> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::default());
    let log: Arc<Mutex<Vec<(usize, u32)>>> = Arc::clone(&seen);
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let (mut answer, log) = (each(number), Arc::clone(&log));
            tokio::spawn(script(stream, settings, move |kind, flags, id| {
                if kind == 1 {
                    log.lock().push((number, id));
                }
                answer(kind, flags, id)
            }));
        }
    });
    (address, seen)
}

const GET: &str = "text/plain";

#[tokio::test]
async fn the_applications_limit_of_streams_holds_for_the_first_burst_too() {
    let begun = std::time::Instant::now();
    // The time of each stream of the only connection.
    let times = Arc::<Mutex<Vec<Duration>>>::default();
    let own = Arc::clone(&times);
    let pause = Duration::from_millis(500);
    let (address, _) = scripted((pause, 100), move |_| {
        let times = Arc::clone(&own);
        move |kind, _, id| {
            if kind != 1 {
                return Vec::new();
            }
            times.lock().push(begun.elapsed());
            ok(id)
        }
    })
    .await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let sender = client(&setup).await;
    let all = futures_util::future::join_all((0..30).map(|_| ask(&sender, "/", GET))).await;
    assert!(all.iter().all(|seen| seen.0 == Some(200)), "{all:?}");
    assert_eq!(times.lock().len(), 30);

    // An application that takes two at a time refuses none, because none is beyond.
    let (address, seen) = scripted((pause, 2), |_| {
        let mut open = Vec::new();
        move |kind, _, id| match kind {
            1 if open.len() == 2 => refused(id),
            1 => {
                open.push(id);
                // Both are answered when the second one is there; the last has no second one.
                if open.len() == 2 { open.drain(..).flat_map(ok).collect() } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    })
    .await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let sender = client(&setup).await;
    let all = futures_util::future::join_all((0..30).map(|_| ask(&sender, "/", GET))).await;
    assert!(all.iter().all(|seen| seen.0 == Some(200)), "{all:?}");
    assert_eq!(seen.lock().len(), 30, "each was sent once");
}

#[tokio::test]
async fn a_stream_that_was_not_processed_is_sent_again_once() {
    let refuses = |times: usize| {
        move |_| {
            let mut left = times;
            move |kind, _, id| match kind {
                1 if left > 0 => {
                    left -= 1;
                    refused(id)
                }
                1 => ok(id),
                _ => Vec::new(),
            }
        }
    };
    let refusal = (None, 0, Err(Some(Reason::REFUSED_STREAM)));
    for (times, expected) in [(1, (Some(200), 0, Ok(HeaderMap::new()))), (2, refusal)] {
        let (address, seen) = scripted((Duration::ZERO, 100), refuses(times)).await;
        let setup = Setup::new(server(detect(), everybody()), address).await;
        let sender = client(&setup).await;
        assert_eq!(ask(&sender, "/", GET).await, expected, "{times}");
        assert_eq!(*seen.lock(), [(0, 1), (0, 3)], "{times}");
    }
    // GOAWAY with a lower number: on another connection.
    let (address, seen) = scripted((Duration::ZERO, 100), |number| {
        move |kind, _, id| match kind {
            1 if number == 0 && id == 3 => goaway(1),
            1 => ok(id),
            _ => Vec::new(),
        }
    })
    .await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let sender = client(&setup).await;
    for _ in 0..3 {
        assert_eq!(ask(&sender, "/", GET).await, (Some(200), 0, Ok(HeaderMap::new())));
    }
    assert_eq!(*seen.lock(), [(0, 1), (0, 3), (1, 1), (1, 3)]);
}

#[tokio::test]
async fn a_stream_is_not_sent_again_once_some_of_its_body_was_taken() {
    for (refuses_at, expected) in [(1, Some(200)), (0, None)] {
        // Refused with its head, or with its first DATA.
        let (address, seen) = scripted((Duration::ZERO, 100), move |_| {
            let mut done = false;
            move |kind, flags, id| match kind {
                _ if kind == refuses_at && !done => {
                    done = true;
                    refused(id)
                }
                0 if flags & 1 == 1 => ok(id),
                _ => Vec::new(),
            }
        })
        .await;
        let setup = Setup::new(server(detect(), everybody()), address).await;
        let mut sender = client(&setup).await;
        let request = Request::post("http://web.example/").body(()).unwrap();
        let (answer, mut upload) = sender.send_request(request, false).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        upload.send_data(Bytes::from_static(b"some"), false).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let _ = upload.send_data(Bytes::from_static(b"more"), true);
        let (status, _, end) = see(answer).await;
        assert_eq!(status, expected, "{end:?}");
        if status.is_none() {
            assert_eq!(end, Err(Some(Reason::REFUSED_STREAM)));
        }
        assert_eq!(seen.lock().len(), if expected.is_some() { 2 } else { 1 });
    }
}

/// An application that answers before the request is whole, and then resets the stream without an error
/// (RFC 9113 section 8.1). The path says how much of the response precedes the reset.
async fn early() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let path = request.uri().path().to_owned();
                    let kind = request.headers()["content-type"].clone();
                    let mut head = Response::builder().header("content-type", kind);
                    if path == "/half-length" || path == "/whole-length" {
                        head = head.header("content-length", 10);
                    }
                    if path == "/status" {
                        head = head.header("grpc-status", 5);
                    }
                    let head = head.body(()).unwrap();
                    let mut body = respond.send_response(head, path == "/status").unwrap();
                    if path != "/status" {
                        let ends = path.starts_with("/whole");
                        let data = if path == "/half-length" { "hello" } else { "hellohello" };
                        body.send_data(Bytes::from(data), ends).unwrap();
                    }
                    if path == "/trailers" {
                        let status = ("grpc-status".parse().unwrap(), "5".parse().unwrap());
                        body.send_trailers(HeaderMap::from_iter([status])).unwrap();
                    }
                    // A reset overtakes what is not written yet.
                    let write = connection.accept();
                    let _ = tokio::time::timeout(Duration::from_millis(50), write).await;
                    body.send_reset(Reason::NO_ERROR);
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_reset_without_an_error_ends_a_whole_response_and_cuts_one_that_is_not() {
    let address = early().await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let grpc = "application/grpc";
    let status = || HeaderMap::from_iter([("grpc-status".parse().unwrap(), "5".parse().unwrap())]);
    let cut = |bytes| (Some(200), bytes, Err(Some(Reason::NO_ERROR)));
    for (path, kind, expected) in [
        ("/whole", GET, (Some(200), 10, Ok(HeaderMap::new()))),
        ("/whole-length", GET, (Some(200), 10, Ok(HeaderMap::new()))),
        ("/trailers", grpc, (Some(200), 10, Ok(status()))),
        ("/status", grpc, (Some(200), 0, Ok(HeaderMap::new()))),
        ("/half-length", GET, cut(5)),
        ("/half", GET, cut(10)),
        ("/half", grpc, cut(10)),
    ] {
        // Each on a connection of its own, which may end with it.
        let mut sender = client(&setup).await;
        let request =
            Request::post(format!("http://web.example{path}")).header("content-type", kind);
        let sent = sender.send_request(request.body(()).unwrap(), false).unwrap();
        let (answer, _upload) = sent;
        assert_eq!(see(answer).await, expected, "{path}");
    }
}

/// An application that tells the code by which each of its streams ends.
async fn told() -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<Option<Reason>>) {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let answers = request.uri().path() == "/answered";
                    let tell = tell.clone();
                    tokio::spawn(async move {
                        let mut body = answers
                            .then(|| respond.send_response(Response::new(()), false).unwrap());
                        let reset = std::future::poll_fn(|cx| match &mut body {
                            Some(body) => body.poll_reset(cx),
                            None => respond.poll_reset(cx),
                        });
                        let _ = tell.send(reset.await.ok());
                    });
                }
            });
        }
    });
    (address, told)
}

#[tokio::test]
async fn a_reset_of_the_client_within_its_request_keeps_its_code() {
    let (address, mut told) = told().await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    for path in ["/", "/answered"] {
        for reason in [Reason::CANCEL, Reason::INTERNAL_ERROR, Reason::ENHANCE_YOUR_CALM] {
            let mut sender = client(&setup).await;
            let request = Request::post(format!("http://web.example{path}")).body(()).unwrap();
            let (answer, mut upload) = sender.send_request(request, false).unwrap();
            upload.send_data(Bytes::from_static(b"some"), false).unwrap();
            let _answer = match path {
                "/" => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    Err(answer)
                }
                _ => Ok(answer.await.unwrap()),
            };
            upload.send_reset(reason);
            let heard = tokio::time::timeout(Duration::from_secs(60), told.recv()).await;
            assert_eq!(heard.unwrap(), Some(Some(reason)), "{path}");
        }
    }
}
