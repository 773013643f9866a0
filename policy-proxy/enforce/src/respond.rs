//! Local responses: one exhaustive match from answer to status, gRPC code and text.
//!
//! The gRPC format is chosen by the request: HTTP/2 with `content-type: application/grpc…`. Texts
//! are sent to meshed peers only, except for 400, which describes only the client's own request
//! (docs/spec/proxy.md 3.7). The `l5d-proxy-error` of a denial is its reason, verbatim; `grpc-message`
//! is Linkerd's text where Linkerd has one, because programs display and compare it.

mod fault;

pub use fault::{Exceeded, Fault, ResponseFault};

use crate::headers::{DECISION, PROXY_CONNECTION, PROXY_ERROR};
use crate::limiter::RateLimitExceeded;
use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, Version};
use policy_core::{DecisionId, Denial, Denied, Permit};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

/// A response in the application's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Denied by policy, or because there is none.
    Denied(Denied),
    /// Refused by a rate limit.
    Limited(RateLimitExceeded),
    /// Redirected.
    Redirect {
        /// A 3xx status.
        status: StatusCode,
        /// The location.
        location: HeaderValue,
    },
    /// A redirect that cannot be built from this request.
    InvalidRedirect,
    /// A failure injected by policy.
    Failure {
        /// The HTTP status.
        status: StatusCode,
        /// The gRPC status.
        grpc: u16,
        /// The message, for meshed peers.
        message: Arc<str>,
    },
    /// A gateway was requested, which this proxy is not.
    Gateway,
    /// Too many requests wait for the application.
    Overloaded,
    /// The request's head has too many fields, or bytes.
    HeadTooLarge,
    /// The client's request body is malformed, or ended early.
    BadBody,
    /// The application did not answer.
    Upstream(Fault),
}

impl From<Fault> for Answer {
    fn from(fault: Fault) -> Self {
        Self::Upstream(fault)
    }
}

/// The properties of a request and its client that determine the format of a local response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFormat {
    version: Version,
    grpc: bool,
    meshed: bool,
    detail: RefusalDetail,
    /// The id of the record of the request's refusal.
    decision: Option<DecisionId>,
}

/// What local responses tell besides their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusalDetail {
    /// The reason: to meshed peers, and of a malformed request to everybody.
    #[default]
    Reason,
    /// Nothing.
    Status,
}

impl RefusalDetail {
    /// Every value, in the order of the variants.
    pub const ALL: [Self; 2] = [Self::Reason, Self::Status];

    /// The value as settings spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reason => "reason",
            Self::Status => "status",
        }
    }
}

/// The parts of a local response.
struct Wording {
    status: StatusCode,
    grpc: u16,
    text: Cow<'static, str>,
    /// The `grpc-message` if it differs from `text`.
    message: Option<Cow<'static, str>>,
    /// True if the connection is closed after the response.
    close: bool,
}

impl Wording {
    /// Sets a `grpc-message`.
    fn with_grpc_message(self, message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    fn message(&self) -> &str {
        self.message.as_ref().unwrap_or(&self.text)
    }
}

impl Answer {
    /// Returns the decision to record for a permitted request that is answered with this after all.
    pub fn decision_for(&self, permit: Permit) -> Result<Permit, Denial> {
        match self {
            Self::Denied(reason) => Err(Denial { reason: *reason, route: permit.route() }),
            Self::Limited(_) => Err(Denial { reason: Denied::RateLimited, route: permit.route() }),
            Self::Redirect { .. }
            | Self::InvalidRedirect
            | Self::Failure { .. }
            | Self::Gateway
            | Self::Overloaded
            | Self::HeadTooLarge
            | Self::BadBody
            | Self::Upstream(_) => Ok(permit),
        }
    }
}

impl ResponseFormat {
    /// Determines the format from a request's head. `meshed`: the peer proved an identity.
    pub fn of(head: &Parts, meshed: bool, detail: RefusalDetail) -> Self {
        Self { version: head.version, grpc: is_grpc(head), meshed, detail, decision: None }
    }

    /// Sets the id of the record of the request's refusal.
    #[must_use]
    pub fn recorded_as(self, decision: Option<DecisionId>) -> Self {
        Self { decision, ..self }
    }

    /// Adds the id of the refusal's record, if the client learns more than the status.
    fn add_decision(&self, answer: &Answer, headers: &mut http::HeaderMap) {
        let refused = matches!(answer, Answer::Denied(_) | Answer::Limited(_));
        if let Some(id) = self.decision.filter(|_| refused && self.tells_reason()) {
            headers.insert(DECISION, id_value(id));
        }
    }

