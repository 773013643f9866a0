//! What bounds connections and requests: time, size, number, and what the system is asked to do.

use std::time::Duration;

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
    /// How long a connection that carries bytes may stay open without any, in either direction; absent:
    /// for as long as both ends live.
    pub opaque_idle: Option<Duration>,
    /// How long nothing of a message that could be sent may be taken, by a client or by the
    /// application; absent: for as long as both live. A message that has nothing to be sent may be
    /// silent for ever.
    pub stall: Option<Duration>,
    /// HTTP/2 PING interval.
    pub http2_ping: Duration,
    /// How long the answer to an HTTP/2 PING may take.
    pub http2_ping_answer: Duration,
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
    /// Header fields of a request.
    pub headers: usize,
    /// HTTP/2 streams that one client may have open.
    pub http2_streams: u32,
    /// HTTP/1 requests of one client's HTTP/2 connection that may be open at the application, each on
    /// a connection of its own; absent: as many as streams.
    pub http2_carried: Option<usize>,
    /// HTTP/2 streams that a client reset and that were not looked at yet (rapid reset).
    pub http2_pending_resets: usize,
    /// HTTP/2 flow control window of a client's stream, in bytes.
    pub http2_stream_window: u32,
    /// HTTP/2 flow control window of a client's connection, in bytes.
    pub http2_connection_window: u32,
    /// Whether these two follow the measured bandwidth instead.
    pub http2_adaptive_window: bool,
    /// Payload bytes of an HTTP/2 frame that a client may send; absent: the library's choice.
    pub http2_frame: Option<u32>,
    /// Bytes of a response that wait for an HTTP/2 client's window; absent: the library's choice.
    pub http2_send_buffer: Option<usize>,
    /// HTTP/2 flow control windows towards the application, of a stream and of the connection, in
    /// bytes.
    pub http2_upstream_windows: (u32, u32),
    /// Bytes that TLS buffers per connection and direction.
    pub tls_buffer: usize,
}

/// What the system does for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// Connections that wait to be accepted, per listener and worker.
    pub backlog: i32,
    /// After this long without a byte a client is asked whether it is still there.
    pub accept_keepalive: Duration,
    /// How long what was sent to a client may stay unacknowledged; absent: the system's choice.
    pub accept_user_timeout: Option<Duration>,
    /// After this long without a byte the application is asked; absent: never.
    pub connect_keepalive: Option<Duration>,
    /// How long what was sent to the application may stay unacknowledged; absent: the system's choice.
    pub connect_user_timeout: Option<Duration>,
}

impl Limits {
    /// HTTP/1 requests of one HTTP/2 connection that may be open at the application.
    pub(super) fn carried(&self) -> usize {
        let streams = usize::try_from(self.http2_streams).unwrap_or(usize::MAX);
        self.http2_carried.unwrap_or(streams)
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
            opaque_idle: None,
            stall: Some(Duration::from_secs(3600)),
            http2_ping: Duration::from_secs(30),
            http2_ping_answer: Duration::from_secs(30),
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
            http2_carried: None,
            http2_pending_resets: 20,
            http2_stream_window: 65_535,
            http2_connection_window: 1024 * 1024,
            http2_adaptive_window: false,
            http2_frame: None,
            http2_send_buffer: None,
            http2_upstream_windows: (65_535, 1024 * 1024),
            tls_buffer: 64 * 1024,
        }
    }
}

impl Default for Sockets {
    fn default() -> Self {
        Self {
            backlog: 1024,
            accept_keepalive: Duration::from_secs(60),
            accept_user_timeout: None,
            connect_keepalive: None,
            connect_user_timeout: None,
        }
    }
}

/// Heads may always be as long as this, whatever the setting.
pub(super) const MIN_HEAD_LIMIT: usize = 8 * 1024;
