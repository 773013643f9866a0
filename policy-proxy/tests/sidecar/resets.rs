//! A reset of one side is a reset of the other, an end is an end, and what was sent before either
//! arrives.

use crate::support::*;
use crate::tls::{Mesh, connect};
use policy_core::{Protocol, ServerPolicy};
use policy_testkit::{Authority, dns as san};
use policy_tls::identity::IdentityHandle;
use socket2::SockRef;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// How a direction ended, and how many bytes came before.
type End = (usize, Result<(), ErrorKind>);

const RESET: Result<(), ErrorKind> = Err(ErrorKind::ConnectionReset);
/// A bound for steps that only fail on a broken sidecar.
const PATIENCE: Duration = Duration::from_secs(60);

/// An application that obeys the first byte: `R` sends bytes and resets, `F` sends bytes and ends, `W`
/// waits for its client, `U` reads nothing for a while, `G` is silent.
struct Obedient {
    address: SocketAddr,
    ends: mpsc::UnboundedReceiver<End>,
}

const SENT: usize = 1_000_000;

impl Obedient {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, ends) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let tell = tell.clone();
                tokio::spawn(async move { obey(stream, &tell).await });
            }
        });
        Self { address, ends }
    }

    /// How the next connection of a waiting application ended.
    async fn end(&mut self) -> End {
        tokio::time::timeout(PATIENCE, self.ends.recv()).await.unwrap().unwrap()
    }
}

async fn obey(mut stream: TcpStream, tell: &mpsc::UnboundedSender<End>) {
    let mut first = [0; 3];
    stream.read_exact(&mut first).await.unwrap();
    match first[0] {
        b'R' => {
            stream.write_all(&[b'x'; SENT]).await.unwrap();
            // Until the sidecar's system has all of it: a reset discards what it has not.
            tokio::time::sleep(Duration::from_millis(300)).await;
            reset(&stream);
        }
        b'F' => stream.write_all(&[b'x'; SENT]).await.unwrap(),
        b'W' => {
            let _ = tell.send(read_to_end(&mut stream).await);
        }
        b'U' => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = tell.send(read_to_end(&mut stream).await);
        }
        _ => {
            stream.write_all(b".").await.unwrap();
            let _ = tell.send(read_to_end(&mut stream).await);
        }
    }
}

fn reset(stream: &TcpStream) {
    SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> End {
    let (mut piece, mut all) = (vec![0; 65_536], 0);
    loop {
        match tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await.unwrap() {
            Ok(0) => return (all, Ok(())),
            Ok(read) => all += read,
            Err(error) => return (all, Err(error.kind())),
        }
    }
}

/// Sidecars that carry bytes in each way.
async fn policies() -> [ServerPolicy; 2] {
    [server(Protocol::Opaque, everybody()), server(detect(), everybody())]
}

async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), what: &[u8]) -> End {
    stream.write_all(what).await.unwrap();
    read_to_end(stream).await
}

#[tokio::test]
async fn the_applications_reset_is_a_reset_behind_all_that_it_sent_and_its_end_is_an_end() {
    let app = Obedient::start().await;
    for policy in policies().await {
        let setup = Setup::new(policy, app.address).await;
        assert_eq!(ask(&mut setup.connect().await, b"R\0\x01").await, (SENT, RESET));
        assert_eq!(ask(&mut setup.connect().await, b"F\0\x01").await, (SENT, Ok(())));
    }
    let authority = Authority::new();
    let identity = IdentityHandle::new(authority.workload());
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, identity, |_| {}).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let mut tls = connect(&setup, &connector).await.unwrap();
    assert_eq!(ask(&mut tls, b"R\0\x01").await, (SENT, RESET), "without a closing message");
    let mut tls = connect(&setup, &connector).await.unwrap();
    assert_eq!(ask(&mut tls, b"F\0\x01").await, (SENT, Ok(())), "with one");
}

#[tokio::test]
async fn the_clients_reset_is_a_reset_and_its_end_is_an_end() {
    let mut app = Obedient::start().await;
    for policy in policies().await {
        let setup = Setup::new(policy, app.address).await;
        let mut stream = setup.connect().await;
        stream.write_all(b"W\0\x01abc").await.unwrap();
        // Until the application's system has it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        reset(&stream);
        drop(stream);
        assert_eq!(app.end().await, (3, RESET));
        let mut stream = setup.connect().await;
        stream.write_all(b"W\0\x01abc").await.unwrap();
        drop(stream);
        assert_eq!(app.end().await, (3, Ok(())));
    }
    let authority = Authority::new();
    let identity = IdentityHandle::new(authority.workload());
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, identity, |_| {}).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let mut tls = connect(&setup, &connector).await.unwrap();
    tls.write_all(b"W\0\x01abc").await.unwrap();
    // Its end without a closing message may be a cut.
    drop(tls);
    assert_eq!(app.end().await, (3, RESET));
    let mut tls = connect(&setup, &connector).await.unwrap();
    tls.write_all(b"W\0\x01abc").await.unwrap();
    tls.shutdown().await.unwrap();
    assert_eq!(app.end().await, (3, Ok(())));
}

