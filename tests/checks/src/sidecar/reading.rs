//! A client's bytes as independent readers take them: hyper for HTTP/1, the h2 library for HTTP/2.

use super::application::Message;
use crate::http1;
use bytes::Bytes;
use futures_util::FutureExt;
use policy_http::http1::request_decode::Bounds;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The requests in a client's bytes, in their order.
pub(super) fn requests(data: &[u8]) -> Vec<Message> {
    if data.starts_with(b"PRI * HTTP/2") { http2(data) } else { http1(data) }
}

fn http1(data: &[u8]) -> Vec<Message> {
    let message = |seen: http1::Seen| {
        let (body, whole) = match seen.body {
            http1::Body::Whole(body, _) => (body, true),
            http1::Body::Cut | http1::Body::Refused => (Vec::new(), false),
        };
        let uri = seen.target.parse().ok()?;
        let (method, version, headers) = (seen.method, seen.version, seen.headers);
        Some(Message { method, uri, version, headers, body, whole })
    };
    http1::hyper(data, BOUNDS).into_iter().filter_map(message).collect()
}

/// More than any setting of the sidecar.
const BOUNDS: Bounds = Bounds { fields: 16 * 1024, bytes: 17 << 20 };

/// No bound of the reader's own may end the connection before the sidecar's do.
const NONE: usize = 1 << 24;
const WINDOW: u32 = 1 << 30;
const LARGEST: u32 = 1 << 28;

fn http2(data: &[u8]) -> Vec<Message> {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(LARGEST)
        .max_concurrent_streams(u32::MAX >> 1)
        .max_local_error_reset_streams(None)
        .max_pending_accept_reset_streams(NONE)
        .data_frame_budget(NONE);
    let said = Cell::new(PREFACE);
    let handshake =
        builder.handshake::<_, Bytes>(Input { data, said: &said, read: 0 }).now_or_never();
    let Some(Ok(mut connection)) = handshake else { return Vec::new() };
    let mut streams = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    // Frame by frame: what is wrong with one must not hide those before it.
    while let Some(end) = next_frame(data, said.get()) {
        said.set(end);
        while let Poll::Ready(Some(Ok((request, respond)))) = connection.poll_accept(&mut cx) {
            let (head, body) = request.into_parts();
            let (method, uri, version, headers) =
                (head.method, head.uri, head.version, head.headers);
            let message = Message { method, uri, version, headers, body: Vec::new(), whole: false };
            streams.push((message, body, respond));
        }
    }
    let read = |(mut message, mut body, _respond): (Message, h2::RecvStream, _)| {
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(data))) = body.poll_data(&mut cx) {
            message.body.extend_from_slice(&data);
        }
        message.whole = body.is_end_stream();
        message
    };
    streams.into_iter().map(read).collect()
}

/// Length of the preface of an HTTP/2 connection and of the head of a frame, in bytes (RFC 9113
/// sections 3.4 and 4.1).
const PREFACE: usize = 24;
const HEAD: usize = 9;

/// End of the frame that begins at `start`; none if it is incomplete.
fn next_frame(data: &[u8], start: usize) -> Option<usize> {
    let head = data.get(start..start + HEAD)?;
    let length = head.iter().take(3).fold(0, |length, byte| length << 8 | usize::from(*byte));
    Some(start + HEAD + length).filter(|end| *end <= data.len())
}

/// A client that has said so much of what it has to say, and takes every answer.
struct Input<'a> {
    data: &'a [u8],
    /// Start of the bytes that it has not yielded yet.
    said: &'a Cell<usize>,
    read: usize,
}

impl AsyncRead for Input<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let end = self.said.get().min(self.read + buffer.remaining());
        let Some(now) = self.data.get(self.read..end).filter(|now| !now.is_empty()) else {
            return Poll::Pending;
        };
        buffer.put_slice(now);
        self.read = end;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Input<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
