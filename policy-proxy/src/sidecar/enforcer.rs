//! Implements the request pipeline's [`Enforcer`] for a client's connection
//! ([`policy_enforce::middleware::pipeline`]).

use super::inflight::{HttpConnection, InflightGuard};
use http::header::MaxSizeReached;
use http::{HeaderMap, Response};
use policy_core::{DecisionId, Denied};
use policy_enforce::error::ErrorKind;
use policy_enforce::middleware::pipeline::{Enforcer, OpenRequest, PermittedRequest, Role};
use policy_enforce::middleware::timer::Progress;
use policy_enforce::record::{DecisionInfo, RequestLine, RequestRecord};
use policy_enforce::respond::{Answer, RefusalDetail};
use policy_enforce::store::PortHandle;
use policy_enforce::telemetry::Telemetry;
use policy_http::bounds::MAX_FIELDS;
use policy_tls::peer::Peer;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

/// A connection that enforces policy, kept alive by each of its in-flight requests.
pub(super) struct ConnectionEnforcer<'a>(pub(super) &'a Rc<HttpConnection>);

impl Enforcer for ConnectionEnforcer<'_> {
    type Open = InflightGuard;

    fn handle(&self) -> &PortHandle {
        &self.0.handle
    }

    fn worker(&self) -> usize {
        self.0.worker.index
    }

    fn telemetry(&self) -> &Telemetry {
        self.0.worker.shared.store.telemetry()
    }

    fn peer(&self) -> Option<&Peer> {
        Some(&self.0.peer)
    }

    fn role(&self) -> Role {
        let limits = &self.0.worker.shared.config.limits;
        let request_fields = limits.headers.min(MAX_FIELDS);
        let response_bytes = usize::try_from(limits.response_head).unwrap_or(usize::MAX);
        Role::Proxy { request_fields, response_fields: MAX_FIELDS, response_bytes }
    }

    fn refusal_detail(&self) -> RefusalDetail {
        self.0.worker.shared.config.refusal_detail
    }

    fn is_recording(&self) -> bool {
        self.0.worker.is_recording()
    }

    fn notice(&self, decided: &mut DecisionInfo<'_>, request: RequestLine<'_>, now: Instant) {
        self.0.worker.shared.config.notices.log(decided, Some(request), now);
    }

    fn record(&self, decided: &DecisionInfo<'_>, request: RequestRecord<'_>) {
        self.0.worker.record(decided, request);
    }

    fn failed(&self, answer: &Answer) {
        if let Some(kind) = error_kind(answer) {
            self.0.http_error(kind);
        }
    }

    fn inform(&self, headers: &mut HeaderMap) -> Result<(), MaxSizeReached> {
        self.0.informed.insert(headers)
    }

    /// There is nothing to compare: a worker reviews its connections on its own thread, where nothing runs
    /// between the decision and the registration of the request.
    fn open(&self, permitted: PermittedRequest) -> InflightGuard {
        self.0.register_request(permitted)
    }
}

impl OpenRequest for InflightGuard {
    fn revoked(&mut self) -> Option<Denied> {
        Self::revoked(self)
    }

    fn poll_revoked(&mut self, cx: &mut Context<'_>) -> Option<Denied> {
        Self::poll_revoked(self, cx)
    }

    fn refusal(&self) -> Option<DecisionId> {
        Self::refusal(self)
    }

    fn begun<B>(&mut self, response: &Response<B>, started: Instant, waited: Duration) {
        Self::begun(self, response, (started, waited));
    }

    fn progress(&self) -> Progress {
        Self::progress(self)
    }

    fn ended(&mut self, broken: bool) {
        Self::ended(self, broken);
    }
}

/// The error kind of an answer; none if the answer is a decision.
fn error_kind(answer: &Answer) -> Option<ErrorKind> {
    match answer {
        Answer::Upstream(fault) => Some(fault.kind()),
        Answer::Overloaded => Some(ErrorKind::TooManyRequests),
        Answer::HeadTooLarge => Some(ErrorKind::RequestHeadTooLarge),
        Answer::BadBody => Some(ErrorKind::BadRequestBody),
        Answer::Gateway
        | Answer::Denied(_)
        | Answer::Limited(_)
        | Answer::Redirect { .. }
        | Answer::InvalidRedirect
        | Answer::Failure { .. } => None,
    }
}
