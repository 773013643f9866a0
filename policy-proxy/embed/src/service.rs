//! The application behind the check, as one connection calls it.

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Body;
use hyper::body::Incoming;
use parking_lot::Mutex;
use policy_enforce::middleware::PolicyService;
use policy_enforce::middleware::layer::{PolicyBody, PolicyFuture, TunnelGuard};
use policy_tls::peer::Peer;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::util::Oneshot;
use tower_service::Service;

/// The error of an application or of a body.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An application that a [`Server`](crate::Server) can serve: any tower service of HTTP, such as an
/// axum `Router` or the `Routes` of tonic.
pub trait Application:
    Service<
        Request<Incoming>,
        Response = Response<Self::Body>,
        Error = Self::Failure,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static
{
    /// The body of its responses.
    type Body: Body<Data = Bytes, Error = Self::BodyFailure> + Send + 'static;
    /// The error of such a body.
    type BodyFailure: Into<BoxError>;
    /// Its error, which ends the connection.
    type Failure: Into<BoxError>;
}

impl<S, R> Application for S
where
    S: Service<Request<Incoming>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Body = R;
    type BodyFailure = R::Error;
    type Failure = S::Error;
}

/// The application as the check calls it: a clone for each request, once that is ready.
pub(crate) struct PerRequest<S>(pub(crate) S);

impl<S: Application> Service<Request<Incoming>> for PerRequest<S> {
    type Response = Response<S::Body>;
    type Error = S::Failure;
    type Future = Oneshot<S, Request<Incoming>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        Oneshot::new(self.0.clone(), request)
    }
}

/// The check of one connection: it says who the client is, and what ends a tunnel.
pub(crate) struct Checked<S> {
    /// One for all requests of the connection, because it remembers what depends on that alone.
    inner: Mutex<PolicyService<PerRequest<S>>>,
    peer: Arc<Peer>,
    guard: TunnelGuard,
}

impl<S> Checked<S> {
    pub(crate) fn new(
        inner: PolicyService<PerRequest<S>>,
        peer: Arc<Peer>,
        guard: TunnelGuard,
    ) -> Self {
        Self { inner: Mutex::new(inner), peer, guard }
    }
}

impl<S: Application> hyper::service::Service<Request<Incoming>> for Checked<S> {
    type Response = Response<PolicyBody<S::Body>>;
    type Error = S::Failure;
    type Future = PolicyFuture<Oneshot<S, Request<Incoming>>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let upgrades = request.headers().contains_key(header::UPGRADE);
        let extensions = request.extensions_mut();
        extensions.insert(Arc::clone(&self.peer));
        if upgrades {
            extensions.insert(self.guard.clone());
        }
        self.inner.lock().call(request)
    }
}
