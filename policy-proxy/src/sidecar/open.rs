//! One HTTP connection, the requests that are open on it, and their bodies.

mod watch;

use super::arrival::Arrival;
use super::asked;
use super::client_body::{ClientBody, NotSent};
use super::io::{ClientIo, Metered};
use super::upstream::Upstream;
use super::worker::{Membership, Seat, Worker};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use policy_core::{Denied, Permit};
use policy_enforce::client_headers::ClientHeaders;
use policy_enforce::error::ErrorKind;
use policy_enforce::headers;
use policy_enforce::middleware::authorizer::Authorizer;
use policy_enforce::middleware::exchange::Exchange;
use policy_enforce::middleware::pipeline::PermittedRequest;
use policy_enforce::record::RequestRecord;
use policy_enforce::request_snapshot::RequestSnapshot;
use policy_enforce::store::{ActivePolicy, PortHandle};
use policy_enforce::telemetry::{Caller, Meter, Series, Side};
use policy_http::http2::Interruptible;
use policy_http::shutdown::Shutdown;
use policy_http::signal::Signal;
use policy_tls::peer::Peer;
use slab::Slab;
use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// One HTTP connection.
pub(super) struct HttpConnection {
    pub(super) worker: Rc<Worker>,
    pub(super) handle: PortHandle,
    pub(super) peer: Peer,
    pub(super) gate: RefCell<Authorizer>,
    pub(super) upstream: Upstream<RequestBody>,
    /// Since when the client has been sending what is not yet a request, by the worker's clock; 0 while it
    /// does not.
    unfinished_since: Cell<u32>,
    /// Whether it is HTTP/2, whose frames between requests are no unfinished request.
    http2: bool,
    /// Raised to end the connection.
    pub(super) ending: Signal<Shutdown>,
    caller: Caller,
    /// What the application is told of the client.
    pub(super) informed: ClientHeaders,
    open: RefCell<Slab<Open>>,
    /// Since when nothing is open, by the worker's clock.
    idle_since: Cell<u32>,
    _seat: Seat,
    /// Kept here, so that a tunnel that outlives the HTTP connection is still told of changes.
    membership: OnceCell<Membership>,
}

/// One open request.
struct Open {
    kept: Box<RequestSnapshot>,
    permit: Permit,
    policy: Arc<ActivePolicy>,
    /// Tells whoever answers that permission is lost.
    lost: Signal<Denied>,
    /// Tells whoever sends the request's body.
    lost_upload: Signal<Denied>,
    /// When it was lost, by the worker's clock.
    lost_at: u32,
    exchange: Exchange,
    /// How the answer began; none before it did, and where nobody records.
    begun: Option<Begun>,
    /// Guards that keep it open.
    guards: u8,
}

/// How an answer began.
#[derive(Clone, Copy)]
struct Begun {
    status: StatusCode,
    total: Duration,
    waited: Duration,
}

/// The body of the application's response to an open request.
pub(super) type UpstreamBody = asked::UpstreamBody<RequestBody>;

/// Keeps a request open; it is closed when the last of its guards is dropped.
pub(super) struct OpenGuard {
    connection: Rc<HttpConnection>,
    place: usize,
    upload: bool,
}

impl HttpConnection {
    fn new(arrival: Arrival, peer: Peer, http2: bool) -> Self {
        let Arrival { worker, seat, handle, client: _, upstream, at: _ } = arrival;
        let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
        let sent = worker.tcp(Side::Destination, &handle, Caller::NONE);
        Self {
            gate: RefCell::new(Authorizer::new(caller, worker.index)),
            upstream: Upstream::new(upstream, &worker.shared.config, (sent, worker.index)),
            unfinished_since: Cell::new(0),
            http2,
            ending: Signal::new(),
            caller,
            informed: ClientHeaders::new(&peer, Some(upstream)),
            open: RefCell::new(Slab::new()),
            idle_since: Cell::new(worker.now()),
            _seat: seat,
            membership: OnceCell::new(),
            worker,
            handle,
            peer,
        }
    }

    /// The client's address, as policy sees it.
    pub(super) fn client(&self) -> SocketAddr {
        self.peer.address()
    }

    /// A request's head is complete.
    pub(super) fn begin(&self) {
        self.unfinished_since.set(0);
        self.idle_since.set(self.worker.now());
    }

    /// A part of a request's head is there.
    pub(super) fn unfinished(&self) {
        if self.unfinished_since.get() == 0 {
            self.unfinished_since.set(self.worker.now().max(1));
        }
    }

    /// Counts bytes to and from the client.
    pub(super) fn metered(&self, io: ClientIo) -> Metered<ClientIo> {
        let series = self.worker.tcp(Side::Source, &self.handle, self.caller);
        let bound = self.worker.shared.config.timeouts.stall;
        Metered::new(io, Meter::open(&series, self.worker.index)).within(bound)
    }

    /// Counts a failed request, or the failed connection.
    pub(super) fn http_error(&self, kind: ErrorKind) {
        self.worker.http_error(kind, &self.handle, self.client());
    }

    /// Registers a permitted request.
    pub(super) fn open(self: &Rc<Self>, permitted: PermittedRequest) -> OpenGuard {
        self.handle.retain();
        let PermittedRequest { snapshot: kept, permit, policy, exchange } = permitted;
        let (lost, lost_upload) = (Signal::new(), Signal::new());
        let open = Open {
            kept,
            permit,
            policy,
            lost,
            lost_upload,
            lost_at: 0,
            exchange,
            begun: None,
            guards: 1,
        };
        let mut all = self.open.borrow_mut();
        if all.capacity() == 0 {
            // Most connections never have more than one; a vector would begin with room for four.
            all.reserve_exact(1);
        }
        let place = all.insert(open);
        drop(all);
        OpenGuard { connection: Rc::clone(self), place, upload: false }
    }

