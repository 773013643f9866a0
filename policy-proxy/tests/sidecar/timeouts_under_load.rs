//! Bounds on parts of an exchange while many clients ask slow applications: each exchange ends as its own
//! bound says, and nothing of one that was ended stays open.

use crate::http2::Sender;
use crate::support::*;
use crate::tls::{Mesh, connect};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_core::filter::{Filter, FilterKind, Streams, Timeouts};
use policy_core::{Route, Rule, ServerPolicy, Source};
use policy_testkit::{Authority, dns as san, http2_client, wait_until};
use policy_tls::identity::IdentityHandle;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::IntervalStream;

/// The bound of exchanges that never end by themselves, so that a busy machine changes no outcome.
const BOUND: Duration = Duration::from_millis(400);
/// The bound on the head of streams that may take any time: longer than a busy machine takes for it.
const HEAD: Duration = Duration::from_secs(3);
/// The bound of exchanges that end by themselves.
const LONG: Duration = Duration::from_secs(120);
/// Time within which what has a bound has surely ended.
const SURELY: Duration = Duration::from_secs(60);

const REQUEST: &str = "the exchange exceeded the policy's request timeout";
const RESPONSE: &str = "the application exceeded the policy's response timeout";
const IDLE: &str = "the exchange exceeded the policy's idle timeout";

/// An application that counts the exchanges that it still has to do with.
struct SlowApp {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
}

/// An exchange, counted until it is dropped.
struct Exchange(Arc<AtomicUsize>);

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SlowApp {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, begun) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counters = (Arc::clone(&open), Arc::clone(&begun));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, counters.clone()));
            }
        });
        Self { address, open, begun }
    }

    async fn has_nothing_open(&self) {
        let open = || self.open.load(Ordering::Relaxed);
        wait_until("the application has no exchange open", async || open() == 0).await;
    }
}

async fn serve(stream: TcpStream, (open, begun): (Arc<AtomicUsize>, Arc<AtomicUsize>)) {
    let mut first = [0; 4];
    let read = stream.peek(&mut first).await;
    let http2 = matches!(read, Ok(n) if n >= 3 && first.starts_with(b"PRI"));
    let service = service_fn(move |request| {
        begun.fetch_add(1, Ordering::Relaxed);
        open.fetch_add(1, Ordering::Relaxed);
        answer(request, Exchange(Arc::clone(&open)))
    });
    let io = TokioIo::new(stream);
    if http2 {
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(io, service).await;
    } else {
        let builder = hyper::server::conn::http1::Builder::new();
        let _ = builder.serve_connection(io, service).await;
    }
}

/// Paths that end with `trickle` or `Trickle` begin and send nothing more; `stream` ticks for ever;
/// `late` takes a moment and has trailers; others never begin.
async fn answer(
    request: Request<Incoming>,
    exchange: Exchange,
) -> Result<Response<AppBody>, Infallible> {
    let path = request.uri().path().to_ascii_lowercase();
    let grpc = path.starts_with("/pkg.");
    let body = if path.ends_with("trickle") {
        let first = tokio_stream::once(Ok(Frame::data(Bytes::from_static(b"tick\n"))));
        let frames = first.chain(tokio_stream::pending());
        StreamBody::new(holding(frames, exchange)).boxed()
    } else if path.ends_with("stream") {
        let ticks = IntervalStream::new(tokio::time::interval(Duration::from_millis(20)));
        let frames = ticks.map(|_| Ok(Frame::data(Bytes::from_static(b"tick\n"))));
        StreamBody::new(holding(frames, exchange)).boxed()
    } else if path.ends_with("late") {
        let sent = request.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let frames = tokio_stream::iter([Ok(Frame::data(sent)), Ok(Frame::trailers(trailers))]);
        StreamBody::new(holding(frames, exchange)).boxed()
    } else {
        std::future::pending().await
    };
    let mut response = Response::new(body);
    if grpc {
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert("content-type", kind);
    }
    Ok(response)
}

/// The frames, with an exchange that is open for as long as they are.
fn holding(
    frames: impl tokio_stream::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync + 'static,
    exchange: Exchange,
) -> impl tokio_stream::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync + 'static {
    frames.map(move |frame| {
        let Exchange(_) = &exchange;
        frame
    })
}

