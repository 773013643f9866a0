//! Every early end is a refusal (bypass rule 37). From the accept of a connection to its forwarding, the
//! sidecar waits for its policy, for bytes (of the protocol, of the TLS greeting, of the request's head)
//! and for the application's accept. Each of these waits is ended here in every way that ends one, and the
//! application gets no byte.

mod cut;

use crate::client::Kind;
use crate::world::{BASE, GRANT, GRPC, HERE, HTTP, PATIENCE, RAW, World, clients};
use cut::Cut;
use futures_util::future::join_all;
use policy_core::testing::default_policy;
use policy_core::{DefaultPolicy, Protocol, Revision, ServerPolicy, UndeclaredPorts};
use policy_enforce::{PolicyStore, StoreConfig, Telemetry};
use policy_proxy::discover::{self, DiscoverConfig};
use policy_proxy::sidecar::{Listener, Sidecar, SidecarConfig, Target};
use policy_testkit::{soon, wait_within};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::IdentityHandle;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The manifests in a cluster that admits everybody by default: the Servers alone deny.
fn open() -> String {
    BASE.replace("default-inbound-policy: deny", "default-inbound-policy: all-unauthenticated")
}

/// The first bytes of clients, with the port that they are for.
fn beginnings() -> [(u16, &'static [u8]); 4] {
    [
        (HTTP, b"GET /denied HTTP/1.1\r\nhost: web\r\ncontent-length: 4\r\n\r\nbody"),
        // The preface, SETTINGS, and HEADERS of `GET http://a/`.
        (
            HTTP,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
              \0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x01\x01a",
        ),
        (
            GRPC,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
              \0\0\x06\x01\x05\0\0\0\x01\x83\x86\x84\x01\x01a",
        ),
        (RAW, b"\x01denied\n"),
    ]
}

/// All that comes back until the sidecar ends the connection.
async fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    // A reset is an end, too.
    _ = soon(stream.read_to_end(&mut read)).await;
    read
}

fn is_allowed(answer: &[u8]) -> bool {
    // Of HTTP/2: a HEADERS frame that begins with `:status 200` (RFC 7541, appendix A, 8).
    answer.windows(4).any(|window| window == b" 200") || answer.contains(&0x88)
}

#[tokio::test]
async fn a_denied_client_that_ends_its_connection_at_any_byte_reaches_nobody() {
    let world = World::with(&[("base.yaml", &open())]).await;
    let mut refused = 0;
    for (port, bytes) in beginnings() {
        for end in 0..=bytes.len() {
            let mut stream = world.connect(port).await;
            stream.write_all(&bytes[..end]).await.unwrap();
            stream.shutdown().await.unwrap();
            let answer = rest(stream).await;
            assert!(!is_allowed(&answer), "{port}, byte {end}: {}", answer.escape_ascii());
            let reached = world.application.counters().connections();
            assert_eq!(reached, 0, "{port}, byte {end}: {}", answer.escape_ascii());
            refused += usize::from(answer.starts_with(b"HTTP/1.1 403"));
            // The same, with a reset.
            let mut stream = world.connect(port).await;
            stream.write_all(&bytes[..end]).await.unwrap();
            stream.set_zero_linger().unwrap();
        }
    }
    assert!(refused > 0, "whole requests are decided");
    assert_eq!(world.client(Kind::Http1).await.ask("/").await, 403, "it goes on");
    assert_eq!(world.application.counters().connections(), 0);
}

