//! Sends a body on an HTTP/2 stream, as far as the peer's windows allow.

use super::body_room::HeldBytes;
use super::recv_body::UploadCancel;
use super::scheduler::Entry;
use super::send_queue::{Piece, StreamQueue, head_cost};
use crate::signal::Signal;
use crate::stall::Stall;
use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A body that is being sent. At most one piece of it waits for a window, here or in h2. While the
/// connection's queue is full, what arrives is gathered by the body, which joins small pieces and
/// leaves the sender's window as it is.
pub(super) struct SendBody<B> {
    stream: SendStream<Piece>,
    queue: StreamQueue,
    /// `None` once it was handed back.
    body: Option<B>,
    /// The request that takes the body back while nothing of it was taken.
    untouched: Option<HandBack<B>>,
    /// A piece that waits for capacity, whether it is the last one, and what it holds.
    pending_data: Option<(Bytes, bool, Option<HeldBytes>)>,
    /// True once a piece was sent. The first piece needs no capacity: h2 buffers it.
    started: bool,
    /// Cancels the upload.
    cancel: Option<Rc<UploadCancel>>,
    stall: Stall,
}

/// A body on its way back to its request, because the application did not process the stream.
pub(super) struct Untouched<B> {
    body: RefCell<Option<B>>,
    settled: Signal<()>,
}

/// The sending end of [`Untouched`]. Dropped: there is no body to wait for.
struct HandBack<B>(Rc<Untouched<B>>);

impl<B> Untouched<B> {
    /// Waits until the upload has ended or has begun. `None`: some of the body was taken.
    pub(super) async fn take(&self) -> Option<B> {
        poll_fn(|cx| match self.settled.poll(cx) {
            Some(()) => Poll::Ready(self.body.take()),
            None => Poll::Pending,
        })
        .await
    }
}

impl<B> Drop for HandBack<B> {
    fn drop(&mut self) {
        self.0.settled.raise(());
    }
}

/// An error that has an HTTP/2 reset reason.
pub trait Reset {
    /// Returns the reason for RST_STREAM.
    fn reason(&self) -> Reason;
}

/// A body that may have to end before it is complete.
pub trait Interruptible {
    /// Returns true if the body must end now. Else wakes `cx` when that changes. Called while
    /// nothing can be sent; the implementation buffers the data that arrives meanwhile.
    fn must_end(&mut self, cx: &mut Context<'_>) -> bool;

    /// Returns true if a body that ended early did so otherwise than by the end of its sender's side,
    /// so that its receiver is reset.
    fn is_cut(&self) -> bool {
        true
    }

    /// Returns the reason of the RST_STREAM that the client gets in place of head and body.
    fn aborted(&self) -> Option<Reason> {
        None
    }
}

/// Awaits `waits` before `body` can be sent; buffers the body's data meanwhile.
pub async fn while_waiting<B: Interruptible, F: Future>(body: &mut B, waits: F) -> F::Output {
    let mut waits = pin!(waits);
    poll_fn(|cx| {
        let polled = waits.as_mut().poll(cx);
        if polled.is_pending() {
            let _ = body.must_end(cx);
        }
        polled
    })
    .await
}

impl<B> SendBody<B>
where
    B: Body<Data = Bytes> + Interruptible + Unpin,
    B::Error: Reset,
{
    pub(super) fn new(stream: SendStream<Piece>, queue: StreamQueue, body: B) -> Self {
        Self {
            stream,
            queue,
            body: Some(body),
            untouched: None,
            pending_data: None,
            started: false,
            cancel: None,
            stall: Stall::default(),
        }
    }

    /// Makes the upload cancellable by `cancel`.
    pub(super) fn cancelled_by(self, cancel: Rc<UploadCancel>) -> Self {
        Self { cancel: Some(cancel), ..self }
    }

    /// Hands the body back if the stream ends before anything of it was taken.
    pub(super) fn returnable(&mut self) -> Rc<Untouched<B>> {
        let back = Rc::new(Untouched { body: RefCell::new(None), settled: Signal::new() });
        self.untouched = Some(HandBack(Rc::clone(&back)));
        back
    }

    /// Drops the data of a body that is not sent any more; returns the reason why it failed.
    fn failure(&mut self, cx: &mut Context<'_>) -> Option<Reason> {
        let body = self.body.as_mut().filter(|_| self.untouched.is_none())?;
        loop {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Some(error.reason()),
                Poll::Ready(None) | Poll::Pending => return None,
            }
        }
    }