#[tokio::test]
async fn a_reset_waits_until_a_slow_side_has_what_was_sent_before_it() {
    let mut app = Obedient::start().await;
    let setup = Setup::new(server(Protocol::Opaque, everybody()), app.address).await;
    // A client with little room, which reads late.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut slow = socket.connect(setup.address).await.unwrap();
    slow.write_all(b"R\0\x01").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(read_to_end(&mut slow).await, (SENT, RESET));
    // An application that reads late.
    let mut client = setup.connect().await;
    client.write_all(b"U\0\x01").await.unwrap();
    client.write_all(&[b'x'; SENT]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    reset(&client);
    drop(client);
    assert_eq!(app.end().await, (SENT, RESET));
}

/// A connection of bytes on which the application has spoken, or a tunnel.
async fn open(setup: &Setup, tunnel: bool) -> TcpStream {
    let mut stream = setup.connect().await;
    let mut byte = [0; 1];
    if tunnel {
        let head =
            "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).await.unwrap();
            head.push(byte[0]);
        }
        return stream;
    }
    stream.write_all(b"G\0\x01").await.unwrap();
    stream.read_exact(&mut byte).await.unwrap();
    stream
}

#[tokio::test]
async fn what_revocation_the_idle_bound_and_the_end_of_grace_cut_is_reset_on_both_sides() {
    let app = App::start().await;
    let mut obedient = Obedient::start().await;
    for tunnel in [false, true] {
        let upstream = if tunnel { app.address } else { obedient.address };
        let policy = || Some(server(detect(), everybody()));
        let none = IdentityHandle::empty;
        let setup = Setup::with(policy(), upstream, none(), |_| {}).await;
        let mut stream = open(&setup, tunnel).await;
        let begun = Instant::now();
        setup.apply(server(detect(), nobody())).await;
        assert_eq!(read_to_end(&mut stream).await, (0, RESET), "revoked, tunnel: {tunnel}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        if !tunnel {
            assert_eq!(obedient.end().await, (0, RESET), "revoked");
            // Tunnels have no such bound.
            let setup = Setup::with(policy(), upstream, none(), |config| {
                config.timeouts.opaque_idle = Some(Duration::from_secs(1));
            })
            .await;
            let mut stream = open(&setup, tunnel).await;
            assert_eq!(read_to_end(&mut stream).await, (0, RESET), "idle");
            assert_eq!(obedient.end().await, (0, RESET), "idle");
        }
        let mut setup = Setup::with(policy(), upstream, none(), |config| {
            config.timeouts.grace = Duration::from_millis(100);
        })
        .await;
        let mut stream = open(&setup, tunnel).await;
        setup.sidecar.drain();
        setup.sidecar.ended().await;
        assert_eq!(read_to_end(&mut stream).await, (0, RESET), "grace, tunnel: {tunnel}");
        if !tunnel {
            assert_eq!(obedient.end().await, (0, RESET), "grace");
        }
    }
}

#[tokio::test]
async fn a_reset_goes_through_a_tunnel_behind_what_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await.unwrap();
        let head = "HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&[b'x'; SENT]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        reset(&stream);
    });
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let mut stream = open(&setup, true).await;
    assert_eq!(read_to_end(&mut stream).await, (SENT, RESET));
}

#[tokio::test]
async fn an_application_that_cannot_be_reached_resets_a_connection_of_bytes() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let setup = Setup::new(server(Protocol::Opaque, everybody()), free).await;
    let mut stream = setup.connect().await;
    assert_eq!(read_to_end(&mut stream).await, (0, RESET));
    setup.counted("inbound_tcp_errors_total{error=\"connect\"", 1).await;
}

/// Answers each request with a body that ends with the connection: `/reset` cuts it, `/end` ends it,
/// anything else goes on.
async fn until_close() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = [0; 1024];
                let read = stream.read(&mut head).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await.unwrap();
                stream.write_all(&[b'x'; SENT]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(300)).await;
                if head[..read].starts_with(b"GET /reset") {
                    reset(&stream);
                } else if head[..read].starts_with(b"GET /open") {
                    let _ = stream.read(&mut head).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_body_that_ends_with_the_connection_does_not_look_whole_where_it_was_cut() {
    let address = until_close().await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let get = async |setup: &Setup, path: &str| {
        // A client of HTTP/1.1 gets chunks, whose end it sees.
        let mut stream = setup.connect().await;
        let head = format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream
    };
    assert_eq!(read_to_end(&mut get(&setup, "/end").await).await, (SENT, Ok(())));
    assert_eq!(read_to_end(&mut get(&setup, "/reset").await).await, (SENT, RESET));
    let mut open = get(&setup, "/open").await;
    open.read_exact(&mut [0; SENT]).await.unwrap();
    setup.apply(server(detect(), nobody())).await;
    assert_eq!(read_to_end(&mut open).await, (0, RESET), "revoked");
    let policy = Some(server(detect(), everybody()));
    let mut setup = Setup::with(policy, address, IdentityHandle::empty(), |config| {
        config.timeouts.grace = Duration::from_millis(100);
    })
    .await;
    let mut open = get(&setup, "/open").await;
    open.read_exact(&mut [0; SENT]).await.unwrap();
    setup.sidecar.drain();
    setup.sidecar.ended().await;
    assert_eq!(read_to_end(&mut open).await, (0, RESET), "grace");
}
