//! The bodies of a request and of its response, watched while the request is open.

use super::asked::{Broken, UpstreamBody};
use super::http2::Received;
use super::open::OpenGuard;
use super::upload::{UploadBody, UploadError};
use crate::middleware::headers;
use crate::respond::{self, Answer, Asker, Fault};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use policy_core::Denied;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::Sleep;

/// What is sent to the client.
#[derive(Debug)]
pub(super) struct ResponseBody {
    source: Source,
    open: Option<OpenGuard>,
    deadline: Option<Pin<Box<Sleep>>>,
    asker: Asker,
}

#[derive(Debug)]
enum Source {
    Ended,
    Text(Bytes),
    Upstream(UpstreamBody),
}

/// Why a body breaks off.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenOff {
    /// The application broke off.
    #[error("upstream: {0}")]
    Upstream(#[from] Broken),
    /// Refused or late while open; ends an HTTP/2 stream with CANCEL.
    #[error("ended by policy: {0}")]
    Ended(#[source] h2::Error),
}

impl ResponseBody {
    /// A complete body made here.
    pub(super) fn text(text: Bytes, asker: Asker) -> Self {
        let source = if text.is_empty() { Source::Ended } else { Source::Text(text) };
        Self { source, open: None, deadline: None, asker }
    }

    /// The application's, while `open` is.
    pub(super) fn upstream(
        body: UpstreamBody,
        open: OpenGuard,
        deadline: Option<Pin<Box<Sleep>>>,
        asker: Asker,
    ) -> Self {
        Self { source: Source::Upstream(body), open: Some(open), deadline, asker }
    }

    /// Why the body must end now, if it must.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<Answer> {
        if let Some(reason) = self.open.as_ref().and_then(|open| open.poll_lost(cx)) {
            return Some(Answer::Denied(reason));
        }
        let deadline = self.deadline.as_mut()?;
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Some(Answer::Upstream(Fault::Timeout)),
            Poll::Pending => None,
        }
    }

    /// gRPC is told by trailers; everybody else by a response that breaks off.
    fn end(&mut self, answer: &Answer) -> Result<Frame<Bytes>, BrokenOff> {
        if self.asker.is_grpc() {
            let trailers = respond::trailers(answer, &self.asker);
            if let Some(open) = &self.open {
                open.trailers(&trailers);
            }
            self.finish(true);
            return Ok(Frame::trailers(trailers));
        }
        self.finish(true);
        let reason = match answer {
            Answer::Denied(Denied::Revoked) => h2::Reason::CANCEL,
            Answer::Denied(_)
            | Answer::Limited(_)
            | Answer::Redirect { .. }
            | Answer::InvalidRedirect
            | Answer::Failure { .. }
            | Answer::Gateway
            | Answer::Overloaded
            | Answer::Upstream(_) => h2::Reason::INTERNAL_ERROR,
        };
        Err(BrokenOff::Ended(reason.into()))
    }

    /// Lets go of the request; `broken`: before the answer was complete.
    fn finish(&mut self, broken: bool) {
        if let Some(open) = &self.open {
            open.ended(broken);
        }
        self.source = Source::Ended;
        self.open = None;
        self.deadline = None;
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        if let Some(answer) = this.poll_end(cx) {
            return Poll::Ready(Some(this.end(&answer)));
        }
        match &mut this.source {
            Source::Ended => Poll::Ready(None),
            Source::Text(text) => {
                let text = std::mem::take(text);
                this.source = Source::Ended;
                Poll::Ready(Some(Ok(Frame::data(text))))
            }
            Source::Upstream(body) => match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Ok(mut frame))) => {
                    if let Some(open) = &this.open {
                        if let Some(trailers) = frame.trailers_mut() {
                            headers::clean_trailers(trailers);
                            open.trailers(trailers);
                        } else if let Some(data) = frame.data_ref() {
                            open.frame(data.len(), body.is_end_stream());
                        }
                    }
                    Poll::Ready(Some(Ok(frame)))
                }
                Poll::Ready(Some(Err(error))) => {
                    this.finish(true);
                    Poll::Ready(Some(Err(error.into())))
                }
                Poll::Ready(None) => {
                    this.finish(false);
                    Poll::Ready(None)
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Ended => true,
            Source::Text(text) => text.is_empty(),
            Source::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Ended => SizeHint::with_exact(0),
            Source::Text(text) => {
                SizeHint::with_exact(u64::try_from(text.len()).unwrap_or(u64::MAX))
            }
            Source::Upstream(body) => body.size_hint(),
        }
    }
}

/// A body that nobody asks for its end, because its length told, is complete; else the client is gone.
impl Drop for ResponseBody {
    fn drop(&mut self) {
        let broken = !self.is_end_stream();
        self.finish(broken);
    }
}

/// The client's body, as the protocol reads it.
#[derive(Debug)]
pub(super) enum ClientBody {
    Http1(UploadBody),
    Http2(Received),
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = NotSent;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotSent>>> {
        match self.get_mut() {
            Self::Http1(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| Ok(frame?)))
            }
            Self::Http2(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| Ok(frame?)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
        }
    }
}

/// What is sent to the application. It is watched on its own, since a client that takes no response
/// keeps the response's body from being asked for.
#[derive(Debug)]
pub(super) struct RequestBody {
    body: ClientBody,
    /// Absent where there is nothing to send, and once all is sent.
    open: Option<OpenGuard>,
    /// Permission was lost before the end.
    cut: bool,
}

/// Why a request's body breaks off.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSent {
    /// The client broke off.
    #[error("client: {0}")]
    Http2(#[from] h2::Error),
    /// The client broke off, or what it sends is no body.
    #[error(transparent)]
    Http1(#[from] UploadError),
    /// Permission was lost.
    #[error("ended by policy")]
    Cut,
}

impl RequestBody {
    /// The client's, for as long as `open` is permitted. It keeps the request open too.
    pub(super) fn new(body: ClientBody, open: &OpenGuard) -> Self {
        let open = (!body.is_end_stream()).then(|| open.for_upload());
        Self { body, open, cut: false }
    }

    /// Whether it must not be sent on. Else wakes `cx` when that changes.
    pub(super) fn is_lost(&self, cx: &Context<'_>) -> bool {
        self.cut || self.open.as_ref().is_some_and(|open| open.poll_lost(cx).is_some())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = NotSent;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotSent>>> {
        let this = self.get_mut();
        if this.open.as_ref().is_some_and(|open| open.poll_lost(cx).is_some()) {
            this.cut = true;
            this.open = None;
        }
        if this.cut {
            return Poll::Ready(Some(Err(NotSent::Cut)));
        }
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(open) = &this.open {
                    if let Some(trailers) = frame.trailers_mut() {
                        headers::clean_trailers(trailers);
                        open.take_judged(trailers);
                    } else if let Some(data) = frame.data_ref() {
                        open.request_frame(data.len());
                    }
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.open = None;
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.open = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        !self.cut && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
