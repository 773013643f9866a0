//! The bytes of one client's HTTP/1 connection, shared by whoever answers and whoever reads the body of
//! the request that is being answered. Both are polled on one thread, and never from inside each
//! other's use of it.
//!
//! Nothing is held between requests: heads are read into a buffer of the thread's, and what has to be
//! kept is copied out of it.

use super::io::{ClientIo, Metered};
use super::signal::remember;
use super::upload::{Upload, UploadBody, UploadError};
use bytes::{Buf, Bytes, BytesMut};
use http_body::Frame;
use policy_http::http1::decode::Decoder;
use policy_http::http1::out::Out;
use policy_http::http1::request::{self, Bad, Bounds, Head};
use policy_http::http1::scratch;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::AsyncWrite;

/// One connection's bytes.
pub(super) struct Wire {
    pub(super) inner: RefCell<Inner>,
    /// Whether the connection's own task is using it, which then sees by itself what changes.
    running: Cell<bool>,
}

pub(super) struct Inner {
    /// Absent once it was handed on.
    pub(super) io: Option<Metered<ClientIo>>,
    /// What was read and is not used yet.
    pub(super) read: BytesMut,
    /// How much of it was looked at for a head in vain.
    looked: usize,
    pub(super) upload: Upload,
    pub(super) out: Out,
    task: Option<Waker>,
}

/// Why a connection ends before its client ended it between two requests.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// What should be a request is none.
    #[error(transparent)]
    Head(#[from] Bad),
    /// Reading or writing failed, or the client is gone in the middle of an exchange.
    #[error("client: {0}")]
    Io(#[from] io::Error),
    /// The answer breaks off, which was counted where it happened.
    #[error("the answer breaks off")]
    Cut,
    /// It was told to end at once.
    #[error("told to end")]
    Stopped,
}

impl Wire {
    pub(super) fn new(io: Metered<ClientIo>) -> Self {
        let inner = Inner {
            io: Some(io),
            read: BytesMut::new(),
            looked: 0,
            upload: Upload::Done,
            out: Out::default(),
            task: None,
        };
        Self { inner: RefCell::new(inner), running: Cell::new(false) }
    }

    /// Runs a part of the connection's own task, which is woken when what it waits for changes under
    /// it.
    pub(super) fn run<T>(
        &self,
        cx: &mut Context<'_>,
        part: impl FnOnce(&mut Context<'_>) -> T,
    ) -> T {
        remember(&mut self.inner.borrow_mut().task, cx);
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
    ) -> Poll<Result<Option<Head>, Broken>> {
        self.inner.borrow_mut().poll_head(cx, bounds)
    }

    /// Whether bytes were read that are not used yet.
    pub(super) fn has_unread(&self) -> bool {
        !self.inner.borrow().read.is_empty()
    }

    /// The body behind a head.
    pub(super) fn body(
        self: &Rc<Self>,
        framing: request::Framing,
        head: (bool, Bounds),
    ) -> UploadBody {
        let (expects, bounds) = head;
        let decoder = match framing {
            request::Framing::None => return UploadBody::empty(),
            request::Framing::Length(bytes) => Decoder::length(bytes),
            request::Framing::Chunked => Decoder::chunked(bounds.fields, MOST_TRAILERS),
        };
        self.inner.borrow_mut().upload = Upload::of(decoder, expects);
        UploadBody::of(Rc::clone(self))
    }

    /// Appends to what is to be written.
    pub(super) fn write<T>(&self, append: impl FnOnce(&mut Out) -> T) -> T {
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
        while let Ok(false) = ready!(scratch::poll_read(io, cx, <[u8]>::is_empty)) {}
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

impl Inner {
    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        bounds: Bounds,
    ) -> Poll<Result<Option<Head>, Broken>> {
        if !self.read.is_empty()
            && let Some((head, used)) = request::parse(&self.read, self.looked, bounds)?
        {
            self.read.advance(used);
            return Poll::Ready(Ok(Some(self.begin(head))));
        }
        self.looked = self.read.len();
        if self.read.is_empty() {
            // Gives the memory back.
            self.read = BytesMut::new();
        }
        loop {
            let Some(io) = &mut self.io else { return Poll::Ready(Err(gone().into())) };
            let unread = (&mut self.read, &mut self.looked);
            let looked = scratch::poll_read(io, cx, |fresh| look(unread, fresh, bounds));
            match ready!(looked).map_err(Broken::Io).flatten() {
                Ok(Looked::Head(head)) => return Poll::Ready(Ok(Some(self.begin(head)))),
                Ok(Looked::Part) => {}
                Ok(Looked::End) if self.is_blank() => return Poll::Ready(Ok(None)),
                Ok(Looked::End) => return Poll::Ready(Err(gone().into())),
                Err(Broken::Io(_)) if self.is_blank() => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn begin(&mut self, head: Head) -> Head {
        self.looked = 0;
        if self.read.is_empty() && self.read.capacity() > 0 {
            self.read = BytesMut::new();
        }
        head
    }

    /// Whether nothing was read but the empty lines that may stand in front of a request.
    fn is_blank(&self) -> bool {
        self.read.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let Some(io) = &mut self.io else { return Poll::Ready(Err(gone().into())) };
        self.out.poll_flush(io, cx).map_err(Broken::Io)
    }

    /// Notices that the client is gone, also behind what it sent for later; whoever sent much is left to
    /// what is written to it.
    fn notice_end(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        loop {
            let unwanted = match self.upload {
                Upload::Broken => return Err(gone().into()),
                Upload::Going { .. } | Upload::Left(_) => return Ok(()),
                Upload::Abandoned => true,
                Upload::Done if self.read.len() >= MOST_AHEAD => return Ok(()),
                Upload::Done => false,
            };
            let Some(io) = &mut self.io else { return Ok(()) };
            let (read, mut ended) = (&mut self.read, false);
            let polled = scratch::poll_read(io, cx, |fresh| {
                ended = fresh.is_empty();
                if !unwanted {
                    read.extend_from_slice(fresh);
                }
            })?;
            match polled {
                Poll::Ready(()) if ended => return Err(gone().into()),
                Poll::Ready(()) => {}
                Poll::Pending => return Ok(()),
            }
        }
    }
}

/// Looks for a head in what was read before and `fresh`; keeps what is not used. The number: how much
/// was looked at in vain.
fn look(
    (read, looked): (&mut BytesMut, &mut usize),
    fresh: &[u8],
    bounds: Bounds,
) -> Result<Looked, Broken> {
    if fresh.is_empty() {
        return Ok(Looked::End);
    }
    if read.is_empty() {
        // Usually nothing is left of it, and nothing has to be kept.
        let (found, used) = match request::parse(fresh, 0, bounds)? {
            Some((head, used)) => (Looked::Head(head), used),
            None => (Looked::Part, 0),
        };
        read.extend_from_slice(fresh.get(used..).unwrap_or_default());
        *looked = read.len();
        return Ok(found);
    }
    read.extend_from_slice(fresh);
    if let Some((head, used)) = request::parse(read, *looked, bounds)? {
        read.advance(used);
        return Ok(Looked::Head(head));
    }
    *looked = read.len();
    Ok(Looked::Part)
}

/// What was found where a head may be.
#[allow(clippy::large_enum_variant, reason = "moved once per request; a box would cost more")]
enum Looked {
    Head(Head),
    Part,
    /// The client ended.
    End,
}

pub(super) fn gone() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Bytes of a request's trailers.
const MOST_TRAILERS: usize = 16 * 1024;
/// Bytes behind a request that are read before it is answered.
const MOST_AHEAD: usize = 16 * 1024;
