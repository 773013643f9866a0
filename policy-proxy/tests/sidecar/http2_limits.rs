//! The stream limit of an application's HTTP/2 connection, and requests beyond it.

use crate::frames::frame;
use crate::support::*;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use policy_tls::identity::IdentityHandle;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;

struct OneAtATime {
    address: SocketAddr,
    /// Requests that reached the application.
    seen: Arc<AtomicUsize>,
    /// True once the proxy knows its limit.
    settled: Arc<AtomicBool>,
    go: Arc<Notify>,
}

impl OneAtATime {
    /// Waits until it holds the first request and the proxy knows its limit.
    async fn is_full(&self) {
        let full = || self.seen.load(Ordering::SeqCst) == 1 && self.settled.load(Ordering::SeqCst);
        let begun = Instant::now();
        while !full() {
            assert!(begun.elapsed().as_secs() < 60, "still not full");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// HEADERS with `:status 200`, END_STREAM and END_HEADERS.
fn answer(id: u32) -> Vec<u8> {
    [&b"\x00\x00\x01\x01\x05"[..], &id.to_be_bytes(), &[0x88]].concat()
}

/// An application that accepts one stream at a time and holds the first until it is released.
async fn one_at_a_time(goaway: bool) -> OneAtATime {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let go = Arc::new(Notify::new());
    let settled = Arc::new(AtomicBool::new(false));
    let (own_seen, own_go, own_settled) = (seen.clone(), go.clone(), settled.clone());
    tokio::spawn(async move {
        let mut first = true;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (seen, go, settled) = (own_seen.clone(), own_go.clone(), own_settled.clone());
            let hold = std::mem::take(&mut first);
            tokio::spawn(async move {
                let mut preface = [0; 24];
                stream.read_exact(&mut preface).await.unwrap();
                // MAX_CONCURRENT_STREAMS 1.
                stream
                    .write_all(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01")
                    .await
                    .unwrap();
                let mut held = None;
                loop {
                    tokio::select! {
                        got = frame(&mut stream) => {
                            let Some((kind, flags, id, _)) = got else { return };
                            match kind {
                                4 if flags == 0 => stream
                                    .write_all(b"\x00\x00\x00\x04\x01\x00\x00\x00\x00").await.unwrap(),
                                4 => settled.store(true, Ordering::SeqCst),
                                1 => {
                                    seen.fetch_add(1, Ordering::SeqCst);
                                    if hold && held.is_none() {
                                        held = Some(id);
                                    } else {
                                        let _ = stream.write_all(&answer(id)).await;
                                    }
                                }
                                _ => {}
                            }
                        }
                        () = go.notified(), if held.is_some() => {
                            if goaway {
                                let mut all = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00".to_vec();
                                all.extend(held.unwrap().to_be_bytes());
                                all.extend([0; 4]);
                                stream.write_all(&all).await.unwrap();
                            }
                            stream.write_all(&answer(held.unwrap())).await.unwrap();
                        }
                    }
                }
            });
        }
    });
    OneAtATime { address, seen, settled, go }
}

#[tokio::test]
async fn a_request_that_is_taken_back_while_it_waits_is_never_sent() {
    let app = one_at_a_time(false).await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let (sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
    tokio::spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    let mut ask = |path: &str| {
        let request = Request::get(format!("http://web.example{path}")).body(()).unwrap();
        sender.send_request(request, true).unwrap().0
    };
    let first = ask("/held");
    app.is_full().await;
    for _ in 0..5 {
        let queued: Vec<_> = (0..20).map(|n| ask(&format!("/{n}"))).collect();
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(queued);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(app.seen.load(Ordering::SeqCst), 1);
    app.go.notify_one();
    assert_eq!(first.await.unwrap().status(), 200);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(app.seen.load(Ordering::SeqCst), 1, "requests that nobody wants reached it");
}

#[tokio::test]
async fn requests_that_wait_go_elsewhere_when_the_application_ends_its_connection() {
    let app = one_at_a_time(true).await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let sender = crate::http2::client(&setup).await;
    let ask = |path: String| {
        let mut sender = sender.clone();
        tokio::spawn(async move {
            let request = Request::get(format!("http://web.example{path}"));
            let request = request.body(Full::<Bytes>::default()).unwrap();
            sender.send_request(request).await.unwrap().status().as_u16()
        })
    };
    let first = ask("/held".into());
    app.is_full().await;
    let queued: Vec<_> = (0..5).map(|n| ask(format!("/{n}"))).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(app.seen.load(Ordering::SeqCst), 1);
    app.go.notify_one();
    assert_eq!(first.await.unwrap(), 200);
    let mut all = Vec::new();
    for one in queued {
        all.push(one.await.unwrap());
    }
    assert_eq!(all, [200; 5]);
}

#[tokio::test]
async fn uploads_beyond_what_the_application_takes_at_once_all_arrive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service =
                hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async move {
                    use http_body_util::BodyExt;
                    let all = request.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
                    Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(
                        all.len().to_string(),
                    ))))
                });
            let mut builder =
                hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
            builder.max_concurrent_streams(2);
            let io = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(builder.serve_connection(io, service));
        }
    });
    let setup = Setup::new(server(detect(), everybody()), address).await;
    for round in 0..5 {
        let sender = crate::http2::client(&setup).await;
        let first = Request::get("http://web.example/").body(Full::default()).unwrap();
        assert_eq!(got(sender.clone().send_request(first).await.unwrap()).await.body, "0");
        let all = (0..60_usize).map(|n| {
            let mut sender = sender.clone();
            async move {
                let body = Full::new(Bytes::from(vec![0; 3_000 * (n % 10)]));
                let request = Request::post("http://web.example/").body(body).unwrap();
                let got = got(sender.send_request(request).await.unwrap()).await;
                assert_eq!((got.status.as_u16(), got.body), (200, (3_000 * (n % 10)).to_string()));
            }
        });
        let all = futures_util::future::join_all(all);
        let done = tokio::time::timeout(Duration::from_secs(60), all).await;
        assert!(done.is_ok(), "hangs in round {round}");
    }
}

