//! The requests that are open on one HTTP connection, and the connection's side of being watched.

use super::arrival::Arrival;
use super::exchange::Exchange;
use super::io::{ClientIo, Metered};
use super::signal::Signal;
use super::slots::Slots;
use super::upstream::Upstream;
use super::wire::Broken;
use super::worker::{Member, Membership, Seat, Worker};
use crate::identity::{Judge, Stale};
use crate::middleware::gate::Gate;
use crate::middleware::headers::Informed;
use crate::middleware::open::Kept;
use crate::peer::Peer;
use crate::record::{Decided, ErrorKind, RequestRecord};
use crate::store::{InForce, PortHandle};
use crate::telemetry::{Caller, Meter, Series, Side};
use http::{HeaderMap, Response, StatusCode};
use policy_core::{Denial, Denied, Permit};
use policy_http::http1::request::Bad;
use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant, SystemTime};

/// One HTTP connection.
pub(super) struct HttpConnection {
    pub(super) worker: Rc<Worker>,
    pub(super) handle: PortHandle,
    pub(super) peer: Peer,
    pub(super) gate: RefCell<Gate>,
    pub(super) upstream: Upstream,
    /// Since when the client has been sending what is not yet a request, by the worker's clock; 0 while it
    /// does not.
    unfinished_since: Cell<u32>,
    /// Whether it is HTTP/2, whose frames between requests are no unfinished request.
    http2: bool,
    /// Raised to end the connection.
    pub(super) ending: Signal<Ending>,
    caller: Caller,
    /// What the application is told of the client.
    pub(super) informed: Informed,
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
    kept: Box<Kept>,
    permit: Permit,
    policy: Arc<InForce>,
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

/// Keeps a request open; it is closed when the last of its guards is dropped.
pub(super) struct OpenGuard {
    connection: Rc<HttpConnection>,
    place: usize,
    upload: bool,
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

    /// Ends after what is open, unless it is to end at once already.
    fn end_gracefully(&self) {
        if self.ending.get().is_none() {
            self.ending.raise(Ending::Gracefully);
        }
    }

    fn new(arrival: Arrival, peer: Peer, http2: bool) -> Self {
        let Arrival { worker, seat, handle, client: _, upstream, at: _ } = arrival;
        let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
        let sent = worker.tcp(Side::Destination, &handle, Caller::NONE);
        Self {
            gate: RefCell::new(Gate::new(caller, worker.index)),
            upstream: Upstream::new(upstream, &worker.shared.config, (sent, worker.index)),
            unfinished_since: Cell::new(0),
            http2,
            ending: Signal::new(),
            caller,
            informed: Informed::new(&peer, Some(upstream)),
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
        Metered::new(io, Meter::open(&series, self.worker.index))
    }

    /// Counts a failed request, or the failed connection.
    pub(super) fn http_error(&self, kind: ErrorKind) {
        self.worker.http_error(kind, &self.handle, self.client());
    }

    /// Registers a permitted request.
    pub(super) fn open(
        self: &Rc<Self>,
        kept: Box<Kept>,
        permit: Permit,
        policy: Arc<InForce>,
        exchange: Exchange,
    ) -> OpenGuard {
        let (lost, lost_upload) = (Signal::new(), Signal::new());
        if let Some(series) = policy.counters.series(self.worker.index, exchange.series) {
            series.request();
        }
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
        let place = self.open.borrow_mut().insert(open);
        OpenGuard { connection: Rc::clone(self), place, upload: false }
    }

    /// Counts a failed HTTP/1 connection.
    pub(super) fn broken(&self, broken: &Broken) {
        let kind = match broken {
            Broken::Head(Bad::TooLarge | Bad::TargetTooLong) => ErrorKind::RequestHeadTooLarge,
            Broken::Head(Bad::Malformed) => ErrorKind::BadRequestHead,
            Broken::Io(_) => ErrorKind::Io,
            // What broke off was recorded where it happened.
            Broken::Cut | Broken::Stopped => return,
        };
        self.http_error(kind);
    }

    /// Counts a failed HTTP/2 connection.
    pub(super) fn ended_by(&self, error: &h2::Error) {
        let kind = if error.is_io() { ErrorKind::Io } else { ErrorKind::Http2Protocol };
        self.http_error(kind);
    }

    /// Whether its client speaks HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.http2
    }

    /// Whether no request is open.
    pub(super) fn is_idle(&self) -> bool {
        self.open.borrow().is_empty()
    }

