//! An HTTP connection, its in-flight requests, and their bodies.

mod held;
mod hold;
mod watch;

use super::accepted::AcceptedConnection;
use super::client_body::{ClientBody, RequestBodyError};
use super::head_room;
use super::io::{ClientIo, Metered};
use super::upstream::Upstream;
use super::worker::{ConnectionPermit, Registration, Worker};
use bytes::Bytes;
use held::{HeldByHttp1, HeldHead};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use policy_core::{DecisionId, Denied, Permit};
use policy_enforce::client_headers::ClientHeaders;
use policy_enforce::error::ErrorKind;
use policy_enforce::headers;
use policy_enforce::middleware::authorizer::Authorizer;
use policy_enforce::middleware::exchange::Exchange;
use policy_enforce::middleware::filters;
use policy_enforce::middleware::pipeline::PermittedRequest;
use policy_enforce::middleware::timer::Progress;
use policy_enforce::record::RequestRecord;
use policy_enforce::request_snapshot::RequestSnapshot;
use policy_enforce::store::{ActivePolicy, PortHandle};
use policy_enforce::telemetry::{Caller, Meter, Series, Side};
use policy_http::bounds::MAX_FIELDS;
use policy_http::http2::Interruptible;
use policy_http::shutdown::Shutdown;
use policy_http::signal::Signal;
use policy_tls::peer::Peer;
use slab::Slab;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// An HTTP connection of a client.
pub(super) struct HttpConnection {
    pub(super) worker: Rc<Worker>,
    pub(super) handle: PortHandle,
    pub(super) peer: Peer,
    pub(super) authorizer: RefCell<Authorizer>,
    pub(super) upstream: Upstream<RequestBody>,
    /// Time since which the client has been sending an incomplete request head, by the worker's
    /// clock; 0 if it is not.
    unfinished_since: Cell<u32>,
    /// True for HTTP/2, whose frames between requests are no incomplete request.
    http2: bool,
    /// True once an HTTP/1 client has closed its side while it waits for its response.
    pub(super) half_closed: Cell<bool>,
    /// Signalled to end the connection.
    pub(super) ending: Signal<Shutdown>,
    caller: Caller,
    /// Headers that inform the application of the client.
    pub(super) informed: ClientHeaders,
    /// Interim responses to the request whose answer is being polled. Its poller takes them out.
    pub(super) interim: RefCell<VecDeque<Response<()>>>,
    inflight: RefCell<Slab<InflightRequest>>,
    held: HeldByHttp1,
    /// Time of the last movement, of a request or a frame, by the worker's clock.
    active: Cell<u32>,
    permit: ConnectionPermit,
    /// Registration with the worker; held here, so that a tunnel that outlives the HTTP connection
    /// is still reviewed.
    registration: OnceCell<Registration>,
}

/// An in-flight request.
struct InflightRequest {
    request: Box<RequestSnapshot>,
    permit: Permit,
    policy: Arc<ActivePolicy>,
    /// The names that the head was rewritten by, once another policy is in force.
    rewritten: Option<Box<[HeaderName]>>,
    /// Signals the response that permission is lost.
    lost: Signal<Denied>,
    /// Signals the request body that permission is lost.
    lost_upload: Signal<Denied>,
    /// Time of the loss, by the worker's clock.
    lost_at: u32,
    /// The id of the record of the loss.
    refusal: Option<DecisionId>,
    exchange: Exchange,
    /// Start of the response; none before it, and while nothing is recorded.
    begun: Option<ResponseStart>,
    /// Number of guards.
    guards: u8,
    /// Room of a large head.
    head: Option<Box<HeldHead>>,
}

/// Start of a response.
#[derive(Clone, Copy)]
struct ResponseStart {
    status: StatusCode,
    total: Duration,
    waited: Duration,
}

/// Keeps a request in flight, which ends when the last of its guards is dropped.
pub(super) struct InflightGuard {
    connection: Rc<HttpConnection>,
    key: usize,
    upload: bool,
}

impl HttpConnection {
    fn new(accepted: AcceptedConnection, peer: Peer, http2: bool) -> Self {
        let AcceptedConnection { worker, permit, handle, client: _, upstream, at: _ } = accepted;
        let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
        let sent = worker.tcp(Side::Destination, &handle, Caller::NONE);
        Self {
            authorizer: RefCell::new(Authorizer::new(caller, worker.index)),
            upstream: Upstream::new(
                upstream,
                &worker.shared.config,
                (sent, worker.index),
                http2.then(|| worker.bodies.account(head_room::body_group(&peer))),
            ),
            unfinished_since: Cell::new(0),
            http2,
            half_closed: Cell::new(false),
            ending: Signal::new(),
            caller,
            informed: ClientHeaders::new(&peer, Some(upstream)),
            interim: RefCell::default(),
            inflight: RefCell::new(Slab::new()),
            held: HeldByHttp1::default(),
            active: Cell::new(worker.now()),
            permit,
            registration: OnceCell::new(),
            worker,
            handle,
            peer,
        }
    }

