//! The body of a response, watched while its request is open.

use super::inflight::{InflightGuard, RequestBody};
use super::upstream::{UpstreamBody, UpstreamBodyError};
use bytes::Bytes;
use h2::Reason;
use http_body::{Body, Frame, SizeHint};
use policy_core::Denied;
use policy_enforce::error::ErrorKind;
use policy_enforce::headers;
use policy_enforce::middleware::pipeline::TimedRequest;
use policy_enforce::respond;
use policy_enforce::respond::{Answer, Fault, ResponseFault, ResponseFormat};
use policy_http::http1::client::Error;
use policy_http::http1::decode::BodyError;
use policy_http::http2::{Interruptible, Reset};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a response to the client.
#[derive(Debug)]
pub(super) struct ResponseBody {
    source: Source,
    /// Held until the body has ended; with bounds, until it is dropped.
    held: Option<TimedRequest<InflightGuard>>,
    asker: ResponseFormat,
}

#[derive(Debug)]
enum Source {
    Ended,
    Text(Bytes),
    Upstream(UpstreamBody<RequestBody>),
    /// No response: the stream is reset.
    Reset(Reason),
}

/// Error that ends a response body early.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseBodyError {
    /// The application's body failed.
    #[error("upstream: {0}")]
    Upstream(#[from] UpstreamBodyError),
    /// Permission was lost or a timeout expired; resets an HTTP/2 stream, with CANCEL if permission
    /// was revoked.
    #[error("ended by policy: {0}")]
    Ended(#[source] h2::Error),
}

impl ResponseBody {
    /// A complete body that the proxy wrote.
    pub(super) fn text(text: Bytes, asker: ResponseFormat) -> Self {
        let source = if text.is_empty() { Source::Ended } else { Source::Text(text) };
        Self { source, held: None, asker }
    }

    /// A reset in place of a response, because the application reset its stream.
    pub(super) fn reset(reason: Reason, asker: ResponseFormat) -> Self {
        Self { source: Source::Reset(reason), held: None, asker }
    }

    /// The application's body, which keeps the request in flight.
    pub(super) fn upstream(
        body: UpstreamBody<RequestBody>,
        held: TimedRequest<InflightGuard>,
        asker: ResponseFormat,
    ) -> Self {
        Self { source: Source::Upstream(body), held: Some(held), asker }
    }

    /// The answer with which the body must end now, if it must.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<Answer> {
        if matches!(self.source, Source::Ended) {
            return None;
        }
        self.held.as_mut()?.poll_end(cx)
    }

    /// The body once it is written, if its bounds go on until it is sent.
    pub(super) fn into_unsent(mut self) -> Option<Self> {
        let broken = !self.is_end_stream();
        self.finish(broken);
        self.held.is_some().then_some(self)
    }

    /// True if a bound of the policy is exceeded; otherwise wakes `cx` when one may be.
    pub(super) fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        self.held.as_mut().is_some_and(|held| held.poll_timeout(cx).is_some())
    }

    /// Ends the body early: with trailers for gRPC, with an error for all other clients.
    fn end(&mut self, answer: &Answer) -> Result<Frame<Bytes>, ResponseBodyError> {
        if self.asker.is_grpc() {
            let id = self.held.as_ref().and_then(|held| held.open.refusal());
            let trailers = respond::trailers(answer, &self.asker.recorded_as(id));
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
            | Answer::BadBody
            | Answer::Upstream(_) => Reason::INTERNAL_ERROR,
        };
        Err(ResponseBodyError::Ended(reason.into()))
    }

    /// Counts and logs a body of the application that broke off. A stream that it reset is its own way to
    /// end a response.
    fn count_broken(&self, error: &UpstreamBodyError) {
        if let (Some(held), Some(kind)) = (&self.held, kind_of(error)) {
            held.open.http_error(kind);
        }
    }

    /// Ends the response; `broken`: before it was complete. Releases the in-flight request, unless
    /// bounds on it go on until the response is sent.
    fn finish(&mut self, broken: bool) {
        if let Some(held) = &self.held {
            held.open.ended(broken);
        }
        self.source = Source::Ended;
        if broken || !self.held.as_ref().is_some_and(TimedRequest::is_timed) {
            self.held = None;
        }
    }
}

fn kind_of(error: &UpstreamBodyError) -> Option<ErrorKind> {
    match error {
        UpstreamBodyError::Http1(Error::Body(BodyError::Incomplete) | Error::Io(_)) => {
            Some(ErrorKind::UpstreamTruncated)
        }
        UpstreamBodyError::Http1(Error::Body(_)) => Some(ErrorKind::ResponseMalformed),
        UpstreamBodyError::Http1(_) => None,
        UpstreamBodyError::Http2(_) => error.is_lost().then_some(ErrorKind::UpstreamTruncated),
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>> {
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
                    let large = frame.trailers_ref().is_some_and(|trailers| {
                        this.held.as_ref().is_some_and(|held| held.open.are_large(trailers))
                    });
                    if large {
                        let fault = Fault::Response(ResponseFault::TooLarge);
                        return Poll::Ready(Some(this.end(&Answer::Upstream(fault))));
                    }
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
                // As without a sidecar: a call whose connection is lost is unavailable.
                Poll::Ready(Some(Err(error))) if this.asker.is_grpc() && error.is_lost() => {
                    this.count_broken(&error);
                    Poll::Ready(Some(this.end(&Answer::Upstream(Fault::Broken))))
                }
                Poll::Ready(Some(Err(error))) => {
                    this.count_broken(&error);
                    this.finish(true);
                    Poll::Ready(Some(Err(error.into())))
                }
                Poll::Ready(None) => {
                    this.finish(false);
                    Poll::Ready(None)
                }
            },
            Source::Reset(reason) => {
                let reason = *reason;
                this.source = Source::Ended;
                Poll::Ready(Some(Err(ResponseBodyError::Ended(reason.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Ended => true,
            Source::Text(text) => text.is_empty(),
            Source::Upstream(body) => body.is_end_stream(),
            Source::Reset(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Ended => SizeHint::with_exact(0),
            Source::Text(text) => {
                SizeHint::with_exact(u64::try_from(text.len()).unwrap_or(u64::MAX))
            }
            Source::Upstream(body) => body.size_hint(),
            Source::Reset(_) => SizeHint::default(),
        }
    }
}

/// A body of known length may be dropped without a poll for its end, and is complete; any other
/// drop before the end means that the client is gone.
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

    fn aborted(&self) -> Option<Reason> {
        match self.source {
            Source::Reset(reason) => Some(reason),
            Source::Ended | Source::Text(_) | Source::Upstream(_) => None,
        }
    }
}

impl Reset for ResponseBodyError {
    fn reason(&self) -> Reason {
        match self {
            Self::Ended(error) => error.reason(),
            Self::Upstream(broken) => broken.reason(),
        }
        .unwrap_or(Reason::INTERNAL_ERROR)
    }
}
