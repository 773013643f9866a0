//! Hostile clients against a real sidecar in a process of its own. Each test states its bound in
//! seconds and in megabytes of the sidecar's resident memory.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_cli::echo;
use policy_testkit::{long_or, wait_until_blocking};
use std::convert::Infallible;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A sidecar in front of an echo application.
struct World {
    address: SocketAddr,
    sidecar: Child,
    application: echo::EchoServer,
    /// Answers to well-behaved clients.
    served: AtomicU64,
    _runtime: Runtime,
}

impl World {
    fn start() -> Self {
        Self::in_front_of(None)
    }

    /// A sidecar in front of this application, or else of the echo.
    fn in_front_of(other: Option<SocketAddr>) -> Self {
        let runtime = runtime();
        let application = runtime
            .block_on(echo::start(
                SocketAddr::from(([127, 0, 0, 1], 0)),
                echo::EchoOptions::default(),
            ))
            .unwrap();
        let mut sidecar = Command::new(env!("CARGO_BIN_EXE_sidecar-under-test"))
            .arg(other.unwrap_or(application.address()).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(sidecar.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().parse().expect("the sidecar prints its address");
        Self { address, sidecar, application, served: AtomicU64::new(0), _runtime: runtime }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A client whose system takes few bytes that it does not read.
    fn connect_with_small_buffer(&self) -> TcpStream {
        let connected = runtime().block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(16 * 1024).unwrap();
            socket.connect(self.address).await.unwrap().into_std().unwrap()
        });
        connected.set_nonblocking(false).unwrap();
        connected
    }

    /// Requests whose head reached the application, without those of well-behaved clients.
    fn forwarded(&self) -> u64 {
        self.application.counters().requests() - self.served.load(Ordering::Relaxed)
    }

    /// The most memory the sidecar has ever had resident, in MB.
    fn peak_megabytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.sidecar.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).expect("the sidecar is alive");
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    /// The sidecar still serves everybody else.
    #[track_caller]
    fn assert_serves(&self) {
        let answer =
            exchange(self.connect(), b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200"), "a well-behaved client got {answer:?}");
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// Another client asks again and again during an attack, and is served each time within 5 seconds.
    #[track_caller]
    fn serving_meanwhile<T>(&self, attack: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut slowest = Duration::ZERO;
                while !over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    self.assert_serves();
                    slowest = slowest.max(begun.elapsed());
                    std::thread::sleep(Duration::from_millis(20));
                }
                slowest
            });
            // An attack that panics ends the other client, too: a scope waits for both.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attack));
            over.store(true, Ordering::Relaxed);
            let slowest = other.join().expect("another client is served during the attack");
            let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert!(slowest < Duration::from_secs(5), "another client waited for {slowest:?}");
            done
        })
    }

    /// Refused with 400 and never forwarded.
    #[track_caller]
    fn assert_refused(&self, request: &[u8]) {
        let before = self.forwarded();
        let answer = exchange(self.connect(), request);
        assert!(
            answer.starts_with("HTTP/1.1 400") || answer.is_empty(),
            "{:?} got {answer:?}",
            String::from_utf8_lossy(request)
        );
        assert_eq!(
            self.forwarded(),
            before,
            "{:?} was forwarded",
            String::from_utf8_lossy(request)
        );
        self.assert_serves();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.sidecar.kill();
        let _ = self.sidecar.wait();
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Bytes of a response for any path but `/`.
const LARGE: usize = 8 << 20;

/// An application with long responses, which it offers as fast as they are taken.
struct Large {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Large {
    fn start() -> Self {
        let runtime = runtime();
        let bind = tokio::net::TcpListener::bind(("127.0.0.1", 0));
        let listener = runtime.block_on(bind).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        runtime.spawn(Self::serve(listener, Arc::clone(&asked)));
        Self { address, asked, _runtime: runtime }
    }

    async fn serve(listener: tokio::net::TcpListener, asked: Arc<AtomicUsize>) {
        let body = Bytes::from(vec![b'x'; LARGE]);
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (body, body_of_bytes, asked) = (body.clone(), body.clone(), Arc::clone(&asked));
            let answer = service_fn(move |request: Request<Incoming>| {
                let large = request.uri().path() != "/";
                asked.fetch_add(usize::from(large), Ordering::Relaxed);
                let body = if large { body.clone() } else { Bytes::new() };
                async move {
                    if request.uri().path() == "/never" {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(Response::new(Full::new(body)))
                }
            });
            tokio::spawn(async move {
                let mut first = [0; 2];
                while matches!(stream.peek(&mut first).await, Ok(1)) {
                    tokio::task::yield_now().await;
                }
                if BYTES.starts_with(&first) {
                    let mut stream = stream;
                    _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &body_of_bytes).await;
                    return std::future::pending().await;
                }
                let io = TokioIo::new(stream);
                // A connection that breaks off is the sidecar's choice.
                if PREFACE.starts_with(&first) {
                    _ = http2::Builder::new(TokioExecutor::new())
                        .serve_connection(io, answer)
                        .await;
                } else {
                    _ = http1::Builder::new().serve_connection(io, answer).await;
                }
            });
        }
    }
}

/// Sends `request`, closes the sending half, and reads until the end or an error.
fn exchange(mut stream: TcpStream, request: &[u8]) -> String {
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
        }
        // A complete answer without a body ends here; keep-alive would keep the read waiting.
        if answer.windows(4).any(|w| w == b"\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Time until the peer ends the connection.
fn until_closed(stream: &mut TcpStream) -> Duration {
    let start = Instant::now();
    let mut chunk = [0; 16 * 1024];
    while matches!(stream.read(&mut chunk), Ok(read) if read > 0) {}
    start.elapsed()
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET http://a/` in HPACK: indexed `:method GET`, `:scheme http`, `:path /`, literal `:authority a`.
const GET: &[u8] = &[0x82, 0x86, 0x84, 0x01, 0x01, b'a'];

/// RFC 9112 section 6.3: an attempt at smuggling, which is refused, and the connection ends.
#[test]
fn two_framings_of_one_request_are_no_request() {
    let world = World::start();
    let smuggled = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut stream = world.connect();
    stream.write_all(smuggled).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers:?}");
    assert!(answers.starts_with("HTTP/1.1 400"), "{answers:?}");
    assert_eq!(world.forwarded(), 0);
    world.assert_serves();
}

#[test]
fn heads_that_parsers_read_differently_are_refused() {
    let world = World::start();
    for request in [
        &b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: one\rtwo: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx : 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n folded: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: \0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\na",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET //admin HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /a/../b HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET admin HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a@b\r\n\r\n",
    ] {
        world.assert_refused(request);
    }
}

/// RFC 9110 section 7.8: a server may ignore an upgrade. What follows is no HTTP/2 either.
#[test]
fn an_upgrade_to_cleartext_http2_is_not_honoured() {
    let world = World::start();
    let upgrade = b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\n\
        upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n";
    let get = frame(HEADERS, END_STREAM | END_HEADERS, 1, GET);
    let mut stream = world.connect();
    stream.write_all(&[upgrade, PREFACE, &frame(SETTINGS, 0, 0, &[]), &get].concat()).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    let answers = String::from_utf8(answers).expect("no frame of HTTP/2");
    let statuses: Vec<&str> =
        answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "400"], "{answers}");
    let head = answers.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    assert!(!head.contains("upgrade"), "{answers}");
    // The application read a request without an upgrade, and nothing else.
    let read = answers.split("\r\n\r\n").nth(1).unwrap();
    assert!(read.contains(r#""path": "/a""#), "{answers}");
    for word in ["h2c", "http2-settings", "upgrade"] {
        assert!(!read.contains(word), "{word} reached the application: {answers}");
    }
    assert_eq!(world.forwarded(), 1);
    world.assert_serves();
}

#[test]
fn a_request_that_arrives_byte_by_byte_is_read_as_one() {
    let world = World::start();
    let mut stream = world.connect();
    for byte in b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
}

/// Bound: 6 seconds (the head may take 2 here), 40 MB with 200 such clients.
#[test]
fn slow_heads_are_cut_off() {
    let world = World::start();
    let mut streams: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = world.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nx-slow: ").unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    world.serving_meanwhile(|| {
        for stream in &mut streams {
            until_closed(stream);
        }
    });
    assert!(start.elapsed() < Duration::from_secs(6), "took {:?}", start.elapsed());
    assert!(world.peak_megabytes() < 40, "{} MB", world.peak_megabytes());
    world.assert_serves();
}

