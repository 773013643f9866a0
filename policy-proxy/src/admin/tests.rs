//! Tests of authorization and responses on the admin port.

mod connections;
mod health;
mod local;

use super::*;
use http::request;
use http_body_util::BodyExt;
use policy_core::{
    Authorization, Condition, DefaultPolicy, Facts, Identity, NetworkMatch, NetworkSymbol,
    Predicate, Requirement, Revision, ServerPolicy, Source, UndeclaredPorts,
};
use policy_enforce::store::StoreConfig;
use policy_enforce::telemetry::Telemetry;
use std::collections::BTreeSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ADMIN: NonZeroU16 = NonZeroU16::new(4191).unwrap();

fn admin(metrics: MetricsAccess, shutdown: bool) -> Admin {
    let facts = Facts { node_local: vec!["10.9.0.1/32".parse().unwrap()], ..Facts::default() };
    let config = StoreConfig { facts: Arc::new(facts), ..StoreConfig::default() };
    let store = PolicyStore::new(config, Arc::new(Telemetry::new(1))).unwrap();
    store.declare(&BTreeSet::from([ADMIN]), UndeclaredPorts::Default);
    let listen = SocketAddr::from(([127, 0, 0, 1], ADMIN.get()));
    let config = AdminConfig { metrics, shutdown, ..AdminConfig::new(listen) };
    Admin::new(config, store, IdentityHandle::empty(), None, CancellationToken::new())
}

/// Any identity, and the node: what the controller sends for the admin port by default.
fn usual() -> ServerPolicy {
    let source = Source::Default("test".into());
    let node = Authorization {
        source: source.clone(),
        requirement: Requirement::All(Arc::from([Condition {
            source,
            test: Predicate::Network(vec![NetworkMatch::symbol(NetworkSymbol::NodeLocal)]),
        }])),
        audit: false,
    };
    let default = policy_core::testing::default_policy(DefaultPolicy::AllAuthenticated);
    let grants = default.authorizations.iter().cloned().chain([Arc::new(node)]);
    ServerPolicy { authorizations: grants.collect(), ..default }
}

fn apply(admin: &Admin, policy: ServerPolicy) {
    admin.shared.store.apply(ADMIN, Arc::new(policy), Revision::default()).unwrap();
}

fn from(ip: &str, tls: PeerTls) -> Peer {
    Peer::new(SocketAddr::new(ip.parse().unwrap(), 40_000), tls)
}

fn plain(ip: &str) -> Peer {
    from(ip, PeerTls::Absent)
}

fn ask(admin: &Admin, peer: &Peer, method: Method, path: &str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path);
    ask_with(admin, peer, request.header("host", "localhost:4191"))
}

