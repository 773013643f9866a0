//! The order of steps for a request: [`admit`] runs before the application is called,
//! [`AdmittedRequest::pass`] or [`AdmittedRequest::refuse`] when the response is there.
//!
//! [`PolicyService`](super::PolicyService) and the sidecar's connections run the same steps. The
//! steps are synchronous and generic over the state of an open request ([`Enforcer::Open`]); each
//! caller calls its application in between. The sidecar does not use the tower service, which takes
//! requests by value: the copies alone are 2.6 % of the instructions of an HTTP/1 request.

pub use super::open_request::{OpenRequest, TimedRequest};

use super::authorizer::{AuthorizeOutcome, Authorizer, Forward, Refusal};
use super::exchange::Exchange;
use super::filters;
use super::timer::Timer;
use crate::headers::{self, ConnectionOptions};
use crate::record::{DecisionInfo, RequestInfo, RequestLine, RequestRecord};
use crate::request_snapshot::RequestSnapshot;
use crate::respond::{self, Answer, Fault, RefusalDetail, ResponseFault, ResponseFormat};
use crate::store::{ActivePolicy, PortHandle};
use crate::telemetry::Telemetry;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, MaxSizeReached, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, Version};
use policy_core::{DecisionId, Denial, Denied, PathHandling, Permit, TargetFault};
use policy_tls::peer::Peer;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A connection that sends requests, as the steps see it.
pub trait Enforcer {
    /// The state of a permitted request while it is open.
    type Open: OpenRequest;

    /// Returns the port whose policy decides.
    fn handle(&self) -> &PortHandle;

    /// Returns the number of the worker, for the counters.
    fn worker(&self) -> usize;

    /// Returns the counters of refusals without a policy.
    fn telemetry(&self) -> &Telemetry;

    /// Returns the client. Requests of an unknown client are refused.
    fn peer(&self) -> Option<&Peer>;

    /// Returns the role of the server.
    fn role(&self) -> Role;

    /// Returns what refusals tell besides their status.
    fn refusal_detail(&self) -> RefusalDetail;

    /// Returns true if records are written.
    fn is_recording(&self) -> bool;

    /// Logs and records a refusal or an audited permit, decided at `now`, and sets the id of its record.
    fn notice(&self, decided: &mut DecisionInfo<'_>, request: RequestLine<'_>, now: Instant);

    /// Writes a record; only called if [`Self::is_recording`].
    fn record(&self, decided: &DecisionInfo<'_>, request: RequestRecord<'_>);

    /// Counts a response that was caused by a failure of the application, or by the head.
    fn failed(&self, answer: &Answer);

    /// Adds the headers about the client ([`ClientHeaders`](crate::client_headers::ClientHeaders)).
    ///
    /// # Errors
    /// The map has no space for more headers.
    fn inform(&self, headers: &mut HeaderMap) -> Result<(), MaxSizeReached>;

    /// Creates the state of a permitted request. The policy may have changed since it was read: the state
    /// compares the policy of the decision with the one in force, where anything can run in between.
    fn open(&self, permitted: PermittedRequest) -> Self::Open;
}

/// The role of an [`Enforcer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Forwards to the application: hop-by-hop fields are removed (RFC 9110 section 7.6).
    Proxy {
        /// Maximum number of header fields of a request.
        request_fields: usize,
        /// Maximum number of header fields of a response.
        response_fields: usize,
        /// Maximum size of an HTTP/2 response's header list; that of HTTP/1 is the codec's to bound.
        response_bytes: usize,
    },
    /// The server is the application itself, and sets its own limits.
    Origin,
}

/// A permitted request, for [`Enforcer::open`].
#[derive(Debug)]
pub struct PermittedRequest {
    /// The snapshot that it is decided on again by.
    pub snapshot: Box<RequestSnapshot>,
    /// The permit.
    pub permit: Permit,
    /// The policy of the decision.
    pub policy: Arc<ActivePolicy>,
    /// The exchange, for the counters.
    pub exchange: Exchange,
}