/// A route whose rule has bounds.
fn bounded(path: &str, timeouts: Timeouts) -> Arc<Route> {
    let kind = FilterKind::Timeouts(timeouts);
    let effect = Filter { source: Source::Default("test".into()), kind };
    let rule = Rule { matches: vec![prefix(path)].into(), effects: vec![effect].into() };
    let plain = route(prefix(path), everybody());
    Arc::new(Route { rules: vec![rule].into(), ..Arc::unwrap_or_clone(plain) })
}

fn policy() -> ServerPolicy {
    let request =
        |bound, streams| Timeouts { request: Some(bound), streams, ..Timeouts::default() };
    let within = |bound| request(bound, Streams::Bounded);
    let response = Timeouts { response: Some(BOUND), ..Timeouts::default() };
    let idle = Timeouts { idle: Some(BOUND), ..Timeouts::default() };
    let all = Timeouts { response: Some(LONG), idle: Some(LONG), ..within(LONG) };
    let routes = vec![
        bounded("/request", within(BOUND)),
        bounded("/head", request(BOUND, Streams::Unbounded)),
        bounded("/response", response),
        bounded("/idle", idle),
        bounded("/all", all.clone()),
        bounded("/pkg.Request", within(BOUND)),
        bounded("/pkg.All", all),
        bounded("/pkg.Head", request(HEAD, Streams::Unbounded)),
    ];
    with_routes(server(detect(), nobody()), routes)
}

/// Targets of HTTP, each with what becomes of it.
fn exchanges() -> Vec<(&'static str, String)> {
    let late = |why: &str| format!("504 {why}");
    vec![
        ("/request/never", late(REQUEST)),
        ("/request/stream", "200 broken off".to_owned()),
        ("/request/trickle", "200 broken off".to_owned()),
        ("/all/late", "200 whole".to_owned()),
        ("/head/never", late(REQUEST)),
        ("/response/never", late(RESPONSE)),
        ("/idle/never", late(IDLE)),
        ("/idle/trickle", "200 broken off".to_owned()),
        ("/all/late", "200 whole".to_owned()),
    ]
}

/// The same of calls.
fn calls() -> Vec<(&'static str, String)> {
    vec![
        ("/pkg.Request/Never", "status 4".to_owned()),
        ("/pkg.All/Late", "status 0".to_owned()),
        ("/pkg.Request/Trickle", "status 4".to_owned()),
        ("/pkg.Request/Stream", "status 4".to_owned()),
    ]
}

fn post(target: &str) -> Request<Full<Bytes>> {
    Request::post(target).header("host", "web.example").body(Full::from("hello")).unwrap()
}

/// What became of an exchange, in words.
async fn outcome(response: Response<Incoming>) -> String {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        let why = head.headers.get("l5d-proxy-error").map(|why| why.to_str().unwrap());
        return format!("{} {}", head.status.as_u16(), why.unwrap_or("without a reason"));
    }
    let body = tokio::time::timeout(SURELY, body.collect()).await.expect("an end comes");
    match body.map(|body| body.to_bytes() == "hello") {
        Ok(true) => "200 whole".to_owned(),
        Ok(false) => "200 cut off, and it looks complete".to_owned(),
        Err(_) => "200 broken off".to_owned(),
    }
}

async fn status(response: Response<Incoming>) -> String {
    let (head, body) = response.into_parts();
    let of = |fields: &HeaderMap| Some(fields.get("grpc-status")?.to_str().ok()?.to_owned());
    let status = match of(&head.headers) {
        Some(status) => Some(status),
        None => {
            let body = tokio::time::timeout(SURELY, body.collect()).await.expect("an end comes");
            body.expect("a call ends with a status").trailers().and_then(of)
        }
    };
    format!("status {}", status.unwrap_or("none".to_owned()))
}

struct Load {
    setup: Setup,
    connector: TlsConnector,
}

impl Load {
    async fn http2(&self) -> Sender {
        http2_client(connect(&self.setup, &self.connector).await.unwrap()).await
    }

    /// One exchange after the other, each on a connection of its own: a response that was broken off
    /// takes its connection with it.
    async fn http1(&self, first: usize, count: usize) {
        let all = exchanges();
        for number in first..first + count {
            let (target, expected) = &all[number % all.len()];
            let stream = connect(&self.setup, &self.connector).await.unwrap();
            let mut client = Client::new(stream).await;
            let begun = Instant::now();
            let found = outcome(client.send(post(target)).await).await;
            check(target, expected, &found, begun);
        }
    }