    /// Returns true if the client learns more than the status.
    fn tells_reason(&self) -> bool {
        self.meshed && self.detail == RefusalDetail::Reason
    }

    /// Returns true if responses are in the gRPC format.
    pub fn is_grpc(&self) -> bool {
        self.grpc
    }

    /// Returns the version of the client's side.
    pub fn version(&self) -> Version {
        self.version
    }
}

/// Builds the response in the client's format. A gRPC response has no body (trailers-only).
pub fn respond(answer: &Answer, format: &ResponseFormat) -> Response<Bytes> {
    let wording = wording_of(answer);
    let mut response =
        if format.grpc { grpc(&wording, format) } else { http(answer, &wording, format) };
    format.add_decision(answer, response.headers_mut());
    if wording.close {
        let close = HeaderValue::from_static("close");
        if format.meshed {
            response.headers_mut().insert(PROXY_CONNECTION, close.clone());
        }
        if format.version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, close);
        }
    }
    response
}

/// Returns `grpc-status` and, for meshed peers, `grpc-message` and the id of the record, for a response
/// that has already begun.
pub fn trailers(answer: &Answer, format: &ResponseFormat) -> http::HeaderMap {
    let wording = wording_of(answer);
    let mut trailers = http::HeaderMap::with_capacity(3);
    trailers.insert(GRPC_STATUS, HeaderValue::from(wording.grpc));
    if format.tells_reason() {
        trailers.insert(GRPC_MESSAGE, percent_encoded(wording.message()));
    }
    format.add_decision(answer, &mut trailers);
    trailers
}

fn http(answer: &Answer, wording: &Wording, format: &ResponseFormat) -> Response<Bytes> {
    let body = match answer {
        Answer::Denied(Denied::Target(fault)) if format.detail == RefusalDetail::Reason => {
            Bytes::from_static(fault.as_str().as_bytes())
        }
        Answer::Denied(_)
        | Answer::Limited(_)
        | Answer::Redirect { .. }
        | Answer::InvalidRedirect
        | Answer::Failure { .. }
        | Answer::Gateway
        | Answer::Overloaded
        | Answer::HeadTooLarge
        | Answer::BadBody
        | Answer::Upstream(_) => Bytes::new(),
    };
    let length = match body.len() {
        0 => HeaderValue::from_static("0"),
        length => HeaderValue::from(length),
    };
    let text = (!body.is_empty()).then(|| HeaderValue::from_static("text/plain"));
    let mut response = Response::new(body);
    *response.status_mut() = wording.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, length);
    if let Some(text) = text {
        headers.insert(CONTENT_TYPE, text);
    }
    if let Answer::Redirect { location, .. } = answer {
        headers.insert(LOCATION, location.clone());
    }
    if format.tells_reason() {
        headers.insert(PROXY_ERROR, header_value(&wording.text));
    }
    response
}

fn grpc(wording: &Wording, format: &ResponseFormat) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, HeaderValue::from(wording.grpc));
    if format.tells_reason() {
        headers.insert(GRPC_MESSAGE, percent_encoded(wording.message()));
        headers.insert(PROXY_ERROR, header_value(&wording.text));
    }
    response
}

fn wording_of(answer: &Answer) -> Wording {
    match answer {
        Answer::Denied(reason) => denied(*reason),
        Answer::Limited(exceeded) => {
            let (scope, rate) = (exceeded.scope.as_str(), exceeded.rate);
            let message = format!("{scope} rate limit exceeded: {rate}rps");
            limited().with_grpc_message(message)
        }
        Answer::Redirect { status, .. } => plain(*status, code::NOT_FOUND, "redirected"),
        Answer::InvalidRedirect => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            with_close(plain(status, code::INTERNAL, "unexpected error"))
        }
        Answer::Failure { status, grpc, message } => {
            let text = message.to_string().into();
            Wording { status: *status, grpc: *grpc, text, message: None, close: false }
        }
        Answer::Gateway => plain(StatusCode::NOT_FOUND, code::NOT_FOUND, "bad gateway domain"),
        Answer::Overloaded => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            with_close(plain(status, code::UNAVAILABLE, "service unavailable"))
        }
        Answer::HeadTooLarge => {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            plain(status, code::RESOURCE_EXHAUSTED, "the request's head is too large")
        }
        Answer::BadBody => {
            let text = "the request's body is malformed or incomplete";
            with_close(plain(StatusCode::BAD_REQUEST, code::INVALID_ARGUMENT, text))
        }
        Answer::Upstream(fault) => upstream(*fault),
    }
}

