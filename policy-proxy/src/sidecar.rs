//! The sidecar: accepts connections to the workload's ports and forwards what policy permits.
//!
//! A connection lives like this: accept, find out where it was going ([`accept`]), look for a
//! ClientHello ([`tls`]), look for HTTP ([`detect`]), then either carry requests ([`http`]) or bytes
//! ([`opaque`]). One that was going to the sidecar's own port says where it wants to go ([`direct`]) and
//! is carried like the others. Everything that belongs to one worker stays on its thread.

mod accept;
mod arrival;
mod body;
mod copy;
mod detect;
mod direct;
mod handle;
pub mod hello;
mod http;
mod io;
mod listen;
mod opaque;
mod open;
mod seats;
mod serve;
mod signal;
mod slots;
mod tls;
mod tunnel;
mod upstream;
mod worker;

pub use handle::Sidecar;
pub use listen::StartError;

use crate::admin::Admin;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

/// How a sidecar listens and what it bounds.
#[derive(Clone)]
pub struct SidecarConfig {
    /// The workload's name in records.
    pub workload: Arc<str>,
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// Threads that serve connections, each with listeners of its own.
    pub workers: NonZeroUsize,
    /// The pod's addresses, beside those that the controller states. A redirected connection to any
    /// other address is refused; where none is stated, to any but the one it arrived at.
    pub pod_addresses: Vec<IpAddr>,
    /// The proxy's own admin port, which meshed clients may reach through the direct path; absent: it
    /// is a port like any other.
    pub admin: Option<Admin>,
    /// What a client's address stands for; absent: itself. Applied before policy, rate limits and
    /// records see it.
    pub client_address: Option<ClientAddress>,
    /// Bounds on time.
    pub timeouts: Timeouts,
    /// Bounds on size and number.
    pub limits: Limits,
}

/// What a client's address stands for.
pub type ClientAddress = Arc<dyn Fn(IpAddr) -> IpAddr + Send + Sync>;

/// One address that a sidecar listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address; port 0 asks for a free one.
    pub address: SocketAddr,
    /// Where its connections go.
    pub target: Target,
}

/// Where the connections of a listener go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Where they were going before netfilter redirected them. Those to an address that is not the
    /// pod's, or to loopback, are refused. Those to the listener itself are as under
    /// [`Target::Direct`].
    Original,
    /// Where the client asks to go: mutual TLS and a transport header that names the workload's port,
    /// whose policy decides (proxy-semantics 1.6). It is forwarded to the upstream of a
    /// [`Target::Fixed`] listener of that port; without one, to the port at the address that the
    /// client connected to if a listener is [`Target::Original`], else it is refused.
    Direct,
    /// Always to `upstream`, under the policy of `port`.
    Fixed {
        /// The workload's port, whose policy decides.
        port: NonZeroU16,
        /// The application.
        upstream: SocketAddr,
    },
}

/// Bounds on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a ClientHello, and until HTTP is told from other bytes where policy states no bound.
    pub detect: Duration,
    /// Until a TLS handshake is complete.
    pub handshake: Duration,
    /// How long a connection waits for the first policy of its port.
    pub pending_policy: Duration,
    /// Until the application accepts a connection.
    pub connect: Duration,
    /// From the first byte of an HTTP/1 request head to its last.
    pub request_head: Duration,
    /// How long an HTTP connection may stay open without a request.
    pub idle: Duration,
    /// HTTP/2 PING interval; also bounds how long its answer may take.
    pub http2_ping: Duration,
    /// How long drain waits for open requests and connections.
    pub grace: Duration,
}

/// Bounds on size and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections per port; more are closed at once.
    pub connections: usize,
    /// Requests that may wait for the application at a time; more are answered 503.
    pub in_flight: usize,
    /// Bytes of an HTTP/1 request head, and of an HTTP/2 header list in either direction.
    pub request_head: u32,
    /// Header fields of an HTTP/1 request.
    pub headers: usize,
    /// HTTP/2 streams that one client may have open.
    pub http2_streams: u32,
    /// HTTP/2 streams that a client reset and that were not looked at yet (rapid reset).
    pub http2_pending_resets: usize,
    /// HTTP/2 flow control window of a stream, in bytes.
    pub http2_stream_window: u32,
    /// HTTP/2 flow control window of a connection, in bytes.
    pub http2_connection_window: u32,
    /// Bytes that TLS buffers per connection and direction.
    pub tls_buffer: usize,
}

impl SidecarConfig {
    /// A sidecar without listeners, with one worker and the default bounds.
    pub fn new(workload: &str) -> Self {
        Self {
            workload: workload.into(),
            listeners: Vec::new(),
            workers: NonZeroUsize::MIN,
            pod_addresses: Vec::new(),
            admin: None,
            client_address: None,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
        }
    }
}

impl std::fmt::Debug for SidecarConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SidecarConfig")
            .field("workload", &self.workload)
            .field("listeners", &self.listeners)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            detect: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            pending_policy: Duration::from_secs(10),
            connect: Duration::from_secs(1),
            request_head: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            http2_ping: Duration::from_secs(30),
            grace: Duration::from_secs(120),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            in_flight: 100_000,
            request_head: 64 * 1024,
            headers: 100,
            http2_streams: 256,
            http2_pending_resets: 20,
            http2_stream_window: 65_535,
            http2_connection_window: 1024 * 1024,
            tls_buffer: 64 * 1024,
        }
    }
}
