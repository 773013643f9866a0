//! Responses to HTTP requests.

use super::connection::{Body, ConnectionContext, echo_bytes};
use super::grpc;
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, UPGRADE};
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The JSON body of HTTP responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedRequest {
    /// Name of the application, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Method.
    pub method: String,
    /// Path and query exactly as they arrived.
    pub path: String,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// `:authority` or the authority of an absolute-form target; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// Header lines by name; bytes that are not UTF-8 are replaced.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Length of the request body.
    pub body_bytes: u64,
    /// Address of the client.
    pub client: SocketAddr,
    /// Address of the server.
    pub server: SocketAddr,
}

/// Options of the response from the request's `echo-*` headers. Values that cannot be parsed are
/// ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseOptions {
    /// `echo-status`: the status of the response.
    pub status: Option<StatusCode>,
    /// `echo-delay-ms`: delay of the response.
    pub delay: Option<Duration>,
    /// `echo-stream`: respond with this many lines instead of JSON.
    pub lines: Option<u64>,
    /// `echo-interval-ms`: time between two lines; 100 if absent.
    pub interval: Option<Duration>,
    /// `echo-body: true`: respond with the request's own body as it arrives.
    pub body: bool,
}

impl ResponseOptions {
    /// Reads the headers of a request.
    pub fn read(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let number = |name: &str| text(name).and_then(|value| value.parse::<u64>().ok());
        Self {
            status: text("echo-status").and_then(|s| StatusCode::from_bytes(s.as_bytes()).ok()),
            delay: number("echo-delay-ms").map(Duration::from_millis),
            lines: number("echo-stream"),
            interval: number("echo-interval-ms").map(Duration::from_millis),
            body: text("echo-body") == Some("true"),
        }
    }
}

/// Responds to a request.
pub(super) async fn answer(
    connection: ConnectionContext,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    connection.counters.requests.fetch_add(1, Ordering::Relaxed);
    let response_options = ResponseOptions::read(request.headers());
    if let Some(delay) = response_options.delay {
        tokio::time::sleep(delay).await;
    }
    if grpc::is_call(&request) {
        return Ok(grpc::answer(&connection, request));
    }
    if request.method() == Method::CONNECT || request.headers().contains_key(UPGRADE) {
        return Ok(upgrade(&connection, request));
    }
    let mut response = if response_options.body {
        let content_type = request.headers().get(CONTENT_TYPE).cloned();
        let mut response = Response::new(request.into_body().boxed_unsync());
        if let Some(value) = content_type {
            response.headers_mut().insert(CONTENT_TYPE, value);
        }
        response
    } else if let Some(lines) = response_options.lines {
        drain(request.into_body()).await?;
        stream(lines, response_options.interval.unwrap_or(Duration::from_millis(100)))
    } else {
        let (head, body) = request.into_parts();
        let body_bytes = drain(body).await?;
        json(&received(&connection, &head, body_bytes))
    };
    if let Some(status) = response_options.status {
        *response.status_mut() = status;
    }
    Ok(response)
}

fn received(
    connection: &ConnectionContext,
    head: &http::request::Parts,
    body_bytes: u64,
) -> ReceivedRequest {
    let mut headers = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in &head.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.entry(name.as_str().to_owned()).or_default().push(value);
    }
    let path = head.uri.path_and_query().map_or_else(|| head.uri.to_string(), ToString::to_string);
    ReceivedRequest {
        name: connection.options.name.as_deref().map(str::to_owned),
        method: head.method.to_string(),
        path,
        version: version(head.version).to_owned(),
        authority: head.uri.authority().map(ToString::to_string),
        headers,
        body_bytes,
        client: connection.client,
        server: connection.server,
    }
}

fn version(version: Version) -> &'static str {
    if version == Version::HTTP_10 {
        "HTTP/1.0"
    } else if version == Version::HTTP_2 {
        "HTTP/2.0"
    } else {
        "HTTP/1.1"
    }
}

/// Reads a body to its end and returns its length.
async fn drain(mut body: Incoming) -> Result<u64, hyper::Error> {
    let mut length = 0_u64;
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            length = length.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        }
    }
    Ok(length)
}

fn json(received: &ReceivedRequest) -> Response<Body> {
    // Strings, numbers and maps with string keys always serialise.
    let mut text = serde_json::to_string_pretty(received).unwrap_or_default();
    text.push('\n');
    let mut response = Response::new(full(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn stream(lines: u64, interval: Duration) -> Response<Body> {
    let lines = futures_util::stream::iter(0..lines).then(move |line| async move {
        if line > 0 {
            tokio::time::sleep(interval).await;
        }
        Ok(Frame::data(Bytes::from(format!("{line}\n"))))
    });
    let mut response = Response::new(BodyExt::boxed_unsync(StreamBody::new(lines)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Accepts a tunnel and sends its bytes back.
fn upgrade(connection: &ConnectionContext, request: Request<Incoming>) -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    let requested = request.headers().get(UPGRADE).cloned();
    if let (Some(protocol), Version::HTTP_11) = (requested, request.version()) {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(UPGRADE, protocol);
        response
            .headers_mut()
            .insert(hyper::header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let stop = connection.stop.clone();
    tokio::spawn(async move {
        let echo = async {
            let upgraded = hyper::upgrade::on(request).await.map_err(std::io::Error::other)?;
            echo_bytes(TokioIo::new(upgraded)).await
        };
        tokio::select! {
            () = stop.cancelled() => {}
            ended = echo => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "tunnel ended");
                }
            }
        }
    });
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_that_cannot_be_read_are_absent() {
        let mut headers = HeaderMap::new();
        headers.insert("echo-status", HeaderValue::from_static("not a status"));
        headers.insert("echo-stream", HeaderValue::from_static("-1"));
        headers.insert("echo-delay-ms", HeaderValue::from_static("15"));
        let response_options = ResponseOptions::read(&headers);
        assert_eq!(response_options.status, None);
        assert_eq!(response_options.lines, None);
        assert_eq!(response_options.delay, Some(Duration::from_millis(15)));
    }
}
