//! Flags of `policy-proxy run`: limits of connections and requests.

use clap::Args;

/// Flags of limits of connections and requests.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub struct LimitsArgs {
    /// Open connections per port [default: 65536]
    #[arg(long, value_name = "COUNT")]
    pub max_connections: Option<String>,
    /// Requests that may wait for the application's response at a time; further ones are answered
    /// 503 [LINKERD2_PROXY_INBOUND_MAX_IN_FLIGHT; default 100000]
    #[arg(long, value_name = "COUNT")]
    pub max_in_flight: Option<String>,
    /// Bytes of a request head [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE; default
    /// 65536]
    #[arg(long, value_name = "BYTES")]
    pub max_request_head: Option<String>,
    /// Bytes of the head of an application's response, and of HTTP/2 trailers behind it [default:
    /// 65536]
    #[arg(long, value_name = "BYTES")]
    pub max_response_head: Option<String>,
    /// Bytes of the heads of all open requests beyond 2 KiB each, shared by their clients
    /// [default: 16777216]
    #[arg(long, value_name = "BYTES")]
    pub max_open_heads: Option<String>,
    /// Header fields of a request, 4096 at most [default: 100]
    #[arg(long, value_name = "COUNT")]
    pub max_headers: Option<String>,
    /// Timeout of an HTTP/1 request head [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub request_head_timeout: Option<String>,
    /// Timeout of a TLS handshake [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub handshake_timeout: Option<String>,
    /// Idle timeout of an HTTP connection without a request [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub idle_timeout: Option<String>,
    /// Idle timeout of any other connection; 0: none [default: 0]
    #[arg(long, value_name = "DURATION")]
    pub opaque_idle_timeout: Option<String>,
    /// Time for which the receiver of a request or response may read nothing of it; 0: no limit
    /// [default: 1h]
    #[arg(long, value_name = "DURATION")]
    pub stall_timeout: Option<String>,
    /// Accept backlog: connections that wait to be accepted
    /// [LINKERD2_PROXY_INBOUND_TCP_LISTEN_BACKLOG; default 1024]
    #[arg(long, value_name = "COUNT")]
    pub listen_backlog: Option<String>,
    /// Time without a byte after which a client is sent a TCP keepalive
    /// [LINKERD2_PROXY_INBOUND_ACCEPT_KEEPALIVE; default 60s]
    #[arg(long, value_name = "DURATION")]
    pub accept_keepalive: Option<String>,
    /// TCP user timeout: time that bytes to a client may stay unacknowledged
    /// [LINKERD2_PROXY_INBOUND_ACCEPT_USER_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub accept_user_timeout: Option<String>,
    /// Time without a byte after which the application is sent a TCP keepalive
    /// [LINKERD2_PROXY_INBOUND_CONNECT_KEEPALIVE]
    #[arg(long, value_name = "DURATION")]
    pub connect_keepalive: Option<String>,
    /// TCP user timeout: time that bytes to the application may stay unacknowledged
    /// [LINKERD2_PROXY_INBOUND_CONNECT_USER_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub connect_user_timeout: Option<String>,
    /// Concurrent HTTP/2 streams of one client
    /// [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS; default 256]
    #[arg(long, value_name = "COUNT")]
    pub http2_max_streams: Option<String>,
    /// Concurrent requests to the application that one client sends as HTTP/1 in HTTP/2 [default:
    /// as many as streams]
    #[arg(long, value_name = "COUNT")]
    pub http2_max_carried: Option<String>,
    /// HTTP/2 flow control window of a client's stream, in bytes
    /// [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE; default 65535]
    #[arg(long, value_name = "BYTES")]
    pub http2_stream_window: Option<String>,
    /// HTTP/2 flow control window of a client's connection, in bytes
    /// [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE; default 1048576]
    #[arg(long, value_name = "BYTES")]
    pub http2_connection_window: Option<String>,
    /// Adapt these windows to the measured bandwidth: true or false
    /// [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL; default false]
    #[arg(long, value_name = "BOOL")]
    pub http2_adaptive_window: Option<String>,
    /// HTTP/2 PING interval [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL; default 30s]
    #[arg(long, value_name = "DURATION")]
    pub http2_ping: Option<String>,
    /// Timeout of the acknowledgement of an HTTP/2 PING
    /// [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT; default 30s]
    #[arg(long, value_name = "DURATION")]
    pub http2_ping_timeout: Option<String>,
    /// Bytes of an HTTP/2 frame, 16384 to 16777215
    /// [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_MAX_FRAME_SIZE]
    #[arg(long, value_name = "BYTES")]
    pub http2_max_frame: Option<String>,
    /// HTTP/2 streams that a client may have reset before they were accepted
    /// [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS; default 20]
    #[arg(long, value_name = "COUNT")]
    pub http2_pending_resets: Option<String>,
    /// Bytes of a response that are buffered for a client's window
    /// [LINKERD2_PROXY_INBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE]
    #[arg(long, value_name = "BYTES")]
    pub http2_send_buffer: Option<String>,
    /// HTTP/2 flow control window of a stream to the application, in bytes
    /// [LINKERD2_PROXY_HTTP2_INITIAL_STREAM_WINDOW_SIZE; default 65535]
    #[arg(long, value_name = "BYTES")]
    pub http2_upstream_stream_window: Option<String>,
    /// HTTP/2 flow control window of a connection to the application, in bytes
    /// [LINKERD2_PROXY_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE; default 1048576]
    #[arg(long, value_name = "BYTES")]
    pub http2_upstream_connection_window: Option<String>,
}
