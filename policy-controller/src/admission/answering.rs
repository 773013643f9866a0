//! HTTP answers: a review, or the reason for which there is none.

use super::arrival::ArrivalError;
use super::review::Answer;
use super::shares::{NoRoom, Share};
use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The reason for which a request gets no review for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The body did not arrive, or did not get its turn.
    Arrival(ArrivalError),
    /// The body is not JSON.
    NotJson,
    /// Judging it failed.
    Failed,
}

impl From<ArrivalError> for Refusal {
    fn from(error: ArrivalError) -> Self {
        Self::Arrival(error)
    }
}

impl From<NoRoom> for Refusal {
    fn from(NoRoom: NoRoom) -> Self {
        Self::Arrival(ArrivalError::NoRoom)
    }
}

impl Refusal {
    /// The reason, for a metric; absent where something else counts it.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Arrival(ArrivalError::TooLarge) => Some("too_large"),
            Self::Arrival(ArrivalError::Broken) => Some("broken"),
            Self::Arrival(ArrivalError::Slow) => Some("slow"),
            Self::Arrival(ArrivalError::NoRoom) => Some("overloaded"),
            Self::NotJson | Self::Failed => None,
        }
    }

    /// The answer.
    pub(super) fn response(self) -> Response<Answering> {
        let (status, text) = match self {
            Self::Arrival(ArrivalError::TooLarge) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "more than is read: 8 MiB, or too many fields\n")
            }
            Self::Arrival(ArrivalError::Broken) => (StatusCode::BAD_REQUEST, "no whole body\n"),
            Self::Arrival(ArrivalError::Slow) => {
                (StatusCode::REQUEST_TIMEOUT, "the body came too slowly\n")
            }
            Self::Arrival(ArrivalError::NoRoom) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "too many reviews from this network at once; try again\n",
            ),
            Self::NotJson => (StatusCode::BAD_REQUEST, "the body is not JSON\n"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "the review could not be judged\n"),
        };
        plain(status, text)
    }
}

/// An answer to a review, written out.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) body: Vec<u8>,
    /// Whether what it answers was a review.
    pub(super) is_of_a_review: bool,
}

impl Written {
    /// Writes an answer.
    ///
    /// # Errors
    /// [`Refusal::Failed`]: it cannot be written.
    pub(super) fn of(answer: &Answer) -> Result<Self, Refusal> {
        let body = serde_json::to_vec(answer).map_err(|_| Refusal::Failed)?;
        Ok(Self { body, is_of_a_review: answer.is_of_a_review() })
    }
}

/// The answer to a review.
pub(super) fn reviewed(body: Vec<u8>) -> Response<Answering> {
    response(StatusCode::OK, "application/json", body.into())
}

/// The answer where nothing can be said about a pod.
pub(super) fn unavailable(text: String) -> Response<Answering> {
    response(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", text.into())
}

/// An answer for people.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Answering> {
    response(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Answering> {
    let mut response = Response::new(Answering { body: Full::new(body), _share: None });
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The body of an answer, which takes room until it has been sent.
#[derive(Debug)]
pub(super) struct Answering {
    body: Full<Bytes>,
    _share: Option<Share>,
}

impl Answering {
    /// The same, holding its room.
    pub(super) fn holding(self, share: Share) -> Self {
        Self { _share: Some(share), ..self }
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
