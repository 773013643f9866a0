//! Implements the HTTP/2 driver's [`ClientConnection`] for a client's connection.

use super::body::ResponseBody;
use super::inflight::{HttpConnection, RequestBody};
use super::io::Metered;
use http::Response;
use policy_enforce::error::ErrorKind;
use policy_http::http2::{ClientConnection, Limits, Streams};
use policy_http::shutdown::Shutdown;
use policy_http::signal::Signal;
use tokio::net::TcpStream;

impl ClientConnection for HttpConnection {
    type Stream = Metered<TcpStream>;
    type RequestBody = RequestBody;
    type ResponseBody = ResponseBody;

    fn limits(&self) -> Limits {
        let config = &self.worker.shared.config;
        let (limits, timeouts) = (&config.limits, &config.timeouts);
        Limits {
            streams: limits.http2_streams,
            pending_resets: limits.http2_pending_resets,
            head: limits.request_head,
            stream_window: limits.http2_stream_window,
            connection_window: limits.http2_connection_window,
            adaptive_window: limits.http2_adaptive_window,
            frame: limits.http2_frame,
            send_buffer: limits.http2_send_buffer,
            ping: (timeouts.http2_ping, timeouts.http2_ping_answer),
            stall: timeouts.stall,
        }
    }

    fn shutdown(&self) -> &Signal<Shutdown> {
        &self.ending
    }

    fn streams(&self) -> &Streams<Metered<TcpStream>, RequestBody> {
        &self.upstream.streams
    }

    fn second(&self) -> u32 {
        self.worker.now()
    }

    fn next_interim(&self) -> Option<Response<()>> {
        self.take_interim()
    }

    fn on_error(&self, error: &h2::Error) {
        let kind = if error.is_io() { ErrorKind::Io } else { ErrorKind::Http2Protocol };
        self.http_error(kind);
    }

    fn on_ping_timeout(&self) {
        self.http_error(ErrorKind::Http2Protocol);
    }
}
