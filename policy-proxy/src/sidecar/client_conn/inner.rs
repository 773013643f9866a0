//! Buffers of a client's HTTP/1 connection, and the state of the request body that is read from it.

use super::error::{ClientConnError, UploadError, cut, reset_error, unexpected_eof};
use crate::sidecar::io::{ClientIo, Metered};
use bytes::{Buf, Bytes, BytesMut};
use http_body::Frame;
use policy_http::backlog::{self, Backlog};
use policy_http::http1::decode::{BodyError, Decoded, Decoder};
use policy_http::http1::read_buf;
use policy_http::http1::request_decode::{self, Bounds, RequestHead};
use policy_http::http1::write_buf::WriteBuf;
use policy_http::signal::store_waker;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

/// State behind the `RefCell` of [`super::ClientConn`].
pub(crate) struct Inner {
    /// The stream; absent once [`super::ClientConn::take_stream`] took it.
    pub(super) io: Option<Metered<ClientIo>>,
    /// Bytes that were read and are not parsed yet.
    pub(super) read_buf: BytesMut,
    /// Bytes of `read_buf` that were already scanned without finding the end of a head.
    scanned: usize,
    pub(crate) upload: Upload,
    pub(super) write_buf: WriteBuf,
    pub(super) task: Option<Waker>,
    /// The buffer of a read of a body that waits.
    waiting: Backlog,
    /// Present once a body had to wait.
    stalled: Option<Box<StalledUpload>>,
}

/// A body that is not being read, or whose reader waits for more bytes.
#[derive(Default)]
struct StalledUpload {
    /// Waker of the task that forwards the body, if that is not the connection's own.
    waker: Option<Waker>,
    /// Time since which the body has not been read.
    since: Option<Instant>,
    /// True once the client has closed its side after sending the whole request.
    ended: bool,
    /// Time since which nothing was sent to a client that has closed its side while it waits for its
    /// response.
    half_closed: Option<Instant>,
}

/// State of the body of the request that is being answered.
pub(crate) enum Upload {
    /// The body is complete, or the request has none.
    Complete,
    /// The body has a reader.
    Reading {
        decoder: Decoder,
        /// The client waits for `100 Continue`.
        expects: bool,
        /// Bytes to read at a time.
        step: usize,
    },
    /// The reader was dropped before the end of the body.
    Dropped(Decoder),
    /// The reader was dropped, and the rest is too long to be drained for the sake of the next
    /// request.
    Undrained,
    /// The body is malformed, or the client is gone.
    Failed,
}

impl Upload {
    /// The state of a body that is about to be read.
    pub(crate) fn of(decoder: Decoder, expects: bool) -> Self {
        Self::Reading { decoder, expects, step: MIN_READ }
    }
}

impl Inner {
    pub(super) fn new(io: Metered<ClientIo>) -> Self {
        Self {
            io: Some(io),
            read_buf: BytesMut::new(),
            scanned: 0,
            upload: Upload::Complete,
            write_buf: WriteBuf::default(),
            task: None,
            waiting: Backlog::default(),
            stalled: None,
        }
    }

