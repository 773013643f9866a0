//! The bytes of one client's HTTP/1 connection, shared by whoever answers and whoever reads the body of
//! the request that is being answered. Both are polled on one thread, and never from inside each
//! other's use of it.
//!
//! Nothing is held between requests: heads are read into a buffer of the thread's, and what has to be
//! kept is copied out of it.

mod inner;

pub(super) use inner::{Broken, Upload, UploadError};

use super::io::{ClientIo, Metered};
use bytes::{Bytes, BytesMut};
use http_body::Frame;
use inner::Inner;
use policy_http::http1::read_buf;
use policy_http::http1::request_decode::{Bounds, RequestHead};
use policy_http::http1::write_buf::WriteBuf;
use policy_http::signal::store_waker;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// One connection's bytes.
pub(super) struct Wire {
    pub(super) inner: RefCell<Inner>,
    /// Whether the connection's own task is using it, which then sees by itself what changes.
    running: Cell<bool>,
}

impl Wire {
    pub(super) fn new(io: Metered<ClientIo>) -> Self {
        Self { inner: RefCell::new(Inner::new(io)), running: Cell::new(false) }
    }

    /// Runs a part of the connection's own task, which is woken when what it waits for changes under
    /// it.
    pub(super) fn run<T>(
        &self,
        cx: &mut Context<'_>,
        part: impl FnOnce(&mut Context<'_>) -> T,
    ) -> T {
        store_waker(&mut self.inner.borrow_mut().task, cx);
        self.running.set(true);
        let done = part(cx);
        self.running.set(false);
        done
    }

    /// The next request's head; none once the client ended in between. `Pending`: whether a part of it
    /// is there is told by [`Wire::has_unread`].
    pub(super) fn poll_head(
        &self,
        cx: &mut Context<'_>,
        bounds: Bounds,
    ) -> Poll<Result<Option<RequestHead>, Broken>> {
        self.inner.borrow_mut().poll_head(cx, bounds)
    }

    /// Whether bytes were read that are not used yet.
    pub(super) fn has_unread(&self) -> bool {
        !self.inner.borrow().read.is_empty()
    }

    /// Appends to what is to be written.
    pub(super) fn write<T>(&self, append: impl FnOnce(&mut WriteBuf) -> T) -> T {
        append(&mut self.inner.borrow_mut().out)
    }

    /// Writes what is to be written.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.inner.borrow_mut().poll_flush(cx)
    }

    /// Looks after the client while it waits for its answer: sends it on its way with what it waits
    /// for, and notices that it is gone. Who broke off the request gets no more of its answer: an
    /// application that waits for the rest would never end it.
    pub(super) fn attend(&self, cx: &mut Context<'_>) -> Result<(), Broken> {
        let mut inner = self.inner.borrow_mut();
        let _ = inner.poll_flush(cx)?;
        inner.settle(cx);
        inner.notice_end(cx)
    }

    /// Whether nobody reads the request's body any more. `false`: another request can be read behind it.
    pub(super) fn poll_settled(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut inner = self.inner.borrow_mut();
        inner.settle(cx);
        if matches!(inner.upload, Upload::Going { .. }) && inner.notice_end(cx).is_err() {
            return Poll::Ready(false);
        }
        match inner.upload {
            Upload::Done => Poll::Ready(true),
            Upload::Left(_) | Upload::Abandoned | Upload::Broken => Poll::Ready(false),
            Upload::Going { .. } => Poll::Pending,
        }
    }

    /// Lets go of a body that nobody wants, now that the answer begins.
    pub(super) fn can_go_on(&self, cx: &mut Context<'_>) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.settle(cx);
        if let Upload::Going { expects, .. } = &mut inner.upload {
            // The answer itself says whether the body is wanted.
            *expects = false;
        }
        matches!(inner.upload, Upload::Done | Upload::Going { .. })
    }

    /// Whether the client's connection is not inside TLS.
    pub(super) fn is_plain(&self) -> bool {
        self.inner.borrow().io.as_ref().is_some_and(|io| io.get().is_plain())
    }

    /// Tells the client that nothing follows.
    pub(super) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        match &mut inner.io {
            Some(io) => Pin::new(io).poll_shutdown(cx).map(|_| ()),
            None => Poll::Ready(()),
        }
    }

    /// Throws away what the client still sends; ready once it ended.
    pub(super) fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        inner.read = BytesMut::new();
        let Some(io) = &mut inner.io else { return Poll::Ready(()) };
        while let Ok(false) = ready!(read_buf::poll_read(io, cx, <[u8]>::is_empty)) {}
        Poll::Ready(())
    }

    /// Hands the stream on, with what was read ahead.
    pub(super) fn take(&self) -> Option<(Metered<ClientIo>, Bytes)> {
        let mut inner = self.inner.borrow_mut();
        let read = std::mem::take(&mut inner.read).freeze();
        inner.io.take().map(|io| (io, read))
    }

    pub(super) fn poll_body(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let mut inner = self.inner.borrow_mut();
        let polled = inner.poll_body(cx);
        // The connection's task writes `100 Continue`, and goes on behind the body.
        if !self.running.get()
            && (!inner.out.is_empty() || !matches!(inner.upload, Upload::Going { .. }))
        {
            inner.wake();
        }
        polled
    }

    pub(super) fn left(&self) {
        let mut inner = self.inner.borrow_mut();
        match std::mem::replace(&mut inner.upload, Upload::Done) {
            Upload::Going { decoder, .. } => inner.upload = Upload::Left(decoder),
            other @ (Upload::Done | Upload::Left(_) | Upload::Abandoned | Upload::Broken) => {
                inner.upload = other;
            }
        }
        if !self.running.get() {
            inner.wake();
        }
    }
}