    /// Ends an open request. Where its answer is yet to begin, the refusal in its place is recorded.
    fn revoke(&self, open: &mut Open) {
        let route = open.permit.route();
        let denial = Denial { reason: Denied::Revoked, route };
        open.policy.counters.http_denied(self.worker.index, self.caller, &denial);
        if let Some(begun) = open.begun {
            let decided = Decided {
                at: SystemTime::now(),
                port: self.handle.port(),
                peer: &self.peer,
                policy: Some(&open.policy),
                decision: Err(denial),
            };
            self.worker.record(&decided, Some(open.request(begun)));
        }
        open.lost_at = self.worker.now();
        open.lost.raise(Denied::Revoked);
        open.lost_upload.raise(Denied::Revoked);
    }

    fn close(&self, place: usize) {
        let mut open = self.open.borrow_mut();
        if let Some(shared) = open.get_mut(place).filter(|open| open.guards > 1) {
            shared.guards = shared.guards.saturating_sub(1);
            return;
        }
        open.remove(place);
        if open.is_empty() {
            self.idle_since.set(self.worker.now());
        }
    }
}

impl Open {
    /// What a record of its end tells.
    fn request(&self, begun: Begun) -> RequestRecord<'_> {
        RequestRecord {
            method: &self.kept.method,
            host: self.kept.authority(),
            target: self.kept.target(),
            version: self.kept.version,
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
    pub(super) fn poll_lost(&self, cx: &Context<'_>) -> Option<Denied> {
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
    pub(super) fn take_judged(&self, trailers: &mut HeaderMap) {
        if let Some(open) = self.connection.open.borrow().get(self.place) {
            open.kept.take_judged(trailers);
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

impl Member for HttpConnection {
    fn review(&self) {
        let live = self.handle.live();
        let policy = live.in_force().ok();
        for open in self.open.borrow_mut().iter_mut() {
            let same = policy.is_some_and(|policy| Arc::ptr_eq(policy, &open.policy));
            if same || open.lost.get().is_some() {
                continue;
            }
            match (open.kept.review(&live, &self.peer), policy) {
                (Ok(permit), Some(policy)) => {
                    // Else a long stream would keep the policy that let it in for as long as it lasts.
                    let (worker, caller) = (self.worker.index, self.caller);
                    open.exchange.series = policy.counters.series_of(worker, caller, &permit);
                    open.permit = permit;
                    open.policy = Arc::clone(policy);
                }
                (Ok(_) | Err(_), _) => self.revoke(open),
            }
        }
        self.gate.borrow_mut().forget_unless(policy);
    }

    fn tick(&self) {
        if !self.open.borrow().is_empty() {
            // A client that takes no response is not told that it broke off.
            let old = |open: &Open| self.worker.now().saturating_sub(open.lost_at) >= LOST_TICKS;
            let stuck = |open: &Open| open.lost.get().is_some() && old(open);
            if !self.http2 && self.open.borrow().iter().any(stuck) {
                self.ending.raise(Ending::Now);
            }
            return;
        }
        self.upstream.tidy();
        let timeouts = &self.worker.shared.config.timeouts;
        let over = |seconds: u32, bound: Duration| u64::from(seconds) > bound.as_secs();
        let since = self.unfinished_since.get();
        let unfinished = self.worker.now().saturating_sub(since);
        let idle = self.worker.now().saturating_sub(self.idle_since.get());
        // Who does not take the last of its answer does not end by being asked to.
        let deaf = timeouts.idle.saturating_add(timeouts.request_head);
        if (since > 0 && over(unfinished, timeouts.request_head)) || over(idle, deaf) {
            self.ending.raise(Ending::Now);
        } else if over(idle, timeouts.idle) {
            self.end_gracefully();
        }
    }

    fn prove(&self, judge: &mut Judge) {
        let stale = self.peer.proof().and_then(|proof| judge.stale(proof));
        let (Some(stale), false) = (stale, self.ending.get() == Some(Ending::Now)) else { return };
        let kind = match stale {
            Stale::Untrusted => ErrorKind::TlsCertificateUntrusted,
            Stale::Expired(since) => {
                let grace = self.worker.shared.config.timeouts.grace;
                if judge.now.duration_since(since).is_ok_and(|late| late < grace) {
                    self.end_gracefully();
                    return;
                }
                ErrorKind::TlsCertificateExpired
            }
        };
        self.worker.tcp_error(kind, self.client());
        // Tunnels do not end with the connection.
        let mut all = self.open.borrow_mut();
        all.iter_mut().filter(|open| open.lost.get().is_none()).for_each(|open| self.revoke(open));
        self.ending.raise(Ending::Now);
    }

    fn drain(&self) {
        self.end_gracefully();
    }
}

/// Ticks, of a second each, after which a client that does not take the end of what it lost is cut off.
const LOST_TICKS: u32 = 2;
