//! A listener whose room is taken, and the times after which connections end.

use super::*;
use crate::capacity::{CapacityBounds, RevocationOrder, SharedCapacity};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

/// Returns each byte that a client sends.
#[derive(Default)]
struct Echo(Arc<Mutex<Vec<String>>>);

impl ConnectionService for Echo {
    type Open = ();

    fn admits(&self, client: SocketAddr) -> Result<(), &'static str> {
        if client.ip().to_string() == "127.0.0.66" { Err("unauthorized") } else { Ok(()) }
    }

    fn opened(&self) {}

    fn refused(&self, _: SocketAddr, reason: &ConnectionRefusal) {
        self.0.lock().push(reason.to_string());
    }

    async fn serve(self: Arc<Self>, mut accepted: Accepted) {
        let mut byte = [0; 1];
        let (stream, share) = (&mut accepted.stream, accepted.share.clone());
        let echo = std::pin::pin!(async {
            while stream.read_exact(&mut byte).await.is_ok() {
                let _in_use = share.in_use();
                if stream.write_all(&byte).await.is_err() {
                    return;
                }
            }
        });
        accepted.end.drive(echo, Duration::ZERO, |_| {}).await;
    }
}

struct Port {
    address: SocketAddr,
    refused: Arc<Mutex<Vec<String>>>,
    drain: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

async fn port(change: impl FnOnce(&mut ListenerSettings)) -> Port {
    let first = RevocationOrder::LeastRecentlyUsed;
    let bounds = CapacityBounds { total: 16, per_client: 8, first };
    let minute = Duration::from_secs(60);
    let mut settings = ListenerSettings {
        connections: SharedCapacity::new(bounds),
        proved: None,
        first_byte: minute,
        handshake: minute,
        turns: HandshakeTurns { at_once: 1, kept: Duration::ZERO, wait: minute },
        first_use: None,
        age: None,
    };
    change(&mut settings);
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let (echo, drain) = (Echo::default(), CancellationToken::new());
    let refused = echo.0.clone();
    let listener = Listener::new(settings, echo, drain.clone());
    let served = tokio::spawn(listener.run(vec![(socket, Transport::Plaintext)]));
    Port { address, refused, drain, served }
}

impl Port {
    async fn connect(&self, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }
}

async fn is_served(stream: &mut TcpStream) -> bool {
    let mut byte = [0; 1];
    stream.write_all(b"a").await.is_ok() && stream.read_exact(&mut byte).await.is_ok()
}

/// Returns true if the other side has closed a connection, or does so soon.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0; 1];
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut byte)).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn a_client_is_served_while_many_small_holders_of_one_network_fill_the_room() {
    let port = port(|_| {}).await;
    let mut early = port.connect([127, 0, 0, 1]).await;
    assert!(is_served(&mut early).await);
    let mut crowd = Vec::new();
    for n in 0..200 {
        crowd.push(port.connect([127, 0, 9, n]).await);
    }
    assert!(is_served(&mut early).await, "one that came before");
    let mut late = port.connect([127, 0, 0, 2]).await;
    assert!(is_served(&mut late).await, "one that came after");
    let mut neighbour = port.connect([127, 0, 9, 250]).await;
    assert!(is_served(&mut neighbour).await, "one in the midst of them");
    assert!(is_closed(&mut crowd[0]).await, "the oldest idle one made room");
    let closed = "closed to make room for another connection";
    assert!(port.refused.lock().iter().all(|reason| reason == closed));
}

#[tokio::test]
async fn a_client_over_its_bound_loses_its_oldest_idle_connection() {
    let port = port(|_| {}).await;
    let mut other = port.connect([127, 0, 0, 2]).await;
    let mut own = Vec::new();
    for _ in 0..9 {
        own.push(port.connect([127, 0, 0, 1]).await);
    }
    assert!(is_closed(&mut own[0]).await);
    for stream in own[1..].iter_mut().chain([&mut other]) {
        assert!(is_served(stream).await);
    }
}

#[tokio::test]
async fn who_says_nothing_and_who_may_not_connect_is_let_go() {
    let short = Duration::from_millis(50);
    let port = port(|settings| settings.first_byte = short).await;
    let mut silent = port.connect([127, 0, 0, 1]).await;
    assert!(is_closed(&mut silent).await);
    let mut stranger = port.connect([127, 0, 0, 66]).await;
    assert!(is_closed(&mut stranger).await);
    assert_eq!(*port.refused.lock(), ["no byte in time", "refused by policy: unauthorized"]);
}

#[tokio::test]
async fn an_age_ends_connections_and_the_end_of_the_listener_ends_all() {
    let port = port(|settings| settings.age = Some(Duration::from_millis(200))).await;
    let mut stream = port.connect([127, 0, 0, 1]).await;
    assert!(is_served(&mut stream).await);
    assert!(is_closed(&mut stream).await, "it is old");
    let mut next = port.connect([127, 0, 0, 1]).await;
    assert!(is_served(&mut next).await);
    port.drain.cancel();
    assert!(is_closed(&mut next).await);
    port.served.await.unwrap();
    assert!(TcpStream::connect(port.address).await.is_err());
}
