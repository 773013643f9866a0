//! The byte stream of a client's HTTP/1 connection, shared by the task that answers and the reader
//! of the request body. Both are polled on one thread, and neither is polled while the other
//! borrows it.
//!
//! An idle connection holds no buffers: heads are read into a buffer of the thread, and only what
//! has to outlive the read is copied out of it.

mod error;
mod inner;

pub(super) use error::{ClientConnError, UploadError};
pub(super) use inner::Upload;

use super::io::{ClientIo, Metered};
use super::reset::Resettable;
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

/// The byte stream of a client's HTTP/1 connection.
pub(super) struct ClientConn {
    pub(super) inner: RefCell<Inner>,
    /// True while the connection's own task is polling, which then needs no wake-up.
    running: Cell<bool>,
}

impl ClientConn {
    pub(super) fn new(io: Metered<ClientIo>) -> Self {
        Self { inner: RefCell::new(Inner::new(io)), running: Cell::new(false) }
    }

    /// Polls a part of the connection's task, and registers its waker for changes that others make.
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

    /// Reads the next request head; none once the client closed between requests. While `Pending`,
    /// [`ClientConn::has_buffered`] returns true if a part of the head has arrived.
    pub(super) fn poll_head(
        &self,
        cx: &mut Context<'_>,
        bounds: Bounds,
    ) -> Poll<Result<Option<RequestHead>, ClientConnError>> {
        self.inner.borrow_mut().poll_head(cx, bounds)
    }

    /// True if bytes are buffered that are not parsed yet.
    pub(super) fn has_buffered(&self) -> bool {
        !self.inner.borrow().read_buf.is_empty()
    }

    /// Memory of bytes of requests that are not parsed yet. A body that is being read is bounded by what
    /// is read at a time.
    pub(super) fn unparsed(&self) -> usize {
        let inner = self.inner.borrow();
        match inner.upload {
            Upload::Reading { .. } | Upload::Dropped(_) => 0,
            Upload::Complete | Upload::Undrained | Upload::Failed => inner.read_buf.capacity(),
        }
    }

    /// Appends to the write buffer.
    pub(super) fn write<T>(&self, append: impl FnOnce(&mut WriteBuf) -> T) -> T {
        append(&mut self.inner.borrow_mut().write_buf)
    }

    /// Flushes the write buffer.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), ClientConnError>> {
        self.inner.borrow_mut().poll_flush(cx)
    }

    /// Drives the connection while the response is pending: flushes (`100 Continue`), drains an
    /// unwanted body, and detects that the client closed. A client that broke off its request gets
    /// no more of the response, because an application that waits for the rest of the request would
    /// never end it.
    pub(super) fn maintain(&self, cx: &mut Context<'_>) -> Result<(), ClientConnError> {
        let mut inner = self.inner.borrow_mut();
        let _ = inner.poll_flush(cx)?;
        inner.drain_upload(cx);
        inner.detect_close(cx)
    }

    /// True once the client has closed its side while it waits for its response.
    pub(super) fn is_half_closed(&self) -> bool {
        self.inner.borrow().is_half_closed()
    }

    /// Ready once the request body has no reader any more; true if another request can follow it on
    /// the connection.
    pub(super) fn poll_upload_done(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut inner = self.inner.borrow_mut();
        inner.drain_upload(cx);
        if matches!(inner.upload, Upload::Reading { .. }) && inner.detect_close(cx).is_err() {
            return Poll::Ready(false);
        }
        match inner.upload {
            Upload::Complete => Poll::Ready(true),
            Upload::Dropped(_) | Upload::Undrained | Upload::Failed => Poll::Ready(false),
            Upload::Reading { .. } => Poll::Pending,
        }
    }

    /// Prepares for the response: drains an unwanted body if it is short, and drops a pending
    /// `100-continue`. Returns true if the connection can be kept alive.
    pub(super) fn can_keep_alive(&self, cx: &mut Context<'_>) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.drain_upload(cx);
        if let Upload::Reading { expects, .. } = &mut inner.upload {
            // The response itself replaces `100 Continue`.
            *expects = false;
        }
        matches!(inner.upload, Upload::Complete | Upload::Reading { .. })
    }

    /// True if the connection is plaintext.
    pub(super) fn is_plain(&self) -> bool {
        self.inner.borrow().io.as_ref().is_some_and(|io| io.get_ref().is_plain())
    }

    /// Shuts the write side down.
    pub(super) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        match &mut inner.io {
            Some(io) => Pin::new(io).poll_shutdown(cx).map(|_| ()),
            None => Poll::Ready(()),
        }
    }

    /// Discards what the client still sends; ready once it closed or failed.
    pub(super) fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        inner.read_buf = BytesMut::new();
        let Some(io) = &mut inner.io else { return Poll::Ready(()) };
        while let Ok(false) = ready!(read_buf::poll_read(io, cx, <[u8]>::is_empty)) {}
        Poll::Ready(())
    }

    /// Makes the connection's end a reset.
    pub(super) fn reset_on_close(&self) {
        if let Some(io) = &self.inner.borrow().io {
            io.reset_on_close();
        }
    }

    /// Takes the stream, with the bytes that were read ahead.
    pub(super) fn take_stream(&self) -> Option<(Metered<ClientIo>, Bytes)> {
        let mut inner = self.inner.borrow_mut();
        let read = std::mem::take(&mut inner.read_buf).freeze();
        inner.io.take().map(|io| (io, read))
    }

    pub(super) fn poll_body(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let mut inner = self.inner.borrow_mut();
        let polled = inner.poll_body(cx);
        // The connection's task writes `100 Continue`, and reads the next request after the body.
        if !self.running.get()
            && (!inner.write_buf.is_empty() || !matches!(inner.upload, Upload::Reading { .. }))
        {
            inner.wake();
        }
        polled
    }

    pub(super) fn drop_upload(&self) {
        let mut inner = self.inner.borrow_mut();
        match std::mem::replace(&mut inner.upload, Upload::Complete) {
            Upload::Reading { decoder, .. } => inner.upload = Upload::Dropped(decoder),
            other
            @ (Upload::Complete | Upload::Dropped(_) | Upload::Undrained | Upload::Failed) => {
                inner.upload = other;
            }
        }
        if !self.running.get() {
            inner.wake();
        }
    }
}
