//! One connection to a server: one request at a time, in the task of the caller.
//!
//! The request's head and the part of its body that is available go out in one write. The rest of
//! the body is sent while the response is awaited and read, because a response may arrive before
//! its request is complete. Pieces of the response's body are split off the buffer that the socket
//! is read into. The connection may be reused only if both messages ended exactly at their
//! announced end and no bytes follow the response.

mod head;

use super::decode::{BodyError, Decoded, Decoder};
use super::encode;
use super::header_pool;
use super::last_after_body::LastAfterBody;
use super::read_buf;
use super::request_decode::Bounds;
use super::request_encode;
use super::response_decode::{self, ResponseFraming, ResponseHead};
use super::write_buf::WriteBuf;
use crate::backlog::{self, Backlog};
use crate::interim::InterimResponses;
use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::request::Parts;
use http::{Method, Response};
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection and the exchange that is in progress on it.
#[derive(Debug)]
pub struct Connection<S, B> {
    io: S,
    bounds: Bounds,
    /// The head of the last response, as it was received.
    text: Bytes,
    /// Bytes read and not consumed yet. Unallocated while the connection is idle.
    input: BytesMut,
    /// The response body, if it arrived together with its head.
    buffered_body: Bytes,
    /// Size of the next read.
    read_size: usize,
    out: WriteBuf,
    /// The request body until all of it is in `out`.
    upload: Option<B>,
    encoder: encode::BodyEncoder,
    /// True once any byte of the request has been written.
    bytes_written: bool,
    is_head: bool,
    /// True once the response's head has been read.
    answered: bool,
    /// The interim responses to the request.
    interim: InterimResponses,
    /// True if `input` may have a head in it, because an interim response preceded it.
    head_follows: bool,
    /// True while a body is announced that its client sends once it hears `100 Continue`, and none of
    /// it has come.
    awaits_continue: bool,
    /// True if the request may be sent a second time.
    repeatable: bool,
    decoder: Decoder,
    /// True if another protocol follows the response's head.
    switched: bool,
    /// True if the server said in the response's head that it closes the connection.
    closes: bool,
    /// True if the request said that no further one follows.
    close_requested: bool,
    /// True while both sides allow another request on the connection.
    reusable: bool,
    /// True if the last [`Self::poll_idle`] found nothing to read and registered its task to be
    /// woken.
    watched: bool,
    /// The task that sends the rest of the request, while the response is not read to its end.
    rest: Option<Waker>,
    /// The buffer of a read that waits.
    wait: Backlog,
}