/// Bound: 6 seconds, 40 MB, for 32 clients that each offer 16 MB of headers.
#[test]
fn oversized_heads_are_refused() {
    let world = World::start();
    let start = Instant::now();
    let clients: Vec<_> = (0..32).map(|_| world.connect()).collect();
    let threads: Vec<_> = clients
        .into_iter()
        .map(|mut stream| {
            std::thread::spawn(move || {
                let line = [b"x: ".as_slice(), &vec![b'a'; 16 * 1024], b"\r\n"].concat();
                let _ = stream.write_all(b"GET /oversized HTTP/1.1\r\nhost: a\r\n");
                for _ in 0..1024 {
                    if stream.write_all(&line).is_err() {
                        return;
                    }
                }
                panic!("16 MB of headers were read");
            })
        })
        .collect();
    world.serving_meanwhile(|| {
        for thread in threads {
            thread.join().unwrap();
        }
    });
    assert!(start.elapsed() < Duration::from_secs(6), "took {:?}", start.elapsed());
    assert!(world.peak_megabytes() < 40, "{} MB", world.peak_megabytes());
    assert_eq!(world.forwarded(), 0);
    world.assert_serves();
}

/// CVE-2023-44487. Bound: the connection ends within 10 seconds and 100,000 resets, 40 MB.
#[test]
fn rapid_resets_end_the_connection() {
    let world = World::start();
    let mut stream = world.connect();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let closed = std::thread::spawn(move || until_closed(&mut reader));
    let refused = world.serving_meanwhile(|| {
        (0..100_000_u32).any(|id| {
            let id = id * 2 + 1;
            let burst = [
                frame(HEADERS, END_STREAM | END_HEADERS, id, GET),
                frame(RST_STREAM, 0, id, &[0, 0, 0, 8]),
            ]
            .concat();
            stream.write_all(&burst).is_err()
        })
    });
    assert!(refused, "100,000 streams were opened and reset");
    assert!(closed.join().unwrap() < Duration::from_secs(10));
    assert!(world.peak_megabytes() < 40, "{} MB", world.peak_megabytes());
    world.assert_serves();
}

