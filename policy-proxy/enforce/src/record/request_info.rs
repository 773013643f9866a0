//! Builds records from decisions and requests.

use super::entry::{Record, RequestRecord, Verdict};
use crate::request_snapshot::RequestSnapshot;
use crate::store::ActivePolicy;
use http::header::{CONTENT_LENGTH, HOST, HeaderName, USER_AGENT};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Response, Version};
use policy_core::{DecisionId, Denial, Permit};
use policy_tls::peer::Peer;
use std::num::NonZeroU16;
use std::time::{Duration, SystemTime};

/// A decision, for records.
pub struct DecisionInfo<'a> {
    /// Time when the request or connection arrived.
    pub at: SystemTime,
    /// The workload's port.
    pub port: NonZeroU16,
    /// The client.
    pub peer: &'a Peer,
    /// The policy of the decision, which its ids refer to.
    pub policy: Option<&'a ActivePolicy>,
    /// The decision.
    pub decision: Result<Permit, Denial>,
    /// The id of its record, once it is recorded.
    pub id: Option<DecisionId>,
}

/// The properties of a request, for records, taken before it is forwarded.
#[derive(Debug)]
pub struct RequestInfo {
    /// Time when the request arrived.
    pub at: SystemTime,
    method: Method,
    version: Version,
    target: String,
    host: Option<String>,
    request_bytes: Option<u64>,
    user_agent: Option<HeaderValue>,
    trace_id: Option<HeaderValue>,
}

impl DecisionInfo<'_> {
    /// Returns the record of the decision and the request.
    pub fn record<'a>(
        &'a self,
        workload: &'a str,
        request: Option<RequestRecord<'a>>,
    ) -> Record<'a> {
        let evaluator = self.policy.map(|policy| &*policy.evaluator);
        let (verdict, route, authorization) = match &self.decision {
            Ok(permit) => (Verdict::Allowed, permit.route(), Some(permit.authorization())),
            Err(denial) => (Verdict::Denied(denial.reason), denial.route, None),
        };
        let route = route.and_then(|id| evaluator?.rule(id));
        let authorization = authorization.and_then(|id| evaluator?.authorization(id));
        Record {
            at: self.at,
            workload,
            port: self.port,
            peer: self.peer,
            verdict,
            route: route.map(|(route, _)| &route.origin),
            http_route: route.and_then(|(route, _)| Some(route.label.as_ref()?.as_str())),
            authorization: authorization.map(|authorization| &authorization.source),
            id: self.id,
            audited: self.decision.as_ref().is_ok_and(Permit::is_audited),
            request,
        }
    }
}

impl RequestInfo {
    /// Takes the properties of a request as sent.
    pub fn of(head: &Parts) -> Self {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = head.uri.authority().map(Authority::as_str).or(host);
        let trace = TRACE_HEADERS.iter().find_map(|name| head.headers.get(name));
        Self {
            at: SystemTime::now(),
            method: head.method.clone(),
            version: head.version,
            target: head.uri.path_and_query().map_or(String::new(), ToString::to_string),
            host: host.map(ToOwned::to_owned),
            request_bytes: length(&head.headers),
            user_agent: head.headers.get(USER_AGENT).cloned(),
            trace_id: trace.cloned(),
        }
    }

    /// Replaces target and host by their canonical forms.
    pub fn update(&mut self, snapshot: &RequestSnapshot) {
        snapshot.target().clone_into(&mut self.target);
        self.host = snapshot.authority().map(ToOwned::to_owned);
    }

    /// Returns the record of the request with its response. The application took `waited` of the
    /// `total` time.
    pub fn request<B>(
        &self,
        response: &Response<B>,
        total: Duration,
        waited: Duration,
    ) -> RequestRecord<'_> {
        RequestRecord {
            method: &self.method,
            host: self.host.as_deref(),
            target: &self.target,
            version: self.version,
            status: response.status(),
            request_bytes: self.request_bytes,
            response_bytes: length(response.headers()),
            user_agent: text(self.user_agent.as_ref()),
            trace_id: text(self.trace_id.as_ref()),
            total,
            processing: total.saturating_sub(waited),
        }
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value?.to_str().ok()
}

const TRACE_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-b3-traceid"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-amzn-trace-id"),
];
