//! HTTP answers: a review, or the reason for which there is none.

use super::body::BodyError;
use super::shares::{CapacityExceeded, Share};
use crate::review::ReviewResponse;
use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;
use std::sync::Arc;

/// An answer, whole.
pub(super) type ResponseBody = Full<Bytes>;

/// The reason for which a request gets no review for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The body did not arrive, or did not get its turn.
    Body(BodyError),
    /// The body is not JSON.
    NotJson,
    /// Judging it failed.
    Failed,
}

impl From<BodyError> for RequestError {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

impl From<CapacityExceeded> for RequestError {
    fn from(CapacityExceeded: CapacityExceeded) -> Self {
        Self::Body(BodyError::CapacityExceeded)
    }
}

impl RequestError {
    /// The reason, for a metric.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Body(BodyError::TooLarge) => "too_large",
            Self::Body(BodyError::Broken) => "broken",
            Self::Body(BodyError::Slow) => "slow",
            Self::Body(BodyError::CapacityExceeded) => "overloaded",
            Self::NotJson => "not_json",
            Self::Failed => "failed",
        }
    }

    /// The answer.
    pub(super) fn response(self) -> Response<ResponseBody> {
        let (status, text) = match self {
            Self::Body(BodyError::TooLarge) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "more than is read: 8 MiB, or too many fields\n")
            }
            Self::Body(BodyError::Broken) => (StatusCode::BAD_REQUEST, "no whole body\n"),
            Self::Body(BodyError::Slow) => {
                (StatusCode::REQUEST_TIMEOUT, "the body came too slowly\n")
            }
            Self::Body(BodyError::CapacityExceeded) => (
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
pub(super) struct EncodedReview {
    pub(super) body: Vec<u8>,
    /// Whether what it answers was a review.
    pub(super) has_uid: bool,
}

impl EncodedReview {
    /// Writes an answer.
    ///
    /// # Errors
    /// [`RequestError::Failed`]: it cannot be written.
    pub(super) fn of(answer: &ReviewResponse) -> Result<Self, RequestError> {
        let mut body = serde_json::to_vec(answer).map_err(|_| RequestError::Failed)?;
        body.shrink_to_fit();
        Ok(Self { body, has_uid: answer.has_uid() })
    }
}

/// The answer to a review, which takes its room until it has been sent.
pub(super) fn reviewed(body: Vec<u8>, share: Arc<Share>) -> Response<ResponseBody> {
    response(StatusCode::OK, "application/json", reserved(body, share))
}

/// The answer where nothing can be said about a pod.
pub(super) fn unavailable(text: String, share: Arc<Share>) -> Response<ResponseBody> {
    let body = reserved(text.into_bytes(), share);
    response(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", body)
}

/// An answer for people.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    response(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Bytes and the room they take. HTTP/2 drops a body as soon as it has taken the bytes, long before a
/// client with a small window has read them; the room is theirs, therefore.
struct ReservedBody {
    body: Vec<u8>,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for ReservedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn reserved(body: Vec<u8>, share: Arc<Share>) -> Bytes {
    Bytes::from_owner(ReservedBody { body, _share: share })
}
