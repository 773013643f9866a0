//! Policies, applications, clients and a sidecar between them.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use policy_core::{
    Authorization, AuthorizationSet, Condition, DefaultPolicy, Identity, IdentityMatch,
    InformationalHeaders, Origin, Owner, PathHandling, PathPattern, Predicate, Protocol,
    RequestMatch, Requirement, Revision, Route, RouteKind, RouteTable, Rule, ServerPolicy, Source,
    UndeclaredPorts, Unmatched,
};
use policy_enforce::record::{Record, Recorder};
use policy_enforce::store::StoreConfig;
use policy_enforce::{PolicyStore, Telemetry};
use policy_proxy::sidecar::{Listener, Target};
use policy_proxy::{Sidecar, SidecarConfig};
use policy_testkit::{Answer, http1_client};
use policy_tls::identity::IdentityHandle;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::IntervalStream;

pub(crate) const PORT: NonZeroU16 = NonZeroU16::new(8080).unwrap();

/// A Server of this protocol, with these grants and no routes. Informational headers are off, so
/// that the application's echo is short; see [`informing`].
pub(crate) fn server(protocol: Protocol, authorizations: AuthorizationSet) -> ServerPolicy {
    ServerPolicy {
        owner: Owner::Default(DefaultPolicy::AllUnauthenticated),
        protocol,
        deny: None,
        paths: PathHandling::Canonical,
        informational_headers: InformationalHeaders::Disabled,
        upstream_reuse: policy_core::UpstreamReuse::Usual,
        authorizations,
        exemptions: Vec::new(),
        routes: RouteTable {
            routes: Vec::new(),
            hosts: BTreeMap::new(),
            otherwise: Unmatched::DefaultRoute,
        },
        rate_limit: None,
        effects: Vec::new(),
        withheld: Vec::new(),
    }
}

/// The same, with informational headers.
pub(crate) fn informing(mut policy: ServerPolicy) -> ServerPolicy {
    policy.informational_headers = InformationalHeaders::Enabled;
    policy
}

pub(crate) fn detect() -> Protocol {
    Protocol::Detect { timeout: Duration::from_millis(500) }
}

/// Permits every client.
pub(crate) fn everybody() -> AuthorizationSet {
    DefaultPolicy::AllUnauthenticated.authorizations()
}

pub(crate) fn nobody() -> AuthorizationSet {
    AuthorizationSet::default()
}

/// Permits these identities.
pub(crate) fn identities(names: &[&str]) -> AuthorizationSet {
    let source = Source::Default("test".into());
    let matches = names.iter().map(|name| IdentityMatch::parse(name)).collect();
    let condition = Condition { source: source.clone(), test: Predicate::Identity(matches) };
    let requirement = Requirement::All([condition].into());
    [Arc::new(Authorization { source, requirement, audit: false })].into()
}

/// A route with one rule of one match, and grants of its own.
pub(crate) fn route(matched: RequestMatch, authorizations: AuthorizationSet) -> Arc<Route> {
    let object = policy_core::ObjectRef::new("", "HTTPRoute", "ns", &format!("{matched:?}"));
    Arc::new(Route {
        origin: Origin::Objects([object].into()),
        kind: RouteKind::Http,
        created: None,
        label: None,
        hosts: Vec::new().into(),
        rules: vec![Rule { matches: vec![matched].into(), effects: Vec::new().into() }].into(),
        authorizations,
        inherits_server: false,
        withheld: Vec::new().into(),
    })
}

pub(crate) fn with_routes(mut policy: ServerPolicy, routes: Vec<Arc<Route>>) -> ServerPolicy {
    policy.routes.routes = routes;
    policy.routes.otherwise = Unmatched::NotFound;
    policy
}

pub(crate) fn prefix(path: &str) -> RequestMatch {
    RequestMatch::path(PathPattern::prefix(path))
}

/// One line per record: `verdict reason client-id method target status`.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<String>>);

impl Log {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl Recorder for Log {
    fn record(&self, record: &Record<'_>) {
        let reason = record.verdict.reason().map_or("-", policy_core::Denied::as_str);
        let id = record.client_id().unwrap_or("-");
        let line = match &record.request {
            Some(r) => format!(
                "{} {reason} {id} {} {} {}",
                record.verdict.as_str(),
                r.method,
                r.target,
                r.status.as_u16()
            ),
            None => format!("{} {reason} {id} connection", record.verdict.as_str()),
        };
        self.0.lock().push(line);
    }
}

/// A sidecar in front of one application, and handles to change its state.
pub(crate) struct Setup {
    pub(crate) address: SocketAddr,
    pub(crate) store: PolicyStore,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) log: Arc<Log>,
    pub(crate) sidecar: Sidecar,
}

impl Setup {
    pub(crate) async fn new(policy: ServerPolicy, upstream: SocketAddr) -> Self {
        Self::with(Some(policy), upstream, IdentityHandle::empty(), |_| {}).await
    }

