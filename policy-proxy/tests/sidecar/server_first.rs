//! Applications that speak before their clients, on ports of unknown protocol.

use crate::support::*;
use crate::tls::{Mesh, connect};
use policy_core::{Protocol, ServerPolicy};
use policy_testkit::{Authority, dns as san};
use policy_tls::identity::IdentityHandle;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A handshake as MySQL sends it: length, number, version.
const MYSQL: &[u8] = b"\x0a\0\0\0\x0a8.0.36-a\0";

/// An application that speaks first, and answers each piece of bytes with `+` and the same.
struct Greeter {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    received: Arc<AtomicUsize>,
}

impl Greeter {
    async fn start(greeting: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, received) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let greeter =
            Self { address, connections: connections.clone(), received: received.clone() };
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let received = received.clone();
                tokio::spawn(async move {
                    stream.write_all(greeting).await.unwrap();
                    let mut piece = [0; 256];
                    while let Ok(read @ 1..) = stream.read(&mut piece).await {
                        received.fetch_add(read, Ordering::Relaxed);
                        let _ = stream.write_all(&[b"+", &piece[..read]].concat()).await;
                    }
                });
            }
        });
        greeter
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed)
    }
}

async fn meshed(authority: &Authority, policy: ServerPolicy, upstream: SocketAddr) -> Setup {
    let identity = IdentityHandle::new(authority.workload());
    Setup::with(Some(policy), upstream, identity, |_| {}).await
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> [u8; N] {
    let mut bytes = [0; N];
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_exact(&mut bytes));
    read.await.unwrap().unwrap();
    bytes
}

/// Time for which a client that must not hear anything is watched.
const WATCHED: Duration = Duration::from_millis(300);
/// The bound of a greeting, for the fastest of some connections: a busy machine delays single ones.
const AT_ONCE: Duration = Duration::from_millis(50);
const TRIES: usize = 20;

#[tokio::test]
async fn a_greeting_arrives_at_once_in_plaintext_and_in_mesh_tls() {
    let (authority, app) = (Authority::new(), Greeter::start(MYSQL).await);
    let setup = meshed(&authority, server(detect(), everybody()), app.address).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let (mut plain, mut tls) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIES {
        let begun = Instant::now();
        let mut stream = setup.connect().await;
        assert_eq!(read::<{ MYSQL.len() }>(&mut stream).await, *MYSQL);
        plain = plain.min(begun.elapsed());
        stream.write_all(b"\x01login").await.unwrap();
        assert_eq!(read(&mut stream).await, *b"+\x01login");
        let begun = Instant::now();
        let mut stream = connect(&setup, &connector).await.unwrap();
        assert_eq!(read::<{ MYSQL.len() }>(&mut stream).await, *MYSQL);
        tls = tls.min(begun.elapsed());
        stream.write_all(b"\x01login").await.unwrap();
        assert_eq!(read(&mut stream).await, *b"+\x01login");
    }
    assert!(plain < AT_ONCE && tls < AT_ONCE, "{plain:?} {tls:?}");
    assert_eq!(app.connections(), TRIES * 2, "each is dialled once");
    let allowed = |id: &str| {
        let line = format!("allow - {id} connection");
        setup.log.lines().iter().filter(|own| **own == line).count()
    };
    assert_eq!([allowed("-"), allowed(&name("bot"))], [TRIES, TRIES], "each is decided on once");
    let metrics = setup.metrics();
    let opened = metrics.lines().filter(|line| line.starts_with("inbound_tcp_authz_allow_total"));
    let total: usize =
        opened.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum();
    assert_eq!(total, TRIES * 2, "{metrics}");
}

#[tokio::test]
async fn nobody_dials_for_a_client_that_is_not_permitted() {
    let (authority, app) = (Authority::new(), Greeter::start(MYSQL).await);
    let slow = Protocol::Detect { timeout: Duration::from_secs(10) };
    let named = server(slow, identities(&[&name("bot")]));
    let setup = meshed(&authority, named, app.address).await;
    let mut plain = setup.connect().await;
    let other = authority.client(authority.leaf(&[san(&name("other"))]));
    let mut other = connect(&setup, &other).await.unwrap();
    let mut byte = [0; 1];
    // At the same time, because the detection ends soon.
    let mut second = [0; 1];
    let heard = tokio::join!(
        tokio::time::timeout(WATCHED, plain.read(&mut byte)),
        tokio::time::timeout(WATCHED, other.read(&mut second)),
    );
    assert!(heard.0.is_err() && heard.1.is_err(), "{heard:?}");
    assert_eq!(app.connections(), 0);
    let bot = authority.client(authority.leaf(&[san(&name("bot"))]));
    let mut bot = connect(&setup, &bot).await.unwrap();
    assert_eq!(read::<{ MYSQL.len() }>(&mut bot).await, *MYSQL);
    assert_eq!(app.connections(), 1);
}

#[tokio::test]
async fn nobody_dials_where_bytes_are_not_carried() {
    let app = Greeter::start(MYSQL).await;
    let attached =
        with_routes(server(detect(), everybody()), vec![route(prefix("/open"), everybody())]);
    for policy in [
        attached,
        server(Protocol::Http1, everybody()),
        server(Protocol::Http2, everybody()),
        server(Protocol::Grpc, everybody()),
        server(Protocol::Tls, everybody()),
    ] {
        let setup = Setup::new(policy, app.address).await;
        let mut stream = setup.connect().await;
        let heard = tokio::time::timeout(WATCHED, stream.read(&mut [0; 1])).await;
        assert!(heard.is_err(), "{heard:?}");
        assert_eq!(app.connections(), 0);
    }
}