/// Error of an exchange. The connection cannot be used any further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection ended before any of the request was written: the request may be sent again.
    #[error("connection closed")]
    Unsent,
    /// The connection broke.
    #[error("connection error: {0}")]
    Io(#[from] io::Error),
    /// The server closed or reset the connection before any byte of a response.
    #[error("connection closed without a response")]
    Closed,
    /// The server closed or reset the connection within the response's head, or after an interim
    /// response.
    #[error("connection closed within the response's head")]
    Truncated,
    /// The received bytes are not a response.
    #[error(transparent)]
    Head(#[from] response_decode::ResponseHeadError),
    /// The received bytes do not match the framing that the head announced.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The request body ended early.
    #[error("incomplete request body")]
    Request,
    /// The server switched protocols before the request was complete.
    #[error("protocol switched before the request was complete")]
    Early,
}

/// Responses larger than this are read into memory of their own.
const MIN_READ: usize = 4 * 1024;
/// Reads grow up to this size as long as they fill their buffer.
const MAX_READ: usize = 64 * 1024;
/// Bounds of trailers, the same as hyper's.
const TRAILERS: Bounds = Bounds { fields: 100, bytes: 16 * 1024 };
/// Number of pending bytes above which the request body is not polled.
const SEND_THRESHOLD: usize = 16 * 1024;

impl<S, B> Connection<S, B>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes> + Unpin,
{
    /// Creates an idle connection. `bounds` applies to the heads of responses.
    pub fn new(io: S, bounds: Bounds) -> Self {
        Self {
            io,
            bounds,
            text: Bytes::new(),
            input: BytesMut::new(),
            buffered_body: Bytes::new(),
            read_size: MIN_READ,
            out: WriteBuf::default(),
            upload: None,
            encoder: encode::BodyEncoder::None,
            bytes_written: false,
            is_head: false,
            answered: false,
            interim: InterimResponses::default(),
            head_follows: false,
            awaits_continue: false,
            repeatable: false,
            decoder: Decoder::empty(),
            switched: false,
            closes: false,
            close_requested: false,
            reusable: true,
            watched: false,
            rest: None,
            wait: Backlog::default(),
        }
    }

    /// Returns true if an idle connection is still open and the server has sent nothing. Usually
    /// without a system call. Wakes `cx` when that changes.
    pub fn poll_idle(&mut self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0; 1];
        let read = Pin::new(&mut self.io).poll_read(cx, &mut ReadBuf::new(&mut byte));
        self.watched = read.is_pending();
        self.watched
    }

    /// Begins an exchange on a connection that is new or [`Self::is_reusable`]. `text` is the head as it
    /// was received over HTTP/1, by which names are spelt. If [`Self::poll_idle`] was called before, it
    /// and [`Self::poll_head`] have to be called in one poll of one task.
    pub fn begin(&mut self, (head, text): (&mut Parts, &[u8]), body: B) {
        let size = body.size_hint();
        self.out.forget();
        let mut written = Vec::new();
        let small = self.out.small().unwrap_or(&mut written);
        // Some servers read no body of these methods, and would take it for the next request.
        let unread = [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS];
        let is_last =
            unread.contains(&head.method) || head.extensions.get::<LastAfterBody>().is_some();
        self.encoder = request_encode::write(small, (head, text), (&size, is_last));
        self.is_head = head.method == Method::HEAD;
        let expects = size.exact() != Some(0) && head.headers.contains_key(EXPECT);
        header_pool::recycle(std::mem::take(&mut head.headers));
        let none = !self.encoder.has_body();
        self.upload = (!none).then_some(body);
        self.close_requested = is_last && !none;
        (self.bytes_written, self.answered) = (false, false);
        self.reusable = !self.close_requested;
        (self.interim, self.head_follows) = (InterimResponses::default(), false);
        self.awaits_continue = expects;
        // Only a request without a body: one that was taken from the client is gone.
        self.repeatable = none && head.method.is_idempotent();
        if self.repeatable {
            self.out.keep();
        }
        self.read_size = MIN_READ;
        self.decoder = Decoder::empty();
    }

    /// Continues the exchange over another connection, after [`Error::Unsent`].
    pub fn reconnect(&mut self, io: S) {
        self.io = io;
        self.watched = false;
        self.input.clear();
    }

    /// Returns true if [`Self::repeat`] may follow [`Error::Closed`]: the request is idempotent (RFC
    /// 9110 section 9.2.2) and has no body.
    pub fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Sends the request again over another connection. At most once for a request.
    pub fn repeat(&mut self, io: S) {
        self.repeatable = false;
        self.bytes_written = false;
        self.reusable = true;
        self.out.rewind();
        self.reconnect(io);
    }

    /// Returns true while part of the request is still to be sent.
    pub fn is_sending(&self) -> bool {
        self.upload.is_some() || !self.out.is_empty()
    }

    /// Returns the part of the request body that is not sent yet.
    pub fn upload(&mut self) -> Option<&mut B> {
        self.upload.as_mut()
    }

    /// Sends the available part of the request. Ready when all of it is sent, or the server reads
    /// no more.
    ///
    /// # Errors
    ///
    /// [`Error::Unsent`], or the request body ended early.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            let waiting = self.fill(cx)?;
            if !self.out.is_empty() {
                let before = self.out.len();
                let flushed = self.out.poll_flush(&mut self.io, cx);
                self.bytes_written |= self.out.len() < before;
                if let Err(error) = ready!(flushed) {
                    return Poll::Ready(self.write_failed(error));
                }
            }
            match &self.upload {
                None => return Poll::Ready(Ok(())),
                Some(_) if waiting => return Poll::Pending,
                Some(_) => {}
            }
        }
    }

    /// Ready once the server has closed the connection behind its response: it reads no more of the
    /// request, whose rest is given up. To be called while [`Self::poll_send`] is pending.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_answered() {
            self.rest = Some(cx.waker().clone());
            return Poll::Pending;
        }
        // What is behind the response belongs to no request.
        if self.input.is_empty() && !matches!(ready!(self.poll_read(cx)), Ok(1..)) {
            self.reusable = false;
            self.upload = None;
            self.out = WriteBuf::default();
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Wakes the task that sends the rest of the request, because the response is read to its end.
    pub fn wake_rest(&mut self) {
        if let Some(waker) = self.rest.take() {
            waker.wake();
        }
    }

    /// Handles a failed write. A server that stops reading a request may have answered it all the
    /// same, unless the write timed out.
    fn write_failed(&mut self, error: io::Error) -> Result<(), Error> {
        if error.kind() == io::ErrorKind::TimedOut {
            return Err(error.into());
        }
        if !self.bytes_written {
            return Err(Error::Unsent);
        }
        (self.reusable, self.repeatable) = (false, false);
        self.upload = None;
        self.out = WriteBuf::default();
        Ok(())
    }

    /// Moves the available part of the request body to `out`. Returns true if the rest is pending.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        while self.out.pieces() == 0 && self.out.len() < SEND_THRESHOLD {
            let Some(body) = &mut self.upload else { break };
            let frame = match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => return Ok(true),
                Poll::Ready(Some(Err(_))) => return Err(Error::Request),
                Poll::Ready(Some(Ok(frame))) => Some(frame),
                Poll::Ready(None) => None,
            };
            self.awaits_continue = false;
            let last = frame.is_none() || body.is_end_stream();
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => self.encoder.data(data, &mut self.out),
                Some(Err(frame)) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.upload = None;
                        let ended = self.encoder.trailers(&trailers, &mut self.out);
                        return ended.map(|()| false).map_err(|_| Error::Request);
                    }
                }
                None => {}
            }
            if last {
                self.upload = None;
                self.encoder.end(&mut self.out).map_err(|_| Error::Request)?;
            }
        }
        Ok(false)
    }

    /// Begins the body behind the final head.
    fn start_body(&mut self, head: ResponseHead) -> Result<Response<()>, Error> {
        self.answered = true;
        self.out.forget();
        if self.awaits_continue && head.body != ResponseFraming::Switched {
            // The answer stands in place of `100 Continue` (RFC 9110 section 10.1.1). A client that sends
            // no body after it must not have its next request taken for one.
            (self.upload, self.reusable) = (None, false);
        }
        self.reusable &= head.keep_alive;
        self.closes = head.closes;
        self.switched = head.body == ResponseFraming::Switched;
        self.decoder = match head.body {
            ResponseFraming::Length(_) if !self.buffered_body.is_empty() => Decoder::empty(),
            ResponseFraming::Length(bytes) => Decoder::length(bytes),
            ResponseFraming::Chunked => Decoder::chunked(TRAILERS.fields, TRAILERS.bytes),
            ResponseFraming::UntilClose => Decoder::until_close(),
            ResponseFraming::Switched if self.is_sending() => return Err(Error::Early),
            ResponseFraming::Switched => Decoder::empty(),
        };
        self.text = head.text;
        Ok(head.response)
    }

    /// Takes the bytes of the response's head, by which the names of its fields are spelt.
    pub fn take_text(&mut self) -> Bytes {
        std::mem::take(&mut self.text)
    }

    /// Returns the next piece of the response's body.
    ///
    /// # Errors
    ///
    /// The body ended early.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if !self.buffered_body.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.buffered_body)))));
        }
        loop {
            match self.decoder.decode(&mut self.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(fields)) => {
                    return Poll::Ready(Some(Ok(Frame::trailers(fields))));
                }
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::More) => {}
                Err(bad) => return Poll::Ready(Some(Err(bad.into()))),
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) => {
                    self.reusable = false;
                    let ended = self.decoder.end_of_input();
                    return Poll::Ready(ended.err().map(|bad| Err(bad.into())));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read_size == MIN_READ {
            let input = &mut self.input;
            let read = ready!(read_buf::poll_read(&mut self.io, cx, |fresh| {
                input.extend_from_slice(fresh);
                fresh.len()
            }))?;
            if read >= MIN_READ {
                self.read_size = MIN_READ.saturating_mul(2);
            }
            return Poll::Ready(Ok(read));
        }
        self.input.reserve(backlog::bounded(self.read_size));
        let read_size = self.input.capacity().saturating_sub(self.input.len());
        let read = ready!(backlog::poll_read(&mut self.io, cx, (&mut self.input, &mut self.wait)))?;
        if read == read_size {
            self.read_size = self.read_size.saturating_mul(2).min(MAX_READ);
        }
        Poll::Ready(Ok(read))
    }

    /// Returns true if the response has been read to its end.
    pub fn is_answered(&self) -> bool {
        self.answered && self.buffered_body.is_empty() && self.decoder.is_end()
    }

    /// Returns true if the server said in the response's head that it closes the connection, which the
    /// request did not say itself.
    pub fn closes(&self) -> bool {
        self.closes && !self.close_requested
    }

    /// Returns true if another protocol follows the response's head.
    pub fn is_switched(&self) -> bool {
        self.switched
    }

    /// Returns the number of bytes of the response's body that are still to come.
    pub fn size_hint(&self) -> SizeHint {
        let buffered_body = u64::try_from(self.buffered_body.len()).unwrap_or(u64::MAX);
        let remaining = self.decoder.remaining().map(|bytes| bytes.saturating_add(buffered_body));
        remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }

    /// Returns true if both messages are complete and another request may follow. Bytes behind a
    /// response belong to no request, so they make the connection unusable.
    pub fn is_reusable(&self) -> bool {
        self.reusable && self.is_answered() && !self.is_sending() && self.input.is_empty()
    }

    /// Frees the read buffer until the next exchange.
    pub fn shrink(&mut self) {
        self.input = BytesMut::new();
    }

    /// Returns the stream.
    pub fn get_ref(&self) -> &S {
        &self.io
    }

    /// Returns the stream and the bytes that were read behind the response.
    pub fn into_stream(self) -> (S, Bytes) {
        (self.io, self.input.freeze())
    }
}