    pub(crate) async fn with(
        policy: Option<ServerPolicy>,
        upstream: SocketAddr,
        identity: IdentityHandle,
        change: impl FnOnce(&mut SidecarConfig),
    ) -> Self {
        let telemetry = Arc::new(Telemetry::new(1));
        let store = PolicyStore::new(StoreConfig::default(), telemetry.clone()).unwrap();
        store.declare(&BTreeSet::from([PORT]), UndeclaredPorts::Default);
        let log = Arc::new(Log::default());
        let mut config = SidecarConfig::new("ns/web-0");
        config.listeners = vec![Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            target: Target::Fixed { port: PORT, upstream },
        }];
        change(&mut config);
        let recorder: Arc<dyn Recorder> = log.clone();
        let sidecar = Sidecar::start(config, store.clone(), identity, Some(recorder)).unwrap();
        let address = sidecar.addresses()[0];
        let setup = Self { address, store, telemetry, log, sidecar };
        if let Some(policy) = policy {
            setup.apply(policy).await;
        }
        setup
    }

    /// Applies a policy and waits until every worker decides by it.
    pub(crate) async fn apply(&self, policy: ServerPolicy) {
        let generation = self.store.apply(PORT, Arc::new(policy), Revision::default()).unwrap();
        self.store.workers().wait_reached(generation).await;
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) fn metrics(&self) -> String {
        self.telemetry.encode(&self.store.status()).unwrap()
    }

    /// Waits until a metric whose name and labels begin with `series` has this value: the end of a
    /// connection may be counted just after its client sees it.
    pub(crate) async fn counted(&self, series: &str, value: u64) {
        let value = format!(" {value}");
        let begun = std::time::Instant::now();
        loop {
            let text = self.metrics();
            let mut lines = text.lines().filter(|line| line.starts_with(series));
            if lines.any(|line| line.ends_with(&value)) {
                return;
            }
            assert!(begun.elapsed().as_secs() < 60, "{series}{value} is not in {text}");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Waits until the log has a line that contains `text`.
    pub(crate) async fn logged(&self, text: &str) {
        for _ in 0..200 {
            if self.log.lines().iter().any(|line| line.contains(text)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("`{text}` is not in {:#?}", self.log.lines());
    }
}

/// An HTTP application, HTTP/1 or HTTP/2 by the first byte, that echoes the request.
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    flooded: Arc<AtomicUsize>,
    swallowed: Arc<AtomicUsize>,
}

pub(crate) type AppBody = BoxBody<Bytes, Infallible>;

impl App {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, connections) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (flooded, swallowed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let app = Self {
            address,
            requests: requests.clone(),
            connections: connections.clone(),
            flooded: flooded.clone(),
            swallowed: swallowed.clone(),
        };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let counted = [requests.clone(), flooded.clone(), swallowed.clone()];
                tokio::spawn(serve_app(stream, counted));
            }
        });
        app
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes of `/flood` that were read from the application.
    pub(crate) fn flooded(&self) -> usize {
        self.flooded.load(Ordering::Relaxed)
    }

    /// Bytes of request bodies that `/swallow` and `/early` got.
    pub(crate) fn swallowed(&self) -> usize {
        self.swallowed.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve_app(stream: TcpStream, [requests, flooded, swallowed]: [Arc<AtomicUsize>; 3]) {
    let mut first = [0; 4];
    let http2 =
        matches!(stream.peek(&mut first).await, Ok(n) if n >= 3 && first.starts_with(b"PRI"));
    let service = service_fn(move |request| {
        requests.fetch_add(1, Ordering::Relaxed);
        app_answer(request, flooded.clone(), swallowed.clone())
    });
    let io = TokioIo::new(stream);
    if http2 {
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(io, service).await;
    } else {
        let builder = hyper::server::conn::http1::Builder::new();
        let _ = builder.serve_connection(io, service).with_upgrades().await;
    }
}

/// `METHOD target\nname: value\n…`; `/stream`, `/flood` and `/swallow` never end, `/pause` sends one
/// frame and no other, `/never` never begins, `/early` ends before the request does, `/ws` switches to
/// an echo, `/sized/N` sends N bytes, `/pkg.…` sends trailers, `/upload` counts the body, `/trailers` echoes the trailers.
async fn app_answer(
    request: Request<Incoming>,
    flooded: Arc<AtomicUsize>,
    swallowed: Arc<AtomicUsize>,
) -> Result<Response<AppBody>, Infallible> {
    let path = request.uri().path().to_owned();
    if path == "/never" || path.starts_with("/pkg.Never/") {
        std::future::pending::<()>().await;
    }
    if path == "/pause" || path.starts_with("/pkg.Pause/") {
        let first = tokio_stream::once(Ok(Frame::data(Bytes::from_static(b"tick\n"))));
        let frames = first.chain(tokio_stream::pending());
        return Ok(Response::new(BodyExt::boxed(StreamBody::new(frames))));
    }
    if path == "/trailers" {
        let trailers = request.collect().await.map(|b| b.trailers().cloned());
        return Ok(Response::new(full(&format!("{:?}", trailers.unwrap().unwrap_or_default()))));
    }
    if path == "/swallow" || path == "/early" {
        let mut body = request.into_body();
        tokio::spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                swallowed.fetch_add(bytes, Ordering::Relaxed);
            }
        });
        return Ok(Response::new(if path == "/early" { full("") } else { flood(flooded) }));
    }
    if let Some(size) = path.strip_prefix("/sized/") {
        return Ok(Response::new(full(&"x".repeat(size.parse().unwrap()))));
    }
    if path == "/flood" {
        return Ok(Response::new(flood(flooded)));
    }
    if path.starts_with("/stream") || path.starts_with("/pkg.Stream/") {
        let ticks = IntervalStream::new(tokio::time::interval(Duration::from_millis(20)));
        let frames = ticks.map(|_| Ok(Frame::data(Bytes::from_static(b"tick\n"))));
        return Ok(Response::new(BodyExt::boxed(StreamBody::new(frames))));
    }
    if path == "/ws" {
        return Ok(echo(request));
    }
    if path.starts_with("/pkg.") {
        return Ok(grpc(request).await);
    }
    let mut text = format!("{} {}\n", request.method(), request.uri());
    let mut lines: Vec<_> = request
        .headers()
        .iter()
        .map(|(n, v)| format!("{n}: {}\n", String::from_utf8_lossy(v.as_bytes())))
        .collect();
    lines.sort();
    text.extend(lines);
    if path == "/upload" {
        let body = request.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        text = format!("{} bytes\n", body.len());
    }
    let response = Response::builder()
        .header("l5d-proxy-error", "spoofed by the application")
        .header("portcullis-decision", "spoofed by the application")
        .header("x-app", "yes");
    Ok(response.body(full(&text)).unwrap())
}

