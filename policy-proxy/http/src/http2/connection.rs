//! A client's connection, as its owner knows it.

use super::send_body::{Interruptible, Reset};
use super::upstream::Streams;
use crate::shutdown::Shutdown;
use crate::signal::Signal;
use bytes::Bytes;
use http_body::Body;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// What is asked of whoever owns a client's connection. Everything is called by the connection's task.
pub trait ClientConnection {
    /// The stream to the application.
    type Stream: AsyncRead + AsyncWrite + Unpin;
    /// The body of a request, as it is sent to the application.
    type RequestBody: Body<Data = Bytes, Error: Reset> + Interruptible + Unpin;
    /// The body of an answer, as it is sent to the client.
    type ResponseBody: Body<Data = Bytes, Error: Reset> + Interruptible + Unpin;

    /// The bounds of the connection.
    fn limits(&self) -> Limits;

    /// Raised to end the connection.
    fn shutdown(&self) -> &Signal<Shutdown>;

    /// The requests that are open at the application.
    fn streams(&self) -> &Streams<Self::Stream, Self::RequestBody>;

    /// Whether no request is open.
    fn is_idle(&self) -> bool;

    /// The owner's clock, in seconds; never 0.
    fn second(&self) -> u32;

    /// The client broke the protocol, or its stream broke.
    fn on_error(&self, error: &h2::Error);

    /// The client answered no PING in time.
    fn on_ping_timeout(&self);
}

/// Bounds of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams that the client may have open.
    pub streams: u32,
    /// Streams that the client reset and that were not looked at yet (rapid reset).
    pub pending_resets: usize,
    /// Bytes of a header list.
    pub head: u32,
    /// Flow control window of a stream, in bytes.
    pub stream_window: u32,
    /// Flow control window of the connection, in bytes.
    pub connection_window: u32,
    /// Whether these two follow the measured bandwidth instead.
    pub adaptive_window: bool,
    /// Payload bytes of a frame that the client may send; absent: the library's choice.
    pub frame: Option<u32>,
    /// Bytes of a response that wait for the client's window; absent: the driver's choice.
    pub send_buffer: Option<usize>,
    /// PING interval, and how long an answer may take.
    pub ping: (Duration, Duration),
    /// How long a body that could be sent may wait for the other side's window; absent: for ever.
    pub stall: Option<Duration>,
}
