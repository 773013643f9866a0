//! The requests that are open on one HTTP connection, and the connection's side of being watched.

use super::accept::Arrival;
use super::io::Activity;
use super::signal::Signal;
use super::slots::Slots;
use super::upstream::Upstream;
use super::worker::{Member, Membership, Seat, Worker};
use crate::middleware::gate::Gate;
use crate::middleware::headers::CLIENT_ID;
use crate::middleware::open::Kept;
use crate::peer::Peer;
use crate::record::{Decided, ErrorKind};
use crate::store::{InForce, PortHandle};
use crate::telemetry::Caller;
use http::{HeaderMap, HeaderValue};
use policy_core::{Denial, Denied, Identity, Permit, Protocol};
use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Context;
use std::time::SystemTime;

/// One HTTP connection.
pub(super) struct HttpConnection {
    pub(super) worker: Rc<Worker>,
    pub(super) handle: PortHandle,
    pub(super) peer: Peer,
    pub(super) gate: RefCell<Gate>,
    pub(super) upstream: Upstream,
    pub(super) activity: Arc<Activity>,
    /// Whether it is HTTP/2, whose frames between requests are no unfinished request.
    http2: bool,
    /// Raised to end the connection.
    pub(super) ending: Signal<Ending>,
    caller: Caller,
    /// What the application is told of the client.
    client_id: Option<HeaderValue>,
    open: RefCell<Slots<Open>>,
    /// Since when nothing is open, by the worker's clock.
    idle_since: Cell<u32>,
    _seat: Seat,
    /// Kept here, so that a tunnel that outlives the HTTP connection is still told of changes.
    membership: OnceCell<Membership>,
}

/// How a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// After what is open.
    Gracefully,
    /// At once.
    Now,
}

/// One open request.
struct Open {
    kept: Kept,
    permit: Permit,
    policy: Arc<InForce>,
    lost: Signal<Denied>,
}

/// Keeps a request open; it is closed when this is dropped.
pub(super) struct OpenGuard {
    connection: Rc<HttpConnection>,
    place: usize,
}

impl HttpConnection {
    /// Makes the connection and registers it with its worker.
    pub(super) fn register(arrival: Arrival, peer: Peer, http2: bool) -> Rc<Self> {
        let connection = Rc::new(Self::new(arrival, peer, http2));
        let weak = Rc::downgrade(&connection);
        let member: Weak<dyn Member> = weak;
        let place = connection.worker.join(member);
        connection.membership.get_or_init(|| place);
        connection
    }

    fn new(arrival: Arrival, peer: Peer, http2: bool) -> Self {
        let Arrival { worker, seat, handle, client: _, upstream, at: _ } = arrival;
        let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
        let id = peer.identity().map(Identity::as_str);
        Self {
            gate: RefCell::new(Gate::new(caller, worker.index)),
            upstream: Upstream::new(upstream, &worker.shared.config),
            activity: Arc::new(Activity::new(Arc::clone(&worker.clock))),
            http2,
            ending: Signal::new(),
            caller,
            client_id: id.and_then(|id| HeaderValue::from_str(id).ok()),
            open: RefCell::new(Slots::new()),
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

    /// Says who the client is. What the client itself says of it was taken out before.
    pub(super) fn set_client_id(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.client_id {
            headers.insert(CLIENT_ID, id.clone());
        }
    }

    /// Registers a permitted request.
    pub(super) fn open(
        self: &Rc<Self>,
        kept: Kept,
        permit: Permit,
        policy: Arc<InForce>,
    ) -> OpenGuard {
        let open = Open { kept, permit, policy, lost: Signal::new() };
        let place = self.open.borrow_mut().insert(open);
        OpenGuard { connection: Rc::clone(self), place }
    }

    /// Counts a failed connection by what hyper says of it.
    pub(super) fn ended_by(&self, error: &hyper::Error) {
        let kind = if error.is_parse_too_large() {
            ErrorKind::RequestHeadTooLarge
        } else if error.is_parse() {
            ErrorKind::BadRequestHead
        } else if error.is_timeout() {
            ErrorKind::RequestHeadTimeout
        } else if error.is_user() || error.is_canceled() {
            // A body that we broke off, which was recorded where it happened.
            return;
        } else if self.http2 && !error.is_closed() {
            ErrorKind::Http2Protocol
        } else {
            ErrorKind::Io
        };
        self.worker.http_error(kind, self.client());
    }

    fn close(&self, place: usize) {
        let mut open = self.open.borrow_mut();
        open.remove(place);
        if open.is_empty() {
            self.idle_since.set(self.worker.now());
            self.activity.reset();
        }
    }
}

impl OpenGuard {
    /// Why permission was lost, or a promise to wake `cx` when it is.
    pub(super) fn poll_lost(&self, cx: &Context<'_>) -> Option<Denied> {
        self.connection.open.borrow().get(self.place)?.lost.poll(cx)
    }

    /// Counts the answer of a gRPC Server, whose status comes in the trailers or, without a body,
    /// in the head.
    pub(super) fn answered(&self, fields: &HeaderMap) {
        let status = fields.get("grpc-status").and_then(|s| s.to_str().ok()?.parse::<u16>().ok());
        let open = self.connection.open.borrow();
        if let (Some(status), Some(open)) = (status, open.get(self.place))
            && open.policy.evaluator.policy().protocol == Protocol::Grpc
        {
            let worker = self.connection.worker.index;
            open.policy.counters.http_answered(worker, &open.permit, true, status);
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
        self.connection.close(self.place);
    }
}

impl Member for HttpConnection {
    fn review(&self) {
        let live = self.handle.live();
        let policy = live.in_force().ok();
        for open in self.open.borrow().iter() {
            let same = policy.is_some_and(|policy| Arc::ptr_eq(policy, &open.policy));
            if same || open.lost.get().is_some() {
                continue;
            }
            if open.kept.review(&live, &self.peer).is_err() {
                let route = open.permit.route();
                let denial = Denial { reason: Denied::Revoked, route };
                open.policy.counters.http_denied(self.worker.index, self.caller, &denial);
                let decided = Decided {
                    at: SystemTime::now(),
                    port: self.handle.port(),
                    peer: &self.peer,
                    policy: Some(&open.policy),
                    decision: Err(denial),
                };
                self.worker.record(&decided, None);
                open.lost.raise(Denied::Revoked);
            }
        }
        self.gate.borrow_mut().forget_unless(policy);
    }

    fn tick(&self) {
        if !self.open.borrow().is_empty() {
            return;
        }
        let timeouts = &self.worker.shared.config.timeouts;
        let over = |seconds: u32, bound: std::time::Duration| u64::from(seconds) > bound.as_secs();
        let unfinished = if self.http2 { None } else { self.activity.pending_for() };
        if unfinished.is_some_and(|seconds| over(seconds, timeouts.request_head)) {
            self.ending.raise(Ending::Now);
        } else if over(self.worker.now().saturating_sub(self.idle_since.get()), timeouts.idle) {
            self.ending.raise(Ending::Gracefully);
        }
    }

    fn drain(&self) {
        self.ending.raise(Ending::Gracefully);
    }
}
