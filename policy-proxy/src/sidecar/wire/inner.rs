//! The bytes of one client's HTTP/1 connection: what was read, what is to be written, and how far the
//! request's body is.

use crate::sidecar::io::{ClientIo, Metered};
use bytes::{Buf, Bytes, BytesMut};
use http_body::Frame;
use policy_http::http1::decode::{BodyError, Decoded, Decoder};
use policy_http::http1::read_buf;
use policy_http::http1::request_decode::{self, Bounds, RequestHead, RequestHeadError};
use policy_http::http1::write_buf::WriteBuf;
use policy_http::signal::store_waker;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

/// What [`super::Wire`] shares.
pub(crate) struct Inner {
    /// Absent once it was handed on.
    pub(super) io: Option<Metered<ClientIo>>,
    /// What was read and is not used yet.
    pub(super) read: BytesMut,
    /// How much of it was looked at for a head in vain.
    looked: usize,
    pub(crate) upload: Upload,
    pub(super) out: WriteBuf,
    pub(super) task: Option<Waker>,
    /// Present once a body had to wait.
    untaken: Option<Box<Untaken>>,
}

/// A body that nobody takes, or that has to wait for more.
#[derive(Default)]
struct Untaken {
    /// Who sends the body on, if that is another task.
    sender: Option<Waker>,
    /// Since when nobody has taken anything of the body.
    since: Option<Instant>,
    /// Whether all that the client will ever send has come, and the request is whole.
    ended: bool,
}

/// The body of the request that is being answered.
pub(crate) enum Upload {
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
    /// Nobody wanted the rest, and it was too long to be read for the sake of what follows it.
    Abandoned,
    /// What the client sends is no body, or it is gone.
    Broken,
}

