//! The same policy inside somebody else's server: a `tower::Layer`.
//!
//! The server says who is connected by putting an [`Arc<Peer>`] into each request's extensions; a
//! request without one is refused. Everything else is as in the sidecar: one snapshot per request, the
//! canonical target, effects, rate limits, records, and an open response ends when its permission is
//! lost. Audited permits and errors are logged by the recorder alone.
//! What a server goes on reading of a request's body is its own: it ends with the response, so that a
//! client that takes no response may send on until the server drops it. The sidecar watches both.

mod body;

pub use body::{EndedByPolicy, PolicyBody};

use super::effects::{self, Plan};
use super::gate::{Forward, Gate, Refusal, Verdict};
use crate::headers;
use crate::informed::Informed;
use crate::record::{Decided, Recorder, Told};
use crate::respond::{self, Answer, Asker};
use crate::store::{InForce, PolicyStore, PortHandle};
use crate::telemetry::{Elapsed, Outcome, SeriesId, Telemetry};
use body::{BoxError, Watch};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use policy_core::{Denial, Denied, Permit};
use policy_tls::peer::Peer;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio_stream::wrappers::WatchStream;
use tower_layer::Layer;
use tower_service::Service;

/// Enforces the policy of one port. Clones share the store.
#[derive(Clone)]
pub struct PolicyLayer {
    shared: Arc<Shared>,
}

struct Shared {
    handle: PortHandle,
    telemetry: Arc<Telemetry>,
    workload: Arc<str>,
    recorder: Option<Arc<dyn Recorder>>,
}

/// A server that lets through what policy permits. Made by [`PolicyLayer`].
pub struct PolicyService<S> {
    inner: S,
    shared: Arc<Shared>,
    /// What is known of the connection that the last request came by.
    last: Option<(Arc<Peer>, Gate)>,
}

impl PolicyLayer {
    /// Enforces what `store` holds for `port`; `workload` is the name in records.
    pub fn new(store: &PolicyStore, port: NonZeroU16, workload: &str) -> Self {
        let shared = Shared {
            handle: store.port(port),
            telemetry: Arc::clone(store.telemetry()),
            workload: workload.into(),
            recorder: None,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Hands one record per request to `recorder`.
    #[must_use]
    pub fn with_recorder(self, recorder: Arc<dyn Recorder>) -> Self {
        let Shared { handle, telemetry, workload, recorder: _ } = &*self.shared;
        let shared = Shared {
            handle: handle.clone(),
            telemetry: Arc::clone(telemetry),
            workload: Arc::clone(workload),
            recorder: Some(recorder),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl std::fmt::Debug for PolicyLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyLayer").field("port", &self.shared.handle.port()).finish()
    }
}

impl<S> Layer<S> for PolicyLayer {
    type Service = PolicyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyService { inner, shared: Arc::clone(&self.shared), last: None }
    }
}

impl<S: Clone> Clone for PolicyService<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared), last: None }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for PolicyService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for PolicyService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Response = Response<PolicyBody<R>>;
    type Error = S::Error;
    type Future = PolicyFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        let started = Instant::now();
        let peer = head.extensions.get::<Arc<Peer>>().cloned();
        let recording = self.shared.recorder.is_some();
        let told = recording.then(|| Box::new(Told::of(&head)));
        let asker = Asker::of(&head, peer.as_ref().is_some_and(|peer| peer.is_meshed()));
        headers::clean_reserved(&mut head.headers);
        headers::join_cookies(&mut head.headers);
        let shared = Arc::clone(&self.shared);
        let mut asking = Asking { shared, asker, started, told, peer };
        let Some(peer) = asking.peer.clone() else {
            // Who is not known is nobody.
            tracing::error!("a request without a `Peer` in its extensions was refused");
            let denial = Denial { reason: Denied::Unauthorized, route: None };
            return asking.refuse(&Refusal {
                answer: Answer::Denied(denial.reason),
                decision: Err(denial),
                policy: None,
            });
        };
        // Subscribed before the policy is looked at, so that no change falls in between.
        let changed = WatchStream::from_changes(asking.shared.handle.changed());
        let verdict = {
            let live = asking.shared.handle.live();
            self.gate(&peer).judge(&live, &peer, &mut head, started)
        };
        let Forward { permit, plan, kept, policy, series } = match verdict {
            Verdict::Forward(forward) => forward,
            Verdict::Refuse(refusal) => return asking.refuse(&refusal),
        };
        if let Some(told) = &mut asking.told {
            told.judged(&kept);
        }
        if policy.informs() {
            // The server is the application itself and no hop on the way to it.
            if Informed::new(&peer, None).tell(&mut head.headers).is_err() {
                let (answer, policy) = (Answer::HeadTooLarge, Some(policy));
                return asking.refuse(&Refusal { answer, decision: Ok(permit), policy });
            }
        }
        let deadline = plan.timeout.and_then(|bound| started.checked_add(bound));
        let deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at.into())));
        let watch = Watch { handle: asking.shared.handle.clone(), peer, kept, changed, deadline };
        if let Some(series) = policy.counters.series(0, series) {
            series.request();
        }
        let permitted = Permitted { permit, plan, policy, series };
        let inner = self.inner.call(Request::from_parts(head, body));
        let open = Some(Box::new((asking, permitted, watch)));
        PolicyFuture { state: FutureState::Open { inner, open } }
    }
}