    async fn stream(&self, mut sender: Sender, number: usize) {
        let (all, calls) = (exchanges(), calls());
        let at = number % (all.len() + calls.len());
        let begun = Instant::now();
        if let Some((target, expected)) = all.get(at) {
            let uri = format!("http://web.example{target}");
            let request = Request::post(uri).body(Full::from("hello")).unwrap();
            let found = outcome(sender.send_request(request).await.unwrap()).await;
            return check(target, expected, &found, begun);
        }
        let (path, expected) = &calls[at - all.len()];
        let response = sender.send_request(crate::grpc::call(path)).await.unwrap();
        check(path, expected, &status(response).await, begun);
    }

    async fn has_no_connection(&self) {
        let open = async || {
            let metrics = self.setup.metrics();
            let lines = metrics.lines().filter(|line| line.starts_with("tcp_open_connections{"));
            let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            let counts: Vec<u64> = counts.collect();
            !counts.is_empty() && counts.iter().all(|count| *count == 0)
        };
        wait_until("no connection is open", open).await;
    }
}

/// Nothing that never ends by itself ends before its bound.
fn check(target: &str, expected: &str, found: &str, begun: Instant) {
    assert_eq!(found, expected, "{target}");
    let bounded = !matches!(expected, "200 whole" | "status 0");
    assert!(!bounded || begun.elapsed() >= BOUND / 2, "{target}: {:?}", begun.elapsed());
}

async fn start() -> (SlowApp, Load) {
    let app = SlowApp::start().await;
    let authority = Authority::new();
    let identity = IdentityHandle::new(authority.workload());
    let setup = Setup::with(Some(policy()), app.address, identity, |_| {}).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    (app, Load { setup, connector })
}

#[tokio::test]
async fn under_load_each_exchange_ends_by_its_own_bound_and_nothing_stays_open() {
    let (app, load) = start().await;
    // Streams that may take any time, opened before the load.
    let mut following = load.http2().await;
    let mut streams = Vec::new();
    for _ in 0..8 {
        let call = crate::grpc::call("/pkg.Head/Stream");
        streams.push(following.send_request(call).await.unwrap().into_body());
    }
    let opened = Instant::now();
    let senders = join_all((0..4).map(|_| load.http2())).await;
    let many = senders.iter().enumerate().flat_map(|(connection, sender)| {
        let load = &load;
        (0..52).map(move |number| load.stream(sender.clone(), connection + number))
    });
    let single = (0..24).map(|first| load.http1(first, 4));
    futures_util::future::join(join_all(many), join_all(single)).await;
    drop(senders);
    // The streams go on, long after the bound on their heads.
    while opened.elapsed() < HEAD + HEAD / 2 {
        for stream in &mut streams {
            let frame = tokio::time::timeout(SURELY, stream.frame()).await.expect("a tick comes");
            let frame = frame.expect("the stream goes on").unwrap();
            assert!(frame.is_data(), "{frame:?}");
        }
    }
    assert_eq!(app.open.load(Ordering::Relaxed), streams.len(), "no other exchange is open");
    drop((streams, following));
    app.has_nothing_open().await;
    load.has_no_connection().await;
    assert_eq!(app.begun.load(Ordering::Relaxed), 8 + 4 * 52 + 24 * 4, "each began once");
}

#[tokio::test]
async fn clients_that_leave_before_any_bound_leave_nothing_open() {
    let (app, load) = start().await;
    for _ in 0..3 {
        let before = app.begun.load(Ordering::Relaxed);
        let sender = load.http2().await;
        let asked = (0..20).map(|number| {
            let path = if number % 2 == 0 { "/pkg.All/Never" } else { "/pkg.All/Stream" };
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let response = sender.send_request(crate::grpc::call(path)).await.unwrap();
                let _ = response.into_body().collect().await;
            })
        });
        let mut asked: Vec<_> = asked.collect();
        for target in ["/all/never", "/all/stream", "/all/trickle"] {
            let stream = connect(&load.setup, &load.connector).await.unwrap();
            asked.push(tokio::spawn(async move {
                let mut client = Client::new(stream).await;
                let _ = client.send(post(target)).await.into_body().collect().await;
            }));
        }
        let begun = || app.begun.load(Ordering::Relaxed);
        let all = before + asked.len();
        wait_until("every exchange has begun", async || begun() == all).await;
        for one in asked {
            one.abort();
        }
        drop(sender);
        app.has_nothing_open().await;
        load.has_no_connection().await;
    }
    // It still answers.
    load.http1(3, 1).await;
}
