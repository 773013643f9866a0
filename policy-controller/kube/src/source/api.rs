//! Requests to the API server, the lines of a watch as they arrive, and the errors of both.
//!
//! kube builds the requests. The responses are read here, because kube's own reader drops
//! `Retry-After`, does not bound the length of a line, and yields one event at a time, where events
//! that arrive together are one change.

use crate::lease::KINDS_IN_USE;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::Resource as _;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchParams};
use kube::client::Body;
use kube::core::request;
use policy_crds::Kind;
use serde_json::Value;
use std::error::Error;
use std::fmt::{self, Write};
use std::time::Duration;

/// Time limit of a request, its whole response included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Maximum length of a watch event: several times the largest object that an API server accepts.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// Error of a request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiError {
    /// The API server responded with an error status.
    Refused {
        /// Its HTTP status code.
        code: u16,
        /// The message of the `Status`.
        message: String,
        /// The delay of `Retry-After`.
        retry_after: Option<Duration>,
        /// True if the requested resource version is newer than the API server's own.
        too_new: bool,
    },
    /// No connection, or it was lost.
    Unreachable(String),
    /// The response is not what was requested.
    Malformed(String),
    /// Nothing was received for this long.
    TimedOut(Duration),
    /// The API server does not serve the kind.
    NotServed {
        /// The kind.
        kind: Kind,
    },
    /// The API server does not serve a kind that was in use.
    Lost {
        /// The kind.
        kind: Kind,
    },
}

impl ApiError {
    /// The error that a `Status` object describes.
    pub(super) fn from_status(
        code: Option<StatusCode>,
        status: &Value,
        retry_after: Option<Duration>,
    ) -> Self {
        let said = status.get("code").and_then(Value::as_u64).and_then(|c| u16::try_from(c).ok());
        let code = code.map(|code| code.as_u16()).or(said).unwrap_or_default();
        let message = status.get("message").and_then(Value::as_str).unwrap_or_default();
        let details = status.get("details");
        let causes = details.and_then(|d| d.get("causes")).and_then(Value::as_array);
        let too_new = causes.into_iter().flatten().any(|cause| {
            cause.get("reason").and_then(Value::as_str) == Some("ResourceVersionTooLarge")
        });
        let seconds = details.and_then(|d| d.get("retryAfterSeconds")).and_then(Value::as_u64);
        let advised = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        Self::Refused {
            code,
            message: message.to_owned(),
            retry_after: retry_after.or(advised),
            too_new: too_new || message.starts_with("Too large resource version"),
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Unreachable(_)
            | Self::Malformed(_)
            | Self::TimedOut(_)
            | Self::NotServed { .. }
            | Self::Lost { .. } => None,
        }
    }

    /// True if only a new list helps: the version is too old to continue from, or newer than what the
    /// API server has, as after a restored backup.
    pub(super) fn needs_relist(&self) -> bool {
        let too_new = matches!(self, Self::Refused { too_new: true, .. });
        too_new
            || self.code() == Some(410)
            || matches!(self, Self::Malformed(_) | Self::TimedOut(_))
    }

    /// True if the version or the continue token has expired (410 Gone).
    pub(super) fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// True if the resource does not exist (404).
    pub(super) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// True if another client wrote first (409).
    pub(super) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// True if a retry soon does not help: not allowed, not there, not accepted.
    pub(super) fn is_permanent(&self) -> bool {
        let passes = |code| matches!(code, 401 | 408 | 409 | 429);
        self.code().is_some_and(|code| (400..500).contains(&code) && !passes(code))
    }

    /// True if the API server has responded, so that it is there.
    pub(super) fn is_response(&self) -> bool {
        self.code().is_some()
    }

