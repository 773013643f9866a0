//! The order of steps for a request, written once: [`admit`] runs before the application is asked,
//! [`AdmittedRequest::pass`] or [`AdmittedRequest::refuse`] once there is an answer.
//!
//! [`PolicyService`](super::PolicyService) and the sidecar's connections run the same steps. The steps
//! are synchronous and generic over what is kept of an open request ([`Enforcer::Open`]); each caller
//! asks its application in its own way in between. The sidecar does not call the tower service, because
//! `tower_service::Service` takes requests by value: the copies alone are 2.6 % of the instructions of
//! an HTTP/1 request.

use super::authorizer::{AuthorizeOutcome, Authorizer, Forward, Refusal};
use super::exchange::Exchange;
use super::filters;
use crate::headers::{self, ConnectionOptions};
use crate::record::{DecisionInfo, RequestInfo, RequestLine, RequestRecord};
use crate::request_snapshot::RequestSnapshot;
use crate::respond::{self, Answer, Fault, ResponseFormat};
use crate::store::{InForce, PortHandle};
use crate::telemetry::Telemetry;
use bytes::Bytes;
use http::header::MaxSizeReached;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, Version};
use policy_core::{Denial, Denied, PathHandling, Permit};
use policy_tls::peer::Peer;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::Sleep;

/// A connection that requests come by, as the steps use it.
pub trait Enforcer {
    /// What is kept of a permitted request while it is open.
    type Open: OpenRequest;
    /// A subscription to changes of the policy. Taken before the policy is looked at, so that no change
    /// falls in between; `()` where nothing runs in between.
    type Changes;

    /// The port whose policy decides.
    fn handle(&self) -> &PortHandle;

    /// The number of the worker in counters.
    fn worker(&self) -> usize;

    /// Counters of refusals without a policy.
    fn telemetry(&self) -> &Telemetry;

    /// The client. Whoever is not known is nobody, and refused.
    fn peer(&self) -> Option<&Peer>;

    /// Where requests go.
    fn role(&self) -> Role;

    /// Whether records are taken.
    fn is_recording(&self) -> bool;

    /// Tells the log of a refusal or an audited permit, decided at `now`.
    fn notice(&self, decided: &DecisionInfo<'_>, request: RequestLine<'_>, now: Instant);

    /// Takes a record; only called while records are taken.
    fn record(&self, decided: &DecisionInfo<'_>, request: RequestRecord<'_>);

    /// Counts an answer that a failure made, the application's or the head's.
    fn failed(&self, answer: &Answer);

    /// Tells the application of the client ([`ClientHeaders`](crate::client_headers::Informed)).
    ///
    /// # Errors
    /// There are more headers than a map can hold.
    fn inform(&self, headers: &mut HeaderMap) -> Result<(), MaxSizeReached>;

    /// Subscribes to changes of the policy.
    fn changes(&self) -> Self::Changes;

    /// Keeps a permitted request open.
    fn open(&self, changes: Self::Changes, permitted: PermittedRequest) -> Self::Open;
}

/// A request that is open: it is decided on again whenever the policy changes.
pub trait OpenRequest {
    /// Why permission was lost, or a promise to wake `cx` when it is.
    fn poll_revoked(&mut self, cx: &mut Context<'_>) -> Option<Denied>;

    /// The answer's head is there. The request came at `started`; of the time since then, `waited` was
    /// spent by the application.
    fn begun<B>(&mut self, response: &Response<B>, started: Instant, waited: Duration);

    /// The answer ended; `broken`: before it was complete.
    fn ended(&mut self, broken: bool);
}

/// Where the requests of an [`Enforcer`] go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// On to the application: what concerns one connection alone is taken out (RFC 9110 section 7.6).
    Proxy {
        /// The most header fields of a request.
        request_fields: usize,
        /// The most header fields of a response.
        response_fields: usize,
    },
    /// Nowhere: the server is the application itself, and sets its own bounds.
    Origin,
}

/// A permitted request, for whoever keeps it open.
#[derive(Debug)]
pub struct PermittedRequest {
    /// What decides on it again.
    pub snapshot: Box<RequestSnapshot>,
    /// What permits it.
    pub permit: Permit,
    /// The policy that decided.
    pub policy: Arc<InForce>,
    /// What is counted of it.
    pub exchange: Exchange,
}

/// What becomes of a request before the application is asked.
#[derive(Debug)]
pub enum Admission<O> {
    /// It is forwarded, as its head now stands.
    Admitted(AdmittedRequest<O>),
    /// It is answered here.
    Refused(LocalResponse),
}

