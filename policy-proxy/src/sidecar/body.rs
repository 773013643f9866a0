//! The body of a response, watched while its request is open.

use super::asked::Broken;
use super::open::{OpenGuard, UpstreamBody};
use bytes::Bytes;
use h2::Reason;
use http_body::{Body, Frame, SizeHint};
use policy_core::Denied;
use policy_enforce::headers;
use policy_enforce::middleware::pipeline::TimedRequest;
use policy_enforce::respond;
use policy_enforce::respond::{Answer, ResponseFormat};
use policy_http::http2::{Interruptible, Reset};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What is sent to the client.
#[derive(Debug)]
pub(super) struct ResponseBody {
    source: Source,
    held: Option<TimedRequest<OpenGuard>>,
    asker: ResponseFormat,
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
    pub(super) fn text(text: Bytes, asker: ResponseFormat) -> Self {
        let source = if text.is_empty() { Source::Ended } else { Source::Text(text) };
        Self { source, held: None, asker }
    }

    /// The application's, while the request is held open.
    pub(super) fn upstream(
        body: UpstreamBody,
        held: TimedRequest<OpenGuard>,
        asker: ResponseFormat,
    ) -> Self {
        Self { source: Source::Upstream(body), held: Some(held), asker }
    }

    /// Why the body must end now, if it must.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<Answer> {
        self.held.as_mut()?.poll_end(cx)
    }

    /// gRPC is told by trailers; everybody else by a response that breaks off.
    fn end(&mut self, answer: &Answer) -> Result<Frame<Bytes>, BrokenOff> {
        if self.asker.is_grpc() {
            let trailers = respond::trailers(answer, &self.asker);
            if let Some(held) = &self.held {
                held.open.trailers(&trailers);
            }
            self.finish(true);
            return Ok(Frame::trailers(trailers));
        }
        self.finish(true);
        let reason = match answer {
            Answer::Denied(Denied::Revoked) => Reason::CANCEL,
            Answer::Denied(_)
            | Answer::Limited(_)
            | Answer::Redirect { .. }
            | Answer::InvalidRedirect
            | Answer::Failure { .. }
            | Answer::Gateway
            | Answer::Overloaded
            | Answer::HeadTooLarge
            | Answer::Upstream(_) => Reason::INTERNAL_ERROR,
        };
        Err(BrokenOff::Ended(reason.into()))
    }

    /// Lets go of the request; `broken`: before the answer was complete.
    fn finish(&mut self, broken: bool) {
        if let Some(held) = &self.held {
            held.open.ended(broken);
        }
        self.source = Source::Ended;
        self.held = None;
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
                    if let Some(TimedRequest { open, .. }) = &this.held {
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

impl Interruptible for ResponseBody {
    fn must_end(&mut self, cx: &mut Context<'_>) -> bool {
        if let Source::Upstream(body) = &mut self.source {
            body.gather(cx);
        }
        self.poll_end(cx).is_some()
    }
}

impl Reset for BrokenOff {
    fn reason(&self) -> Reason {
        match self {
            Self::Ended(error) => error.reason(),
            Self::Upstream(broken) => broken.reason(),
        }
        .unwrap_or(Reason::INTERNAL_ERROR)
    }
}