    pub(super) fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    pub(super) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        bounds: Bounds,
    ) -> Poll<Result<Option<RequestHead>, ClientConnError>> {
        if !self.read_buf.is_empty()
            && let Some((head, used)) = request_decode::parse(&self.read_buf, self.scanned, bounds)?
        {
            self.read_buf.advance(used);
            return Poll::Ready(Ok(Some(self.begin(head))));
        }
        self.scanned = self.read_buf.len();
        if self.read_buf.is_empty() {
            // Frees the buffer of an idle connection.
            self.read_buf = BytesMut::new();
        }
        loop {
            let Some(io) = &mut self.io else { return Poll::Ready(Err(unexpected_eof().into())) };
            let unread = (&mut self.read_buf, &mut self.scanned);
            let found = read_buf::poll_read(io, cx, |fresh| scan_head(unread, fresh, bounds));
            match ready!(found).map_err(ClientConnError::Io).flatten() {
                Ok(Scanned::Head(head)) => return Poll::Ready(Ok(Some(self.begin(head)))),
                Ok(Scanned::Partial) => {}
                Ok(Scanned::Eof) if self.is_blank() => return Poll::Ready(Ok(None)),
                Ok(Scanned::Eof) => return Poll::Ready(Err(unexpected_eof().into())),
                Err(ClientConnError::Io(_)) if self.is_blank() => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn begin(&mut self, head: RequestHead) -> RequestHead {
        self.scanned = 0;
        if self.read_buf.is_empty() && self.read_buf.capacity() > 0 {
            self.read_buf = BytesMut::new();
        }
        head
    }

    /// True if nothing was read but the empty lines that may precede a request.
    fn is_blank(&self) -> bool {
        self.read_buf.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientConnError>> {
        if self.write_buf.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let Some(io) = &mut self.io else { return Poll::Ready(Err(unexpected_eof().into())) };
        if let Some(since) = self.stalled.as_mut().and_then(|stalled| stalled.half_closed.as_mut())
        {
            *since = Instant::now();
        }
        self.write_buf.poll_flush(io, cx).map_err(ClientConnError::Io)
    }

    /// True once the client has closed its side while it waits for its response.
    pub(super) fn is_half_closed(&self) -> bool {
        self.stalled.as_ref().is_some_and(|stalled| stalled.half_closed.is_some())
    }

    /// A client that closed its side behind a whole request may still read the response. It is gone
    /// if nothing was sent to it for a while, because one that closed both sides looks the same, and an
    /// application has to learn that a long request was given up.
    fn check_half_closed(&mut self) -> Result<(), ClientConnError> {
        let stalled = self.stalled.get_or_insert_default();
        stalled.ended = true;
        let late = stalled.half_closed.get_or_insert_with(Instant::now).elapsed() >= HALF_CLOSED;
        let reset = self.io.as_ref().is_some_and(|io| io.get_ref().is_reset());
        match (reset, late) {
            (true, _) => Err(reset_error().into()),
            (false, true) => Err(unexpected_eof().into()),
            (false, false) => Ok(()),
        }
    }

    /// Fails if the client is gone, also behind pipelined requests. A client that has sent many of
    /// these is not checked: writes to it will fail.
    pub(super) fn detect_close(&mut self, cx: &mut Context<'_>) -> Result<(), ClientConnError> {
        let has_ended = self.stalled.as_ref().is_some_and(|stalled| stalled.ended);
        loop {
            let unwanted = match self.upload {
                Upload::Failed => return Err(unexpected_eof().into()),
                Upload::Reading { .. } => return self.detect_close_mid_upload(cx),
                Upload::Dropped(_) => return Ok(()),
                Upload::Undrained => true,
                Upload::Complete if has_ended => return self.check_half_closed(),
                Upload::Complete if self.read_buf.len() >= MAX_PIPELINED => return Ok(()),
                Upload::Complete => false,
            };
            let Some(io) = &mut self.io else { return Ok(()) };
            let (read, mut ended) = (&mut self.read_buf, false);
            let polled = read_buf::poll_read(io, cx, |fresh| {
                ended = fresh.is_empty();
                if !unwanted {
                    read.extend_from_slice(fresh);
                }
            })
            .map_err(cut)?;
            match polled {
                Poll::Ready(()) if ended && !unwanted => return self.check_half_closed(),
                Poll::Ready(()) if ended => return Err(unexpected_eof().into()),
                Poll::Ready(()) => {}
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// Fails if the client is gone while its request body is not read. The bytes before the end of
    /// the stream may be the whole body, which is no failure.
    fn detect_close_mid_upload(&mut self, cx: &mut Context<'_>) -> Result<(), ClientConnError> {
        let stalled = self.stalled.get_or_insert_default();
        let since = *stalled.since.get_or_insert_with(Instant::now);
        let (Some(io), Upload::Reading { decoder, .. }) = (&mut self.io, &self.upload) else {
            return Ok(());
        };
        if stalled.ended || since.elapsed() < STALL_CHECK_AFTER || !io.get_ref().is_read_closed() {
            return Ok(());
        }
        let mut reset = io.get_ref().is_reset();
        let is_whole = if reset {
            false
        } else if let (Some(left), Some(unread)) =
            (decoder.remaining(), io.get_ref().unread_bytes())
        {
            // Left in the socket's buffer, because it may be as much as the system buffers.
            let read = u64::try_from(self.read_buf.len()).unwrap_or(u64::MAX);
            left <= read.saturating_add(unread)
        } else {
            reset = loop {
                if self.read_buf.len() >= MAX_STALLED_READ {
                    return Ok(());
                }
                self.read_buf.reserve(MIN_READ);
                match pin!(io.read_buf(&mut self.read_buf)).poll(cx) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(Ok(0)) => break false,
                    // TLS that ends without close_notify.
                    Poll::Ready(Err(error)) => break error.kind() != io::ErrorKind::UnexpectedEof,
                }
            };
            !reset && decoder.ends_within(&self.read_buf)
        };
        stalled.ended = true;
        if is_whole {
            return Ok(());
        }
        self.upload = Upload::Failed;
        self.read_buf = BytesMut::new();
        if let Some(waker) = stalled.waker.take() {
            waker.wake();
        }
        Err(if reset { reset_error() } else { unexpected_eof() }.into())
    }

    /// True if the client broke off its request body; otherwise wakes `cx` when it does.
    pub(crate) fn is_broken(&mut self, cx: &Context<'_>) -> bool {
        store_waker(&mut self.stalled.get_or_insert_default().waker, cx);
        matches!(self.upload, Upload::Failed)
    }

    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        if let Some(stalled) = &mut self.stalled {
            stalled.since = None;
        }
        loop {
            let Upload::Reading { decoder, expects, .. } = &mut self.upload else {
                let broken = matches!(self.upload, Upload::Failed);
                return Poll::Ready(broken.then(|| Err(BodyError::Incomplete.into())));
            };
            let found = match decoder.decode(&mut self.read_buf) {
                Ok(Decoded::Data(data)) => Some(Ok(Frame::data(data))),
                Ok(Decoded::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
                Ok(Decoded::End) => None,
                Ok(Decoded::More) => {
                    if std::mem::take(expects) {
                        self.write_buf.fixed(CONTINUE);
                    }
                    match ready!(self.poll_more(cx)) {
                        Ok(()) => continue,
                        Err(error) => Some(Err(error)),
                    }
                }
                Err(bad) => Some(Err(bad.into())),
            };
            if let Some(Err(_)) = &found {
                self.upload = Upload::Failed;
            } else if let Upload::Reading { decoder, .. } = &self.upload
                && decoder.is_end()
            {
                self.upload = Upload::Complete;
            }
            return Poll::Ready(found);
        }
    }

    /// Reads more of the body.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UploadError>> {
        let (Upload::Reading { decoder, step, .. }, Some(io)) = (&mut self.upload, &mut self.io)
        else {
            return Poll::Ready(Err(unexpected_eof().into()));
        };
        let left = decoder.remaining().and_then(|left| usize::try_from(left).ok());
        // One byte more than expected: a read that fills its buffer has to be followed by another.
        let most = backlog::bounded(*step);
        let room = left.map_or(most, |left| left.saturating_add(1).min(most));
        self.read_buf.reserve(room);
        let own = (&mut self.read_buf, &mut self.waiting);
        let read = ready!(backlog::poll_read(io, cx, own)).map_err(cut)?;
        if read == 0 {
            decoder.end_of_input()?;
            return Poll::Ready(Err(unexpected_eof().into()));
        }
        if read >= *step {
            *step = step.saturating_mul(2).min(MAX_READ);
        }
        Poll::Ready(Ok(()))
    }

    /// Drains a body without a reader if its rest is short and already received; otherwise the
    /// connection cannot be reused.
    pub(super) fn drain_upload(&mut self, cx: &mut Context<'_>) {
        let Upload::Dropped(decoder) = &mut self.upload else { return };
        let mut left = MAX_DRAIN;
        loop {
            match decoder.decode(&mut self.read_buf) {
                Ok(Decoded::Data(data)) => match left.checked_sub(data.len()) {
                    Some(fewer) => left = fewer,
                    None => break,
                },
                Ok(Decoded::Trailers(_) | Decoded::End) => {
                    self.upload = Upload::Complete;
                    return;
                }
                Err(_) => break,
                Ok(Decoded::More) => {
                    let Some(io) = &mut self.io else { break };
                    self.read_buf.reserve(MIN_READ);
                    let Poll::Ready(Ok(1..)) = pin!(io.read_buf(&mut self.read_buf)).poll(cx)
                    else {
                        break;
                    };
                }
            }
        }
        self.upload = Upload::Undrained;
        self.read_buf = BytesMut::new();
    }
}

/// Scans `read` and `fresh` for a request head, and keeps the bytes behind it. `scanned`: bytes
/// that were scanned before without finding its end.
fn scan_head(
    (read, scanned): (&mut BytesMut, &mut usize),
    fresh: &[u8],
    bounds: Bounds,
) -> Result<Scanned, ClientConnError> {
    if fresh.is_empty() {
        return Ok(Scanned::Eof);
    }
    if read.is_empty() {
        // Usually the head ends with the read, and nothing has to be copied.
        let (found, used) = match request_decode::parse(fresh, 0, bounds)? {
            Some((head, used)) => (Scanned::Head(head), used),
            None => (Scanned::Partial, 0),
        };
        read.extend_from_slice(fresh.get(used..).unwrap_or_default());
        *scanned = read.len();
        return Ok(found);
    }
    read.extend_from_slice(fresh);
    if let Some((head, used)) = request_decode::parse(read, *scanned, bounds)? {
        read.advance(used);
        return Ok(Scanned::Head(head));
    }
    *scanned = read.len();
    Ok(Scanned::Partial)
}

/// Result of scanning for a request head.
#[allow(clippy::large_enum_variant, reason = "moved once per request; a box would cost more")]
enum Scanned {
    Head(RequestHead),
    Partial,
    /// The client closed its side.
    Eof,
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Bytes of a body that are read at a time: at first, and at most.
const MIN_READ: usize = 8 * 1024;
const MAX_READ: usize = 64 * 1024;
/// Bytes of an unread body that are drained so that the connection can be reused.
const MAX_DRAIN: usize = 64 * 1024;
/// Time without a read of the body after which the client is checked, and bytes that are then read
/// of a client that has closed to see if they complete the body, where they cannot be counted
/// unread. A longer body waits until it is read, or the connection ends for another reason.
const STALL_CHECK_AFTER: Duration = Duration::from_secs(1);
const MAX_STALLED_READ: usize = 64 * 1024;
/// Time without a byte to a client that has closed its side, after which it is taken for gone.
const HALF_CLOSED: Duration = Duration::from_secs(5);
/// Bytes of pipelined requests that are read before the current one is answered.
const MAX_PIPELINED: usize = 16 * 1024;