/// An answer in the application's place.
#[derive(Debug)]
pub struct LocalResponse {
    /// The answer.
    pub response: Response<Bytes>,
    /// Who gets it.
    pub format: ResponseFormat,
}

/// A permitted request, until its answer begins.
#[derive(Debug)]
pub struct AdmittedRequest<O> {
    context: RequestContext,
    /// What the request asks of the connection that carries it.
    pub options: ConnectionOptions,
    permit: Permit,
    policy: Arc<InForce>,
    /// Whether policy changes the response's head.
    changes_response: bool,
    /// The request as it is kept open.
    pub request: TimedRequest<O>,
}

/// An open request and the time until which its answer must be complete.
#[derive(Debug)]
pub struct TimedRequest<O> {
    /// The open request.
    pub open: O,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// What is known of a request when it is answered.
#[derive(Debug)]
struct RequestContext {
    format: ResponseFormat,
    started: Instant,
    /// Absent where nobody records.
    info: Option<Box<RequestInfo>>,
}

/// Decides on a request of the connection whose gate is `authorizer`, and makes the head what is forwarded.
///
/// 1. What records tell of the request is taken down.
/// 2. The head is bounded and cleaned.
/// 3. The gate decides.
/// 4. The application is told of the client.
/// 5. The request is counted and kept open. Nothing is awaited between the decision and this, so that
///    no change of the policy falls in between.
///
/// # Errors
/// The answer in the application's place.
pub fn admit<E: Enforcer>(
    enforcer: &E,
    authorizer: Option<&mut Authorizer>,
    head: &mut Parts,
) -> Admission<E::Open> {
    let started = Instant::now();
    let info = enforcer.is_recording().then(|| Box::new(RequestInfo::of(head)));
    let peer = enforcer.peer();
    let meshed = peer.is_some_and(Peer::is_meshed);
    let mut context = RequestContext { format: ResponseFormat::of(head, meshed), started, info };
    let Some(options) = clean(enforcer.role(), head, meshed) else {
        return Admission::Refused(context.too_large(enforcer));
    };
    let (Some(peer), Some(authorizer)) = (peer, authorizer) else {
        return Admission::Refused(context.refuse(enforcer, &missing_peer()));
    };
    let changes = enforcer.changes();
    let outcome = {
        let live = enforcer.handle().live();
        authorizer.authorize(&live, peer, head, started)
    };
    let Forward { permit, plan, snapshot, policy, series } = match outcome {
        AuthorizeOutcome::Forward(forward) => forward,
        AuthorizeOutcome::Refuse(refusal) => {
            context.notice(enforcer, head, (refusal.policy.as_deref(), refusal.decision));
            return Admission::Refused(context.refuse(enforcer, &refusal));
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
    let exchange = Exchange::new(series, started, context.format.is_grpc());
    let permitted = PermittedRequest { snapshot, permit, policy: Arc::clone(&policy), exchange };
    let open = enforcer.open(changes, permitted);
    let deadline = plan.timeout.and_then(|bound| started.checked_add(bound));
    let deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at.into())));
    let request = TimedRequest { open, deadline };
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

/// Bounds and cleans a head before anything looks at it; none if it has too many fields. What a client
/// says in our place is taken out in any role.
fn clean(role: Role, head: &mut Parts, meshed: bool) -> Option<ConnectionOptions> {
    match role {
        Role::Proxy { request_fields, .. } => {
            if head.headers.keys_len() > request_fields {
                return None;
            }
            let options = headers::clean_request(head, meshed);
            // A cookie's crumbs are one field by now.
            (head.headers.len() <= request_fields).then_some(options)
        }
        Role::Origin => {
            headers::clean_reserved(&mut head.headers);
            headers::join_cookies(&mut head.headers);
            Some(ConnectionOptions::default())
        }
    }
}

fn missing_peer() -> Refusal {
    tracing::error!("a request without a `Peer` in its extensions was refused");
    let denial = Denial { reason: Denied::Unauthorized, route: None };
    Refusal { answer: Answer::Denied(denial.reason), decision: Err(denial), policy: None }
}

impl<O: OpenRequest> AdmittedRequest<O> {
    /// Who asks.
    pub fn format(&self) -> ResponseFormat {
        self.context.format
    }

    /// Whether the request is recorded.
    pub fn is_recorded(&self) -> bool {
        self.context.info.is_some()
    }

    /// Makes the application's head the one that the client gets, and records and counts it. Of the time
    /// since the request came, `waited` was spent by the application.
    ///
    /// Returns the answer in its place if the application switched without being asked, or if the head
    /// has more fields than can be handled.
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
        self.request.open.begun(response, self.context.started, waited);
        None
    }

