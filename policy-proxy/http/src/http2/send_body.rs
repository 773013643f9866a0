//! Sends a body on an HTTP/2 stream, as far as the peer's windows allow.

use super::recv_body::UploadCancel;
use super::scheduler::Entry;
use crate::stall::Stall;
use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A body that is being sent. At most one piece of it waits for a window, here or in h2.
pub(super) struct SendBody<B> {
    stream: SendStream<Bytes>,
    body: B,
    /// A piece that waits for capacity, and whether it is the last one.
    pending_data: Option<(Bytes, bool)>,
    /// True once a piece was sent. The first piece needs no capacity: h2 buffers it.
    started: bool,
    /// Cancels the upload.
    cancel: Option<Rc<UploadCancel>>,
    stall: Stall,
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
    pub(super) fn new(stream: SendStream<Bytes>, body: B) -> Self {
        Self {
            stream,
            body,
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

    /// Sends the available data. Ready when all of it is sent, or the peer reads no more. `bound`:
    /// maximum time that the peer's window may stay closed.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        entry: Option<&Entry>,
        bound: Option<Duration>,
    ) -> Poll<()> {
        if let Some(reason) = self.cancel.as_ref().and_then(|cancel| cancel.signal.poll(cx)) {
            self.stream.send_reset(reason);
            return Poll::Ready(());
        }
        let sent = self.poll_send(cx, entry);
        if sent.is_pending()
            && self.pending_data.is_some()
            && bound.is_some_and(|bound| self.stall.poll(cx, bound).is_ready())
        {
            self.stream.send_reset(Reason::CANCEL);
            return Poll::Ready(());
        }
        if sent.is_pending() && self.stream.poll_reset(cx).is_ready() {
            return Poll::Ready(());
        }
        sent
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, entry: Option<&Entry>) -> Poll<()> {
        loop {
            while self.pending_data.is_some() && self.stream.capacity() == 0 {
                if self.body.must_end(cx) {
                    // Do not wait for a window that may never open; the body returns the error.
                    self.pending_data = None;
                    break;
                }
                match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(()),
                }
            }
            if let Some((data, last)) = self.pending_data.take() {
                self.stall.reset();
                if self.stream.send_data(data, last).is_err() || last {
                    return Poll::Ready(());
                }
            }
            let done = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.take(frame, entry),
                Some(Err(error)) => {
                    self.stream.send_reset(error.reason());
                    true
                }
                None => {
                    let _ = self.stream.send_data(Bytes::new(), true);
                    true
                }
            };
            if done {
                return Poll::Ready(());
            }
        }
    }

    /// Sends a frame, or keeps it until there is capacity. Returns true if it is the last one.
    fn take(&mut self, frame: Frame<Bytes>, entry: Option<&Entry>) -> bool {
        match frame.into_data() {
            Ok(data) => {
                let last = self.body.is_end_stream();
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
                    self.pending_data = Some((data, last));
                    return false;
                }
                self.started = true;
                self.stream.send_data(data, last).is_err() || last
            }
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => {
                    self.stream.reserve_capacity(0);
                    let _ = self.stream.send_trailers(trailers);
                    true
                }
                Err(_) => false,
            },
        }
    }
}
