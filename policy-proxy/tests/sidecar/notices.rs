//! Log lines of denied and audited requests, at default settings and within limits.

use crate::grpc::call;
use crate::support::*;
use crate::tls::{Mesh, connect};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use policy_core::{
    AuthorizationSet, DefaultPolicy, PathHandling, Protocol, RequestMatch, RouteLabel,
};
use policy_enforce::record::Notices;
use policy_proxy::SidecarConfig;
use policy_testkit::{Authority, dns as san, wait_for};
use policy_tls::identity::IdentityHandle;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The log of this process at its default level. Tests find their lines by the name of their
/// workload.
static LOG: LazyLock<Arc<Mutex<Vec<u8>>>> = LazyLock::new(|| {
    let written = Arc::<Mutex<Vec<u8>>>::default();
    let own = Arc::clone(&written);
    let writer = move || Sink(Arc::clone(&own));
    tracing_subscriber::fmt().with_ansi(false).with_writer(writer).with_env_filter("info").init();
    written
});

struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn lines(workload: &str) -> Vec<String> {
    let text = String::from_utf8(LOG.lock().clone()).unwrap();
    let own = format!("workload=\"{workload}\"");
    text.lines().filter(|line| line.contains(&own)).map(str::to_owned).collect()
}

/// The first line of this workload that has all of these in it.
async fn line(workload: &str, words: &[&str]) -> String {
    wait_for(&format!("a line of {workload} with {words:?}"), async || {
        lines(workload).into_iter().find(|line| words.iter().all(|word| line.contains(word)))
    })
    .await
}

fn named(workload: &str, interval: Duration) -> impl FnOnce(&mut SidecarConfig) {
    LazyLock::force(&LOG);
    let workload = workload.to_owned();
    move |config| {
        config.workload = workload.as_str().into();
        config.notices = Arc::new(Notices::new(&workload, interval));
    }
}

async fn setup(workload: &str, policy: policy_core::ServerPolicy) -> (App, Setup) {
    let app = App::start().await;
    let change = named(workload, Notices::INTERVAL);
    let setup = Setup::with(Some(policy), app.address, IdentityHandle::empty(), change).await;
    (app, setup)
}

fn audited() -> AuthorizationSet {
    DefaultPolicy::Audit.authorizations()
}

#[tokio::test]
async fn a_denied_request_is_logged_with_what_a_grant_would_need() {
    let open = route(prefix("/open"), everybody());
    let mut closed = route(prefix("/closed"), nobody());
    Arc::make_mut(&mut closed).label = Some(RouteLabel::new("/closed/:id"));
    let policy = with_routes(server(detect(), nobody()), vec![open, closed]);
    let (_app, setup) = setup("logs/denied", policy).await;
    let mut client = Client::new(setup.connect().await).await;
    assert_eq!(client.get("/open").await.status, StatusCode::OK);
    assert_eq!(client.get("/%63losed/a?token=secret").await.status, StatusCode::FORBIDDEN);
    assert_eq!(client.get("/elsewhere").await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.get("/open/../closed").await.status, StatusCode::BAD_REQUEST);
    let denied = line("logs/denied", &["request denied", "reason=\"unauthorized\""]).await;
    for part in [
        " INFO ",
        "port=8080",
        "client=127.0.0.1:",
        "method=\"GET\"",
        "path=\"/closed/a\"",
        "route=\"HTTPRoute ns/",
        "http_route=\"/closed/:id\"",
    ] {
        assert!(denied.contains(part), "{part} in {denied}");
    }
    assert!(!denied.contains("authorization="), "{denied}");
    let all = lines("logs/denied").join("\n");
    assert!(!all.contains("secret") && !all.contains("path=\"/open\""), "{all}");
    let unmatched = ["request denied", "reason=\"no_route\"", "path=\"/elsewhere\""];
    let unmatched = line("logs/denied", &unmatched).await;
    assert!(!unmatched.contains("http_route="), "{unmatched}");
}

#[tokio::test]
async fn an_audited_request_is_logged_with_its_grant() {
    let (_app, setup) = setup("logs/audited", server(detect(), audited())).await;
    let mut client = Client::new(setup.connect().await).await;
    for _ in 0..3 {
        assert_eq!(client.get("/%61?token=secret").await.status, StatusCode::OK);
    }
    let words =
        ["request audited", "method=\"GET\"", "path=\"/a\"", "authorization=\"default audit\""];
    let audited = line("logs/audited", &words).await;
    assert!(audited.contains("client=127.0.0.1:") && audited.contains("port=8080"), "{audited}");
    assert!(!audited.contains("reason=") && !audited.contains("secret"), "{audited}");
    assert_eq!(lines("logs/audited").len(), 1, "the others are counted");
}

