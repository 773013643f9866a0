//! The direct path: mutual TLS to the sidecar's own port, and a transport header that names the port.

use crate::support::*;
use crate::tls::{Mesh as _, connect, hello_for, web};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_core::{DefaultPolicy, Protocol, Revision, ServerPolicy};
use policy_enforce::respond::RefusalDetail;
use policy_proto::transport::{self, Header, Session};
use policy_proxy::SidecarConfig;
use policy_proxy::admin::{Admin, AdminConfig};
use policy_proxy::sidecar::{Listener, Target};
use policy_testkit::{Authority, Leaf, dns as san};
use policy_tls::identity::IdentityHandle;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Mesh {
    pub(crate) authority: Authority,
    pub(crate) app: App,
    pub(crate) setup: Setup,
}

pub(crate) fn listen(config: &mut SidecarConfig, target: Target) {
    config.listeners.push(Listener { address: "127.0.0.1:0".parse().unwrap(), target });
}

impl Mesh {
    pub(crate) async fn new(policy: ServerPolicy) -> Self {
        Self::with(policy, |config| listen(config, Target::Direct)).await
    }

    pub(crate) async fn with(
        policy: ServerPolicy,
        change: impl FnOnce(&mut SidecarConfig),
    ) -> Self {
        let (authority, app) = (Authority::new(), App::start().await);
        let identity = IdentityHandle::new(authority.workload());
        let setup = Setup::with(Some(policy), app.address, identity, change).await;
        Self { authority, app, setup }
    }

    pub(crate) fn leaf(&self, service_account: &str) -> Leaf {
        self.authority.leaf(&[san(&name(service_account))])
    }

    /// A client of this name that negotiates the transport header.
    pub(crate) fn client(&self, service_account: &str) -> TlsConnector {
        with_alpn(&self.authority.client(self.leaf(service_account)))
    }