/// CVE-2024-27316 and its kin. Bound: 10 seconds, 40 MB, for 256 MB of CONTINUATION frames offered.
#[test]
fn endless_continuations_end_the_connection() {
    let world = World::start();
    let mut stream = world.connect();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
    stream.write_all(&frame(HEADERS, END_STREAM, 1, GET)).unwrap();
    // A literal field without indexing: name `x`, value of 16,000 bytes.
    let mut field = vec![0x00, 0x01, b'x', 0x7f, 0x81, 0x7c];
    field.extend_from_slice(&vec![b'a'; 16_000]);
    let start = Instant::now();
    let more = frame(CONTINUATION, 0, 1, &field);
    let refused = world.serving_meanwhile(|| (0..16_384).any(|_| stream.write_all(&more).is_err()));
    assert!(refused, "256 MB of header fragments were read");
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(world.peak_megabytes() < 40, "{} MB", world.peak_megabytes());
    assert_eq!(world.forwarded(), 0);
    world.assert_serves();
}

/// Bound: 60 MB, for 100 clients of each version that ask for 8 MB each and read none of it: 1.6 GB.
#[test]
fn a_client_that_never_reads_is_not_buffered_for() {
    const CLIENTS: usize = 100;
    let application = Large::start();
    let world = World::in_front_of(Some(application.address));
    // SETTINGS_INITIAL_WINDOW_SIZE = 0.
    let closed_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    // `:method GET`, `:scheme http`, `:path /8`, `:authority a`.
    let head = [0x82, 0x86, 0x04, 0x02, b'/', b'8', 0x01, 0x01, b'a'];
    let head = frame(HEADERS, END_STREAM | END_HEADERS, 1, &head);
    let mut silent = Vec::new();
    let mut plain = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = world.connect();
        stream.write_all(&[PREFACE, &closed_window, &head].concat()).unwrap();
        silent.push(stream);
        let mut stream = world.connect();
        let close = b"GET /8 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(close).unwrap();
        plain.push(stream);
        // The application's queue of connections is short, and the sidecar's connections to it have a
        // time limit.
        wait_until_blocking("the requests reach the application", || {
            application.asked.load(Ordering::Relaxed) == 2 * plain.len()
        });
    }
    let mut peak = 0;
    wait_until_blocking("the sidecar takes no more of the responses", || {
        std::thread::sleep(Duration::from_secs(1));
        std::mem::replace(&mut peak, world.peak_megabytes()) == peak
    });
    assert!(peak < 60, "{peak} MB");
    // Nothing was given up: who reads at last gets the whole response.
    for mut stream in [plain.swap_remove(0), plain.swap_remove(CLIENTS / 2)] {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{:?}", &answer[..answer.len().min(200)]);
        let body = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        assert_eq!(answer.len() - body, LARGE);
    }
    world.assert_serves();
    drop((silent, plain));
}