    /// True if RBAC denies the request (403).
    pub(super) fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// The delay that the API server requests before a retry.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable(_)
            | Self::Malformed(_)
            | Self::TimedOut(_)
            | Self::NotServed { .. }
            | Self::Lost { .. } => None,
        }
    }

    /// The value of the metric label `error`.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Refused { code: 401, .. } => "unauthorized",
            Self::Refused { code: 403, .. } => "forbidden",
            Self::Refused { code: 404, .. } | Self::NotServed { .. } | Self::Lost { .. } => {
                "not_found"
            }
            Self::Refused { code: 410, .. } => "gone",
            Self::Refused { code: 429, .. } => "too_many_requests",
            Self::Refused { .. } => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::Malformed(_) => "unreadable",
            Self::TimedOut(_) => "silent",
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code, message, .. } if message.is_empty() => {
                write!(f, "the API server responded with {code}")
            }
            Self::Refused { code, message, .. } => {
                write!(f, "the API server responded with {code}: {message}")
            }
            Self::Unreachable(error) => write!(f, "the API server cannot be reached: {error}"),
            Self::Malformed(error) => write!(f, "the API server sent {error}"),
            Self::TimedOut(after) => {
                write!(f, "nothing received from the API server for {} s", after.as_secs())
            }
            Self::Lost { kind } => {
                let (plural, group) = (kind.plural(), kind.group());
                write!(
                    f,
                    "the definition of {plural}.{group} is gone, whose objects were in use when this \
                     replica started: restore it; or, if they are to end, remove the annotation \
                     {KINDS_IN_USE} from the Lease and restart the controller"
                )
            }
            Self::NotServed { kind } => {
                let versions = kind.versions().join(", ");
                let (plural, group) = (kind.plural(), kind.group());
                write!(
                    f,
                    "the cluster does not serve {plural} of {group} in any of the versions that \
                     are read ({versions}): its CustomResourceDefinition has to be installed"
                )
            }
        }
    }
}

/// A client that distinguishes the errors of the API server.
#[derive(Clone)]
pub(super) struct Api(kube::Client);

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}

impl Api {
    /// Sends requests through `client`.
    pub(super) fn new(client: kube::Client) -> Self {
        Self(client)
    }

    /// Sends a GET, and returns the body of the response.
    pub(super) async fn get(&self, uri: &str) -> Result<Bytes, ApiError> {
        self.send_and_collect(
            Request::get(uri).body(Body::empty()).map_err(|error| invalid_request(&error)),
        )
        .await
    }

    /// Requests a page of a list: the first, or the one of the continue token `next`.
    pub(super) async fn page(
        &self,
        collection: &str,
        size: u32,
        next: Option<&str>,
    ) -> Result<Bytes, ApiError> {
        self.send_and_collect(page(collection, size, next).map(|request| request.map(Body::from)))
            .await
    }

    /// Sends a POST, and returns the body of the response.
    pub(super) async fn post(&self, uri: &str, object: &Value) -> Result<Bytes, ApiError> {
        self.send_object(Request::post(uri), object).await
    }

    /// Sends a PUT, and returns the body of the response. An object with a resource version makes the
    /// write optimistic.
    pub(super) async fn put(&self, uri: &str, object: &Value) -> Result<Bytes, ApiError> {
        self.send_object(Request::put(uri), object).await
    }

    async fn send_object(
        &self,
        request: http::request::Builder,
        object: &Value,
    ) -> Result<Bytes, ApiError> {
        let body = Body::from(object.to_string().into_bytes());
        let request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        self.send_and_collect(request.map_err(|error| invalid_request(&error))).await
    }

    async fn send_and_collect(
        &self,
        request: Result<Request<Body>, ApiError>,
    ) -> Result<Bytes, ApiError> {
        let answer = async {
            let response = self.send(request?).await?;
            let body = response.into_body().collect().await;
            body.map(|body| body.to_bytes()).map_err(|error| unreachable(&error))
        };
        tokio::time::timeout(REQUEST_TIMEOUT, answer)
            .await
            .unwrap_or(Err(ApiError::TimedOut(REQUEST_TIMEOUT)))
    }

    /// Watches the changes after `version`. The response stays open for minutes.
    pub(super) async fn watch(
        &self,
        collection: &str,
        version: &str,
        timeout: Duration,
    ) -> Result<Lines, ApiError> {
        let request = watch(collection, version, timeout)?.map(Body::from);
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.send(request)).await;
        Ok(Lines::new(answer.unwrap_or(Err(ApiError::TimedOut(REQUEST_TIMEOUT)))?.into_body()))
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let json = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, json);
        let response = self.0.send(request).await.map_err(|error| unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ERROR_BYTES).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let status = serde_json::from_slice(&body).unwrap_or_else(|_| {
            // Plain text: from an API server whose handlers are not ready, or from a proxy in
            // between.
            let text = String::from_utf8_lossy(&body);
            serde_json::json!({ "message": text.trim().chars().take(200).collect::<String>() })
        });
        Err(ApiError::from_status(Some(head.status), &status, retry_after(&head.headers)))
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns the error with its causes, each named once.
pub(super) fn unreachable(error: &(dyn Error + 'static)) -> ApiError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {inner}");
        }
        cause = error.source();
    }
    ApiError::Unreachable(text)
}

/// Error of a request that cannot be built.
fn invalid_request(error: &dyn Error) -> ApiError {
    ApiError::Unreachable(error.to_string())
}

