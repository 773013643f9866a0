//! Limits, timeouts and socket options of connections and requests.

use std::time::Duration;

/// Timeouts of connections and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout of the detection of a ClientHello, and of HTTP where policy states no timeout.
    pub detect: Duration,
    /// Timeout of a TLS handshake.
    pub handshake: Duration,
    /// Time that a connection waits for the first policy of its port.
    pub pending_policy: Duration,
    /// Timeout of a connect to the application.
    pub connect: Duration,
    /// Time from the first byte of an HTTP/1 request head to its last.
    pub request_head: Duration,
    /// Idle timeout of an HTTP connection without a request.
    pub idle: Duration,
    /// Idle timeout of an opaque connection, in both directions; absent: none.
    pub opaque_idle: Option<Duration>,
    /// Time for which a client or the application may read nothing of a message that has data to
    /// send; absent: no limit. A message without data to send may be silent for ever.
    pub stall: Option<Duration>,
    /// HTTP/2 PING interval.
    pub http2_ping: Duration,
    /// Timeout of the acknowledgement of an HTTP/2 PING.
    pub http2_ping_answer: Duration,
    /// Time that a graceful drain waits for open requests and connections.
    pub grace: Duration,
}

/// Limits on size and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections per port; further ones are closed at once.
    pub connections: usize,
    /// Requests that may wait for the application's response at a time; further ones are answered
    /// 503.
    pub in_flight: usize,
    /// Bytes of a request head: an HTTP/1 head, or an HTTP/2 header list or trailers.
    pub request_head: u32,
    /// Bytes of the head of an application's response, and of its HTTP/2 trailers.
    pub response_head: u32,
    /// Bytes of the heads of all open requests beyond 2 KiB each, shared by their clients.
    pub heads: usize,
    /// Header fields of a request.
    pub headers: usize,
    /// Concurrent HTTP/2 streams of one client.
    pub http2_streams: u32,
    /// Concurrent HTTP/1 requests that one client sends in HTTP/2, each on an upstream connection
    /// of its own; absent: as many as streams.
    pub http2_carried: Option<usize>,
    /// HTTP/2 streams that a client may have reset before they were accepted (rapid reset).
    pub http2_pending_resets: usize,
    /// HTTP/2 flow control window of a client's stream, in bytes.
    pub http2_stream_window: u32,
    /// HTTP/2 flow control window of a client's connection, in bytes.
    pub http2_connection_window: u32,
    /// True if both windows follow the measured bandwidth instead.
    pub http2_adaptive_window: bool,
    /// Payload bytes of an HTTP/2 frame that a client may send; absent: the default of h2.
    pub http2_frame: Option<u32>,
    /// Bytes of a response that wait for an HTTP/2 client's window; absent: the default of h2.
    pub http2_send_buffer: Option<usize>,
    /// HTTP/2 flow control windows towards the application, of a stream and of the connection, in
    /// bytes.
    pub http2_upstream_windows: (u32, u32),
    /// Bytes of the TLS buffer per connection and direction.
    pub tls_buffer: usize,
}

/// Socket options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Accept backlog per listener and worker.
    pub backlog: i32,
    /// Time without a byte after which the system sends a TCP keepalive to a client.
    pub accept_keepalive: Duration,
    /// TCP user timeout towards a client: time that sent data may stay unacknowledged; absent: the
    /// system's default.
    pub accept_user_timeout: Option<Duration>,
    /// Time without a byte after which the system sends a TCP keepalive to the application; absent:
    /// never.
    pub connect_keepalive: Option<Duration>,
    /// TCP user timeout towards the application; absent: the system's default.
    pub connect_user_timeout: Option<Duration>,
}

impl Limits {
    /// Concurrent HTTP/1 requests that one HTTP/2 connection may send to the application.
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
            response_head: 64 * 1024,
            heads: 16 * 1024 * 1024,
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

impl Default for SocketOptions {
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

/// Bytes that a head may always have, whatever the setting.
pub(super) const MIN_HEAD_LIMIT: usize = 8 * 1024;