#[tokio::test]
async fn a_denied_client_that_falls_silent_at_any_stage_is_let_go_and_reaches_nobody() {
    let world = World::with(&[("base.yaml", &open())]).await;
    let silent = [
        (HTTP, &b""[..]),
        (HTTP, b"G"),
        (HTTP, b"GET / HTTP/1.1\r\nhost: web\r\n"),
        (HTTP, b"PRI * HTTP/2.0\r\n\r\nSM"),
        (HTTP, b"\x16\x03\x01\x02\0\x01"),
        (GRPC, b""),
        (GRPC, b"PRI * HTTP/2.0\r\n"),
        (RAW, b""),
        (RAW, b"\x16\x03\x01"),
    ];
    let ends = silent.map(async |(port, bytes)| {
        let mut stream = world.connect(port).await;
        stream.write_all(bytes).await.unwrap();
        (port, bytes, tokio::time::timeout(PATIENCE, rest(stream)).await)
    });
    for (port, bytes, end) in join_all(ends).await {
        let answer = end.unwrap_or_else(|_| panic!("{port}: {} waits", bytes.escape_ascii()));
        assert!(!is_allowed(&answer), "{port}, {}", bytes.escape_ascii());
    }
    assert_eq!(world.application.counters().connections(), 0);
    // The same silence of a client that is permitted does reach it.
    world.write("grant.yaml", GRANT);
    world.write("clients.yaml", &clients(&[HERE]));
    let reached = async || {
        let _silent = world.connect(RAW).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.application.counters().connections() > 0
    };
    wait_within("a permitted client gets through", PATIENCE, reached).await;
}

/// A sidecar of the HTTP port and the opaque port, in front of this application.
struct Pod {
    store: PolicyStore,
    sidecar: Sidecar,
}

impl Pod {
    fn start(application: SocketAddr) -> Self {
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
        let mut config = SidecarConfig::new("shop/web");
        config.timeouts.pending_policy = Duration::from_millis(400);
        config.timeouts.connect = Duration::from_secs(20);
        for port in [HTTP, RAW] {
            let port = NonZeroU16::new(port).unwrap();
            let target = Target::Fixed { port, upstream: application };
            let address = (Ipv4Addr::LOCALHOST, 0).into();
            config.listeners.push(Listener { address, target });
        }
        let sidecar = Sidecar::start(config, store.clone(), IdentityHandle::empty(), None).unwrap();
        Self { store, sidecar }
    }

    /// Follows a controller until the guard is dropped.
    fn follow(&self, controller: SocketAddr) -> DropGuard {
        let controller = ControllerAddress::loopback(controller).unwrap();
        let mut config = DiscoverConfig::new(controller, "shop:web");
        config.backoff = (Duration::from_millis(20), Duration::from_millis(50));
        let stop = CancellationToken::new();
        let identity = IdentityHandle::empty();
        tokio::spawn(discover::run(config, self.store.clone(), identity, stop.clone()));
        stop.drop_guard()
    }

    fn apply(&self, policy: &ServerPolicy) {
        for port in [HTTP, RAW] {
            let mut policy = policy.clone();
            if port == RAW {
                policy.protocol = Protocol::Opaque;
            }
            let port = NonZeroU16::new(port).unwrap();
            self.store.apply(port, Arc::new(policy), Revision::default()).unwrap();
        }
    }

    async fn connect(&self, port: u16) -> TcpStream {
        let place = usize::from(port == RAW);
        soon(TcpStream::connect(self.sidecar.addresses()[place])).await.unwrap()
    }

    /// The answer to a request; empty: the connection ended without an answer.
    async fn ask(&self) -> String {
        let mut stream = self.connect(HTTP).await;
        _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n").await;
        let answer = rest(stream).await;
        String::from_utf8_lossy(&answer).chars().take(12).collect()
    }
}

/// Cuts at as many places as take a few seconds.
const CUTS: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_policy_that_breaks_at_any_byte_opens_nothing() {
    let world = World::with(&[("base.yaml", &open())]).await;
    let (controller, application) = (world.listens(), world.application.address());
    let whole = Cut::after(usize::MAX, controller).await;
    let pod = Pod::start(application);
    let following = pod.follow(whole.address);
    let ready = pod.store.port(NonZeroU16::new(HTTP).unwrap());
    ready.ready(PATIENCE).await.expect("the policy arrives");
    assert_eq!(pod.ask().await, "HTTP/1.1 403");
    drop((pod, following));
    let length = whole.passed();
    assert!(length > 300, "{length} bytes say the policies of three ports");

    let at = |place: usize| async move {
        let bytes = length * place / CUTS;
        let cut = Cut::after(bytes, controller).await;
        let pod = Pod::start(application);
        let _following = pod.follow(cut.address);
        let mut opaque = pod.connect(RAW).await;
        _ = opaque.write_all(b"\x01denied\n").await;
        let (answer, passed) = tokio::join!(pod.ask(), rest(opaque));
        assert!(passed.is_empty(), "after {bytes} bytes: {}", passed.escape_ascii());
        assert!(cut.passed() <= bytes, "{} of {bytes} bytes passed", cut.passed());
        answer
    };
    let mut answers = Vec::new();
    let places: Vec<usize> = (0..CUTS).collect();
    for some in places.chunks(8) {
        answers.extend(join_all(some.iter().map(|place| at(*place))).await);
    }
    // By the policy where it came whole, and else because there is none.
    for answer in &answers {
        assert!(["HTTP/1.1 403", "HTTP/1.1 503"].contains(&&**answer), "{answers:?}");
    }
    assert!(answers.iter().any(|answer| answer.ends_with("503")), "{answers:?}");
    assert_eq!(world.application.counters().connections(), 0);
}

