//! The steps as a `tower::Layer` for other servers.
//!
//! **The layer belongs around the whole service** ([`PolicyLayer::whole_service`]), outside of every
//! router: policy decides about the canonical target, and the router has to read the same one. A
//! layer inside of a router (axum's `Router::layer`, `Router::nest`) comes after the router has read
//! the target, so it refuses targets that are not canonical. `Router::nest` takes its prefix out of
//! the target. With the feature `axum`, the decision is about axum's `OriginalUri`, which has it.
//! Without that feature, and inside of other routers that take prefixes out, the layer sees the rest
//! of the target alone: do not use it there.
//!
//! The server identifies the client by an [`Arc<Peer>`] in each request's extensions; a request
//! without one is refused. Everything else is as in the sidecar: one snapshot per request, the
//! canonical target, filters, rate limits, records, and an open response ends when its permission
//! is revoked. Denied and audited requests are logged within the sidecar's limits; counts of
//! suppressed lines are logged at the next such request. The layer does not watch the request's
//! body: it ends with the response, so a client that does not read the response may keep sending
//! until the server drops it. The sidecar watches both. A tunnel behind an upgrade ends with its
//! grant, by the [`TunnelGuard`] of its request. Of the bounds of a TimeoutPolicy, the layer
//! applies those on the request, and on time without a byte from the head of the response on. It does
//! not see the end of the request, so it applies none that begins there. Nor does it see the request's
//! trailers: names that a policy rewrites or matches stay in them.

mod body;
mod connection;
mod routing;
mod tunnel;

pub use body::{EndedByPolicy, PolicyBody};
pub use tunnel::{TunnelEnd, TunnelGuard};

use super::authorizer::Authorizer;
use super::pipeline::{
    self, Admission, AdmittedRequest, Enforcer, LocalResponse, PermittedRequest, Role,
};
use crate::client_headers::ClientHeaders;
use crate::record::{DecisionInfo, Notices, Recorder, RequestLine, RequestRecord};
use crate::respond::{Answer, Fault, RefusalDetail, ResponseFault};
use crate::store::{PolicyStore, PortHandle};
use crate::telemetry::Telemetry;
use body::{BoxError, WORKER, Watch};
use bytes::Bytes;
use connection::{LayerConnection, LayerState};
use http::header::MaxSizeReached;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use policy_tls::peer::Peer;
use routing::Routing;
use std::any::Any;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::sync::{Arc, Once, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tower_layer::Layer;
use tower_service::Service;

/// Enforces the policy of one port. Clones share the store.
#[derive(Clone)]
pub struct PolicyLayer {
    shared: Arc<LayerState>,
}

/// A service that forwards permitted requests only. Created by [`PolicyLayer`].
pub struct PolicyService<S> {
    inner: S,
    shared: Arc<LayerState>,
    /// The connection of the last request, and its authorizer.
    last: Option<(Arc<LayerConnection>, Authorizer)>,
}

impl PolicyLayer {
    /// Creates a layer that enforces the policy of `port` in `store`; `workload` is the name in
    /// records. Call [`whole_service`](Self::whole_service) on it if it is around the whole service.
    pub fn new(store: &PolicyStore, port: NonZeroU16, workload: &str) -> Self {
        let shared = LayerState {
            handle: store.port(port),
            telemetry: Arc::clone(store.telemetry()),
            workload: workload.into(),
            notices: Arc::new(Notices::new(workload, Notices::INTERVAL)),
            recorder: None,
            whole_service: false,
            unguarded: Arc::new(Once::new()),
            source: None,
        };
        Self { shared: Arc::new(shared) }
    }

    /// States that the layer is around the whole service: no router has read a request before it.
    /// The service then gets each request with its canonical target. Without this, or where axum's
    /// `OriginalUri` says otherwise, a target that is not canonical is refused
    /// (`target_not_canonical`).
    #[must_use]
    pub fn whole_service(self) -> Self {
        self.with(|state| state.whole_service = true)
    }

    /// Passes one record per request to `recorder`.
    #[must_use]
    pub fn with_recorder(self, recorder: Arc<dyn Recorder>) -> Self {
        self.with(|state| state.recorder = Some(recorder))
    }

    /// Keeps `source`, which keeps the policies current, as long as the layer and its services live.
    #[must_use]
    pub fn keeping(self, source: Arc<dyn Any + Send + Sync>) -> Self {
        self.with(|state| state.source = Some(source))
    }

    fn with(mut self, change: impl FnOnce(&mut LayerState)) -> Self {
        change(Arc::make_mut(&mut self.shared));
        self
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
        let known = match head.extensions.get::<Arc<Peer>>() {
            Some(peer) => Some(connection(&mut self.last, &self.shared, peer)),
            None => None,
        };
        let routing = Routing::begin(self.shared.whole_service, &mut head);
        let (connection, mut authorizer) = known.unzip();
        if let Some(authorizer) = &mut authorizer {
            authorizer.accept(routing.targets());
        }
        let enforcer = LayerEnforcer { shared: &self.shared, connection };
        match pipeline::admit(&enforcer, authorizer, &mut head) {
            Admission::Refused(refused) => PolicyFuture::refused(refused),
            Admission::Admitted(admitted) => {
                routing.end(&mut head);
                let guard = tunnel::guard(&mut head);
                let connection = connection.cloned();
                let inner = self.inner.call(Request::from_parts(head, body));
                let open = Some(Permitted { connection, admitted, guard });
                PolicyFuture { state: FutureState::Open { inner, open } }
            }
        }
    }
}

/// Returns the connection of `peer` and its authorizer. A service remembers those of its last request.
fn connection<'a>(
    last: &'a mut Option<(Arc<LayerConnection>, Authorizer)>,
    shared: &Arc<LayerState>,
    peer: &Arc<Peer>,
) -> (&'a Arc<LayerConnection>, &'a mut Authorizer) {
    if last.as_ref().is_some_and(|(last, _)| !Arc::ptr_eq(&last.peer, peer)) {
        *last = None;
    }
    let (connection, authorizer) = last.get_or_insert_with(|| {
        let (shared, peer) = (Arc::clone(shared), Arc::clone(peer));
        let authorizer = Authorizer::new(shared.telemetry.caller(&peer.as_tls()), WORKER);
        let connection = LayerConnection { shared, peer, informed: OnceLock::new() };
        (Arc::new(connection), authorizer)
    });
    (&*connection, authorizer)
}