    /// Answers in the application's place. The request ends with it.
    pub fn refuse<E>(&mut self, enforcer: &E, answer: Answer, waited: Duration) -> LocalResponse
    where
        E: Enforcer<Open = O>,
    {
        enforcer.failed(&answer);
        let decision = answer.instead_of(self.permit);
        let policy = Some(Arc::clone(&self.policy));
        let refused = self.context.refuse(enforcer, &Refusal { answer, decision, policy });
        let open = &mut self.request.open;
        open.begun(&refused.response, self.context.started, waited);
        open.ended(false);
        refused
    }

    fn filter<B>(&self, role: Role, response: &mut Response<B>) -> Result<(), Answer> {
        let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        if let Role::Proxy { response_fields, .. } = role {
            if switching && !self.options.upgrade {
                return Err(Answer::Upstream(Fault::UnaskedUpgrade));
            }
            if headers.len() > response_fields {
                return Err(Answer::Upstream(Fault::HeadTooLarge));
            }
            headers::clean_response(headers, switching);
        }
        if self.changes_response {
            filters::change_response(&self.policy, &self.permit, headers)?;
            if role != Role::Origin && self.context.format.version() >= Version::HTTP_2 {
                headers::clean_for_http2(headers);
            }
        }
        Ok(())
    }
}

impl<O: OpenRequest> TimedRequest<O> {
    /// Why the request must end now, if it must. Else wakes `cx` when it must.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<Answer> {
        if let Some(reason) = self.open.poll_revoked(cx) {
            return Some(Answer::Denied(reason));
        }
        self.is_timed_out(cx).then_some(Answer::Upstream(Fault::Timeout))
    }

    /// Polls the application for its answer. `Err`: the request must end first. An answer that is there
    /// when time is over is in time.
    pub fn poll_answer<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Answer>> {
        if let Some(reason) = self.open.poll_revoked(cx) {
            return Poll::Ready(Err(Answer::Denied(reason)));
        }
        let timed_out = self.is_timed_out(cx);
        match poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending if timed_out => Poll::Ready(Err(Answer::Upstream(Fault::Timeout))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_timed_out(&mut self, cx: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|at| at.as_mut().poll(cx).is_ready())
    }
}

impl RequestContext {
    /// Answers in the application's place.
    fn refuse<E: Enforcer>(&self, enforcer: &E, refusal: &Refusal) -> LocalResponse {
        if let (None, Err(denial)) = (&refusal.policy, &refusal.decision) {
            enforcer.telemetry().refused(denial.reason);
        }
        let response = respond::respond(&refusal.answer, &self.format);
        let by = (refusal.policy.as_deref(), refusal.decision);
        self.record(enforcer, &response, by, Duration::ZERO);
        LocalResponse { response, format: self.format }
    }

    /// Answers a head with too many fields, as one of HTTP/1 is answered before it is a request: nothing
    /// is decided.
    fn too_large<E: Enforcer>(&self, enforcer: &E) -> LocalResponse {
        let answer = Answer::HeadTooLarge;
        enforcer.failed(&answer);
        LocalResponse { response: respond::respond(&answer, &self.format), format: self.format }
    }

    /// Tells the log of a decision on a request whose head is `head`.
    #[cold]
    fn notice<E: Enforcer>(
        &self,
        enforcer: &E,
        head: &Parts,
        (policy, decision): (Option<&InForce>, Result<Permit, Denial>),
    ) {
        let Some(peer) = enforcer.peer() else { return };
        let paths = policy.map(|policy| policy.evaluator.policy().paths);
        let canonical = paths != Some(PathHandling::Raw);
        let request = RequestLine { method: &head.method, path: head.uri.path(), canonical };
        let (at, port) = (SystemTime::now(), enforcer.handle().port());
        enforcer.notice(&DecisionInfo { at, port, peer, policy, decision }, request, self.started);
    }

    /// Hands the decision and the answer to whoever records.
    fn record<E: Enforcer, B>(
        &self,
        enforcer: &E,
        response: &Response<B>,
        (policy, decision): (Option<&InForce>, Result<Permit, Denial>),
        waited: Duration,
    ) {
        let (Some(info), Some(peer)) = (&self.info, enforcer.peer()) else { return };
        let port = enforcer.handle().port();
        let request = info.request(response, self.started.elapsed(), waited);
        enforcer.record(&DecisionInfo { at: info.at, port, peer, policy, decision }, request);
    }
}