#[tokio::test]
async fn who_waits_for_a_first_policy_when_the_sidecar_ends_reaches_nobody() {
    for drains in [false, true] {
        let world = World::without_controller(&[("base.yaml", &open())], PATIENCE).await;
        let application = Arc::clone(world.application.counters());
        let mut waiting = Vec::new();
        for (port, bytes) in beginnings() {
            let mut stream = world.connect(port).await;
            stream.write_all(bytes).await.unwrap();
            waiting.push(stream);
        }
        let accepted = async || world.metric("proxy_connections_accepted_total") >= 4;
        wait_within("all are accepted", PATIENCE, accepted).await;
        if drains {
            world.drain();
        }
        drop(world);
        for stream in waiting {
            let answer = rest(stream).await;
            assert!(!is_allowed(&answer), "{}", answer.escape_ascii());
        }
        assert_eq!(application.connections(), 0);
    }
}

/// An application whose backlog is full, so that no connection to it is made, and the connections in it.
async fn unreachable() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    loop {
        let connecting = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(300), connecting).await {
            Ok(stream) => held.push(stream.unwrap()),
            Err(_) => return (listener, held),
        }
        assert!(held.len() < 100, "the backlog is never full");
    }
}

#[tokio::test]
async fn what_is_revoked_while_the_application_is_connected_to_gets_no_byte_of_it_and_it_none() {
    let (listener, held) = unreachable().await;
    let pod = Pod::start(listener.local_addr().unwrap());
    pod.store.declare(
        &[HTTP, RAW].map(|port| NonZeroU16::new(port).unwrap()).into(),
        UndeclaredPorts::Deny,
    );
    pod.apply(&default_policy(DefaultPolicy::AllUnauthenticated));
    let mut request = pod.connect(HTTP).await;
    request
        .write_all(b"GET /revoked HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut opaque = pod.connect(RAW).await;
    opaque.write_all(b"\x01revoked\n").await.unwrap();
    for permitted in ["inbound_http_authz_allow_total{", "inbound_tcp_authz_allow_total{"] {
        let counted = async || {
            let text = pod.store.telemetry().encode(&pod.store.status()).unwrap();
            text.lines().any(|line| line.starts_with(permitted) && !line.ends_with(" 0"))
        };
        wait_within(permitted, PATIENCE, counted).await;
    }
    pod.apply(&default_policy(DefaultPolicy::Deny));
    let answer = rest(request).await;
    assert!(answer.starts_with(b"HTTP/1.1 403"), "{}", answer.escape_ascii());
    // The application accepts again: what the kernel still asks for arrives, with nothing in it.
    let mut accepted = Vec::new();
    let collecting = async {
        loop {
            let (stream, from) = listener.accept().await.unwrap();
            let ours = held.iter().any(|held| held.local_addr().is_ok_and(|own| own == from));
            if !ours {
                accepted.push(stream);
            }
        }
    };
    _ = tokio::time::timeout(Duration::from_secs(4), collecting).await;
    assert!(!accepted.is_empty(), "the opaque connection is made at last");
    for stream in accepted {
        let bytes = rest(stream).await;
        assert!(bytes.is_empty(), "{}", bytes.escape_ascii());
    }
    assert!(rest(opaque).await.is_empty());
}
