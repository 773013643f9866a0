//! Undeclared ports, and clients that use up their number.

use crate::support::*;
use policy_core::{Revision, UndeclaredPorts};
use policy_enforce::store::StoreConfig;
use policy_enforce::{PolicyStore, Telemetry};
use policy_proxy::sidecar::{Listener, Target};
use policy_proxy::{Sidecar, SidecarConfig};
use policy_tls::identity::IdentityHandle;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Number of ports that may have a policy at a time.
const MOST: usize = 8;
/// First port that permits no client; ports before it permit every client.
const CLOSED: u16 = 9000;

/// A sidecar with a listener for each of its undeclared ports, and the source of their policies.
struct Ports {
    sidecar: Sidecar,
    ports: Vec<u16>,
    app: App,
}

impl Ports {
    async fn new() -> Self {
        Self::closed_from(CLOSED).await
    }

    /// Starts with ports from `closed` on that permit no client.
    async fn closed_from(closed: u16) -> Self {
        let app = App::start().await;
        let settings = StoreConfig { on_demand_ports: MOST, ..StoreConfig::default() };
        let store = PolicyStore::new(settings, Arc::new(Telemetry::new(1))).unwrap();
        store.declare(&BTreeSet::new(), UndeclaredPorts::Default);
        let ports: Vec<u16> = (8000..8002).chain(CLOSED..CLOSED + 64).collect();
        let mut config = SidecarConfig::new("ns/web-0");
        config.listeners = ports
            .iter()
            .map(|port| Listener {
                address: "127.0.0.1:0".parse().unwrap(),
                target: Target::Fixed {
                    port: NonZeroU16::new(*port).unwrap(),
                    upstream: app.address,
                },
            })
            .collect();
        let sidecar = Sidecar::start(config, store.clone(), IdentityHandle::empty(), None).unwrap();
        tokio::spawn(answer(store, closed));
        Self { sidecar, ports, app }
    }

    fn address(&self, port: u16) -> SocketAddr {
        let at = self.ports.iter().position(|own| *own == port).unwrap();
        self.sidecar.addresses()[at]
    }

    /// A connection from an address of the loopback network.
    async fn connect(&self, from: [u8; 4], port: u16) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(self.address(port)).await.unwrap()
    }

    /// The status of a request on a new connection of `from`, and the connection.
    async fn request(&self, from: [u8; 4], port: u16) -> (u16, TcpStream) {
        let mut stream = self.connect(from, port).await;
        (ask(&mut stream).await, stream)
    }

    /// Refused connections that stay open, one on each of these ports.
    async fn idle(&self, from: [u8; 4], ports: std::ops::Range<u16>) -> Vec<TcpStream> {
        let mut open = Vec::new();
        for port in ports {
            open.push(self.request(from, port).await.1);
        }
        open
    }
}

/// Applies the policy of each port that is requested.
async fn answer(store: PolicyStore, closed: u16) {
    let mut demand = store.demand();
    loop {
        for (port, _) in store.ports() {
            let grants = if port.get() < closed { everybody() } else { nobody() };
            let policy = Arc::new(server(detect(), grants));
            store.apply(port, policy, Revision::default()).unwrap();
        }
        demand.changed().await.unwrap();
    }
}

/// The status of a request on a connection that stays open.
async fn ask(stream: &mut TcpStream) -> u16 {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{}", answer.escape_ascii());
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let length = text.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
    let whole = text.find("\r\n\r\n").unwrap() + 4 + length.parse::<usize>().unwrap();
    while answer.len() < whole {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
    }
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

/// True if the other side closes the connection within some seconds.
async fn ends(stream: &mut TcpStream) -> bool {
    let mut byte = [0; 1];
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut byte)).await;
    matches!(read, Ok(Ok(0)))
}

const STRANGER: [u8; 4] = [127, 0, 0, 66];
const CLIENT: [u8; 4] = [127, 0, 0, 1];

#[tokio::test]
async fn idle_strangers_keep_no_port_from_those_that_may_use_it() {
    let ports = Ports::new().await;
    let all = CLOSED + u16::try_from(MOST).unwrap();
    let mut idle = ports.idle(STRANGER, CLOSED..all).await;
    // Requests on other ports do not help the other client.
    let _more = ports.idle(STRANGER, all..all + 4).await;
    let (status, mut stream) = ports.request(CLIENT, 8000).await;
    assert_eq!(status, 200);
    assert!(ends(&mut idle[0]).await, "what made room is closed");
    // A port in use keeps its policy, however many others are requested.
    let _rest = ports.idle(STRANGER, all..CLOSED + 64).await;
    assert_eq!(ask(&mut stream).await, 200);
    assert_eq!(ports.app.requests(), 2);
    let (status, _second) = ports.request(CLIENT, 8001).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_permitted_connection_keeps_its_port_only_while_something_is_open() {
    let ports = Ports::closed_from(u16::MAX).await;
    let all = CLOSED + u16::try_from(MOST).unwrap();
    let mut open = ports.connect(STRANGER, CLOSED).await;
    open.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut idle = Vec::new();
    for port in CLOSED + 1..all {
        let (status, stream) = ports.request(STRANGER, port).await;
        assert_eq!(status, 200);
        idle.push(stream);
    }
    for port in 8000..8002 {
        assert_eq!(ports.request(CLIENT, port).await.0, 200, "{port}");
    }
    assert!(ends(&mut idle[0]).await, "what made room is closed");
    assert_eq!(ask(idle.last_mut().unwrap()).await, 200);
    let answer = tokio::time::timeout(Duration::from_secs(1), open.read(&mut [0; 1])).await;
    assert!(answer.is_err(), "what is open stays");
}