/// Outcome of the steps before the application is called.
#[derive(Debug)]
pub enum Admission<O> {
    /// The request is forwarded with its head as it is now.
    Admitted(AdmittedRequest<O>),
    /// The request is answered here.
    Refused(LocalResponse),
}

/// A response in the application's place.
#[derive(Debug)]
pub struct LocalResponse {
    /// The response.
    pub response: Response<Bytes>,
    /// The format of responses to the client.
    pub format: ResponseFormat,
}

/// A permitted request until its response begins.
#[derive(Debug)]
pub struct AdmittedRequest<O> {
    context: RequestContext,
    /// Options that concern the connection of the request.
    pub options: ConnectionOptions,
    permit: Permit,
    /// The policy that permitted it.
    pub policy: Arc<ActivePolicy>,
    /// True if there are response filters.
    changes_response: bool,
    /// The open request.
    pub request: TimedRequest<O>,
}

/// The context of a request's response.
#[derive(Debug)]
struct RequestContext {
    format: ResponseFormat,
    started: Instant,
    /// `None` if no records are written.
    info: Option<Box<RequestInfo>>,
    /// The id of the decision's record.
    id: Option<DecisionId>,
}

/// Decides on a request by its connection's `authorizer`, and makes the head canonical for
/// forwarding.
///
/// 1. The request's properties are taken for records.
/// 2. The head is checked against its limits and cleaned.
/// 3. The authorizer decides.
/// 4. The headers about the client are added.
/// 5. The request is counted and registered. Nothing is awaited between the decision and this.
///
/// # Errors
/// The response in the application's place.
pub fn admit<E: Enforcer>(
    enforcer: &E,
    authorizer: Option<&mut Authorizer>,
    head: &mut Parts,
) -> Admission<E::Open> {
    let started = Instant::now();
    let info = enforcer.is_recording().then(|| Box::new(RequestInfo::of(head)));
    let peer = enforcer.peer();
    let meshed = peer.is_some_and(Peer::is_meshed);
    let format = ResponseFormat::of(head, meshed, enforcer.refusal_detail());
    let mut context = RequestContext { format, started, info, id: None };
    let Some(options) = clean(enforcer.role(), head, meshed) else {
        return Admission::Refused(context.too_large(enforcer));
    };
    let (Some(peer), Some(authorizer)) = (peer, authorizer) else {
        return Admission::Refused(context.refuse(enforcer, &missing_peer()));
    };
    if options.orig_proto == Some(Version::HTTP_11) && !headers::names_host(head) {
        return Admission::Refused(context.refuse_noticed(enforcer, head, &missing_host()));
    }
    let outcome = {
        let live = enforcer.handle().live();
        authorizer.authorize(&live, peer, head, started)
    };
    let Forward { permit, plan, snapshot, policy, series } = match outcome {
        AuthorizeOutcome::Forward(forward) => forward,
        AuthorizeOutcome::Refuse(refusal) => {
            return Admission::Refused(context.refuse_noticed(enforcer, head, &refusal));
        }
    };
    if let Some(info) = &mut context.info {
        info.update(&snapshot);
    }
    if permit.is_audited() {
        context.notice(enforcer, head, (Some(&policy), Ok(permit)));
    }
    if policy.informs() && enforcer.inform(&mut head.headers).is_err() {
        let (answer, policy) = (Answer::HeadTooLarge, Some(policy));
        enforcer.failed(&answer);
        return Admission::Refused(
            context.refuse(enforcer, &Refusal { answer, decision: Ok(permit), policy }),
        );
    }
    if let Some(series) = policy.counters.series(enforcer.worker(), series) {
        series.request();
    }
    let mut exchange = Exchange::new(series, started, context.format.is_grpc());
    if let Some(timeouts) = &plan.timeouts {
        exchange.observe(&timeouts.policy);
    }
    let permitted = PermittedRequest { snapshot, permit, policy: Arc::clone(&policy), exchange };
    let open = enforcer.open(permitted);
    let timer = plan.timeouts.and_then(|timeouts| Timer::start(started, *timeouts));
    let request = TimedRequest::new(open, timer);
    let changes_response = plan.response;
    Admission::Admitted(AdmittedRequest {
        context,
        options,
        permit,
        policy,
        changes_response,
        request,
    })
}