fn echo(mut request: Request<Incoming>) -> Response<AppBody> {
    tokio::spawn(async move {
        let mut io = TokioIo::new(hyper::upgrade::on(&mut request).await.unwrap());
        let mut buffer = [0; 64];
        while let Ok(n @ 1..) = io.read(&mut buffer).await {
            io.write_all(&buffer[..n]).await.unwrap();
        }
    });
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", "websocket");
    response.body(full("")).unwrap()
}

async fn grpc(request: Request<Incoming>) -> Response<AppBody> {
    let body = request.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers))));
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(body.boxed()).unwrap()
}

fn flood(flooded: Arc<AtomicUsize>) -> AppBody {
    let frames = futures_util::stream::repeat_with(move || {
        flooded.fetch_add(16 * 1024, Ordering::Relaxed);
        Ok(Frame::data(Bytes::from_static(&[0; 16 * 1024])))
    });
    BodyExt::boxed(StreamBody::new(frames))
}

fn full(text: &str) -> AppBody {
    Full::new(Bytes::from(text.to_owned())).boxed()
}

/// A response as a client received it.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// An HTTP/1 client connection over any stream.
pub(crate) struct Client {
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
}

impl Client {
    /// Waits until the connection takes no further request.
    pub(crate) async fn closed(&mut self) {
        while !self.sender.is_closed() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn new<S>(stream: S) -> Self
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        Self { sender: http1_client(stream).await }
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        self.sender.ready().await.unwrap();
        self.sender.send_request(request).await.unwrap()
    }

    pub(crate) async fn get(&mut self, target: &str) -> Got {
        self.ask(target, &[]).await
    }

    pub(crate) async fn ask(&mut self, target: &str, headers: &[(&str, &str)]) -> Got {
        got(self.send(request(target, headers)).await).await
    }
}

/// A `GET` with a `Host` unless one is given.
pub(crate) fn request(target: &str, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = target.parse::<Uri>().unwrap();
    let own = request.headers_mut();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        own.append(name, HeaderValue::from_str(value).unwrap());
    }
    if !own.contains_key("host") {
        own.insert("host", HeaderValue::from_static("web.example"));
    }
    request
}

pub(crate) async fn got(response: Response<Incoming>) -> Got {
    let answer = Answer::whole(response).await;
    Got { status: answer.status, body: answer.text(), headers: answer.headers }
}

/// Writes bytes to a new connection, closes the sending half if `close`, and returns everything
/// that is received within two seconds.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8], close: bool) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    if close {
        stream.shutdown().await.unwrap();
    }
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(2), read).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// The identity of a test's workload or client.
pub(crate) fn name(service_account: &str) -> String {
    format!("{service_account}.ns.serviceaccount.identity.linkerd.cluster.local")
}

/// The expected identity of a server.
pub(crate) fn dns(service_account: &str) -> Identity {
    Identity::Dns(name(service_account).into())
}