    /// The client's address, as policy sees it.
    pub(super) fn client(&self) -> SocketAddr {
        self.peer.address()
    }

    /// Notes that a request head is complete.
    pub(super) fn begin(&self) {
        self.unfinished_since.set(0);
        self.active.set(self.worker.now());
    }

    /// Notes that a part of a request head has arrived.
    pub(super) fn unfinished(&self) {
        if self.unfinished_since.get() == 0 {
            self.unfinished_since.set(self.worker.now().max(1));
        }
    }

    /// Wraps the client's stream to count its bytes.
    pub(super) fn metered(&self, io: ClientIo) -> Metered<ClientIo> {
        let series = self.worker.tcp(Side::Source, &self.handle, self.caller);
        let bound = self.worker.shared.config.timeouts.stall;
        Metered::new(io, Meter::open(&series, self.worker.index)).with_write_timeout(bound)
    }

    /// Counts a failed request, or the failed connection.
    pub(super) fn http_error(&self, kind: ErrorKind) {
        self.worker.http_error(kind, &self.handle, self.client());
    }

    /// Registers a permitted request.
    pub(super) fn register_request(self: &Rc<Self>, permitted: PermittedRequest) -> InflightGuard {
        self.handle.retain();
        let PermittedRequest { snapshot: kept, permit, policy, exchange } = permitted;
        let (lost, lost_upload) = (Signal::new(), Signal::new());
        let request = InflightRequest {
            request: kept,
            permit,
            policy,
            rewritten: None,
            lost,
            lost_upload,
            lost_at: 0,
            refusal: None,
            exchange,
            begun: None,
            guards: 1,
            head: None,
        };
        let mut all = self.inflight.borrow_mut();
        if all.capacity() == 0 {
            // Most connections never have more than one; a vector would start with a capacity of
            // four.
            all.reserve_exact(1);
        }
        let key = all.insert(request);
        drop(all);
        InflightGuard { connection: Rc::clone(self), key, upload: false }
    }

    /// True while a request body is being forwarded.
    fn is_uploading(&self) -> bool {
        self.inflight.borrow().iter().any(|(_, open)| open.exchange.is_uploading())
    }

    fn release(&self, key: usize) {
        let mut open = self.inflight.borrow_mut();
        if let Some(shared) = open.get_mut(key).filter(|open| open.guards > 1) {
            shared.guards = shared.guards.saturating_sub(1);
            return;
        }
        open.try_remove(key);
        if open.is_empty() {
            self.handle.release();
            self.active.set(self.worker.now());
        }
    }
}

impl InflightRequest {
    /// Keeps the names that the head was rewritten by, before another policy takes the place of the one
    /// that decided on it.
    fn keep_rewritten(&mut self) {
        let Self { policy, permit, rewritten, .. } = self;
        rewritten.get_or_insert_with(|| filters::rewritten(policy, permit).cloned().collect());
    }

    /// The record of the request's end.
    fn record(&self, begun: ResponseStart) -> RequestRecord<'_> {
        RequestRecord {
            method: self.request.method(),
            host: self.request.authority(),
            target: self.request.target(),
            version: self.request.version(),
            status: begun.status,
            request_bytes: None,
            response_bytes: None,
            user_agent: None,
            trace_id: None,
            total: begun.total,
            processing: begun.total.saturating_sub(begun.waited),
        }
    }
}

impl InflightGuard {
    /// Counts and logs a failure of the request.
    pub(super) fn http_error(&self, kind: ErrorKind) {
        self.connection.http_error(kind);
    }