fn denied(reason: Denied) -> Wording {
    let wording = |grpc| plain(status_of(reason), grpc, reason.as_str());
    match reason {
        Denied::NoRoute => wording(code::NOT_FOUND).with_grpc_message("no route found for request"),
        Denied::Unauthorized => {
            wording(code::PERMISSION_DENIED).with_grpc_message("unauthorized request on route")
        }
        Denied::CannotTell => wording(code::PERMISSION_DENIED)
            .with_grpc_message("unauthorized request on route: cannot_tell"),
        Denied::Target(_) => with_close(wording(code::INVALID_ARGUMENT)),
        Denied::TlsRequired
        | Denied::ProtocolMismatch
        | Denied::ServerInvalid
        | Denied::RoutesInvalid
        | Denied::RouteInvalid
        | Denied::ProxyUnsupported
        | Denied::NotDelegated
        | Denied::PortUndeclared => wording(code::PERMISSION_DENIED),
        Denied::PolicyPending | Denied::PolicyExpired => wording(code::UNAVAILABLE),
        Denied::RateLimited => limited(),
        Denied::RateLimitInvalid => wording(code::RESOURCE_EXHAUSTED),
        Denied::Revoked => wording(code::PERMISSION_DENIED)
            .with_grpc_message("revoked: the policy changed while the request was open"),
    }
}

fn upstream(fault: Fault) -> Wording {
    let bad = |text| with_close(plain(StatusCode::BAD_GATEWAY, code::UNAVAILABLE, text));
    let late = |text| plain(StatusCode::GATEWAY_TIMEOUT, code::DEADLINE_EXCEEDED, text);
    match fault {
        Fault::Connect => bad("client error (Connect)"),
        Fault::ConnectTimeout => with_close(late("client error (Connect): timed out")),
        Fault::SourcePorts => bad("client error (Connect): no source port is free"),
        Fault::Broken => bad("the connection to the application broke"),
        Fault::Reset(_) => bad("the application reset the stream"),
        Fault::Closed => bad("the application closed the connection before it answered"),
        Fault::ClosedKept => bad("the application closed the connection that was kept open"),
        Fault::Truncated => bad("the application closed the connection within its response's head"),
        Fault::Stalled => bad("the application took nothing of the request for too long"),
        Fault::Response(fault @ ResponseFault::TooLarge) => Wording {
            // Not to be tried again.
            grpc: code::RESOURCE_EXHAUSTED,
            ..bad(fault.as_str())
        },
        Fault::Response(fault) => bad(fault.as_str()),
        Fault::Timeout(exceeded) => late(exceeded.as_str()),
    }
}

fn limited() -> Wording {
    let reason = Denied::RateLimited;
    plain(status_of(reason), code::RESOURCE_EXHAUSTED, reason.as_str())
        .with_grpc_message("rate limit exceeded")
}

fn plain(status: StatusCode, grpc: u16, text: &'static str) -> Wording {
    Wording { status, grpc, text: Cow::Borrowed(text), message: None, close: false }
}

fn with_close(wording: Wording) -> Wording {
    Wording { close: true, ..wording }
}

fn is_grpc(head: &Parts) -> bool {
    head.version == Version::HTTP_2
        && head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Converts a text that may come from policy, and need not be a legal header value.
fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("unexpected error"))
}

/// Length of an id as text.
const ID_LENGTH: usize = 10;

/// Returns an id as its text, in one allocation.
fn id_value(id: DecisionId) -> HeaderValue {
    let mut text = BytesMut::with_capacity(ID_LENGTH);
    // Writing to memory cannot fail.
    let _ = write!(text, "{id}");
    let unexpected = HeaderValue::from_static("unexpected error");
    HeaderValue::from_maybe_shared(text.freeze()).unwrap_or(unexpected)
}

