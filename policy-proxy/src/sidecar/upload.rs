//! The body of a client's HTTP/1 request: read by whoever sends it on, and let go of where nobody does.

use super::wire::{Upload, UploadError, Wire};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use policy_http::http1::decode::Decoder;
use policy_http::http1::request_decode::{Bounds, RequestFraming};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// The body of a client's request. Dropped before its end, it lets the connection know that nobody wants
/// the rest.
pub(super) struct UploadBody {
    /// Absent where there is nothing to read, and once all is read.
    wire: Option<Rc<Wire>>,
}

impl UploadBody {
    /// The body behind a head.
    pub(super) fn behind(wire: &Rc<Wire>, framing: RequestFraming, head: (bool, Bounds)) -> Self {
        let (expects, bounds) = head;
        let decoder = match framing {
            RequestFraming::None => return Self { wire: None },
            RequestFraming::Length(bytes) => Decoder::length(bytes),
            RequestFraming::Chunked => Decoder::chunked(bounds.fields, MOST_TRAILERS),
        };
        wire.inner.borrow_mut().upload = Upload::of(decoder, expects);
        Self { wire: Some(Rc::clone(wire)) }
    }

    /// Whether the client broke it off. Else wakes `cx` when it does.
    pub(super) fn is_broken(&self, cx: &Context<'_>) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.inner.borrow_mut().is_broken(cx))
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

/// Bytes of a request's trailers.
const MOST_TRAILERS: usize = 16 * 1024;