impl<S> PolicyService<S> {
    /// The gate of the peer's connection; a new one for another peer.
    fn gate(&mut self, peer: &Arc<Peer>) -> &mut Gate {
        let telemetry = &self.shared.telemetry;
        let fresh = || (Arc::clone(peer), Gate::new(telemetry.caller(&peer.as_tls()), 0));
        if self.last.as_ref().is_some_and(|(last, _)| !Arc::ptr_eq(last, peer)) {
            self.last = None;
        }
        let (_, gate) = self.last.get_or_insert_with(fresh);
        gate
    }
}

/// What is known of a request when it is answered.
struct Asking {
    shared: Arc<Shared>,
    asker: Asker,
    started: Instant,
    told: Option<Box<Told>>,
    peer: Option<Arc<Peer>>,
}

struct Permitted {
    permit: Permit,
    plan: Plan,
    policy: Arc<InForce>,
    series: SeriesId,
}

impl Permitted {
    /// Counts the answer. What the server sends after its head is its own affair.
    fn answered<R>(&self, asking: &Asking, response: &Response<R>) {
        let Some(series) = self.policy.counters.series(0, self.series) else { return };
        let total = asking.started.elapsed();
        let grpc = asking.asker.is_grpc().then(|| headers::grpc_status(response.headers()));
        let outcome =
            Outcome { status: response.status().as_u16(), grpc: grpc.flatten(), broken: false };
        series.first_byte(total);
        series.ended(outcome, Elapsed { upload: Duration::ZERO, total });
    }
}

impl Asking {
    fn record<R>(
        &self,
        response: &Response<R>,
        policy: Option<&InForce>,
        decision: Result<Permit, Denial>,
    ) {
        let parts = (&self.shared.recorder, &self.told, &self.peer);
        let (Some(recorder), Some(told), Some(peer)) = parts else { return };
        let port = self.shared.handle.port();
        let decided = Decided { at: told.at, port, peer, policy, decision };
        let request = told.request(response, self.started.elapsed(), Duration::ZERO);
        recorder.record(&decided.record(&self.shared.workload, Some(request)));
    }

    fn refuse<F>(&self, refusal: &Refusal) -> PolicyFuture<F> {
        let response = Some(self.answer(refusal));
        PolicyFuture { state: FutureState::Refused { response } }
    }

    fn answer(&self, refusal: &Refusal) -> Response<Bytes> {
        if let (None, Err(denial)) = (&refusal.policy, &refusal.decision) {
            self.shared.telemetry.refused(denial.reason);
        }
        let response = respond::respond(&refusal.answer, &self.asker);
        self.record(&response, refusal.policy.as_deref(), refusal.decision);
        response
    }
}

pin_project! {
    /// An answer to come: the server's, or one given in its place.
    pub struct PolicyFuture<F> {
        #[pin]
        state: FutureState<F>,
    }
}

pin_project! {
    #[project = FutureProjection]
    enum FutureState<F> {
        // Permitted; the server is asked.
        Open {
            #[pin]
            inner: F,
            open: Option<Box<(Asking, Permitted, Watch)>>,
        },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<F> std::fmt::Debug for PolicyFuture<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyFuture").finish_non_exhaustive()
    }
}

impl<F, R, E> Future for PolicyFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<PolicyBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (inner, open) = match self.project().state.project() {
            FutureProjection::Open { inner, open } => (inner, open),
            FutureProjection::Refused { response } => {
                let response = response.take().unwrap_or_default();
                return Poll::Ready(Ok(response.map(PolicyBody::text)));
            }
        };
        let Some((asking, permitted, watch)) = open.as_deref_mut() else { return Poll::Pending };
        if let Some(answer) = watch.poll_end(cx) {
            let decision = answer.instead_of(permitted.permit);
            let policy = Some(Arc::clone(&permitted.policy));
            let response = asking.answer(&Refusal { answer, decision, policy });
            return Poll::Ready(Ok(response.map(PolicyBody::text)));
        }
        let mut response = match ready!(inner.poll(cx)) {
            Ok(response) => response,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Permitted { permit, plan, policy, .. } = &*permitted;
        if plan.response
            && let Err(answer) = effects::change_response(policy, permit, response.headers_mut())
        {
            let (decision, policy) = (Ok(*permit), Some(Arc::clone(policy)));
            let response = asking.answer(&Refusal { answer, decision, policy });
            return Poll::Ready(Ok(response.map(PolicyBody::text)));
        }
        permitted.answered(asking, &response);
        asking.record(&response, Some(policy), Ok(*permit));
        let asker = asking.asker;
        let watch = open.take().map(|open| {
            let (_, _, watch) = *open;
            Box::new(watch)
        });
        Poll::Ready(Ok(response.map(|inner| PolicyBody::open(inner, watch, asker))))
    }
}
