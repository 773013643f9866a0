//! The bytes of one client's HTTP/1 connection, shared by whoever answers and whoever reads the body of
//! the request that is being answered. Both are polled on one thread, and never from inside each
//! other's use of it.
//!
//! Nothing is held between requests: heads are read into a buffer of the thread's, and what has to be
//! kept is copied out of it.

use super::io::{ClientIo, Metered};
use crate::http1::decode::{BadBody, Decoded, Decoder};
use crate::http1::out::Out;
use crate::http1::request::{self, Bad, Bounds, Head};
use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One connection's bytes.
pub(super) struct Wire {
    inner: RefCell<Inner>,
    /// Whether the connection's own task is using it, which then sees by itself what changes.
    running: Cell<bool>,
}

struct Inner {
    /// Absent once it was handed on.
    io: Option<Metered<ClientIo>>,
    /// What was read and is not used yet.
    read: BytesMut,
    /// How much of it was looked at for a head in vain.
    looked: usize,
    upload: Upload,
    out: Out,
    task: Option<Waker>,
}

/// The body of the request that is being answered.
enum Upload {
    /// It is complete, or there is none.
    Done,
    /// Somebody reads it.
    Going {
        decoder: Decoder,
        /// The client waits for `100 Continue`.
        expects: bool,
        /// How much is read at a time.
        step: usize,
    },
    /// Nobody wants the rest.
    Left(Decoder),
    /// It cannot be read any further, and neither can what follows it.
    Broken,
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

/// Why a request's body breaks off.
#[derive(Debug, thiserror::Error)]
pub(super) enum UploadError {
    /// What the client sends is not a body.
    #[error(transparent)]
    Bad(#[from] BadBody),
    /// Reading failed.
    #[error("client: {0}")]
    Io(#[from] io::Error),
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
        match &mut self.inner.borrow_mut().task {
            Some(known) => known.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
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
            request::Framing::None => return UploadBody { wire: None },
            request::Framing::Length(bytes) => Decoder::length(bytes),
            request::Framing::Chunked => Decoder::chunked(bounds.fields, MOST_TRAILERS),
        };
        self.inner.borrow_mut().upload = Upload::Going { decoder, expects, step: FIRST_READ };
        UploadBody { wire: Some(Rc::clone(self)) }
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
    /// for, and notices that it is gone.
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
            Upload::Left(_) | Upload::Broken => Poll::Ready(false),
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

    /// Tells the client that nothing follows.
    pub(super) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        match &mut inner.io {
            Some(io) => Pin::new(io).poll_shutdown(cx).map(|_| ()),
            None => Poll::Ready(()),
        }
    }

    /// Hands the stream on, with what was read ahead.
    pub(super) fn take(&self) -> Option<(Metered<ClientIo>, Bytes)> {
        let mut inner = self.inner.borrow_mut();
        let read = std::mem::take(&mut inner.read).freeze();
        inner.io.take().map(|io| (io, read))
    }

    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
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

    fn left(&self) {
        let mut inner = self.inner.borrow_mut();
        match std::mem::replace(&mut inner.upload, Upload::Done) {
            Upload::Going { decoder, .. } => inner.upload = Upload::Left(decoder),
            other @ (Upload::Done | Upload::Left(_) | Upload::Broken) => inner.upload = other,
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
            let read = ready!(self.poll_scratch(cx, |inner, fresh| inner.look(fresh, bounds)));
            match read {
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

    /// Looks for a head in what was read before and `fresh`; keeps what is not used.
    fn look(&mut self, fresh: &[u8], bounds: Bounds) -> Result<Looked, Broken> {
        if fresh.is_empty() {
            return Ok(Looked::End);
        }
        if self.read.is_empty() {
            return Ok(match request::parse(fresh, 0, bounds)? {
                Some((head, used)) => {
                    self.read.extend_from_slice(fresh.get(used..).unwrap_or_default());
                    Looked::Head(head)
                }
                None => {
                    self.read.extend_from_slice(fresh);
                    self.looked = fresh.len();
                    Looked::Part
                }
            });
        }
        self.read.extend_from_slice(fresh);
        Ok(match request::parse(&self.read, self.looked, bounds)? {
            Some((head, used)) => {
                self.read.advance(used);
                Looked::Head(head)
            }
            None => {
                self.looked = self.read.len();
                Looked::Part
            }
        })
    }

    /// Whether nothing was read but the empty lines that may stand in front of a request.
    fn is_blank(&self) -> bool {
        self.read.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
    }

    /// Reads into the thread's buffer and hands on what is there; nothing at the end.
    fn poll_scratch<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Self, &[u8]) -> Result<T, Broken>,
    ) -> Poll<Result<T, Broken>> {
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.is_empty() {
                scratch.resize(SCRATCH_SIZE, 0);
            }
            let mut buffer = ReadBuf::new(scratch);
            let Some(io) = &mut self.io else { return Poll::Ready(Err(gone().into())) };
            ready!(Pin::new(io).poll_read(cx, &mut buffer))?;
            Poll::Ready(take(self, buffer.filled()))
        })
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let Some(io) = &mut self.io else { return Poll::Ready(Err(gone().into())) };
        self.out.poll_flush(io, cx).map_err(Broken::Io)
    }