#[tokio::test]
async fn a_clients_identity_is_logged() {
    let authority = Authority::new();
    let app = App::start().await;
    let identity = IdentityHandle::new(authority.workload());
    let change = named("logs/identity", Notices::INTERVAL);
    let policy = server(detect(), audited());
    let setup = Setup::with(Some(policy), app.address, identity, change).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let mut client = Client::new(connect(&setup, &connector).await.unwrap()).await;
    assert_eq!(client.get("/").await.status, StatusCode::OK);
    setup.apply(server(detect(), nobody())).await;
    assert_eq!(client.get("/").await.status, StatusCode::FORBIDDEN);
    let id = format!("client_id=\"{}\"", name("bot"));
    line("logs/identity", &["request audited", &id]).await;
    line("logs/identity", &["request denied", &id, "reason=\"unauthorized\""]).await;
}

#[tokio::test]
async fn a_denied_grpc_call_is_logged() {
    let secret = route(RequestMatch::grpc(Some("pkg.Secret"), None), nobody());
    let policy = with_routes(server(Protocol::Grpc, nobody()), vec![secret]);
    let (_app, setup) = setup("logs/grpc", policy).await;
    let mut sender = crate::http2::client(&setup).await;
    sender.send_request(call("/pkg.Secret/Tell")).await.unwrap();
    line("logs/grpc", &["request denied", "method=\"POST\"", "path=\"/pkg.Secret/Tell\""]).await;
}

#[tokio::test]
async fn denied_and_audited_connections_are_logged() {
    let (_app, bytes) = setup("logs/opaque", server(Protocol::Opaque, nobody())).await;
    assert_eq!(raw(bytes.address, b"hello", true).await, "");
    let denied = line("logs/opaque", &["connection denied", "reason=\"unauthorized\""]).await;
    assert!(!denied.contains("path=") && !denied.contains("method="), "{denied}");
    bytes.apply(server(Protocol::Opaque, audited())).await;
    raw(bytes.address, b"GET / HTTP/1.0\r\n\r\n", true).await;
    line("logs/opaque", &["connection audited", "authorization=\"default audit\""]).await;
    let (_app, tls) = setup("logs/tls", server(Protocol::Tls, everybody())).await;
    assert_eq!(raw(tls.address, b"hello, this is not TLS", true).await, "");
    line("logs/tls", &["connection denied", "reason=\"tls_required\""]).await;
    let (_app, http) = setup("logs/mismatch", server(Protocol::Http1, everybody())).await;
    assert_eq!(raw(http.address, b"hello, this is not HTTP\r\n", true).await, "");
    line("logs/mismatch", &["connection denied", "reason=\"protocol_mismatch\""]).await;
    assert_eq!(lines("logs/mismatch").len(), 1, "told once: {:?}", lines("logs/mismatch"));
}

#[tokio::test]
async fn what_was_open_when_it_lost_its_permission_is_logged() {
    let (_app, setup) = setup("logs/revoked", server(detect(), everybody())).await;
    let mut client = Client::new(setup.connect().await).await;
    let mut body = client.send(request("/stream/a?b", &[])).await.into_body();
    body.frame().await.unwrap().unwrap();
    setup.apply(server(detect(), nobody())).await;
    line("logs/revoked", &["request denied", "reason=\"revoked\"", "path=\"/stream/a\""]).await;
}

#[tokio::test]
async fn the_layer_logs_as_the_sidecar_does() {
    use policy_core::{Revision, UndeclaredPorts};
    use policy_enforce::{PolicyLayer, PolicyStore, StoreConfig, Telemetry};
    use policy_tls::peer::{Peer, PeerTls};
    LazyLock::force(&LOG);
    let telemetry = Arc::new(Telemetry::new(1));
    let store = PolicyStore::new(StoreConfig::default(), telemetry).unwrap();
    store.declare(&std::collections::BTreeSet::from([PORT]), UndeclaredPorts::Default);
    store.apply(PORT, Arc::new(server(detect(), nobody())), Revision::default()).unwrap();
    let layer = PolicyLayer::new(&store, PORT, "logs/layer");
    let (mut service, mut inner) = tower_test::mock::spawn_layer::<
        Request<Full<bytes::Bytes>>,
        http::Response<Full<bytes::Bytes>>,
        _,
    >(layer);
    inner.allow(3);
    for _ in 0..3 {
        tokio_test::assert_ready_ok!(service.poll_ready());
        let mut asked = request("/a", &[]);
        let peer = Peer::new("10.0.0.1:1".parse().unwrap(), PeerTls::Absent);
        asked.extensions_mut().insert(Arc::new(peer));
        assert_eq!(service.call(asked).await.unwrap().status(), StatusCode::FORBIDDEN);
    }
    line("logs/layer", &["request denied", "client=10.0.0.1:1", "path=\"/a\""]).await;
    drop(service);
    line("logs/layer", &["more requests denied", "network=\"10.0.0.0/24\"", "more=2"]).await;
}