/// Percent-encodes a message (gRPC over HTTP/2, *Responses*): space to `~` except `%` stay, every
/// other byte is `%XX`.
fn percent_encoded(text: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    header_value(&encoded)
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// gRPC status codes.
mod code {
    pub(super) const INVALID_ARGUMENT: u16 = 3;
    pub(super) const DEADLINE_EXCEEDED: u16 = 4;
    pub(super) const NOT_FOUND: u16 = 5;
    pub(super) const PERMISSION_DENIED: u16 = 7;
    pub(super) const RESOURCE_EXHAUSTED: u16 = 8;
    pub(super) const INTERNAL: u16 = 13;
    pub(super) const UNAVAILABLE: u16 = 14;
}

/// Returns the HTTP status of a denial.
pub fn status_of(reason: Denied) -> StatusCode {
    match reason {
        Denied::NoRoute => StatusCode::NOT_FOUND,
        Denied::Target(_) => StatusCode::BAD_REQUEST,
        Denied::RateLimited | Denied::RateLimitInvalid => StatusCode::TOO_MANY_REQUESTS,
        Denied::PolicyPending | Denied::PolicyExpired => StatusCode::SERVICE_UNAVAILABLE,
        Denied::Unauthorized
        | Denied::CannotTell
        | Denied::TlsRequired
        | Denied::ProtocolMismatch
        | Denied::ServerInvalid
        | Denied::RoutesInvalid
        | Denied::RouteInvalid
        | Denied::ProxyUnsupported
        | Denied::NotDelegated
        | Denied::PortUndeclared
        | Denied::Revoked => StatusCode::FORBIDDEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::Scope;
    use policy_core::TargetFault;
    use std::num::NonZeroU32;

    fn format(grpc: bool, meshed: bool) -> ResponseFormat {
        let version = if grpc { Version::HTTP_2 } else { Version::HTTP_11 };
        ResponseFormat { version, grpc, meshed, detail: RefusalDetail::Reason, decision: None }
    }

    #[track_caller]
    fn check(answer: &Answer, status: u16, grpc: &str) {
        let response = respond(answer, &format(false, false));
        assert_eq!(response.status(), status);
        assert!(!response.headers().contains_key(PROXY_ERROR), "a stranger gets no text");
        let response = respond(answer, &format(true, false));
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[GRPC_STATUS], grpc);
        assert!(!response.headers().contains_key(GRPC_MESSAGE));
        assert!(response.body().is_empty());
        assert!(respond(answer, &format(false, true)).headers().contains_key(PROXY_ERROR));
        assert!(respond(answer, &format(true, true)).headers().contains_key(GRPC_MESSAGE));
    }

    #[test]
    fn every_answer_has_its_status_in_both_forms() {
        use Denied as D;
        let denials = [
            (D::NoRoute, 404, "5"),
            (D::Unauthorized, 403, "7"),
            (D::CannotTell, 403, "7"),
            (D::Target(TargetFault::DotSegment), 400, "3"),
            (D::TlsRequired, 403, "7"),
            (D::ProtocolMismatch, 403, "7"),
            (D::ServerInvalid, 403, "7"),
            (D::RoutesInvalid, 403, "7"),
            (D::RouteInvalid, 403, "7"),
            (D::ProxyUnsupported, 403, "7"),
            (D::PortUndeclared, 403, "7"),
            (D::PolicyPending, 503, "14"),
            (D::PolicyExpired, 503, "14"),
            (D::RateLimited, 429, "8"),
            (D::RateLimitInvalid, 429, "8"),
            (D::Revoked, 403, "7"),
        ];
        for (reason, status, grpc) in denials {
            check(&Answer::Denied(reason), status, grpc);
        }
        let location = HeaderValue::from_static("http://a/");
        check(&Answer::Redirect { status: StatusCode::FOUND, location }, 302, "5");
        check(&Answer::InvalidRedirect, 500, "13");
        check(&Answer::Gateway, 404, "5");
        check(&Answer::Overloaded, 503, "14");
        check(&Answer::HeadTooLarge, 431, "8");
        check(&Answer::Upstream(Fault::Response(ResponseFault::TooLarge)), 502, "8");
        check(&Answer::Upstream(Fault::Connect), 502, "14");
        check(&Answer::Upstream(Fault::ConnectTimeout), 504, "4");
        for exceeded in [Exceeded::Request, Exceeded::Response, Exceeded::Idle, Exceeded::Client] {
            check(&Answer::Upstream(Fault::Timeout(exceeded)), 504, "4");
        }
    }

    #[test]
    fn a_refusal_is_told_by_its_reason_in_http_and_by_linkerds_text_in_grpc() {
        for reason in Denied::all() {
            for grpc in [false, true] {
                let response = respond(&Answer::Denied(reason), &format(grpc, true));
                assert_eq!(response.headers()[PROXY_ERROR], reason.as_str());
            }
        }
        for (reason, message) in [
            (Denied::NoRoute, "no route found for request"),
            (Denied::Unauthorized, "unauthorized request on route"),
            (Denied::TlsRequired, "tls_required"),
        ] {
            let answer = Answer::Denied(reason);
            let response = respond(&answer, &format(true, true));
            assert_eq!(response.headers()[GRPC_MESSAGE], message);
            assert_eq!(trailers(&answer, &format(true, true))[GRPC_MESSAGE], message);
        }
    }

    #[test]
    fn a_refusal_tells_its_status_alone_where_that_is_all_it_may_tell() {
        let rate = NonZeroU32::new(7).unwrap();
        let limited = Answer::Limited(RateLimitExceeded { scope: Scope::Identity, rate });
        let timeout = Answer::Upstream(Fault::Timeout(Exceeded::Request));
        let answers = Denied::all().map(Answer::Denied).chain([limited, timeout, Answer::Gateway]);
        for answer in answers {
            for grpc in [false, true] {
                let told = format(grpc, true);
                let silent = ResponseFormat { detail: RefusalDetail::Status, ..told };
                let (told, response) = (respond(&answer, &told), respond(&answer, &silent));
                assert_eq!(response.status(), told.status());
                assert!(response.body().is_empty());
                let mut kept = told.headers().clone();
                for name in [PROXY_ERROR, GRPC_MESSAGE, CONTENT_TYPE] {
                    if name != CONTENT_TYPE || !grpc {
                        kept.remove(name);
                    }
                }
                kept.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
                assert_eq!(*response.headers(), kept, "{answer:?}");
                assert!(!trailers(&answer, &silent).contains_key(GRPC_MESSAGE));
            }
        }
    }

    #[test]
    fn the_id_of_a_refusal_is_for_meshed_clients_alone() {
        let id = DecisionId::new(policy_core::PodPart::of("9f3c4"), 0, 1);
        let told = |answer: &Answer, format: ResponseFormat| {
            let format = format.recorded_as(Some(id));
            let own = |headers: &http::HeaderMap| headers.get(DECISION).cloned();
            (own(respond(answer, &format).headers()), own(&trailers(answer, &format)))
        };
        let denied = Answer::Denied(Denied::Unauthorized);
        let text = Some(HeaderValue::from_static("kwy4000001"));
        for grpc in [false, true] {
            assert_eq!(told(&denied, format(grpc, true)), (text.clone(), text.clone()));
            assert_eq!(told(&denied, format(grpc, false)), (None, None));
            let silent = ResponseFormat { detail: RefusalDetail::Status, ..format(grpc, true) };
            assert_eq!(told(&denied, silent), (None, None));
            // The request was permitted, and perhaps audited.
            assert_eq!(told(&Answer::Upstream(Fault::Connect), format(grpc, true)), (None, None));
        }
    }

    #[test]
    fn a_rate_limit_says_which_and_how_much() {
        let rate = NonZeroU32::new(7).unwrap();
        let answer = Answer::Limited(RateLimitExceeded { scope: Scope::Identity, rate });
        check(&answer, 429, "8");
        let response = respond(&answer, &format(true, true));
        assert_eq!(response.headers()[PROXY_ERROR], "rate_limited");
        let message = percent_encoded("per-identity rate limit exceeded: 7rps");
        assert_eq!(response.headers()[GRPC_MESSAGE], message);
    }

    #[test]
    fn a_timeout_names_its_bound_to_meshed_peers() {
        for (exceeded, word) in [
            (Exceeded::Request, "request"),
            (Exceeded::Response, "response"),
            (Exceeded::Idle, "idle"),
            (Exceeded::Client, "grpc-timeout"),
        ] {
            let answer = Answer::Upstream(Fault::Timeout(exceeded));
            let response = respond(&answer, &format(false, true));
            assert!(response.headers()[PROXY_ERROR].to_str().unwrap().contains(word));
            let trailers = trailers(&answer, &format(true, true));
            assert_eq!(trailers[GRPC_STATUS], "4");
            assert!(trailers[GRPC_MESSAGE].to_str().unwrap().contains(word));
        }
    }

    #[test]
    fn a_bad_request_names_its_fault_to_everybody() {
        let answer = Answer::Denied(Denied::Target(TargetFault::EncodedSlash));
        let response = respond(&answer, &format(false, false));
        assert_eq!(response.body().as_ref(), b"target_encoded_slash");
        assert_eq!(response.headers()[CONNECTION], "close");
    }

    #[test]
    fn grpc_messages_are_percent_encoded() {
        let message = "a\n100% ü".into();
        let status = StatusCode::IM_A_TEAPOT;
        let answer = Answer::Failure { status, grpc: 9, message };
        let response = respond(&answer, &format(true, true));
        assert_eq!(response.headers()[GRPC_MESSAGE], "a%0A100%25 %C3%BC");
        assert_eq!(response.headers()[PROXY_ERROR], "unexpected error");
    }
}
