//! The body of a client's HTTP/1 request, read by the task that forwards it.

use super::client_conn::{ClientConn, Upload, UploadError};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use policy_http::http1::decode::Decoder;
use policy_http::http1::request_decode::{Bounds, RequestFraming};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// The body of a client's HTTP/1 request. Dropped before its end, it notifies the connection that
/// the rest is unwanted.
pub(super) struct UploadBody {
    /// Absent if the request has no body, and once the body is read.
    conn: Option<Rc<ClientConn>>,
}

impl UploadBody {
    /// The body behind a request head.
    pub(super) fn new(
        conn: &Rc<ClientConn>,
        framing: RequestFraming,
        head: (bool, Bounds),
    ) -> Self {
        let (expects, bounds) = head;
        let decoder = match framing {
            RequestFraming::None => return Self { conn: None },
            RequestFraming::Length(bytes) => Decoder::length(bytes),
            RequestFraming::Chunked => Decoder::chunked(bounds.fields, MAX_TRAILERS),
        };
        conn.inner.borrow_mut().upload = Upload::of(decoder, expects);
        Self { conn: Some(Rc::clone(conn)) }
    }

    /// Leaves it to the application to say `100 Continue`.
    pub(super) fn leave_continue(&self) {
        let Some(conn) = &self.conn else { return };
        if let Upload::Reading { expects, .. } = &mut conn.inner.borrow_mut().upload {
            *expects = false;
        }
    }

    /// True if the client broke off the body; otherwise wakes `cx` when it does.
    pub(super) fn is_broken(&self, cx: &Context<'_>) -> bool {
        self.conn.as_ref().is_some_and(|conn| conn.inner.borrow_mut().is_broken(cx))
    }
}

impl std::fmt::Debug for UploadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadBody").field("ended", &self.conn.is_none()).finish()
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
        let Some(conn) = &this.conn else { return Poll::Ready(None) };
        let polled = ready!(conn.poll_body(cx));
        let going = matches!(conn.inner.borrow().upload, Upload::Reading { .. });
        if !going {
            this.conn = None;
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.conn.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let Some(conn) = &self.conn else { return SizeHint::with_exact(0) };
        match &conn.inner.borrow().upload {
            Upload::Reading { decoder, .. } => {
                decoder.remaining().map_or_else(SizeHint::new, SizeHint::with_exact)
            }
            Upload::Complete | Upload::Dropped(_) | Upload::Undrained | Upload::Failed => {
                SizeHint::new()
            }
        }
    }
}

impl Drop for UploadBody {
    fn drop(&mut self) {
        if let Some(conn) = &self.conn {
            conn.drop_upload();
        }
    }
}

/// Bytes of a request's trailers, at most.
const MAX_TRAILERS: usize = 16 * 1024;