/// Bound: 6 seconds.
#[test]
fn random_bytes_do_not_stop_the_sidecar() {
    let world = World::start();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let start = Instant::now();
    for length in 1..200_usize {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                (seed & 0xff) as u8
            })
            .collect();
        let mut stream = world.connect();
        let _ = stream.write_all(&bytes);
        drop(stream);
    }
    assert!(start.elapsed() < Duration::from_secs(6));
    world.assert_serves();
}

const DATA: u8 = 0;
const WINDOW_UPDATE: u8 = 8;

/// Windows of a peer that takes as much as it is sent, and says so.
fn open_windows() -> Vec<u8> {
    let most = (u32::MAX >> 1).to_be_bytes();
    let more = (u32::MAX >> 2).to_be_bytes();
    [frame(SETTINGS, 0, 0, &[&[0, 4][..], &most].concat()), frame(WINDOW_UPDATE, 0, 0, &more)]
        .concat()
}

/// An application that offers each stream of HTTP/2 all windows and reads none of its body, or that
/// answers in messages of one byte without end. HTTP/1 is served.
fn of_smallest_frames(reads: bool) -> (SocketAddr, Runtime) {
    let runtime = runtime();
    let socket = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        socket.listen(128).unwrap()
    });
    let address = socket.local_addr().unwrap();
    runtime.spawn(async move {
        loop {
            let (mut stream, _) = socket.accept().await.unwrap();
            tokio::spawn(async move {
                let mut first = [0];
                _ = stream.peek(&mut first).await;
                if first != [PREFACE[0]] {
                    let answer = service_fn(|_: Request<Incoming>| async {
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
                    });
                    _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
                } else if reads {
                    let answer = service_fn(|_: Request<Incoming>| async {
                        let byte = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x")));
                        let body = StreamBody::new(futures_util::stream::repeat_with(byte));
                        Ok::<_, Infallible>(Response::new(body))
                    });
                    _ = http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), answer)
                        .await;
                } else {
                    _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &open_windows()).await;
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    (address, runtime)
}

/// Bound: 60 MB, for 1.2 million frames of one byte that the application does not read, and for as many
/// as three clients get that open every window and read nothing.
#[test]
fn bodies_of_the_smallest_frames_cost_what_they_count() {
    const STREAMS: u32 = 8;
    for reads in [false, true] {
        let (address, _runtime) = of_smallest_frames(reads);
        let world = World::in_front_of(Some(address));
        let head = [0x83, 0x86, 0x84, 0x01, 0x01, b'a'];
        let ids = || (0..STREAMS).map(|n| 2 * n + 1);
        let end = if reads { END_STREAM } else { 0 };
        let heads: Vec<u8> =
            ids().flat_map(|id| frame(HEADERS, end | END_HEADERS, id, &head)).collect();
        let opening = [PREFACE, &open_windows(), &heads].concat();
        let bodies: Vec<u8> =
            (0..1000).flat_map(|_| ids().flat_map(|id| frame(DATA, 0, id, b"x"))).collect();
        let attack = || {
            let mut stream = world.connect_with_small_buffer();
            stream.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
            stream.write_all(&opening).unwrap();
            // Within the windows of the sidecar, until it takes no more.
            let _ = (0..if reads { 0 } else { 50 }).all(|_| stream.write_all(&bodies).is_ok());
            stream
        };
        let held: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(attack)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut peak = 0;
        wait_until_blocking("the sidecar takes no more of the bodies", || {
            std::thread::sleep(Duration::from_secs(1));
            world.assert_serves();
            std::mem::replace(&mut peak, world.peak_megabytes()) == peak
        });
        assert!(peak < 60, "{peak} MB, the application reads: {reads}");
        drop(held);
    }
}

/// Bound: half of a bystander's requests within 50 ms (without optimization within a second), beside
/// twenty clients that send heads of 1,600 fields as fast as they are read.
#[test]
fn heads_of_many_fields_do_not_keep_a_bystander_waiting() {
    let world = World::start();
    let first = [GET, &[0x40, 0x01, b'x', 0x01, b'a']].concat();
    let many = [GET, &[0xbe; 1600]].concat();
    let over = AtomicBool::new(false);
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        for _ in 0..20 {
            let mut stream = world.connect();
            let mut reader = stream.try_clone().unwrap();
            scope.spawn(move || until_closed(&mut reader));
            let (over, first, many) = (&over, &first, &many);
            scope.spawn(move || {
                let begin = frame(HEADERS, END_STREAM | END_HEADERS, 1, first);
                let settings = frame(SETTINGS, 0, 0, &[]);
                let _ = stream.write_all(&[PREFACE, &settings, &begin].concat());
                let mut id = 3;
                while !over.load(Ordering::Relaxed) {
                    let next = frame(HEADERS, END_STREAM | END_HEADERS, id, many);
                    if stream.write_all(&next).is_err() {
                        break;
                    }
                    id += 2;
                }
                let _ = stream.shutdown(std::net::Shutdown::Both);
            });
        }
        std::thread::sleep(Duration::from_secs(1));
        let mut bystander = world.connect();
        let times = (0..41).map(|_| {
            let begun = Instant::now();
            bystander.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            let mut answer = vec![0; 16 * 1024];
            let read = bystander.read(&mut answer).unwrap();
            assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{read} bytes");
            begun.elapsed()
        });
        let times = times.collect();
        over.store(true, Ordering::Relaxed);
        times
    });
    times.sort_unstable();
    let bound = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 50 });
    assert!(times[20] < bound, "{times:?}");
    assert!(world.peak_megabytes() < 60, "{} MB", world.peak_megabytes());
}