/// The path of the objects of a kind.
pub(super) fn collection(kind: Kind, version: &str, namespace: Option<&str>) -> String {
    let named = GroupVersionKind::gvk(kind.group(), version, kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&named, kind.plural());
    DynamicObject::url_path(&resource, namespace)
}

/// Builds the request for a page of a list. Without a resource version a list is a consistent read.
fn page(collection: &str, size: u32, next: Option<&str>) -> Result<Request<Vec<u8>>, ApiError> {
    let params = ListParams::default().limit(size);
    let params = ListParams { continue_token: next.map(str::to_owned), ..params };
    request::Request::new(collection).list(&params).map_err(|error| invalid_request(&error))
}

/// Builds the request for the changes after `version`, with bookmarks.
fn watch(collection: &str, version: &str, timeout: Duration) -> Result<Request<Vec<u8>>, ApiError> {
    let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
    let params = WatchParams { timeout: Some(seconds), bookmarks: true, ..WatchParams::default() };
    request::Request::new(collection)
        .watch(&params, version)
        .map_err(|error| invalid_request(&error))
}

/// The body of a watch, split into lines.
pub(super) struct Lines<B = Body> {
    body: B,
    buffer: BytesMut,
    /// Number of bytes of the buffer that were scanned without finding a line end.
    scanned: usize,
}

impl<B> Lines<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Splits `body` into lines.
    pub(super) fn new(body: B) -> Self {
        Self { body, buffer: BytesMut::new(), scanned: 0 }
    }

    /// Waits for more bytes; false at the end of the body. Cancel safe.
    pub(super) async fn more(&mut self) -> Result<bool, ApiError> {
        if self.buffer.len() > MAX_EVENT_BYTES {
            let what = format!("an event of more than {MAX_EVENT_BYTES} bytes");
            return Err(ApiError::Malformed(what));
        }
        match self.body.frame().await {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.buffer.extend_from_slice(data);
                }
                Ok(true)
            }
            Some(Err(error)) => Err(unreachable(&*error.into())),
            None => Ok(false),
        }
    }

    /// The next whole line that has arrived.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        loop {
            let rest = self.buffer.get(self.scanned..)?;
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.scanned = self.buffer.len();
                return None;
            };
            let end = self.scanned.saturating_add(end);
            self.scanned = 0;
            let line = self.buffer.split_to(end.saturating_add(1)).freeze();
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_where_the_api_server_has_them() {
        assert_eq!(collection(Kind::Pod, "v1", None), "/api/v1/pods");
        assert_eq!(
            collection(Kind::Server, "v1beta3", Some("a")),
            "/apis/policy.linkerd.io/v1beta3/namespaces/a/servers"
        );
        let uri = |request: Result<Request<Vec<u8>>, ApiError>| request.unwrap().uri().to_string();
        assert_eq!(uri(page("/x", 5, None)), "/x?&limit=5", "no version: a consistent read");
        assert_eq!(uri(page("/x", 5, Some("a=b&c"))), "/x?&limit=5&continue=a%3Db%26c");
        assert_eq!(
            uri(watch("/x", "7", Duration::from_secs(9))),
            "/x?&watch=true&timeoutSeconds=9&allowWatchBookmarks=true&resourceVersion=7"
        );
    }

    #[test]
    fn a_status_says_what_helps() {
        let status = |json| ApiError::from_status(None, &json, None);
        assert!(status(serde_json::json!({"code": 410, "message": "too old"})).needs_relist());
        let restored = serde_json::json!({"code": 504, "message": "Timeout: Too large resource \
            version: 9", "details": {"retryAfterSeconds": 1,
            "causes": [{"reason": "ResourceVersionTooLarge"}]}});
        assert!(status(restored.clone()).needs_relist());
        assert_eq!(status(restored).retry_after(), Some(Duration::from_secs(1)));
        let busy = status(serde_json::json!({"code": 429}));
        assert!(!busy.needs_relist());
        assert_eq!(busy.to_string(), "the API server responded with 429");
        assert!(status(serde_json::json!("text")).retry_after().is_none());
    }

    #[test]
    fn a_refusal_is_final_unless_it_passes_by_itself() {
        let is_permanent = |code| {
            ApiError::from_status(None, &serde_json::json!({ "code": code }), None).is_permanent()
        };
        for code in [400, 403, 404, 405, 413, 422] {
            assert!(is_permanent(code), "{code}");
        }
        for code in [401, 408, 409, 429, 500, 503, 504] {
            assert!(!is_permanent(code), "{code}");
        }
    }
}