/// Why a request's body breaks off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// What the client sends is not a body.
    #[error(transparent)]
    Bad(#[from] BodyError),
    /// Reading failed.
    #[error("client: {0}")]
    Io(#[from] io::Error),
}

impl Upload {
    /// A body that somebody is about to read.
    pub(crate) fn of(decoder: Decoder, expects: bool) -> Self {
        Self::Going { decoder, expects, step: FIRST_READ }
    }
}

/// Why a connection ends before its client ended it between two requests.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// What should be a request is none.
    #[error(transparent)]
    Head(#[from] RequestHeadError),
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

impl Inner {
    pub(super) fn new(io: Metered<ClientIo>) -> Self {
        Self {
            io: Some(io),
            read: BytesMut::new(),
            looked: 0,
            upload: Upload::Done,
            out: WriteBuf::default(),
            task: None,
            untaken: None,
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
    ) -> Poll<Result<Option<RequestHead>, Broken>> {
        if !self.read.is_empty()
            && let Some((head, used)) = request_decode::parse(&self.read, self.looked, bounds)?
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
            let looked = read_buf::poll_read(io, cx, |fresh| look(unread, fresh, bounds));
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

    fn begin(&mut self, head: RequestHead) -> RequestHead {
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

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let Some(io) = &mut self.io else { return Poll::Ready(Err(gone().into())) };
        self.out.poll_flush(io, cx).map_err(Broken::Io)
    }

    /// Notices that the client is gone, also behind what it sent for later; whoever sent much is left to
    /// what is written to it.
    pub(super) fn notice_end(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        let has_ended = self.untaken.as_ref().is_some_and(|untaken| untaken.ended);
        loop {
            let unwanted = match self.upload {
                Upload::Broken => return Err(gone().into()),
                Upload::Going { .. } => return self.notice_gone(cx),
                Upload::Left(_) => return Ok(()),
                Upload::Abandoned => true,
                // Its end was seen while its request waited, and is not what tells that it is gone.
                Upload::Done if has_ended => {
                    let reset = self.io.as_ref().is_some_and(|io| io.get().is_reset());
                    return if reset { Err(gone().into()) } else { Ok(()) };
                }
                Upload::Done if self.read.len() >= MOST_AHEAD => return Ok(()),
                Upload::Done => false,
            };
            let Some(io) = &mut self.io else { return Ok(()) };
            let (read, mut ended) = (&mut self.read, false);
            let polled = read_buf::poll_read(io, cx, |fresh| {
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

    /// Notices that the client is gone while nobody takes its request's body. What a client sent before
    /// it ended may be all of it.
    fn notice_gone(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        let untaken = self.untaken.get_or_insert_default();
        let since = *untaken.since.get_or_insert_with(Instant::now);
        let (Some(io), Upload::Going { decoder, .. }) = (&mut self.io, &self.upload) else {
            return Ok(());
        };
        if untaken.ended || since.elapsed() < UNTAKEN || !io.get().is_read_closed() {
            return Ok(());
        }
        let is_whole = if io.get().is_reset() {
            false
        } else if let (Some(left), Some(unread)) = (decoder.remaining(), io.get().unread_bytes()) {
            // It stays where it is, for it may be as much as the system keeps.
            let read = u64::try_from(self.read.len()).unwrap_or(u64::MAX);
            left <= read.saturating_add(unread)
        } else {
            let reset = loop {
                if self.read.len() >= MOST_UNTAKEN {
                    return Ok(());
                }
                self.read.reserve(FIRST_READ);
                match pin!(io.read_buf(&mut self.read)).poll(cx) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(Ok(0)) => break false,
                    // TLS without its own end.
                    Poll::Ready(Err(error)) => break error.kind() != io::ErrorKind::UnexpectedEof,
                }
            };
            !reset && decoder.ends_within(&self.read)
        };
        untaken.ended = true;
        if is_whole {
            return Ok(());
        }
        self.upload = Upload::Broken;
        self.read = BytesMut::new();
        if let Some(sender) = untaken.sender.take() {
            sender.wake();
        }
        Err(gone().into())
    }

    /// Whether the client broke its request's body off. Else wakes `cx` when it does.
    pub(crate) fn is_broken(&mut self, cx: &Context<'_>) -> bool {
        store_waker(&mut self.untaken.get_or_insert_default().sender, cx);
        matches!(self.upload, Upload::Broken)
    }

    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        if let Some(untaken) = &mut self.untaken {
            untaken.since = None;
        }
        loop {
            let Upload::Going { decoder, expects, .. } = &mut self.upload else {
                let broken = matches!(self.upload, Upload::Broken);
                return Poll::Ready(broken.then(|| Err(BodyError::Incomplete.into())));
            };
            let found = match decoder.decode(&mut self.read) {
                Ok(Decoded::Data(data)) => Some(Ok(Frame::data(data))),
                Ok(Decoded::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
                Ok(Decoded::End) => None,
                Ok(Decoded::More) => {
                    if std::mem::take(expects) {
                        self.out.fixed(CONTINUE);
                    }
                    match ready!(self.poll_more(cx)) {
                        Ok(()) => continue,
                        Err(error) => Some(Err(error)),
                    }
                }
                Err(bad) => Some(Err(bad.into())),
            };
            if let Some(Err(_)) = &found {
                self.upload = Upload::Broken;
            } else if let Upload::Going { decoder, .. } = &self.upload
                && decoder.is_end()
            {
                self.upload = Upload::Done;
            }
            return Poll::Ready(found);
        }
    }

    /// Reads more of the body.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UploadError>> {
        let (Upload::Going { decoder, step, .. }, Some(io)) = (&mut self.upload, &mut self.io)
        else {
            return Poll::Ready(Err(gone().into()));
        };
        let left = decoder.remaining().and_then(|left| usize::try_from(left).ok());
        // One more than there should be: a read that fills its room has to be followed by another.
        let room = left.map_or(*step, |left| left.saturating_add(1).min(*step));
        self.read.reserve(room);
        let read = ready!(pin!(io.read_buf(&mut self.read)).poll(cx))?;
        if read == 0 {
            decoder.end_of_input()?;
            return Poll::Ready(Err(gone().into()));
        }
        if read >= *step {
            *step = step.saturating_mul(2).min(LAST_READ);
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the rest of a body that nobody wants, if it is short and there; else nothing can follow it.
    pub(super) fn settle(&mut self, cx: &mut Context<'_>) {
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
        self.upload = Upload::Abandoned;
        self.read = BytesMut::new();
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
        let (found, used) = match request_decode::parse(fresh, 0, bounds)? {
            Some((head, used)) => (Looked::Head(head), used),
            None => (Looked::Part, 0),
        };
        read.extend_from_slice(fresh.get(used..).unwrap_or_default());
        *looked = read.len();
        return Ok(found);
    }
    read.extend_from_slice(fresh);
    if let Some((head, used)) = request_decode::parse(read, *looked, bounds)? {
        read.advance(used);
        return Ok(Looked::Head(head));
    }
    *looked = read.len();
    Ok(Looked::Part)
}

/// What was found where a head may be.
#[allow(clippy::large_enum_variant, reason = "moved once per request; a box would cost more")]
enum Looked {
    Head(RequestHead),
    Part,
    /// The client ended.
    End,
}

fn gone() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Bytes of a body that are read at a time at first, and when there is much of it.
const FIRST_READ: usize = 8 * 1024;
const LAST_READ: usize = 64 * 1024;
/// Bytes of a body that nobody wants, which are read for the sake of the connection.
const MOST_UNWANTED: usize = 64 * 1024;
/// How long nothing of a body may be taken before its client is looked after, and bytes that are read of
/// a client that has ended to see whether they are all of it, where they cannot be counted unread. What
/// has more waits until somebody takes it, or the connection ends for another reason.
const UNTAKEN: Duration = Duration::from_secs(1);
const MOST_UNTAKEN: usize = 64 * 1024;
/// Bytes behind a request that are read before it is answered.
const MOST_AHEAD: usize = 16 * 1024;