    /// Whether a body of a request is being sent.
    fn is_uploading(&self) -> bool {
        self.open.borrow().iter().any(|(_, open)| open.exchange.is_uploading())
    }

    /// Whether a request is open.
    pub(super) fn has_open(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    fn close(&self, place: usize) {
        let mut open = self.open.borrow_mut();
        if let Some(shared) = open.get_mut(place).filter(|open| open.guards > 1) {
            shared.guards = shared.guards.saturating_sub(1);
            return;
        }
        open.try_remove(place);
        if open.is_empty() {
            self.handle.release();
            self.idle_since.set(self.worker.now());
        }
    }
}

impl Open {
    /// What a record of its end tells.
    fn request(&self, begun: Begun) -> RequestRecord<'_> {
        RequestRecord {
            method: self.kept.method(),
            host: self.kept.authority(),
            target: self.kept.target(),
            version: self.kept.version(),
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

impl OpenGuard {
    /// Why permission was lost, or a promise to wake `cx` when it is.
    pub(super) fn poll_revoked(&self, cx: &Context<'_>) -> Option<Denied> {
        let open = self.connection.open.borrow();
        let open = open.get(self.place)?;
        if self.upload { open.lost_upload.poll(cx) } else { open.lost.poll(cx) }
    }

    /// Another guard of the same request, for whoever sends its body.
    pub(super) fn for_upload(&self) -> OpenGuard {
        if let Some(open) = self.connection.open.borrow_mut().get_mut(self.place) {
            open.guards = open.guards.saturating_add(1);
            open.exchange.uploading();
        }
        OpenGuard { connection: Rc::clone(&self.connection), place: self.place, upload: true }
    }

    /// Takes out of trailers what the policy judged in the head.
    pub(super) fn remove_matched(&self, trailers: &mut HeaderMap) {
        if let Some(open) = self.connection.open.borrow().get(self.place) {
            open.kept.remove_matched(trailers);
        }
    }

    /// The answer began, and was recorded if somebody records.
    pub(super) fn begun<B>(&self, response: &Response<B>, (started, waited): (Instant, Duration)) {
        if let Some(open) = self.connection.open.borrow_mut().get_mut(self.place) {
            open.exchange.begun(response);
            if self.connection.worker.is_recording() {
                let status = response.status();
                open.begun = Some(Begun { status, total: started.elapsed(), waited });
            }
        }
    }

    /// The answer's trailers are there.
    pub(super) fn trailers(&self, fields: &HeaderMap) {
        if let Some(open) = self.connection.open.borrow_mut().get_mut(self.place) {
            open.exchange.trailers(fields);
        }
    }

    /// A piece of the answer's body is forwarded; `last`: nothing follows.
    pub(super) fn frame(&self, bytes: usize, last: bool) {
        self.count(|exchange, series| exchange.frame(series, bytes, last));
    }

    /// The answer ended; `broken`: before it was complete.
    pub(super) fn ended(&self, broken: bool) {
        self.count(|exchange, series| exchange.ended(series, broken));
    }

    /// A piece of the request's body is forwarded.
    pub(super) fn request_frame(&self, bytes: usize) {
        self.count(|_, series| series.request_frame(bytes));
    }

    fn count(&self, act: impl FnOnce(&mut Exchange, &Series)) {
        let worker = self.connection.worker.index;
        if let Some(open) = self.connection.open.borrow_mut().get_mut(self.place)
            && let Some(series) = open.policy.counters.series(worker, open.exchange.series)
        {
            act(&mut open.exchange, series);
        }
    }
}

impl std::fmt::Debug for OpenGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenGuard").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        if self.upload
            && let Some(open) = self.connection.open.borrow_mut().get_mut(self.place)
        {
            open.exchange.uploaded();
        }
        self.connection.close(self.place);
    }
}

/// What is sent to the application. It is watched on its own, since a client that takes no response
/// keeps the response's body from being asked for.
#[derive(Debug)]
pub(super) struct RequestBody {
    body: ClientBody,
    /// Absent where there is nothing to send, and once all is sent.
    open: Option<OpenGuard>,
    /// Permission was lost before the end.
    cut: bool,
}

impl RequestBody {
    /// The client's, for as long as `open` is permitted. It keeps the request open too.
    pub(super) fn new(body: ClientBody, open: &OpenGuard) -> Self {
        let open = (!body.is_end_stream()).then(|| open.for_upload());
        Self { body, open, cut: false }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = NotSent;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotSent>>> {
        let this = self.get_mut();
        if this.open.as_ref().is_some_and(|open| open.poll_revoked(cx).is_some()) {
            this.cut = true;
            this.open = None;
        }
        if this.cut {
            return Poll::Ready(Some(Err(NotSent::Cut)));
        }
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(open) = &this.open {
                    if let Some(trailers) = frame.trailers_mut() {
                        headers::clean_trailers(trailers);
                        open.remove_matched(trailers);
                    } else if let Some(data) = frame.data_ref() {
                        open.request_frame(data.len());
                    }
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.open = None;
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.open = None;
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
        let lost = self.open.as_ref().is_some_and(|open| open.poll_revoked(cx).is_some());
        self.cut || lost || self.body.is_broken(cx)
    }
}