/// Checks a head against its limits and cleans it before it is evaluated; `None` if it has too many
/// fields. Fields that only the proxy may set are removed in any role.
fn clean(role: Role, head: &mut Parts, meshed: bool) -> Option<ConnectionOptions> {
    match role {
        Role::Proxy { request_fields, .. } => {
            if head.headers.keys_len() > request_fields {
                return None;
            }
            let options = headers::clean_request(head, meshed);
            // The lines of a cookie are one field by now.
            (head.headers.len() <= request_fields).then_some(options)
        }
        Role::Origin => {
            headers::clean_for_origin(&mut head.headers);
            Some(ConnectionOptions::default())
        }
    }
}

fn missing_peer() -> Refusal {
    tracing::error!("a request without a `Peer` in its extensions was refused");
    without_policy(Denied::Unauthorized)
}

/// HTTP/1.1 without a host, which HTTP/2 carries: HTTP/2 itself asks for none.
fn missing_host() -> Refusal {
    without_policy(Denied::Target(TargetFault::MissingHost))
}

/// A refusal that no policy was asked about.
fn without_policy(reason: Denied) -> Refusal {
    let denial = Denial { reason, route: None };
    Refusal { answer: Answer::Denied(reason), decision: Err(denial), policy: None }
}

impl<O: OpenRequest> AdmittedRequest<O> {
    /// Returns the format of responses to the client.
    pub fn format(&self) -> ResponseFormat {
        self.context.format
    }

    /// Returns true if the request is recorded.
    pub fn is_recorded(&self) -> bool {
        self.context.info.is_some()
    }

    /// Turns the application's head into the client's, records it and counts it. The application
    /// took `waited` of the time since the request arrived.
    ///
    /// Returns a response in its place if the application switched protocols without an upgrade
    /// request, or if the head has too many fields.
    #[must_use = "the client gets this answer in place of the application's"]
    pub fn pass<E, B>(
        &mut self,
        enforcer: &E,
        response: &mut Response<B>,
        waited: Duration,
    ) -> Option<LocalResponse>
    where
        E: Enforcer<Open = O>,
    {
        if let Err(answer) = self.filter(enforcer.role(), response) {
            return Some(self.refuse(enforcer, answer, waited));
        }
        self.context.record(enforcer, response, (Some(&self.policy), Ok(self.permit)), waited);
        self.request.answered(response, self.context.started, waited);
        None
    }

    /// Answers in the application's place. The request ends with it.
    pub fn refuse<E>(&mut self, enforcer: &E, answer: Answer, waited: Duration) -> LocalResponse
    where
        E: Enforcer<Open = O>,
    {
        enforcer.failed(&answer);
        let decision = answer.decision_for(self.permit);
        if decision.is_err() {
            self.context.id = self.request.open.refusal();
        }
        let policy = Some(Arc::clone(&self.policy));
        let refused = self.context.refuse(enforcer, &Refusal { answer, decision, policy });
        let open = &mut self.request.open;
        open.begun(&refused.response, self.context.started, waited);
        open.ended(false);
        refused
    }

    /// Splits off the filter of the interim responses that precede the response.
    pub fn forwarding(&mut self) -> (&mut TimedRequest<O>, ResponseFilter<'_>) {
        let filter = ResponseFilter {
            policy: &self.policy,
            permit: &self.permit,
            changes: self.changes_response,
            version: self.context.format.version(),
        };
        (&mut self.request, filter)
    }

    fn filter<B>(&mut self, role: Role, response: &mut Response<B>) -> Result<(), Answer> {
        let (status, listed) = (response.status(), response.version() >= Version::HTTP_2);
        let switching = status == StatusCode::SWITCHING_PROTOCOLS;
        if role != Role::Origin && switching && !self.options.upgrade {
            return Err(Answer::Upstream(Fault::Response(ResponseFault::Upgrade)));
        }
        self.forwarding().1.change(role, response.headers_mut(), (status, listed))
    }
}

/// Changes of the head of a response on its way to the client.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFilter<'a> {
    policy: &'a ActivePolicy,
    permit: &'a Permit,
    /// True if the policy changes responses.
    changes: bool,
    /// The version of the client's side.
    version: Version,
}

