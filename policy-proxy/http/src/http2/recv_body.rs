//! Bodies received by an HTTP/2 stream.

use super::body_buffer::BodyBuffer;
use super::body_room::BodyAccount;
use super::keepalive::Activity;
use super::stream_permits::StreamPermit;
use crate::signal::Signal;
use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A body that is being received. Data taken from it is credited to the sender's window.
///
/// A server that has answered may reset the stream with NO_ERROR (RFC 9113 section 8.1). h2 keeps the end
/// of a stream that came before a reset, so that a reset is an error of the body only where the body is
/// cut.
#[derive(Debug)]
pub struct RecvBody {
    /// `None` only during drop.
    stream: Option<RecvStream>,
    /// Number of bytes to come according to the request's `Content-Length`.
    length: Option<u64>,
    data_done: bool,
    /// Data that was received before it could be forwarded.
    buffer: Option<Box<BodyBuffer>>,
    /// The account of the client's connection.
    account: Option<Rc<BodyAccount>>,
    /// True once the body has ended. Cached, because asking h2 takes its lock.
    ended: Cell<bool>,
    /// Guard of the request that this is the response to.
    guard: Option<ResponseGuard>,
    /// The list that the stream goes to when it is complete.
    finished: Option<FinishedStreams>,
    /// Recorder of data that a client sent.
    activity: Option<Rc<Activity>>,
}

/// Streams that are complete. Dropping one wakes the connection, so they are kept until the
/// connection is polled for another reason.
pub(super) type FinishedStreams = Rc<RefCell<Vec<RecvStream>>>;

/// Guard held by the consumer of a response: dropping it cancels the rest of the request's upload.
/// When the response is complete, the upload continues on its own.
#[derive(Debug)]
pub(super) enum ResponseGuard {
    /// The request is sent completely; the guard holds the stream's permit.
    Sent(#[expect(dead_code, reason = "held")] StreamPermit),
    Sending {
        cancel: Rc<UploadCancel>,
        detached: Cell<bool>,
    },
}

/// Cancels an upload; holds the stream's permit.
#[derive(Debug)]
pub(super) struct UploadCancel {
    pub(super) signal: Signal<Reason>,
    _permit: StreamPermit,
}

impl UploadCancel {
    pub(super) fn new(permit: StreamPermit) -> Self {
        Self { signal: Signal::new(), _permit: permit }
    }
}

impl ResponseGuard {
    pub(super) fn sending(cancel: Rc<UploadCancel>) -> Self {
        Self::Sending { cancel, detached: Cell::new(false) }
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        if let Self::Sending { cancel, detached } = self
            && !detached.get()
        {
            cancel.signal.raise(Reason::CANCEL);
        }
    }
}

impl RecvBody {
    /// Creates the body of a request with these headers.
    pub(super) fn request(
        stream: RecvStream,
        headers: &HeaderMap,
        activity: Rc<Activity>,
        account: Option<Rc<BodyAccount>>,
    ) -> Self {
        let (length, ended) = (content_length(headers), Cell::new(false));
        Self {
            stream: Some(stream),
            length,
            data_done: false,
            buffer: None,
            account,
            ended,
            guard: None,
            finished: None,
            activity: Some(activity),
        }
    }

    /// Creates the body of a response whose request is held by `guard`.
    pub(super) fn response(
        stream: RecvStream,
        guard: ResponseGuard,
        finished: FinishedStreams,
        account: Option<Rc<BodyAccount>>,
    ) -> Self {
        let (guard, finished, ended) = (Some(guard), Some(finished), Cell::new(false));
        Self {
            stream: Some(stream),
            length: None,
            data_done: false,
            buffer: None,
            account,
            ended,
            guard,
            finished,
            activity: None,
        }
    }

    #[inline]
    fn end(&self) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        self.ended.set(true);
        if let Some(ResponseGuard::Sending { detached, .. }) = &self.guard {
            detached.set(true);
        }
        Poll::Ready(None)
    }

    /// Buffers the received data while it cannot be forwarded: h2 would keep an entry for each
    /// frame and close the connection for their number. The sender's window is not credited.
    /// Returns true if the stream failed before it was complete. Else wakes `cx` when more data
    /// arrives.
    pub fn gather(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.ended.get()) else { return false };
        let account = &self.account;
        let new = || Box::new(BodyBuffer::of(account.clone()));
        while !self.data_done {
            if self.buffer.as_ref().is_some_and(|buffer| buffer.failed.is_some()) {
                return true;
            }
            match stream.poll_data(cx) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(data))) => {
                    if let Some(activity) = &self.activity {
                        activity.record_data(data.len());
                    }
                    self.buffer.get_or_insert_with(new).push(data);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.buffer.get_or_insert_with(new).failed = Some(error);
                }
                Poll::Ready(None) => self.data_done = true,
            }
        }
        false
    }

    /// Takes buffered data. A request that failed ends at once; a response ends after its buffered
    /// data.
    fn take_buffered(&mut self) -> Option<Result<Bytes, h2::Error>> {
        let is_request = self.finished.is_none();
        let buffer = self.buffer.as_mut()?;
        if is_request && let Some(error) = buffer.failed.take() {
            return Some(Err(error));
        }
        buffer.pop().map(Ok).or_else(|| buffer.failed.take().map(Err))
    }

    /// Credits a piece that is forwarded to the sender's window.
    fn release(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(stream) = &mut self.stream {
            // Fails only if the stream is closed.
            let _ = stream.flow_control().release_capacity(data.len());
        }
        let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.length = self.length.map(|length| length.saturating_sub(bytes));
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl Drop for RecvBody {
    fn drop(&mut self) {
        if let (Some(buffer), Some(stream)) = (self.buffer.take(), &mut self.stream) {
            // The data is never read: without the credit, the connection's window would stay
            // smaller.
            let _ = stream.flow_control().release_capacity(buffer.bytes());
        }
        if let (true, Some(stream), Some(finished)) =
            (self.ended.get(), self.stream.take(), &self.finished)
        {
            finished.borrow_mut().push(stream);
        }
    }
}

/// Returns the `Content-Length` if there is exactly one. h2 has checked the body against it.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let length = lines.next()?.to_str().ok()?.parse().ok()?;
    lines.next().is_none().then_some(length)
}

impl Body for RecvBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let this = self.get_mut();
        if this.ended.get() {
            return Poll::Ready(None);
        }
        match this.take_buffered() {
            Some(Ok(data)) => return this.release(data),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => {}
        }
        let Some(stream) = &mut this.stream else { return Poll::Ready(None) };
        if !this.data_done {
            match ready!(stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    if let Some(activity) = &this.activity {
                        activity.record_data(data.len());
                    }
                    return this.release(data);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => this.data_done = true,
            }
        }
        match ready!(stream.poll_trailers(cx)) {
            Ok(Some(trailers)) => {
                let _ = this.end();
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            Ok(None) => this.end(),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        let buffer = self.buffer.as_ref().is_some_and(|buffer| !buffer.is_empty());
        if !self.ended.get()
            && !buffer
            && self.stream.as_ref().is_some_and(RecvStream::is_end_stream)
        {
            let _ = self.end();
        }
        self.ended.get()
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        if self.is_end_stream() {
            return SizeHint::with_exact(0);
        }
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