/// A permitted request while the server is asked.
struct Permitted {
    connection: Option<Arc<LayerConnection>>,
    admitted: AdmittedRequest<Box<Watch>>,
    /// Present if the request asks for an upgrade.
    guard: Option<TunnelGuard>,
}

fn enforcer(connection: &Arc<LayerConnection>) -> LayerEnforcer<'_> {
    LayerEnforcer { shared: &connection.shared, connection: Some(connection) }
}

/// The connection of a request, as the steps see it.
struct LayerEnforcer<'a> {
    shared: &'a LayerState,
    /// `None` if the server does not identify the client.
    connection: Option<&'a Arc<LayerConnection>>,
}

impl Enforcer for LayerEnforcer<'_> {
    type Open = Box<Watch>;

    fn handle(&self) -> &PortHandle {
        &self.shared.handle
    }

    fn worker(&self) -> usize {
        WORKER
    }

    fn telemetry(&self) -> &Telemetry {
        &self.shared.telemetry
    }

    fn peer(&self) -> Option<&Peer> {
        self.connection.map(|connection| &*connection.peer)
    }

    fn role(&self) -> Role {
        Role::Origin
    }

    fn refusal_detail(&self) -> RefusalDetail {
        RefusalDetail::Reason
    }

    fn is_recording(&self) -> bool {
        self.shared.recorder.as_ref().is_some_and(|recorder| recorder.is_recording())
    }

    fn notice(&self, decided: &mut DecisionInfo<'_>, request: RequestLine<'_>, now: Instant) {
        self.shared.notices.log(decided, Some(request), now);
    }

    fn record(&self, decided: &DecisionInfo<'_>, request: RequestRecord<'_>) {
        if let Some(recorder) = &self.shared.recorder {
            recorder.record(&decided.record(&self.shared.workload, Some(request)));
        }
    }

    fn failed(&self, _: &Answer) {
        // The server logs and counts its own failures.
    }

    fn inform(&self, headers: &mut HeaderMap) -> Result<(), MaxSizeReached> {
        // The server is the application itself, and no hop on the way to it.
        self.connection.map_or(Ok(()), |connection| {
            let informed =
                connection.informed.get_or_init(|| ClientHeaders::new(&connection.peer, None));
            informed.insert(headers)
        })
    }

    fn open(&self, permitted: PermittedRequest) -> Box<Watch> {
        Box::new(Watch::new(self.connection.cloned(), permitted))
    }
}

pin_project! {
    /// The future of a response: the server's, or a local one.
    pub struct PolicyFuture<F> {
        #[pin]
        state: FutureState<F>,
    }
}

pin_project! {
    #[project = FutureProjection]
    enum FutureState<F> {
        // Permitted; the server is called.
        Open {
            #[pin]
            inner: F,
            open: Option<Permitted>,
        },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<F> PolicyFuture<F> {
    fn refused(refused: LocalResponse) -> Self {
        Self { state: FutureState::Refused { response: Some(refused.response) } }
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
        let Some(permitted) = open else { return Poll::Pending };
        let Permitted { connection, admitted, guard } = permitted;
        let answered = ready!(admitted.request.poll_answer(cx, |cx| inner.poll(cx)));
        let Some(connection) = connection else { return Poll::Pending };
        let enforcer = enforcer(connection);
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Poll::Ready(Err(error)),
            Err(answer) => {
                return local_response(admitted.refuse(&enforcer, answer, Duration::ZERO));
            }
        };
        if !tunnel::may_pass(&response, guard.as_ref()) {
            connection.shared.unguarded();
            let answer = Answer::Upstream(Fault::Response(ResponseFault::Unguarded));
            return local_response(admitted.refuse(&enforcer, answer, Duration::ZERO));
        }
        if let Some(refused) = admitted.pass(&enforcer, &mut response, Duration::ZERO) {
            return local_response(refused);
        }
        let format = admitted.format();
        let Some(permitted) = open.take() else { return Poll::Pending };
        let Permitted { admitted, guard, .. } = permitted;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(guard) = guard
        {
            // Only a body that ends at once follows the head.
            tunnel::follow(admitted.request.into_switched().0, guard);
            return Poll::Ready(Ok(response.map(|inner| PolicyBody::open(inner, None, format))));
        }
        let watch = Some(admitted.request);
        Poll::Ready(Ok(response.map(|inner| PolicyBody::open(inner, watch, format))))
    }
}

/// Completes a [`PolicyFuture`] with a local response.
fn local_response<R, E>(refused: LocalResponse) -> Poll<Result<Response<PolicyBody<R>>, E>> {
    Poll::Ready(Ok(refused.response.map(PolicyBody::text)))
}
