//! Responses of the admin port.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Either, Full, StreamBody};
use std::convert::Infallible;
use tokio_stream::Stream;

/// The body of a response: whole, or a stream of lines.
pub(super) type AdminBody = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

/// A response whose body is there.
pub(super) fn whole(response: Response<Full<Bytes>>) -> Response<AdminBody> {
    response.map(Either::Left)
}

/// A response of lines of JSON.
pub(super) fn lines(stream: impl Stream<Item = Bytes> + Send + 'static) -> Response<AdminBody> {
    use tokio_stream::StreamExt;
    let frames = StreamBody::new(stream.map(|line| Ok(Frame::data(line))));
    let mut response = Response::new(Either::Right(BodyExt::boxed_unsync(frames)));
    let kind = header::HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A JSON document.
pub(super) fn json(status: StatusCode, value: &serde_json::Value) -> Response<Full<Bytes>> {
    with_type(status, "application/json", format!("{value}\n"))
}

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