/// As after the detection timeout: no policy on requests is evaded by waiting for a greeting.
#[tokio::test]
async fn a_client_that_speaks_http_after_the_greeting_is_refused() {
    let (authority, app) = (Authority::new(), Greeter::start(MYSQL).await);
    let setup = meshed(&authority, server(detect(), everybody()), app.address).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    for request in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut plain = setup.connect().await;
        assert_eq!(read::<{ MYSQL.len() }>(&mut plain).await, *MYSQL);
        plain.write_all(request).await.unwrap();
        let mut tls = connect(&setup, &connector).await.unwrap();
        assert_eq!(read::<{ MYSQL.len() }>(&mut tls).await, *MYSQL);
        tls.write_all(request).await.unwrap();
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = plain.read_to_end(&mut rest).await;
        let _ = tls.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
    }
    assert_eq!(app.received(), 0, "nothing of it reached the application");
    setup.logged("deny protocol_mismatch - connection").await;
    setup.logged(&format!("deny protocol_mismatch {} connection", name("bot"))).await;
}

#[tokio::test]
async fn what_begins_as_http_does_not_reach_the_client_and_http_is_looked_for_on() {
    let refusal = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";
    for greeting in [&refusal[..], b"\0\0\0\x04\0\0\0\0\0"] {
        let app = Greeter::start(greeting).await;
        let slow = Protocol::Detect { timeout: Duration::from_secs(10) };
        let setup = Setup::new(server(slow, everybody()), app.address).await;
        let mut stream = setup.connect().await;
        let heard = tokio::time::timeout(WATCHED, stream.read(&mut [0; 1])).await;
        assert!(heard.is_err(), "{heard:?}");
        assert_eq!(app.connections(), 1);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 "), "{}", answer.escape_ascii());
        assert_eq!(app.connections(), 2, "the request has a connection of its own");
    }
}

#[tokio::test]
async fn a_client_that_speaks_first_is_read_as_before() {
    let app = App::start().await;
    let slow = Protocol::Detect { timeout: Duration::from_secs(10) };
    let setup = Setup::new(server(slow, everybody()), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    assert_eq!(client.get("/").await.status, 200);
    // One that hesitates is HTTP, too; for it the application was dialled in vain.
    let mut stream = setup.connect().await;
    tokio::time::sleep(WATCHED).await;
    stream.write_all(b"GET /late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", answer.escape_ascii());
    setup.logged("allow - - GET / 200").await;
    setup.logged("allow - - GET /late 200").await;
    assert_eq!(setup.log.lines().len(), 2, "requests are decided on, and no connection");
}

#[tokio::test]
async fn bytes_of_a_client_that_hesitates_take_the_connection_that_was_dialled() {
    let app = Greeter::start(b"").await;
    let slow = Protocol::Detect { timeout: Duration::from_secs(10) };
    let setup = Setup::new(server(slow, everybody()), app.address).await;
    let mut stream = setup.connect().await;
    tokio::time::sleep(WATCHED).await;
    assert_eq!(app.connections(), 1);
    stream.write_all(b"EHLO a\r\n").await.unwrap();
    assert_eq!(read(&mut stream).await, *b"+EHLO a\r\n");
    assert_eq!(app.connections(), 1);
}

#[tokio::test]
async fn a_connection_whose_application_spoke_first_loses_its_permission_like_any_other() {
    let app = Greeter::start(MYSQL).await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut stream = setup.connect().await;
    assert_eq!(read::<{ MYSQL.len() }>(&mut stream).await, *MYSQL);
    setup.apply(server(detect(), nobody())).await;
    let ended = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut [0; 1])).await;
    assert!(matches!(ended.unwrap(), Ok(0) | Err(_)));
    setup.logged("deny revoked - connection").await;
}

#[tokio::test]
async fn an_application_that_is_away_changes_nothing_for_a_client_of_http_that_speaks_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let mut stream = setup.connect().await;
    tokio::time::sleep(AT_ONCE).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 502"), "{}", answer.escape_ascii());
}

/// As a silent client of an opaque port, and one without a sidecar, learns it.
#[tokio::test]
async fn a_silent_client_learns_at_once_that_the_application_is_down_or_has_closed() {
    use std::io::ErrorKind;
    let authority = Authority::new();
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let [closes, resets] = [false, true].map(|resets| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if resets {
                    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                }
            }
        });
        address
    });
    let reset = Err(ErrorKind::ConnectionReset);
    for (address, expected) in [(free, reset), (closes, Ok(0)), (resets, reset)] {
        let slow = Protocol::Detect { timeout: Duration::from_secs(60) };
        let setup = meshed(&authority, server(slow, everybody()), address).await;
        let (mut plain, mut tls) =
            (setup.connect().await, connect(&setup, &connector).await.unwrap());
        let mut byte = [0; 2];
        let (first, second) = byte.split_at_mut(1);
        let bound = Duration::from_secs(30);
        let ended = tokio::join!(
            tokio::time::timeout(bound, plain.read(first)),
            tokio::time::timeout(bound, tls.read(second)),
        );
        let kind = |ended: std::io::Result<usize>| ended.map_err(|error| error.kind());
        assert_eq!((kind(ended.0.unwrap()), kind(ended.1.unwrap())), (expected, expected));
    }
}
