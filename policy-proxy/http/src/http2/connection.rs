//! A client's connection, as its owner sees it.

use super::send_body::{Interruptible, Reset};
use super::upstream::Streams;
use crate::shutdown::Shutdown;
use crate::signal::Signal;
use bytes::Bytes;
use http::Response;
use http_body::Body;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// The owner of a client's connection. All methods are called by the connection's task.
pub trait ClientConnection {
    /// The stream to the application.
    type Stream: AsyncRead + AsyncWrite + Unpin;
    /// The request body, as it is sent to the application.
    type RequestBody: Body<Data = Bytes, Error: Reset> + Interruptible + Unpin;
    /// The response body, as it is sent to the client.
    type ResponseBody: Body<Data = Bytes, Error: Reset> + Interruptible + Unpin;

    /// Returns the limits of the connection.
    fn limits(&self) -> Limits;

    /// Returns the signal that ends the connection.
    fn shutdown(&self) -> &Signal<Shutdown>;

    /// Returns the requests that are open at the application.
    fn streams(&self) -> &Streams<Self::Stream, Self::RequestBody>;

    /// Returns the owner's clock in seconds; never 0.
    fn second(&self) -> u32;

    /// Returns the next interim response to the request whose answer was polled last.
    fn next_interim(&self) -> Option<Response<()>>;

    /// Called when the client violated the protocol, or its stream broke.
    fn on_error(&self, error: &h2::Error);

    /// Called when the client did not acknowledge a PING in time.
    fn on_ping_timeout(&self);
}

/// Limits of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent streams.
    pub streams: u32,
    /// Maximum number of streams that the client reset before they were accepted (rapid reset).
    pub pending_resets: usize,
    /// Maximum size of a header list, in bytes. Larger ones, up to four times that, are received as a whole
    /// and the owner's to refuse: it knows who understands which refusal. Beyond, h2 answers 431.
    pub head: u32,
    /// Flow-control window of a stream, in bytes.
    pub stream_window: u32,
    /// Flow-control window of the connection, in bytes.
    pub connection_window: u32,
    /// True if both windows follow the measured bandwidth instead.
    pub adaptive_window: bool,
    /// Maximum payload of a frame from the client, in bytes; `None` for the default of h2.
    pub frame: Option<u32>,
    /// Maximum number of response bytes that wait for the client's window; `None` for the default.
    pub send_buffer: Option<usize>,
    /// PING interval, and PING timeout.
    pub ping: (Duration, Duration),
    /// Maximum time that a body may wait for the peer's window; `None` for no limit.
    pub stall: Option<Duration>,
}