    fn notice_end(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        // What is there belongs to the next request; so much is not read ahead.
        if !matches!(self.upload, Upload::Done) || !self.read.is_empty() {
            return Ok(());
        }
        let read = self.poll_scratch(cx, |inner, fresh| {
            inner.read.extend_from_slice(fresh);
            if fresh.is_empty() { Err(gone().into()) } else { Ok(()) }
        });
        match read {
            Poll::Ready(read) => read,
            Poll::Pending => Ok(()),
        }
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        loop {
            let Upload::Going { decoder, expects, step } = &mut self.upload else {
                return Poll::Ready(match self.upload {
                    Upload::Broken => Some(Err(BadBody::Incomplete.into())),
                    Upload::Done | Upload::Left(_) | Upload::Going { .. } => None,
                });
            };
            match decoder.decode(&mut self.read) {
                Ok(Decoded::Data(data)) => {
                    if decoder.is_end() {
                        self.upload = Upload::Done;
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Decoded::Trailers(trailers)) => {
                    self.upload = Upload::Done;
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Decoded::End) => {
                    self.upload = Upload::Done;
                    return Poll::Ready(None);
                }
                Ok(Decoded::More) => {}
                Err(bad) => {
                    self.upload = Upload::Broken;
                    return Poll::Ready(Some(Err(bad.into())));
                }
            }
            if std::mem::take(expects) {
                self.out.fixed(CONTINUE);
            }
            let room = decoder.remaining().map_or(usize::MAX, |left| {
                // One more than there should be: a read that fills the buffer has to be followed by another.
                usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1)
            });
            let room = room.min(*step);
            let Some(io) = &mut self.io else {
                return Poll::Ready(Some(Err(gone().into())));
            };
            self.read.reserve(room);
            let read = match ready!(pin!(io.read_buf(&mut self.read)).poll(cx)) {
                Ok(0) => {
                    Err(decoder.end_of_input().map_or_else(UploadError::from, |()| gone().into()))
                }
                Ok(read) => Ok(read),
                Err(error) => Err(error.into()),
            };
            match read {
                Ok(read) if read >= *step => *step = step.saturating_mul(2).min(LAST_READ),
                Ok(_) => {}
                Err(error) => {
                    self.upload = Upload::Broken;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    /// Takes the rest of a body that nobody wants, if it is short and there; else nothing can follow it.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let Upload::Left(decoder) = &mut self.upload else { return };
        let mut left = MOST_UNWANTED;
        loop {
            match decoder.decode(&mut self.read) {
                Ok(Decoded::Data(data)) => match left.checked_sub(data.len()) {
                    Some(fewer) => left = fewer,
                    None => break,
                },
                Ok(Decoded::Trailers(_) | Decoded::End) => {
                    self.upload = Upload::Done;
                    return;
                }
                Err(_) => break,
                Ok(Decoded::More) => {
                    let Some(io) = &mut self.io else { break };
                    self.read.reserve(FIRST_READ);
                    let Poll::Ready(Ok(1..)) = pin!(io.read_buf(&mut self.read)).poll(cx) else {
                        break;
                    };
                }
            }
        }
        self.upload = Upload::Broken;
        self.read = BytesMut::new();
    }
}

/// What was found where a head may be.
#[allow(clippy::large_enum_variant, reason = "moved once per request; a box would cost more")]
enum Looked {
    Head(Head),
    Part,
    /// The client ended.
    End,
}

fn gone() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// The body of a client's request. Dropped before its end, it lets the connection know that nobody wants
/// the rest.
pub(super) struct UploadBody {
    /// Absent where there is nothing to read, and once all is read.
    wire: Option<Rc<Wire>>,
}

impl std::fmt::Debug for UploadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadBody").field("ended", &self.wire.is_none()).finish()
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let this = self.get_mut();
        let Some(wire) = &this.wire else { return Poll::Ready(None) };
        let polled = ready!(wire.poll_body(cx));
        let going = matches!(wire.inner.borrow().upload, Upload::Going { .. });
        if !going {
            this.wire = None;
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.wire.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let Some(wire) = &self.wire else { return SizeHint::with_exact(0) };
        match &wire.inner.borrow().upload {
            Upload::Going { decoder, .. } => {
                decoder.remaining().map_or_else(SizeHint::new, SizeHint::with_exact)
            }
            Upload::Done | Upload::Left(_) | Upload::Broken => SizeHint::new(),
        }
    }
}

impl Drop for UploadBody {
    fn drop(&mut self) {
        if let Some(wire) = &self.wire {
            wire.left();
        }
    }
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Bytes that a thread reads heads into.
const SCRATCH_SIZE: usize = 16 * 1024;
/// Bytes of a body that are read at a time at first, and when there is much of it.
const FIRST_READ: usize = 8 * 1024;
const LAST_READ: usize = 64 * 1024;
/// Bytes of a body that nobody wants, which are read for the sake of the connection.
const MOST_UNWANTED: usize = 64 * 1024;
/// Bytes of a request's trailers.
const MOST_TRAILERS: usize = 16 * 1024;