/// Clients with fifty connections each, from an address each; `.ci/long` takes twenty.
const ATTACKERS: usize = 2;

/// First bytes of a connection that speaks no HTTP.
const BYTES: &[u8] = b"bytes, of no protocol that is known\n";

/// An attack of one connection: its name, what it sends, and how much it reads before it stops.
type Attack = (&'static str, Vec<u8>, usize);

/// Attacks that hold memory as long as their connection lasts: a head that is not complete, heads of open
/// requests that are large only decoded, and bodies and bytes that nobody takes.
fn attacks() -> Vec<Attack> {
    let closed_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    // `:method GET`, `:scheme http`, `:path /8`, `:authority a`.
    let large = [0x82, 0x86, 0x04, 0x02, b'/', b'8', 0x01, 0x01, b'a'];
    // A cookie of 3,900 bytes, and then its index, again and again.
    let cookie = [&[0x60, 0x7f, 0xbd, 0x1d][..], &[b'c'; 3900]].concat();
    let crumbs = |first: bool| match first {
        true => [&large[..], &cookie, &[0xbe; 14]].concat(),
        false => [&large[..], &[0xbe; 15]].concat(),
    };
    let heads =
        (0..5).flat_map(|n| frame(HEADERS, END_STREAM | END_HEADERS, 2 * n + 1, &crumbs(n == 0)));
    let heads: Vec<u8> = heads.collect();
    let bodies = frame(HEADERS, END_STREAM | END_HEADERS, 1, &large);
    let upload = b"POST /never HTTP/1.1\r\nhost: a\r\ncontent-length: 10000000\r\n\r\n";
    let upload = [upload, &vec![b'a'; 500_000][..]].concat();
    vec![
        (
            "an incomplete head",
            [b"GET / HTTP/1.1\r\nhost: a\r\nx: ".as_slice(), &[b'a'; 8192]].concat(),
            0,
        ),
        ("large heads of open requests", [PREFACE, &closed_window, &heads].concat(), 0),
        ("bodies that nobody takes", [PREFACE, &closed_window, &bodies].concat(), 0),
        ("bodies of HTTP/1 that nobody takes", b"GET /8 HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(), 0),
        ("bodies of HTTP/1 that the application does not take", upload, 0),
        ("bytes that nobody takes", BYTES.to_vec(), 0),
        // By then the sidecar reads much at a time.
        ("bytes that nobody takes any more", BYTES.to_vec(), LARGE * 5 / 8),
    ]
}

/// Bound: 64 MB at twenty attackers with fifty connections each, by each attack.
#[test]
fn many_connections_of_many_attackers_stay_below_64_mb_and_others_are_served() {
    let attackers = long_or("ATTACKERS", ATTACKERS);
    for (name, attack, reads) in attacks() {
        let application = Large::start();
        let world = World::in_front_of(Some(application.address));
        let mut held = Vec::new();
        for attacker in 0..attackers {
            let from = SocketAddr::from(([127, 0, u8::try_from(attacker).unwrap() + 1, 1], 0));
            for _ in 0..50 {
                let connected = runtime().block_on(async {
                    let socket = tokio::net::TcpSocket::new_v4().unwrap();
                    socket.bind(from).unwrap();
                    socket.set_recv_buffer_size(16 * 1024).unwrap();
                    socket.connect(world.address).await.unwrap().into_std().unwrap()
                });
                connected.set_nonblocking(false).unwrap();
                let mut stream = connected;
                // What it takes at once or soon; one that is at its bound is ended.
                stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
                let _ = stream.write_all(&attack);
                let mut read = vec![0; reads];
                let _ = stream.read_exact(&mut read);
                held.push(stream);
            }
            world.assert_serves();
        }
        let mut peak = 0;
        wait_until_blocking("the sidecar takes no more", || {
            std::thread::sleep(Duration::from_secs(1));
            world.assert_serves();
            std::mem::replace(&mut peak, world.peak_megabytes()) == peak
        });
        assert!(peak < 64, "{name}: {peak} MB");
        drop(held);
    }
}
