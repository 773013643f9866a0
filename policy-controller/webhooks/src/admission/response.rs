//! HTTP responses: a review, or the error of a request without one.

use super::body::BodyError;
use crate::review::ReviewResponse;
use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;
use policy_server::{CapacityExceeded, Share};
use std::sync::Arc;

/// The whole body of a response.
pub(super) type ResponseBody = Full<Bytes>;

/// Error of a request that gets no review as its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The body was not received.
    Body(BodyError),
    /// The body is not JSON.
    NotJson,
    /// Validating it failed.
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
    /// Returns the reason as a metric label.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Body(BodyError::TooLarge) => "too_large",
            Self::Body(BodyError::Incomplete) => "broken",
            Self::Body(BodyError::Slow) => "slow",
            Self::Body(BodyError::CapacityExceeded) => "overloaded",
            Self::NotJson => "not_json",
            Self::Failed => "failed",
        }
    }

    /// Returns the HTTP response.
    pub(super) fn response(self) -> Response<ResponseBody> {
        let (status, text) = match self {
            Self::Body(BodyError::TooLarge) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "body too large: more than 8 MiB, or too many fields\n",
            ),
            Self::Body(BodyError::Incomplete) => (StatusCode::BAD_REQUEST, "incomplete body\n"),
            Self::Body(BodyError::Slow) => {
                (StatusCode::REQUEST_TIMEOUT, "the body was received too slowly\n")
            }
            Self::Body(BodyError::CapacityExceeded) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "too many reviews from this network at once; try again\n",
            ),
            Self::NotJson => (StatusCode::BAD_REQUEST, "the body is not JSON\n"),
            Self::Failed => {
                (StatusCode::INTERNAL_SERVER_ERROR, "the review could not be validated\n")
            }
        };
        plain(status, text)
    }
}

/// The encoded response to a review.
#[derive(Debug)]
pub(super) struct EncodedReview {
    pub(super) body: Vec<u8>,
    /// True if the request was a review, which has a uid.
    pub(super) has_uid: bool,
}

impl EncodedReview {
    /// Encodes the response to a review.
    ///
    /// # Errors
    /// [`RequestError::Failed`] if it cannot be encoded.
    pub(super) fn of(answer: &ReviewResponse) -> Result<Self, RequestError> {
        let mut body = serde_json::to_vec(answer).map_err(|_| RequestError::Failed)?;
        body.shrink_to_fit();
        Ok(Self { body, has_uid: answer.has_uid() })
    }
}

/// Returns the response to a review, which holds its capacity until it has been sent.
pub(super) fn review_response(body: Vec<u8>, share: Arc<Share>) -> Response<ResponseBody> {
    response(StatusCode::OK, "application/json", reserved(body, share))
}

/// Returns the response if the webhook cannot decide about a pod.
pub(super) fn unavailable(text: String, share: Arc<Share>) -> Response<ResponseBody> {
    let body = reserved(text.into_bytes(), share);
    response(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", body)
}

/// Returns a plain text response.
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

/// Bytes and the capacity they use. HTTP/2 drops a body as soon as it has taken the bytes, long
/// before a client with a small window has read them; therefore the bytes own the capacity.
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