impl ResponseFilter<'_> {
    /// Turns the head of an interim response into the client's, with the changes of a final head.
    /// Returns false if the client gets none: it speaks HTTP/1.0, or the head has too many fields.
    pub fn interim(&self, role: Role, headers: &mut HeaderMap) -> bool {
        // They frame no body (RFC 9110 section 15.2).
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        self.version > Version::HTTP_10
            && self.change(role, headers, (StatusCode::CONTINUE, true)).is_ok()
    }

    /// `listed`: the head came over HTTP/2, whose library does not bound its bytes.
    fn change(
        &self,
        role: Role,
        headers: &mut HeaderMap,
        (status, listed): (StatusCode, bool),
    ) -> Result<(), Answer> {
        if let Role::Proxy { response_fields, response_bytes, .. } = role {
            let is_long = listed && headers::list_size(headers) > response_bytes;
            if headers.len() > response_fields || is_long {
                return Err(Answer::Upstream(Fault::Response(ResponseFault::TooLarge)));
            }
            headers::clean_response(headers, status, self.version);
        }
        if self.changes {
            filters::change_response(self.policy, self.permit, headers)?;
            if role != Role::Origin && self.version >= Version::HTTP_2 {
                headers::clean_for_http2(headers);
            }
        }
        Ok(())
    }
}

impl RequestContext {
    /// Logs and records the refusal of `head`, and answers in the application's place.
    fn refuse_noticed<E: Enforcer>(
        &mut self,
        enforcer: &E,
        head: &Parts,
        refusal: &Refusal,
    ) -> LocalResponse {
        self.notice(enforcer, head, (refusal.policy.as_deref(), refusal.decision));
        self.refuse(enforcer, refusal)
    }

    /// Answers in the application's place.
    fn refuse<E: Enforcer>(&self, enforcer: &E, refusal: &Refusal) -> LocalResponse {
        if let (None, Err(denial)) = (&refusal.policy, &refusal.decision) {
            enforcer.telemetry().refused(denial.reason);
        }
        let response = respond::respond(&refusal.answer, &self.format.recorded_as(self.id));
        let by = (refusal.policy.as_deref(), refusal.decision);
        self.record(enforcer, &response, by, Duration::ZERO);
        LocalResponse { response, format: self.format }
    }

    /// Answers a head with too many fields, as HTTP/1 does before there is a request: without a
    /// decision.
    fn too_large<E: Enforcer>(&self, enforcer: &E) -> LocalResponse {
        let answer = Answer::HeadTooLarge;
        enforcer.failed(&answer);
        LocalResponse { response: respond::respond(&answer, &self.format), format: self.format }
    }

    /// Logs and records a decision on the request of `head`.
    #[cold]
    fn notice<E: Enforcer>(
        &mut self,
        enforcer: &E,
        head: &Parts,
        (policy, decision): (Option<&ActivePolicy>, Result<Permit, Denial>),
    ) {
        let Some(peer) = enforcer.peer() else { return };
        let paths = policy.map(|policy| policy.evaluator.policy().paths);
        let canonical = paths != Some(PathHandling::Raw);
        let request = RequestLine::of(head, canonical);
        let (at, port) = (SystemTime::now(), enforcer.handle().port());
        let mut decided = DecisionInfo { at, port, peer, policy, decision, id: None };
        enforcer.notice(&mut decided, request, self.started);
        self.id = decided.id;
    }

    /// Passes the decision and the response to the recorder.
    fn record<E: Enforcer, B>(
        &self,
        enforcer: &E,
        response: &Response<B>,
        (policy, decision): (Option<&ActivePolicy>, Result<Permit, Denial>),
        waited: Duration,
    ) {
        let (Some(info), Some(peer)) = (&self.info, enforcer.peer()) else { return };
        let port = enforcer.handle().port();
        let request = info.request(response, self.started.elapsed(), waited);
        let (at, id) = (info.at, self.id);
        enforcer.record(&DecisionInfo { at, port, peer, policy, decision, id }, request);
    }
}
