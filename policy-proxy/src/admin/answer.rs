//! Responses of the admin port.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;

pub(super) fn refuse_method(allow: &'static str) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, format!("allowed: {allow}\n"));
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allow));
    response
}

pub(super) fn refuse(status: StatusCode, words: &str) -> Response<Full<Bytes>> {
    text(status, format!("{words}\n"))
}

pub(super) fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", body)
}

pub(super) fn with_type(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
