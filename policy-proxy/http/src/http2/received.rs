//! The body that comes by a stream.

use super::kept::Kept;
use super::pulse::Heard;
use super::seats::Seat;
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

/// A body that is being received. What is taken from it opens the sender's window again.
#[derive(Debug)]
pub struct Received {
    /// Absent only while it is dropped.
    stream: Option<RecvStream>,
    /// Bytes that the head of a request announced and that did not come yet.
    length: Option<u64>,
    data_done: bool,
    /// What came while it could not be passed on.
    kept: Option<Box<Kept>>,
    /// Whether nothing follows: asking the library takes its lock.
    ended: Cell<bool>,
    /// What this is the answer to.
    tie: Option<Tie>,
    /// Where the stream goes when it is complete.
    left: Option<Left>,
    /// Told of what comes.
    heard: Rc<Heard>,
}

/// Streams that are over. The library's connection is woken to forget one: that waits until it is polled
/// for another reason.
pub(super) type Left = Rc<RefCell<Vec<RecvStream>>>;

/// Held by whoever waits for an answer or reads it: the rest of its request is not sent once nobody does.
/// An answer that is complete leaves the request to its two ends.
#[derive(Debug)]
pub(super) enum Tie {
    /// The request is complete: what is left is the stream that its answer takes.
    Answer(#[expect(dead_code, reason = "held")] Seat),
    Request {
        cut: Rc<Cut>,
        loose: Cell<bool>,
    },
}

/// What ends a request that is being sent, and the stream that it takes.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) signal: Signal<Reason>,
    _seat: Seat,
}

impl Cut {
    pub(super) fn new(seat: Seat) -> Self {
        Self { signal: Signal::new(), _seat: seat }
    }
}

impl Tie {
    pub(super) fn request(cut: Rc<Cut>) -> Self {
        Self::Request { cut, loose: Cell::new(false) }
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        if let Self::Request { cut, loose } = self
            && !loose.get()
        {
            cut.signal.raise(Reason::CANCEL);
        }
    }
}

impl Received {
    /// The body of a request with these headers.
    pub(super) fn request(stream: RecvStream, headers: &HeaderMap, heard: Rc<Heard>) -> Self {
        let (length, ended) = (announced(headers), Cell::new(false));
        Self {
            stream: Some(stream),
            length,
            data_done: false,
            kept: None,
            ended,
            tie: None,
            left: None,
            heard,
        }
    }

    /// The body of a response, whose request is held by `tie`.
    pub(super) fn response(stream: RecvStream, tie: Tie, left: Left, heard: Rc<Heard>) -> Self {
        let (tie, left, ended) = (Some(tie), Some(left), Cell::new(false));
        Self {
            stream: Some(stream),
            length: None,
            data_done: false,
            kept: None,
            ended,
            tie,
            left,
            heard,
        }
    }

    #[inline]
    fn end(&self) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        self.ended.set(true);
        if let Some(Tie::Request { loose, .. }) = &self.tie {
            loose.set(true);
        }
        Poll::Ready(None)
    }

    /// Takes what has come, while it cannot be passed on: the library would keep each frame for itself,
    /// and end the connection for their number. The sender's window stays as it is. `true`: no more will
    /// come, and it is not complete. Else wakes `cx` when more comes.
    pub fn gather(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.ended.get()) else { return false };
        while !self.data_done {
            if self.kept.as_ref().is_some_and(|kept| kept.failed.is_some()) {
                return true;
            }
            match stream.poll_data(cx) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(data))) => {
                    self.heard.data(data.len());
                    self.kept.get_or_insert_default().push(data);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.kept.get_or_insert_default().failed = Some(error);
                }
                Poll::Ready(None) => self.data_done = true,
            }
        }
        false
    }

    /// What was kept. A request that will not be complete ends at once; an answer behind what came of it.
    fn take_kept(&mut self) -> Option<Result<Bytes, h2::Error>> {
        let is_request = self.left.is_none();
        let kept = self.kept.as_mut()?;
        if is_request && let Some(error) = kept.failed.take() {
            return Some(Err(error));
        }
        kept.pop().map(Ok).or_else(|| kept.failed.take().map(Err))
    }

    /// Opens the sender's window again by a piece that is passed on.
    fn pass_on(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(stream) = &mut self.stream {
            // Fails only where the stream is gone.
            let _ = stream.flow_control().release_capacity(data.len());
        }
        let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.length = self.length.map(|length| length.saturating_sub(bytes));
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    /// A server that has answered may end a stream without an error (RFC 9113 section 8.1). A client
    /// that does has not sent its request in full.
    fn broken(&self, error: h2::Error) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if self.left.is_some() && error.reason() == Some(Reason::NO_ERROR) && error.is_reset() {
            return self.end();
        }
        Poll::Ready(Some(Err(error)))
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let (Some(kept), Some(stream)) = (self.kept.take(), &mut self.stream) {
            // Nobody will take it, and the connection's window would be smaller for ever.
            let _ = stream.flow_control().release_capacity(kept.bytes());
        }
        if let (true, Some(stream), Some(left)) = (self.ended.get(), self.stream.take(), &self.left)
        {
            left.borrow_mut().push(stream);
        }
    }
}

/// What `Content-Length` says, if it says one thing. The library has held the body to it.
fn announced(headers: &HeaderMap) -> Option<u64> {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let length = lines.next()?.to_str().ok()?.parse().ok()?;
    lines.next().is_none().then_some(length)
}

impl Body for Received {
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
        match this.take_kept() {
            Some(Ok(data)) => return this.pass_on(data),
            Some(Err(error)) => return this.broken(error),
            None => {}
        }
        let Some(stream) = &mut this.stream else { return Poll::Ready(None) };
        if !this.data_done {
            match ready!(stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    this.heard.data(data.len());
                    return this.pass_on(data);
                }
                Some(Err(error)) => return this.broken(error),
                None => this.data_done = true,
            }
        }
        match ready!(stream.poll_trailers(cx)) {
            Ok(Some(trailers)) => {
                let _ = this.end();
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            Ok(None) => this.end(),
            Err(error) => this.broken(error),
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        let kept = self.kept.as_ref().is_some_and(|kept| !kept.is_empty());
        if !self.ended.get() && !kept && self.stream.as_ref().is_some_and(RecvStream::is_end_stream)
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