/// An application whose accept queue is full: the system drops further connections.
struct Deaf {
    listener: std::net::TcpListener,
    _queued: Vec<std::net::TcpStream>,
}

impl Deaf {
    fn new() -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        socket.listen(1).unwrap();
        let listener: std::net::TcpListener = socket.into();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        let bound = Duration::from_millis(300);
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, bound) {
            queued.push(stream);
            assert!(queued.len() < 100, "its queue has no end");
        }
        Self { listener, _queued: queued }
    }
}

/// Bound: `connect` (here two seconds), however many streams wait, and whichever are cancelled.
#[tokio::test]
async fn streams_to_an_application_that_does_not_accept_wait_one_connect_timeout_in_all() {
    let app = Deaf::new();
    let address = app.listener.local_addr().unwrap();
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, address, IdentityHandle::empty(), |config| {
        config.timeouts.connect = Duration::from_secs(2);
    })
    .await;
    let sender = crate::http2::client(&setup).await;
    let ask = || {
        let mut sender = sender.clone();
        let request = Request::get("http://web.example/").body(Full::<Bytes>::default()).unwrap();
        tokio::spawn(async move { sender.send_request(request).await.unwrap().status().as_u16() })
    };
    let begun = Instant::now();
    let taken_back: Vec<_> = (0..10).map(|_| ask()).collect();
    let all: Vec<_> = (0..30).map(|_| ask()).collect();
    for one in taken_back {
        tokio::time::sleep(Duration::from_millis(150)).await;
        one.abort();
    }
    for one in all {
        assert_eq!(one.await.unwrap(), 504);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // A later stream has an attempt of its own.
    let begun = Instant::now();
    assert_eq!(ask().await.unwrap(), 504);
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// Bound: the room for bodies that one side does not take, 16 MiB; the first of these connections fill the
/// window of a client, 1 MiB, behind what the application has room for. Once half of the room is held, the others
/// fill a window of 256 KiB.
#[tokio::test]
async fn bodies_that_nobody_takes_have_a_bound_in_all_and_the_client_that_holds_most_loses_first() {
    const ATTACKS: u64 = 128;
    let (app, body) = (App::start().await, Bytes::from(vec![0; 131_070]));
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut held = Vec::new();
    for _ in 0..ATTACKS {
        let (mut sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut streams = Vec::new();
        for _ in 0..16 {
            sender = sender.ready().await.unwrap();
            let request = Request::post("http://web.example/never").body(()).unwrap();
            let (answer, mut upload) = sender.send_request(request, false).unwrap();
            let _ = upload.send_data(body.clone(), false);
            streams.push((answer, upload));
        }
        held.push((connection, streams));
    }
    // A part of them has to go, and many stay.
    let begun = Instant::now();
    let ended = || {
        let ended = held.iter().filter(|(connection, _)| connection.is_finished()).count();
        u64::try_from(ended).unwrap()
    };
    while ended() < ATTACKS / 8 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} ended", ended());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(ended() < ATTACKS * 3 / 4, "{} ended", ended());
    let series = "inbound_http_errors_total{error=\"too_many_requests\"";
    let metrics = setup.metrics();
    let counted = metrics.lines().find(|line| line.starts_with(series)).unwrap();
    assert!(!counted.ends_with(" 0"), "{counted}");
    // A client of another network is served at once, also while it sends a body.
    let begun = Instant::now();
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.9.9.9:0".parse().unwrap()).unwrap();
    let stream = other.connect(setup.address).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("http://web.example/upload").body(()).unwrap();
    let (answer, mut upload) = sender.send_request(request, false).unwrap();
    upload.send_data(Bytes::from(vec![0; 100_000]), true).unwrap();
    assert_eq!(answer.await.unwrap().status(), 200);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
