//! Responses to gRPC calls: `grpc.health.v1.Health`, and every other method with its own messages.

use super::connection::{Body, ConnectionContext};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response};

/// A length-prefixed `HealthCheckResponse{status: SERVING}`: not compressed, two bytes long, field 1
/// with value 1 (grpc health checking protocol).
const SERVING: &[u8] = &[0, 0, 0, 0, 2, 0x08, 0x01];

/// True if a request is a gRPC call.
pub(super) fn is_call(request: &Request<Incoming>) -> bool {
    request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Responds to a call. The metadata of the call comes back in headers that begin with `echo-`, and
/// `echo-path` contains the called method. `grpc-status-wanted` sets the status.
pub(super) fn answer(connection: &ConnectionContext, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let trailers = stream::once(std::future::ready(Ok(Frame::trailers(trailers(&head.headers)))));
    let body = match path.as_str() {
        "/grpc.health.v1.Health/Check" => serving().chain(trailers).boxed(),
        "/grpc.health.v1.Health/Watch" => {
            let stop = connection.stop.clone();
            let end =
                stream::once(async move { stop.cancelled().await }).filter_map(|()| async { None });
            serving().chain(end).chain(trailers).boxed()
        }
        _ => messages(body).chain(trailers).boxed(),
    };
    let mut response = Response::new(BodyExt::boxed_unsync(StreamBody::new(body)));
    *response.headers_mut() = metadata(&head.headers, &path);
    response
}

fn serving() -> impl futures_util::Stream<Item = Result<Frame<Bytes>, hyper::Error>> {
    stream::once(std::future::ready(Ok(Frame::data(Bytes::from_static(SERVING)))))
}

/// The messages of the call, without its trailers.
fn messages(
    body: Incoming,
) -> impl futures_util::Stream<Item = Result<Frame<Bytes>, hyper::Error>> {
    BodyStream::new(body)
        .filter(|frame| std::future::ready(!matches!(frame, Ok(frame) if frame.is_trailers())))
}

fn metadata(headers: &HeaderMap, path: &str) -> HeaderMap {
    let mut metadata = HeaderMap::new();
    metadata.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    for (name, value) in headers {
        if let Ok(name) = HeaderName::try_from(format!("echo-{name}")) {
            metadata.append(name, value.clone());
        }
    }
    if let Ok(path) = HeaderValue::try_from(path) {
        metadata.insert("echo-path", path);
    }
    metadata
}

fn trailers(headers: &HeaderMap) -> HeaderMap {
    let status = headers.get("grpc-status-wanted").cloned();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.unwrap_or(HeaderValue::from_static("0")));
    trailers.insert("grpc-message", HeaderValue::from_static(""));
    trailers
}
