//! The body of a client's HTTP/1 request: read by whoever sends it on, and let go of where nobody does.

use super::wire::{Inner, Wire, gone};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use policy_http::http1::decode::{BadBody, Decoded, Decoder};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncReadExt;

/// The body of the request that is being answered.
pub(super) enum Upload {
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
pub(super) enum UploadError {
    /// What the client sends is not a body.
    #[error(transparent)]
    Bad(#[from] BadBody),
    /// Reading failed.
    #[error("client: {0}")]
    Io(#[from] io::Error),
}

impl Upload {
    pub(super) fn of(decoder: Decoder, expects: bool) -> Self {
        Self::Going { decoder, expects, step: FIRST_READ }
    }
}

impl Inner {
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        loop {
            let Upload::Going { decoder, expects, .. } = &mut self.upload else {
                let broken = matches!(self.upload, Upload::Broken);
                return Poll::Ready(broken.then(|| Err(BadBody::Incomplete.into())));
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

/// The body of a client's request. Dropped before its end, it lets the connection know that nobody wants
/// the rest.
pub(super) struct UploadBody {
    /// Absent where there is nothing to read, and once all is read.
    wire: Option<Rc<Wire>>,
}

impl UploadBody {
    /// Nothing follows the head.
    pub(super) fn empty() -> Self {
        Self { wire: None }
    }

    /// What is [`Upload::Going`] on `wire`.
    pub(super) fn of(wire: Rc<Wire>) -> Self {
        Self { wire: Some(wire) }
    }
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
            Upload::Done | Upload::Left(_) | Upload::Abandoned | Upload::Broken => SizeHint::new(),
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
/// Bytes of a body that are read at a time at first, and when there is much of it.
const FIRST_READ: usize = 8 * 1024;
const LAST_READ: usize = 64 * 1024;
/// Bytes of a body that nobody wants, which are read for the sake of the connection.
const MOST_UNWANTED: usize = 64 * 1024;