    /// Ends the upload.
    fn end(&mut self) -> Poll<()> {
        if let Some(HandBack(back)) = &self.untouched {
            back.body.replace(self.body.take());
        }
        self.untouched = None;
        Poll::Ready(())
    }

    /// Sends the available data. Ready when all of it is sent, or the peer reads no more. `bound`:
    /// maximum time that the peer's window may stay closed.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        entry: Option<&Entry>,
        bound: Option<Duration>,
    ) -> Poll<()> {
        if let Some(reason) = self.cancel.as_ref().and_then(|cancel| cancel.signal.poll(cx)) {
            // The client's own code says more.
            let reason = self.failure(cx).unwrap_or(reason);
            self.stream.send_reset(reason);
            return self.end();
        }
        // What is not sent any more must not be taken.
        if self.untouched.is_some() && self.stream.poll_reset(cx).is_ready() {
            return self.end();
        }
        let sent = self.poll_send(cx, entry);
        if sent.is_pending()
            && (self.pending_data.is_some() || self.queue.is_full())
            && bound.is_some_and(|bound| self.stall.poll(cx, bound).is_ready())
        {
            self.stream.send_reset(Reason::CANCEL);
            return Poll::Ready(());
        }
        if sent.is_ready() || self.stream.poll_reset(cx).is_ready() {
            return self.end();
        }
        Poll::Pending
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, entry: Option<&Entry>) -> Poll<()> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(()) };
            while self.pending_data.is_some() && self.stream.capacity() == 0 {
                if body.must_end(cx) {
                    // Do not wait for a window that may never open; the body returns the error.
                    self.pending_data = None;
                    break;
                }
                match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(()),
                }
            }
            if let Some((data, last, held)) = self.pending_data.take() {
                drop(held);
                if self.send(data, last) || last {
                    return Poll::Ready(());
                }
            }
            let Some(body) = &mut self.body else { return Poll::Ready(()) };
            if self.queue.poll_room(cx).is_pending() && !body.must_end(cx) {
                return Poll::Pending;
            }
            let frame = ready!(Pin::new(body).poll_frame(cx));
            self.untouched = None;
            let done = match frame {
                Some(Ok(frame)) => self.take(frame, entry),
                Some(Err(error)) => {
                    self.stream.send_reset(error.reason());
                    true
                }
                None => {
                    let _ = self.send(Bytes::new(), true);
                    true
                }
            };
            if done {
                return Poll::Ready(());
            }
        }
    }

    /// Queues a piece; returns true if the stream takes none.
    fn send(&mut self, data: Bytes, last: bool) -> bool {
        self.stall.reset();
        self.stream.send_data(self.queue.piece(data), last).is_err()
    }

    /// Sends a frame, or keeps it until there is capacity. Returns true if it is the last one.
    fn take(&mut self, frame: Frame<Bytes>, entry: Option<&Entry>) -> bool {
        match frame.into_data() {
            Ok(data) => {
                let last = self.body.as_ref().is_none_or(Body::is_end_stream);
                if data.is_empty() && !last {
                    // An empty piece would wait for no window.
                    return false;
                }
                if self.started && !data.is_empty() {
                    // Only a claim: sending reserves the capacity that it needs.
                    match entry {
                        // The caller polls the capacity next.
                        Some(entry) => entry.without_wake(|| self.stream.reserve_capacity(1)),
                        None => self.stream.reserve_capacity(1),
                    }
                    let held = self.queue.hold(data.len());
                    self.pending_data = Some((data, last, held));
                    return false;
                }
                self.started = true;
                self.send(data, last) || last
            }
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => {
                    self.stream.reserve_capacity(0);
                    let cost = head_cost(&trailers);
                    if self.stream.send_trailers(trailers).is_ok() {
                        self.queue.hold_trailers(cost);
                    }
                    true
                }
                Err(_) => false,
            },
        }
    }
}