fn ask_with(admin: &Admin, peer: &Peer, request: request::Builder) -> (StatusCode, String) {
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let answered = futures_util::FutureExt::now_or_never(admin.answer(peer, request));
    let response = answered.expect("nothing is waited for");
    let status = response.status();
    let body =
        futures_util::FutureExt::now_or_never(response.into_body().collect()).unwrap().unwrap();
    (status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

fn get(admin: &Admin, peer: &Peer, path: &str) -> (StatusCode, String) {
    ask(admin, peer, Method::GET, path)
}

#[test]
fn metrics_are_under_the_policy_of_the_admin_port() {
    let admin = admin(MetricsAccess::Policy, false);
    let stranger = plain("10.1.2.3");
    let (status, body) = get(&admin, &stranger, "/metrics");
    assert_eq!((status, body.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "policy_pending\n"));
    apply(&admin, usual());
    let (status, body) = get(&admin, &stranger, "/metrics");
    assert_eq!((status, body.as_str()), (StatusCode::FORBIDDEN, "unauthorized\n"));
    assert_eq!(get(&admin, &plain("10.9.0.1"), "/metrics").0, StatusCode::OK, "the node");
    let meshed = from("10.1.2.3", PeerTls::Terminated(Some(Identity::Dns("prometheus".into()))));
    let (status, body) = get(&admin, &meshed, "/metrics");
    assert_eq!(status, StatusCode::OK);
    assert!(
        body.ends_with("# EOF\n") && body.contains("policy_age_seconds{port=\"4191\"} 0"),
        "{body}"
    );
    let nameless = from("10.1.2.3", PeerTls::Terminated(None));
    assert_eq!(get(&admin, &nameless, "/metrics").0, StatusCode::FORBIDDEN);
}

/// As by `kubectl port-forward`, and from a shell in the pod.
#[test]
fn metrics_answer_loopback_but_no_page_in_a_browser() {
    let admin = admin(MetricsAccess::Policy, false);
    let status = |peer: &str| get(&admin, &plain(peer), "/metrics").0;
    assert_eq!(status("127.0.0.1"), StatusCode::OK, "before there is a policy, too");
    apply(&admin, usual());
    assert_eq!([status("127.0.0.1"), status("::1")], [StatusCode::OK; 2]);
    for (peer, host, (name, value)) in [
        ("127.0.0.1", "page.example:4191", ("accept", "*/*")),
        ("127.0.0.1", "localhost:4191", ("origin", "http://page.example")),
        ("10.1.2.3", "localhost:4191", ("forwarded", "for=127.0.0.1")),
    ] {
        let requested = Request::get("/metrics").header("host", host).header(name, value);
        assert_eq!(ask_with(&admin, &plain(peer), requested).0, StatusCode::FORBIDDEN, "{name}");
    }
}

#[test]
fn a_worker_that_hangs_shows_in_the_metrics() {
    let admin = admin(MetricsAccess::All, false);
    let worker = admin.shared.store.workers().register();
    apply(&admin, usual());
    let published = admin.shared.store.workers().published();
    let shown = |name: &str, value: u64| {
        let (_, body) = get(&admin, &plain("10.9.0.1"), "/metrics");
        assert!(body.contains(&format!("\n{name} {value}\n")), "{name} {value} in {body}");
    };
    assert_ne!(published, 0);
    shown("policy_generation_published", published);
    shown("policy_generation_reached", 0);
    worker.reach(published);
    shown("policy_generation_reached", published);
}

#[test]
fn access_to_metrics_can_be_set() {
    let local = admin(MetricsAccess::Local, false);
    assert_eq!(get(&local, &plain("127.0.0.1"), "/metrics").0, StatusCode::OK);
    assert_eq!(get(&local, &plain("::ffff:127.0.0.1"), "/metrics").0, StatusCode::OK);
    assert_eq!(get(&local, &plain("10.9.0.1"), "/metrics").0, StatusCode::FORBIDDEN);
    let open = admin(MetricsAccess::All, false);
    assert_eq!(get(&open, &plain("10.1.2.3"), "/metrics").0, StatusCode::OK);
}

#[test]
fn an_ambiguous_target_is_not_taken_for_metrics() {
    let admin = admin(MetricsAccess::Policy, false);
    apply(&admin, usual());
    for path in ["/metrics/", "//metrics", "/./metrics", "/%6detrics", "/METRICS", "/env.json"] {
        assert_eq!(get(&admin, &plain("10.9.0.1"), path).0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[test]
fn the_nodes_questions_are_answered_to_the_node_to_loopback_and_to_whom_the_policy_lets() {
    let admin = admin(MetricsAccess::Policy, false);
    let stranger = plain("10.1.2.3");
    let meshed = from("10.1.2.3", PeerTls::Terminated(Some(Identity::Dns("a.b".into()))));
    for path in ["/live", "/ready"] {
        let early = get(&admin, &stranger, path).0;
        assert_ne!(early, StatusCode::FORBIDDEN, "the node is not known yet: {path}");
    }
    apply(&admin, usual());
    for path in ["/live", "/ready"] {
        for asker in [plain("10.9.0.1"), plain("127.0.0.1"), plain("::1"), meshed.clone()] {
            assert_eq!(get(&admin, &asker, path).0, StatusCode::OK, "{path} {asker:?}");
        }
        let (status, body) = get(&admin, &stranger, path);
        assert_eq!((status, &*body), (StatusCode::FORBIDDEN, "unauthorized\n"), "{path}");
    }
    let mut broken = usual();
    broken.deny = Some(Denied::ServerInvalid);
    apply(&admin, broken);
    assert_eq!(get(&admin, &plain("10.9.0.1"), "/live").0, StatusCode::OK, "lest it be restarted");
    assert_eq!(get(&admin, &meshed, "/live").0, StatusCode::FORBIDDEN);
}

fn probing(ports: &[u16], address: &str) -> Admin {
    let mut admin = admin(MetricsAccess::Policy, false);
    let config = &mut Arc::get_mut(&mut admin.shared).unwrap().config;
    config.tcp_probe_ports = ports.iter().filter_map(|port| NonZeroU16::new(*port)).collect();
    config.pod_addresses = vec![address.parse().unwrap()];
    apply(&admin, usual());
    admin
}

async fn probe(admin: &Admin, peer: &Peer, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).header("host", "x").body(Full::<Bytes>::default()).unwrap();
    let response = admin.answer(peer, request).await;
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_tcp_probe_connects_to_the_application_on_the_ports_that_were_named() {
    let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = app.local_addr().unwrap().port();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let admin = probing(&[open, gone], "127.0.0.1");
    let node = plain("10.9.0.1");
    let ask =
        async |peer: &Peer, port: &str| probe(&admin, peer, &format!("/probe/tcp/{port}")).await;
    assert_eq!(ask(&node, &open.to_string()).await, (StatusCode::OK, "ok\n".to_owned()));
    let (status, body) = ask(&node, &gone.to_string()).await;
    let refused = format!("127.0.0.1:{gone}: connection refused\n");
    assert_eq!((status, body), (StatusCode::SERVICE_UNAVAILABLE, refused));
    let (status, body) = ask(&plain("10.1.2.3"), &open.to_string()).await;
    assert_eq!((status, &*body), (StatusCode::FORBIDDEN, "unauthorized\n"));
    let meshed = from("10.1.2.3", PeerTls::Terminated(Some(Identity::Dns("a.b".into()))));
    let (status, body) = ask(&meshed, &open.to_string()).await;
    assert_eq!((status, &*body), (StatusCode::FORBIDDEN, "unauthorized\n"), "reads metrics only");
    for other in ["22", "", "0", "65536", "http", &format!("0{open}"), &format!("{open}/")] {
        assert_eq!(ask(&node, other).await.0, StatusCode::NOT_FOUND, "{other}");
    }
}

/// A listener that never accepts, and whose backlog is full: the kernel does not answer further
/// connections. It lasts as long as its sockets.
fn full_listener() -> (SocketAddr, Vec<socket2::Socket>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let full = socket.local_addr().unwrap().as_socket().unwrap();
    let mut waiting: Vec<_> = (0..8)
        .map(|_| {
            let waiting =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            waiting.set_nonblocking(true).unwrap();
            let _ = waiting.connect(&full.into());
            waiting
        })
        .collect();
    waiting.push(socket);
    (full, waiting)
}

#[tokio::test]
async fn a_tcp_probe_waits_for_a_bounded_time_and_for_policy() {
    let (full, waiting) = full_listener();
    let mut admin = probing(&[full.port()], "127.0.0.1");
    let config = &mut Arc::get_mut(&mut admin.shared).unwrap().config;
    config.tcp_probe_timeout = Duration::from_millis(100);
    let path = format!("/probe/tcp/{}", full.port());
    let (status, body) = probe(&admin, &plain("10.9.0.1"), &path).await;
    assert_eq!(
        (status, body),
        (StatusCode::SERVICE_UNAVAILABLE, format!("{full}: no answer within 100 ms\n"))
    );
    drop(waiting);
    let mut early = admin_without_policy();
    let config = &mut Arc::get_mut(&mut early.shared).unwrap().config;
    config.tcp_probe_ports = NonZeroU16::new(9).into_iter().collect();
    let (status, body) = probe(&early, &plain("10.9.0.1"), "/probe/tcp/9").await;
    assert_eq!((status, &*body), (StatusCode::SERVICE_UNAVAILABLE, "policy_pending\n"));
}

fn admin_without_policy() -> Admin {
    admin(MetricsAccess::Policy, false)
}

async fn put(admin: &Admin, peer: &Peer, filter: &str) -> (StatusCode, String) {
    let body = Full::new(Bytes::from(filter.to_owned()));
    let request = Request::put("/proxy-log-level").header("host", "x").body(body).unwrap();
    let response = admin.answer(peer, request).await;
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn the_log_filter_is_read_and_replaced_from_loopback_where_it_is_switched_on() {
    let filter = "info,policy_proxy=warn".to_owned();
    let config = crate::config::LogConfig { filter, json: false };
    let filter = Arc::new(crate::log::init(&config).unwrap());
    let local = plain("127.0.0.1");
    let mut admin = admin(MetricsAccess::Policy, false);
    Arc::get_mut(&mut admin.shared).unwrap().config.log_filter = Some(Arc::clone(&filter));
    assert_eq!(put(&admin, &local, "debug").await.0, StatusCode::NOT_FOUND, "off by default");
    Arc::get_mut(&mut admin.shared).unwrap().config.log_level = true;
    let read = |peer: &Peer| get(&admin, peer, "/proxy-log-level");
    assert_eq!(read(&local), (StatusCode::OK, "info,policy_proxy=warn\n".to_owned()));
    assert_eq!(read(&plain("10.9.0.1")).0, StatusCode::FORBIDDEN);
    assert_eq!(put(&admin, &plain("10.9.0.1"), "debug").await.0, StatusCode::FORBIDDEN);
    assert_eq!(
        put(&admin, &local, "policy_proxy=debug,warn\n").await,
        (StatusCode::NO_CONTENT, String::new())
    );
    assert_eq!(read(&local).1, "policy_proxy=debug,warn\n");
    let (status, body) = put(&admin, &local, "policy_proxy=loud").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.starts_with("`policy_proxy=loud`: "), "{body}");
    assert_eq!(put(&admin, &local, &"x".repeat(5000)).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(put(&admin, &local, "").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(read(&local).1, "policy_proxy=debug,warn\n", "the last good one stays");
    let (status, body) = ask(&admin, &local, Method::POST, "/proxy-log-level");
    assert_eq!((status, &*body), (StatusCode::METHOD_NOT_ALLOWED, "allowed: GET, HEAD, PUT\n"));
}

#[test]
fn shutdown_is_off_by_default_and_for_loopback_only() {
    let off = admin(MetricsAccess::Policy, false);
    assert_eq!(ask(&off, &plain("127.0.0.1"), Method::POST, "/shutdown").0, StatusCode::NOT_FOUND);
    let on = admin(MetricsAccess::Policy, true);
    assert_eq!(ask(&on, &plain("10.9.0.1"), Method::POST, "/shutdown").0, StatusCode::FORBIDDEN);
    let (status, _) = get(&on, &plain("127.0.0.1"), "/shutdown");
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(!on.shared.drain.is_cancelled());
    assert_eq!(ask(&on, &plain("127.0.0.1"), Method::POST, "/shutdown").0, StatusCode::OK);
    assert!(on.shared.drain.is_cancelled());
}

#[test]
fn only_reading_is_allowed() {
    let admin = admin(MetricsAccess::All, false);
    for path in ["/live", "/ready", "/metrics"] {
        let (status, body) = ask(&admin, &plain("127.0.0.1"), Method::POST, path);
        assert_eq!(
            (status, body.as_str()),
            (StatusCode::METHOD_NOT_ALLOWED, "allowed: GET, HEAD\n")
        );
    }
}

#[tokio::test]
async fn requests_are_answered_over_a_connection() {
    let admin = admin(MetricsAccess::Policy, false);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(admin.serve(listener));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("live\n"), "{answer}");
    server.abort();
}

#[tokio::test]
async fn a_mesh_that_carries_requests_in_http2_is_answered() {
    let admin = admin(MetricsAccess::All, false);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(admin.serve(listener));
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let shake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
    let (mut sender, connection) = shake.await.unwrap();
    let client = tokio::spawn(connection);
    let request = Request::get("http://web-0:4191/metrics").body(Full::<Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.ends_with(b"# EOF\n"));
    server.abort();
    client.abort();
}

#[test]
fn what_comes_over_a_workers_thread_is_answered_on_the_admins() {
    let (made, made_here) = std::sync::mpsc::channel();
    let over = CancellationToken::new();
    let until = over.clone();
    let own = std::thread::Builder::new().name("admin".to_owned());
    let own = own.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            made.send(admin(MetricsAccess::Policy, false)).unwrap();
            until.cancelled().await;
        });
    });
    let admin = made_here.recv().unwrap();
    let worker = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen = Arc::new(parking_lot::Mutex::new(None));
    let stream = Watching { seen: Arc::clone(&seen) };
    let served = worker.block_on(admin.serve_connection(stream, plain("127.0.0.1")));
    served.unwrap();
    over.cancel();
    own.unwrap().join().unwrap();
    assert_eq!(seen.lock().as_deref(), Some("admin"));
}

/// An empty stream that notes on which thread it is read.
struct Watching {
    seen: Arc<parking_lot::Mutex<Option<String>>>,
}

impl AsyncRead for Watching {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        *self.seen.lock() = std::thread::current().name().map(str::to_owned);
        std::task::Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watching {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}