#[tokio::test]
async fn the_first_is_logged_at_once_and_then_how_many_more() {
    let app = App::start().await;
    let change = named("logs/more", Duration::from_secs(2));
    let policy = Some(server(detect(), nobody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), change).await;
    let mut client = Client::new(setup.connect().await).await;
    for _ in 0..42 {
        assert_eq!(client.get("/a").await.status, StatusCode::FORBIDDEN);
    }
    let words = ["more requests denied", "network=\"127.0.0.0/24\"", "last=127.0.0.1", "more=41"];
    let more = line("logs/more", &words).await;
    assert!(more.contains("reason=\"unauthorized\"") && more.contains("seconds="), "{more}");
    assert_eq!(lines("logs/more").len(), 2, "{:?}", lines("logs/more"));
}

/// A request from an address of this host's.
async fn ask_from(address: Ipv4Addr, to: SocketAddr, head: &[u8]) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((address, 0))).unwrap();
    let mut stream: TcpStream = socket.connect(to).await.unwrap();
    stream.write_all(head).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_flood_fills_neither_the_log_nor_hides_a_client_with_an_identity() {
    let authority = Authority::new();
    let app = App::start().await;
    let identity = IdentityHandle::new(authority.workload());
    let change = named("logs/flood", Notices::INTERVAL);
    let setup = Setup::with(Some(server(detect(), nobody())), app.address, identity, change).await;
    let begun = Instant::now();
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let flood = |round: u8| {
        let one = move |host| Ipv4Addr::new(127, round, host, 1);
        let asked = (0..=99).map(move |host| ask_from(one(host), setup.address, head));
        futures_util::future::join_all(asked)
    };
    for round in 1..=3 {
        for answer in flood(round).await {
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        }
    }
    let connector = authority.client(authority.leaf(&[san(&name("quiet"))]));
    let mut client = Client::new(connect(&setup, &connector).await.unwrap()).await;
    assert_eq!(client.get("/").await.status, StatusCode::FORBIDDEN);
    let id = format!("client_id=\"{}\"", name("quiet"));
    let seen = lines("logs/flood").iter().any(|line| line.contains(&id));
    assert!(seen, "at once: {:?}", lines("logs/flood"));
    let most = begun.elapsed().as_secs().saturating_add(1).saturating_mul(5);
    let strangers = |line: &&String| line.contains("request denied") && !line.contains("client_id");
    let told = u64::try_from(lines("logs/flood").iter().filter(strangers).count()).unwrap();
    assert!((5..=most).contains(&told), "{told} lines, at most {most}");
    line("logs/flood", &["were left out", "left_out="]).await;
}

#[tokio::test]
async fn a_client_can_forge_no_line_and_make_none_long() {
    let mut policy = server(detect(), nobody());
    policy.paths = PathHandling::Raw;
    let (_app, setup) = setup("logs/forged", policy).await;
    let long = format!("/{}", "x".repeat(9000));
    let method = "M".repeat(9000);
    let head = format!("{method} {long} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    raw(setup.address, head.as_bytes(), false).await;
    let line = line("logs/forged", &["request denied"]).await;
    assert!(line.len() < 1000, "{} bytes", line.len());
    let (_app, canonical) = self::setup("logs/control", server(detect(), nobody())).await;
    let forged = b"GET /a%0A\xff\"%1B[31m\\request audited HTTP/1.1\r\nHost: a\r\n\r\n";
    raw(canonical.address, forged, false).await;
    raw(canonical.address, b"GET /b\"%0Arequest HTTP/1.1\r\nHost: a\r\n\r\n", false).await;
    let told = self::line("logs/control", &["request denied", "path=\"/b"]).await;
    assert!(told.contains(r#"path="/b\"%0Arequest""#), "{told}");
    let all = lines("logs/control");
    assert!(all.iter().all(|line| line.is_ascii() && !line.contains("audited")), "{all:?}");
}