    /// True if trailers are larger than a head may be, of the response or of the request.
    pub(super) fn are_large(&self, trailers: &HeaderMap) -> bool {
        let limits = &self.connection.worker.shared.config.limits;
        let most = if self.upload { limits.request_head } else { limits.response_head };
        // A map of the library's leaves out what it has no room for.
        trailers.len() > MAX_FIELDS
            || headers::list_size(trailers) > usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Another guard of the same request, for its body.
    pub(super) fn for_upload(&self) -> InflightGuard {
        if let Some(open) = self.connection.inflight.borrow_mut().get_mut(self.key) {
            open.guards = open.guards.saturating_add(1);
            open.exchange.uploading();
        }
        InflightGuard { connection: Rc::clone(&self.connection), key: self.key, upload: true }
    }

    /// Removes the fields from trailers that the policy decided on in the head, or rewrote there, and
    /// those that the policy in force rewrites.
    pub(super) fn remove_matched(&self, trailers: &mut HeaderMap) {
        if let Some(open) = self.connection.inflight.borrow().get(self.key) {
            open.request.remove_matched(trailers);
            let now = filters::rewritten(&open.policy, &open.permit);
            let then = open.rewritten.iter().flatten();
            now.chain(then).for_each(|name| _ = trailers.remove(name));
        }
    }

    /// Notes the start of the response, which was recorded if a recorder is set.
    pub(super) fn begun<B>(&self, response: &Response<B>, (started, waited): (Instant, Duration)) {
        if let Some(open) = self.connection.inflight.borrow_mut().get_mut(self.key) {
            open.exchange.begun(response);
            if self.connection.worker.is_recording() {
                let status = response.status();
                open.begun = Some(ResponseStart { status, total: started.elapsed(), waited });
            }
        }
    }

    /// Notes the response's trailers.
    pub(super) fn trailers(&self, fields: &HeaderMap) {
        if let Some(open) = self.connection.inflight.borrow_mut().get_mut(self.key) {
            open.exchange.touch();
            open.exchange.trailers(fields);
        }
    }

    /// The parts of the exchange that are over. Nothing is, once it is not in flight.
    pub(super) fn progress(&self) -> Progress {
        let open = self.connection.inflight.borrow();
        open.get(self.key).map(|open| open.exchange.progress()).unwrap_or_default()
    }

    /// Counts a forwarded frame of the response body; `last`: nothing follows.
    pub(super) fn frame(&self, bytes: usize, last: bool) {
        self.count(|exchange, series| exchange.frame(series, bytes, last));
    }

    /// Notes the end of the response; `broken`: before it was complete.
    pub(super) fn ended(&self, broken: bool) {
        self.count(|exchange, series| exchange.ended(series, broken));
    }

    /// Counts a forwarded frame of the request body.
    pub(super) fn request_frame(&self, bytes: usize) {
        self.count(|_, series| series.request_frame(bytes));
    }

    fn count(&self, act: impl FnOnce(&mut Exchange, &Series)) {
        self.moved();
        let worker = self.connection.worker.index;
        if let Some(open) = self.connection.inflight.borrow_mut().get_mut(self.key) {
            open.exchange.touch();
            if let Some(series) = open.policy.counters.series(worker, open.exchange.series) {
                act(&mut open.exchange, series);
            }
        }
    }
}

impl std::fmt::Debug for InflightGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InflightGuard").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Drop for InflightGuard {
    fn drop(&mut self) {
        if self.upload
            && let Some(open) = self.connection.inflight.borrow_mut().get_mut(self.key)
            && open.exchange.uploaded()
        {
            open.lost.wake();
        }
        self.connection.release(self.key);
    }
}

/// The request body to the application. It checks permission on its own, because a client that
/// reads no response keeps the response body from being polled.
#[derive(Debug)]
pub(super) struct RequestBody {
    body: ClientBody,
    /// Absent if the request has no body, and once the body is sent.
    guard: Option<InflightGuard>,
    /// Permission was lost before the end.
    cut: bool,
    /// True if the client ended its side before the end.
    ended: bool,
}

impl RequestBody {
    /// The client's body, forwarded while the request of `guard` is permitted. It keeps the request
    /// in flight too.
    pub(super) fn new(body: ClientBody, guard: &InflightGuard) -> Self {
        let guard = (!body.is_end_stream()).then(|| guard.for_upload());
        Self { body, guard, cut: false, ended: false }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let this = self.get_mut();
        if this.guard.as_ref().is_some_and(|guard| guard.poll_revoked(cx).is_some()) {
            this.cut = true;
            this.guard = None;
        }
        if this.cut {
            return Poll::Ready(Some(Err(RequestBodyError::Cut)));
        }
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(guard) = &this.guard {
                    if let Some(trailers) = frame.trailers_mut() {
                        if guard.are_large(trailers) {
                            (this.cut, this.guard) = (true, None);
                            return Poll::Ready(Some(Err(RequestBodyError::Cut)));
                        }
                        headers::clean_trailers(trailers);
                        guard.remove_matched(trailers);
                    } else if let Some(data) = frame.data_ref() {
                        guard.request_frame(data.len());
                    }
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.guard = None;
                this.ended = error.is_end();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.guard = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        !self.cut && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Interruptible for RequestBody {
    fn must_end(&mut self, cx: &mut Context<'_>) -> bool {
        let lost = self.guard.as_ref().is_some_and(|guard| guard.poll_revoked(cx).is_some());
        self.cut || lost || self.body.is_broken(cx)
    }

    fn is_cut(&self) -> bool {
        !self.ended
    }
}