    async fn handshake(&self, connector: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.setup.sidecar.addresses()[1]).await?;
        connector.connect(web(), stream).await
    }

    /// A connection as `service_account`, after its transport header.
    pub(crate) async fn open(
        &self,
        service_account: &str,
        port: NonZeroU16,
        session: Option<Session>,
    ) -> TlsStream<TcpStream> {
        self.say(service_account, &Header { port, name: None, session }).await
    }

    async fn say(&self, service_account: &str, header: &Header) -> TlsStream<TcpStream> {
        let mut stream = self.handshake(&self.client(service_account)).await.unwrap();
        stream.write_all(&transport::encode(header)).await.unwrap();
        stream
    }

    /// Waits until an error of this kind was counted, once.
    async fn counted(&self, error: &str) {
        self.counts(error, 1).await;
    }

    async fn counts(&self, error: &str, times: u32) {
        let line = format!("inbound_tcp_errors_total{{error=\"{error}\"}} {times}\n");
        for _ in 0..6000 {
            if self.setup.metrics().contains(&line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{line} is not in {}", self.setup.metrics());
    }
}

fn with_alpn(connector: &TlsConnector) -> TlsConnector {
    let mut config = rustls::ClientConfig::clone(connector.config());
    config.alpn_protocols = vec![transport::ALPN.to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// The response until the other side closes.
async fn answer<S: AsyncReadExt + AsyncWriteExt + Unpin>(mut stream: S, bytes: &[u8]) -> String {
    let mut got = Vec::new();
    if stream.write_all(bytes).await.is_ok() {
        let read = stream.read_to_end(&mut got);
        let _ = tokio::time::timeout(Duration::from_secs(60), read).await.unwrap();
    }
    String::from_utf8_lossy(&got).into_owned()
}

/// Timeout for what ends within a second (see `revocation`), for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n";

/// All protocols of Servers under which a mesh connection is opened on either path.
fn protocols() -> [Protocol; 5] {
    [detect(), Protocol::Http1, Protocol::Http2, Protocol::Grpc, Protocol::Tls]
}

#[tokio::test]
async fn what_is_permitted_is_what_would_be_on_a_redirected_connection() {
    for protocol in protocols() {
        for granted in ["bot", "other"] {
            let mesh = Mesh::new(server(protocol, identities(&[&name(granted)]))).await;
            for bytes in [GET, b"EHLO mail.example\r\n\r\n", &hello_for("else.example")] {
                let plain = mesh.authority.client(mesh.leaf("bot"));
                let redirected = connect(&mesh.setup, &plain).await.unwrap();
                let status = |text: String| text.get(..12).unwrap_or_default().to_owned();
                let want = status(answer(redirected, bytes).await);
                let direct = mesh.open("bot", PORT, None).await;
                let got = status(answer(direct, bytes).await);
                assert_eq!(got, want, "{protocol:?}, {granted} may: {bytes:?}");
                if bytes == GET && protocol != Protocol::Tls {
                    let direct = mesh.open("bot", PORT, Some(Session::Http1)).await;
                    assert_eq!(status(answer(direct, bytes).await), want, "{protocol:?} as HTTP/1");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_request_on_the_direct_path_carries_the_verified_identity() {
    let policy = informing(server(detect(), identities(&[&name("bot")])));
    let mesh = Mesh::new(policy).await;
    for session in [None, Some(Session::Http1)] {
        let mut client = Client::new(mesh.open("bot", PORT, session).await).await;
        let got = client.ask("/", &[("l5d-client-id", "root")]).await;
        assert_eq!(got.status, StatusCode::OK);
        assert!(got.body.contains(&format!("l5d-client-id: {}\n", name("bot"))), "{}", got.body);
        let mut client = Client::new(mesh.open("other", PORT, session).await).await;
        let got = client.get("/").await;
        assert_eq!(got.status, StatusCode::FORBIDDEN);
        assert_eq!(got.headers["l5d-proxy-error"], "unauthorized");
    }
    let line = |client: &str, session: &str| {
        let labels =
            format!("session_protocol=\"{session}\",target_port=\"8080\",target_name=\"\"");
        let id = name(client);
        format!("inbound_tcp_transport_header_connections_total{{{labels},client_id=\"{id}\"}} 1\n")
    };
    for client in ["bot", "other"] {
        for session in ["", "http/1"] {
            let (line, metrics) = (line(client, session), mesh.setup.metrics());
            assert!(metrics.contains(&line), "{line} is not in {metrics}");
        }
    }
}

#[tokio::test]
async fn http_2_is_served_without_looking_for_it_and_may_carry_http_1() {
    let mesh = Mesh::new(server(Protocol::Http1, identities(&[&name("bot")]))).await;
    let io = TokioIo::new(mesh.open("bot", PORT, Some(Session::Http2)).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut carried = request("http://web.example/a", &[("l5d-orig-proto", "HTTP/1.1")]);
    carried.headers_mut().remove("host");
    let got = got(sender.send_request(carried).await.unwrap()).await;
    assert_eq!(got.status, StatusCode::OK);
    assert!(got.body.contains("host: web.example\n"), "{}", got.body);
    assert_eq!(got.headers["l5d-orig-proto"], "HTTP/1.1");
}

#[tokio::test]
async fn a_body_of_unknown_length_that_is_carried_as_http_1_0_reaches_the_application() {
    let mesh = Mesh::new(server(Protocol::Http1, everybody())).await;
    let io = TokioIo::new(mesh.open("bot", PORT, Some(Session::Http2)).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let piece = || Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(b"four")));
    let body = StreamBody::new(futures_util::stream::iter([piece(), piece()]));
    let carried =
        Request::post("http://web.example/upload").header("l5d-orig-proto", "HTTP/1.0").body(body);
    let got = got(sender.send_request(carried.unwrap()).await.unwrap()).await;
    assert_eq!((got.status, got.body.as_str()), (StatusCode::OK, "8 bytes\n"));
    assert_eq!(got.headers["l5d-orig-proto"], "HTTP/1.0");
}

/// Linkerd forwards a connection without a stated protocol by the connection's permission alone,
/// bypassing routes.
#[tokio::test]
async fn saying_nothing_of_the_protocol_is_no_way_around_routes() {
    let routes = vec![route(prefix("/open"), everybody())];
    let mesh = Mesh::new(with_routes(server(detect(), everybody()), routes)).await;
    let got = answer(mesh.open("bot", PORT, None).await, GET).await;
    assert!(got.starts_with("HTTP/1.1 404"), "{got}");
    assert_eq!(mesh.app.requests(), 0);
}

#[tokio::test]
async fn a_silent_client_is_waited_for_where_routes_are_attached() {
    let routes = vec![route(prefix("/"), everybody())];
    let mesh = Mesh::new(with_routes(server(detect(), everybody()), routes)).await;
    let silent = |_| mesh.open("bot", PORT, None);
    let clients = futures_util::future::join_all((0..2).map(silent)).await;
    // Longer than the port's detection timeout.
    tokio::time::sleep(Duration::from_millis(800)).await;
    let mut answers = Vec::new();
    for (client, said) in clients.into_iter().zip([GET, &b"\0\x01 other bytes\r\n"[..]]) {
        answers.push(answer(client, said).await);
    }
    assert!(answers[0].starts_with("HTTP/1.1 200"), "{answers:?}");
    assert!(answers[1].starts_with("HTTP/1.1 400"), "{answers:?}");
    assert_eq!((mesh.app.requests(), mesh.app.connections()), (1, 1));
}

#[tokio::test]
async fn an_identity_decides_on_an_opaque_port() {
    let mesh = Mesh::new(server(Protocol::Opaque, identities(&[&name("bot")]))).await;
    for session in [None, Some(Session::Http1)] {
        let got = answer(mesh.open("bot", PORT, session).await, GET).await;
        assert!(got.starts_with("HTTP/1.1 200") && !got.contains("l5d-client-id"), "{got}");
        assert_eq!(answer(mesh.open("other", PORT, session).await, GET).await, "");
    }
    assert_eq!(mesh.app.connections(), 2);
    mesh.setup.logged(&format!("deny unauthorized {} connection", name("other"))).await;
}

#[tokio::test]
async fn a_header_may_come_byte_by_byte_and_with_what_follows() {
    let mesh = Mesh::new(server(detect(), everybody())).await;
    let header = transport::encode(&Header { port: PORT, name: None, session: None });
    let whole = [header.as_slice(), GET].concat();
    let stream = mesh.handshake(&mesh.client("bot")).await.unwrap();
    assert!(answer(stream, &whole).await.starts_with("HTTP/1.1 200"));
    let mut stream = mesh.handshake(&mesh.client("bot")).await.unwrap();
    for byte in &whole[..whole.len() - 1] {
        stream.write_all(&[*byte]).await.unwrap();
        stream.flush().await.unwrap();
    }
    assert!(answer(stream, &whole[whole.len() - 1..]).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_header_that_is_cut_loses_nothing_of_a_long_head_behind_it() {
    let mesh = Mesh::new(server(detect(), everybody())).await;
    let header = transport::encode(&Header { port: PORT, name: None, session: None });
    let long = "x".repeat(3500);
    let head = format!(
        "GET /a HTTP/1.1\r\nHost: web.example\r\nx-long: {long}\r\nConnection: close\r\n\r\n"
    );
    for cut in [1, 20, header.len() - 1] {
        let (first, rest) = header.split_at(cut);
        let mut stream = mesh.handshake(&mesh.client("bot")).await.unwrap();
        stream.write_all(first).await.unwrap();
        stream.flush().await.unwrap();
        // Both may arrive in one read; the result is the same.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let got = answer(stream, &[rest, head.as_bytes()].concat()).await;
        assert!(got.starts_with("HTTP/1.1 200") && got.contains(&long), "{cut}: {got}");
    }
}

#[tokio::test]
async fn who_proves_no_identity_is_refused_whatever_the_policy() {
    let mesh = Mesh::new(server(detect(), everybody())).await;
    // With TLS 1.3 a client learns only after its handshake that a certificate is required.
    if let Ok(stream) = mesh.handshake(&with_alpn(&mesh.authority.anonymous())).await {
        let header = transport::encode(&Header { port: PORT, name: None, session: None });
        assert_eq!(answer(stream, &[header.as_slice(), GET].concat()).await, "");
    }
    mesh.counted("direct_unauthenticated").await;
    for bytes in [GET, &hello_for("else.example")] {
        let stream = TcpStream::connect(mesh.setup.sidecar.addresses()[1]).await.unwrap();
        assert_eq!(answer(stream, bytes).await, "");
    }
    let two_names = mesh.authority.leaf(&[san(&name("bot")), san("second.example")]);
    let stream = mesh.handshake(&with_alpn(&mesh.authority.client(two_names))).await.unwrap();
    assert_eq!(answer(stream, GET).await, "");
    assert_eq!(mesh.app.connections(), 0);
    mesh.counts("direct_unauthenticated", 4).await;
}

#[tokio::test]
async fn the_transport_header_is_negotiated_on_the_direct_path_and_nowhere_else() {
    let mesh = Mesh::new(server(detect(), everybody())).await;
    let plain = mesh.authority.client(mesh.leaf("bot"));
    if let Ok(stream) = mesh.handshake(&plain).await {
        assert_eq!(answer(stream, GET).await, "");
    }
    mesh.counted("transport_header").await;
    let stream = mesh.handshake(&mesh.client("bot")).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(transport::ALPN));
    let redirected = connect(&mesh.setup, &mesh.client("bot")).await.unwrap();
    assert_eq!(redirected.get_ref().1.alpn_protocol(), None);
}

#[tokio::test]
async fn what_is_no_header_closes_the_connection() {
    let message = |bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [b"transport.l5d.io/v1\r\n\r\n", length.as_slice(), bytes].concat()
    };
    for wrong in [
        GET.to_vec(),
        message(&[8, 0]),
        message(&[8, 0x80, 0x80, 4]),
        message(&[8]),
        [b"transport.l5d.io/v1\r\n\r\n".as_slice(), &[255; 4]].concat(),
    ] {
        let mesh = Mesh::new(server(detect(), everybody())).await;
        let stream = mesh.handshake(&mesh.client("bot")).await.unwrap();
        assert_eq!(answer(stream, &wrong).await, "", "{wrong:?}");
        mesh.counted("transport_header").await;
        assert_eq!(mesh.app.connections(), 0);
    }
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_header_is_not_waited_for() {
    let mesh = Mesh::with(server(detect(), everybody()), |config| {
        config.timeouts.detect = Duration::from_millis(200);
        listen(config, Target::Direct);
    })
    .await;
    let stream = mesh.handshake(&mesh.client("bot")).await.unwrap();
    assert_eq!(answer(stream, b"transport.l5d.io/v1").await, "");
    mesh.counted("transport_header").await;
}

#[tokio::test]
async fn a_refusal_is_its_status_alone_where_no_more_is_to_be_told() {
    let mesh = Mesh::with(server(detect(), nobody()), |config| {
        config.refusal_detail = RefusalDetail::Status;
        listen(config, Target::Direct);
    })
    .await;
    let mut client = Client::new(mesh.open("bot", PORT, Some(Session::Http1)).await).await;
    for (path, status) in [("/", StatusCode::FORBIDDEN), ("/a//b", StatusCode::BAD_REQUEST)] {
        let got = client.get(path).await;
        assert_eq!((got.status, got.body.as_str()), (status, ""), "{path}");
        assert!(!got.headers.contains_key("l5d-proxy-error"), "{path}");
    }
    let name = Some("web.other.svc.example".to_owned());
    let header = Header { port: PORT, name, session: Some(Session::Http1) };
    let mut client = Client::new(mesh.say("bot", &header).await).await;
    let got = client.get("/").await;
    assert_eq!(got.status, StatusCode::NOT_FOUND);
    assert!(!got.headers.contains_key("l5d-proxy-error"));
}

#[tokio::test]
async fn a_gateway_is_refused_with_a_reason() {
    let mesh = Mesh::new(server(detect(), everybody())).await;
    let header = |session| {
        let name = Some("web.other.svc.example".to_owned());
        Header { port: PORT, name, session }
    };
    let mut client = Client::new(mesh.say("bot", &header(Some(Session::Http1))).await).await;
    let got = client.get("/").await;
    assert_eq!(got.status, StatusCode::NOT_FOUND);
    assert_eq!(got.headers["l5d-proxy-error"], "bad gateway domain");
    mesh.counted("gateway").await;
    let io = TokioIo::new(mesh.say("bot", &header(Some(Session::Http2))).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let grpc =
        Request::post("http://web.example/pkg.A/B").header("content-type", "application/grpc");
    let response = sender.send_request(grpc.body(Full::<Bytes>::default()).unwrap()).await;
    assert_eq!(response.unwrap().headers()["grpc-status"], "5");
    assert_eq!(answer(mesh.say("bot", &header(None)).await, GET).await, "");
    assert_eq!(mesh.app.connections(), 0);
}

#[tokio::test]
async fn a_header_that_leads_back_or_nowhere_is_refused() {
    let mesh = Mesh::new(server(detect(), everybody())).await;
    let own = NonZeroU16::new(mesh.setup.sidecar.addresses()[1].port()).unwrap();
    assert_eq!(answer(mesh.open("bot", own, None).await, GET).await, "");
    mesh.counted("loop").await;
    // No listener states an application for this port, and nothing is redirected.
    let other = NonZeroU16::new(9).unwrap();
    assert_eq!(answer(mesh.open("bot", other, None).await, GET).await, "");
    mesh.counted("destination").await;
}

/// With a redirect the application is at the port that the header names, at the pod's own address.
#[tokio::test]
async fn where_connections_are_redirected_the_port_is_the_applications_own() {
    for (stated, status) in [(true, Some(200)), (false, None)] {
        let mesh = Mesh::with(server(detect(), nobody()), |config| {
            config.listeners.clear();
            listen(config, Target::Original);
            listen(config, Target::Original);
            if stated {
                config.pod_addresses = vec!["127.0.0.1".parse().unwrap()];
            }
        })
        .await;
        let port = NonZeroU16::new(mesh.app.address.port()).unwrap();
        let _kept = mesh.setup.store.port(port);
        let policy = Arc::new(server(detect(), everybody()));
        mesh.setup.store.apply(port, policy, Revision::default()).unwrap();
        let stream = mesh.open("bot", port, Some(Session::Http1)).await;
        let got = answer(stream, GET).await;
        assert_eq!(got.get(9..12).and_then(|text| text.parse().ok()), status, "{got}");
        if !stated {
            mesh.counted("destination").await;
        }
        let own = NonZeroU16::new(mesh.setup.address.port()).unwrap();
        assert_eq!(answer(mesh.open("bot", own, None).await, GET).await, "", "another listener");
        mesh.counted("loop").await;
    }
}

#[tokio::test]
async fn the_admin_port_is_reached_under_its_own_policy_as_who_one_is() {
    let (authority, app) = (Authority::new(), App::start().await);
    let identity = IdentityHandle::new(authority.workload());
    let store = {
        let telemetry = Arc::new(policy_enforce::Telemetry::new(1));
        let config = policy_enforce::store::StoreConfig::default();
        policy_enforce::PolicyStore::new(config, telemetry).unwrap()
    };
    // There is no listener: the connection must not be forwarded.
    let port = NonZeroU16::new(4191).unwrap();
    let config =
        AdminConfig { shutdown: true, ..AdminConfig::new("127.0.0.1:4191".parse().unwrap()) };
    let drain = tokio_util::sync::CancellationToken::new();
    let admin = Admin::new(config, store.clone(), identity.clone(), None, drain);
    let policy = Arc::new(server(detect(), identities(&[&name("prometheus")])));
    store.apply(port, policy, Revision::default()).unwrap();
    let setup = Setup::with(None, app.address, identity, |config| {
        config.admin = Some(admin);
        config.listeners.clear();
        listen(config, Target::Original);
        listen(config, Target::Original);
        config.pod_addresses = vec!["127.0.0.1".parse().unwrap()];
        config.timeouts.pending_policy = Duration::from_millis(10);
    })
    .await;
    let mesh = Mesh { authority, app, setup };
    for (client, status) in [("prometheus", StatusCode::OK), ("other", StatusCode::FORBIDDEN)] {
        for session in [None, Some(Session::Http1)] {
            let mut client = Client::new(mesh.open(client, port, session).await).await;
            assert_eq!(client.get("/metrics").await.status, status);
        }
    }
    let io = TokioIo::new(mesh.open("prometheus", port, Some(Session::Http2)).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request("http://web.example/metrics", &[])).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(got(response).await.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn what_loses_its_permission_on_the_direct_path_ends_and_bystanders_stay() {
    let both = identities(&[&name("bot"), &name("stays")]);
    for protocol in [detect(), Protocol::Http2] {
        let mesh = Mesh::new(server(protocol, both.clone())).await;
        let mut bodies = Vec::new();
        for client in ["bot", "stays"] {
            let io = TokioIo::new(mesh.open(client, PORT, Some(Session::Http2)).await);
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            let asked = request("http://web.example/stream", &[]);
            let mut body = sender.send_request(asked).await.unwrap().into_body();
            body.frame().await.unwrap().unwrap();
            bodies.push((body, sender));
        }
        mesh.setup.apply(server(protocol, identities(&[&name("stays")]))).await;
        let (body, _) = &mut bodies[0];
        let ended = async { while matches!(body.frame().await, Some(Ok(_))) {} };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
        let (body, sender) = &mut bodies[1];
        for _ in 0..20 {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), "tick\n");
        }
        let asked = sender.send_request(request("http://web.example/", &[])).await.unwrap();
        assert_eq!(asked.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn an_opaque_connection_on_the_direct_path_ends_with_its_permission() {
    let both = identities(&[&name("bot"), &name("stays")]);
    let mesh = Mesh::new(server(Protocol::Opaque, both)).await;
    let get = b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut open = Vec::new();
    for client in ["bot", "stays"] {
        let mut stream = mesh.open(client, PORT, None).await;
        stream.write_all(get).await.unwrap();
        stream.read_u8().await.unwrap();
        open.push(stream);
    }
    mesh.setup.apply(server(Protocol::Opaque, identities(&[&name("stays")]))).await;
    let ended = async { while open[0].read_u8().await.is_ok() {} };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    let mut got = [0; 200];
    open[1].read_exact(&mut got).await.unwrap();
    mesh.setup.logged(&format!("deny revoked {} connection", name("bot"))).await;
}

#[tokio::test]
async fn tunnels_and_calls_on_the_direct_path_end_with_their_permission() {
    let both = identities(&[&name("bot"), &name("stays")]);
    let upgrade =
        b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mesh = Mesh::new(server(Protocol::Http1, both.clone())).await;
    let mut tunnels = Vec::new();
    for client in ["bot", "stays"] {
        let mut stream = mesh.open(client, PORT, Some(Session::Http1)).await;
        stream.write_all(upgrade).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"));
        tunnels.push(stream);
    }
    mesh.setup.apply(server(Protocol::Http1, identities(&[&name("stays")]))).await;
    let ended = async { while tunnels[0].read_u8().await.is_ok() {} };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    let mut echoed = [0; 4];
    tunnels[1].write_all(b"ping").await.unwrap();
    tunnels[1].read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"ping");

    let mesh = Mesh::new(server(Protocol::Grpc, both)).await;
    let io = TokioIo::new(mesh.open("bot", PORT, Some(Session::Http2)).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let call = crate::grpc::call("/pkg.Stream/Follow");
    let mut body = sender.send_request(call).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    mesh.setup.apply(server(Protocol::Grpc, identities(&[&name("stays")]))).await;
    let trailers = async {
        loop {
            if let Ok(trailers) = body.frame().await.unwrap().unwrap().into_trailers() {
                return trailers;
            }
        }
    };
    let trailers = tokio::time::timeout(PATIENCE, trailers).await.unwrap();
    assert_eq!(trailers["grpc-status"], "7");
    assert!(trailers.contains_key("grpc-message"), "a member of the mesh is told why");
}

#[tokio::test]
async fn without_a_policy_the_direct_path_waits_and_is_then_refused_as_pending() {
    let (authority, app) = (Authority::new(), App::start().await);
    let identity = IdentityHandle::new(authority.workload());
    let setup = Setup::with(None, app.address, identity, |config| {
        listen(config, Target::Direct);
        config.timeouts.pending_policy = Duration::from_millis(100);
    })
    .await;
    let mesh = Mesh { authority, app, setup };
    let got = answer(mesh.open("bot", PORT, Some(Session::Http1)).await, GET).await;
    assert!(got.starts_with("HTTP/1.1 503"), "{got}");
    let policy = server(detect(), DefaultPolicy::AllAuthenticated.authorizations());
    mesh.setup.apply(policy).await;
    let got = answer(mesh.open("bot", PORT, Some(Session::Http1)).await, GET).await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
}
