//! HTTP answers: a review, or the reason for which there is none.

use super::arrival::ArrivalError;
use super::shares::{NoRoom, Share};
use crate::review::Answer;
use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;
use std::sync::Arc;

/// An answer, whole.
pub(super) type Answering = Full<Bytes>;

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
    /// The reason, for a metric.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Arrival(ArrivalError::TooLarge) => "too_large",
            Self::Arrival(ArrivalError::Broken) => "broken",
            Self::Arrival(ArrivalError::Slow) => "slow",
            Self::Arrival(ArrivalError::NoRoom) => "overloaded",
            Self::NotJson => "not_json",
            Self::Failed => "failed",
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
        let mut body = serde_json::to_vec(answer).map_err(|_| Refusal::Failed)?;
        body.shrink_to_fit();
        Ok(Self { body, is_of_a_review: answer.is_of_a_review() })
    }
}

/// The answer to a review, which takes its room until it has been sent.
pub(super) fn reviewed(body: Vec<u8>, share: Arc<Share>) -> Response<Answering> {
    response(StatusCode::OK, "application/json", held(body, share))
}

/// The answer where nothing can be said about a pod.
pub(super) fn unavailable(text: String, share: Arc<Share>) -> Response<Answering> {
    let body = held(text.into_bytes(), share);
    response(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", body)
}

/// An answer for people.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Answering> {
    response(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Answering> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Bytes and the room they take. HTTP/2 drops a body as soon as it has taken the bytes, long before a
/// client with a small window has read them; the room is theirs, therefore.
struct Held {
    body: Vec<u8>,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn held(body: Vec<u8>, share: Arc<Share>) -> Bytes {
    Bytes::from_owner(Held { body, _share: share })
}
