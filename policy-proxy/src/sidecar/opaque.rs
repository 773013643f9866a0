//! Forwards an opaque connection in both directions, and ends it when policy revokes its
//! permission.
//!
//! The connection is registered with its worker before it is decided on, so that no policy change
//! falls between the decision and the review.

use super::accepted::AcceptedConnection;
use super::copy::{CopyBidirectional, CopyEnd, HttpWatch};
use super::io::{ClientIo, Metered};
use super::places::InboundConnection;
use super::reset::Resettable;
use super::server_first::ServerFirst;
use super::upstream;
use super::worker::{ConnectionPermit, Registration, TrackedConnection, Worker, into_result};
use policy_core::{Decision, Denial, Denied, Permit, Protocol};
use policy_enforce::error::ErrorKind;
use policy_enforce::record::DecisionInfo;
use policy_enforce::respond::Fault;
use policy_enforce::store::{ActivePolicy, PortHandle};
use policy_enforce::telemetry::{Caller, Meter, Side};
use policy_http::signal::Signal;
use policy_tls::identity::{ProofError, ProofVerifier};
use policy_tls::peer::Peer;
use std::cell::Cell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// An open opaque connection.
struct OpaqueConnection {
    worker: Rc<Worker>,
    handle: PortHandle,
    peer: Peer,
    caller: Caller,
    at: SystemTime,
    /// True if HTTP was not detected, because of the protocol that the port had.
    undetected: bool,
    /// Signalled to end the connection.
    close: Signal<CloseReason>,
    /// Time of the last byte, by the worker's clock.
    active: Cell<u32>,
}

/// Reason for which the proxy closes an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseReason {
    /// Permission was lost.
    Revoked,
    /// No byte within the idle timeout.
    Idle,
    /// Its place was given to another.
    Displaced,
}

/// Decides on a connection and forwards it. Where HTTP was not detected in time, `watch` continues
/// the detection: a client that turns out to speak HTTP is refused, so that delaying the request
/// does not evade HTTP policy. `server`: the application, which may have been dialled before.
pub(super) async fn forward(
    accepted: AcceptedConnection,
    peer: Peer,
    io: ClientIo,
    watch: HttpWatch,
    server: Option<Box<ServerFirst>>,
) {
    let AcceptedConnection { worker, permit, handle, client: _, upstream, at } = accepted;
    let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
    let active = Cell::new(worker.now());
    let undetected = watch == HttpWatch::Off;
    let close = Signal::new();
    let connection =
        Rc::new(OpaqueConnection { worker, handle, peer, caller, at, undetected, close, active });
    let _registration = connection.register(&permit);
    if !connection.decide() {
        return;
    }
    let io = connection.metered(Side::Source, io);
    let server = match connection.dial(upstream, server).await {
        Ok(server) => server,
        Err(kind) => {
            connection.worker.tcp_error(kind, connection.peer.address());
            spawn_local(refuse(io));
            return;
        }
    };
    let server = connection.metered(Side::Destination, server);
    if connection.copy(CopyBidirectional::new(io, server, watch)).await == CopyEnd::SpokeHttp {
        connection.refuse_late_http();
    }
    drop(permit);
}

/// Resets the client's connection, as close as it comes to the refusal of the application's system.
async fn refuse(io: Metered<ClientIo>) {
    sleep(CONNECTED).await;
    io.reset_on_close();
}

impl OpaqueConnection {
    fn register(self: &Rc<Self>, permit: &ConnectionPermit) -> Registration {
        let weak = Rc::downgrade(self);
        permit.serves(&self.peer, Weak::<Self>::clone(&weak));
        let tracked: Weak<dyn TrackedConnection> = weak;
        self.worker.register(tracked)
    }

    /// Connects to the application, unless that was done before.
    async fn dial(
        &self,
        upstream: SocketAddr,
        server: Option<Box<ServerFirst>>,
    ) -> Result<TcpStream, ErrorKind> {
        let dialled = match server.and_then(|server| server.into_server()) {
            Some(dialled) => dialled,
            None => {
                let config = &self.worker.shared.config;
                upstream::connect(upstream, config.timeouts.connect, &config.sockets).await
            }
        };
        dialled.map_err(Fault::kind)
    }

    /// Decides, counts and records. False if the connection is denied.
    fn decide(&self) -> bool {
        let live = self.handle.live();
        let policy = live.in_force();
        let decision = match &policy {
            Ok(policy) => {
                let connection = self.peer.connection(&policy.facts);
                into_result(policy.evaluator.decide_connection(&connection))
            }
            Err(reason) => {
                self.worker.shared.store.telemetry().refused(*reason);
                Err(Denial { reason: *reason, route: None })
            }
        };
        if let Ok(policy) = &policy {
            match &decision {
                Ok(permit) => self.count_permit(policy, permit),
                Err(denial) => {
                    policy.counters.tcp_denied(self.worker.index, self.caller, denial.reason);
                }
            }
        }
        if decision.is_ok() {
            self.handle.retain();
        }
        let refused = decision.as_ref().err().map(|denial| denial.reason);
        self.record(policy.ok(), decision);
        if refused == Some(Denied::ProtocolMismatch) {
            self.worker.count_tcp_error(ErrorKind::ProtocolMismatch);
        }
        refused.is_none()
    }

    fn count_permit(&self, policy: &ActivePolicy, permit: &Permit) {
        policy.counters.tcp_permitted(self.worker.index, self.caller, permit);
    }

    fn record(&self, policy: Option<&Arc<ActivePolicy>>, decision: Result<Permit, Denial>) {
        let mut decided = DecisionInfo {
            at: self.at,
            port: self.handle.port(),
            peer: &self.peer,
            policy: policy.map(|policy| &**policy),
            decision,
            id: None,
        };
        self.worker.record_connection(&mut decided);
    }

    /// Copies until both sides have closed, or the connection must end, which is checked first and
    /// resets both sides.
    async fn copy(&self, copy: CopyBidirectional) -> CopyEnd {
        let mut copy = pin!(copy);
        let mut before = (0, 0);
        let end = poll_fn(|cx| match self.close.poll(cx) {
            Some(_) => Poll::Ready(CopyEnd::Cut),
            None => {
                let copied = copy.as_mut().poll_copy(cx);
                let passed = copy.passed();
                if passed != before {
                    before = passed;
                    self.active.set(self.worker.now());
                }
                copied
            }
        })
        .await;
        match end {
            CopyEnd::Broken => copy.deliver(|cx| self.close.poll(cx).is_some()).await,
            CopyEnd::Done | CopyEnd::SpokeHttp | CopyEnd::Cut => end,
        }
    }

    fn metered<S>(&self, side: Side, stream: S) -> Metered<S> {
        let series = self.worker.tcp(side, &self.handle, self.caller);
        Metered::new(stream, Meter::open(&series, self.worker.index))
    }

    fn refuse_late_http(&self) {
        let live = self.handle.live();
        let policy = live.in_force().ok();
        let reason = Denied::ProtocolMismatch;
        if let Some(policy) = policy {
            policy.counters.tcp_denied(self.worker.index, self.caller, reason);
        }
        self.record(policy, Err(Denial { reason, route: None }));
        self.worker.count_tcp_error(ErrorKind::ProtocolMismatch);
    }
}

impl TrackedConnection for OpaqueConnection {
    fn review(&self) {
        let live = self.handle.live();
        let lost = match live.in_force() {
            Ok(policy) => {
                let connection = self.peer.connection(&policy.facts);
                let protocol = policy.evaluator.policy().protocol;
                match policy.evaluator.decide_connection(&connection) {
                    Decision::Permit(_)
                        if self.undetected && matches!(protocol, Protocol::Detect { .. }) =>
                    {
                        Some(Denial { reason: Denied::ProtocolMismatch, route: None })
                    }
                    Decision::Permit(_) => None,
                    Decision::Deny(denial) => Some(denial),
                }
            }
            Err(reason) => Some(Denial { reason, route: None }),
        };
        if lost.is_some() && self.close.get().is_none() {
            let policy = live.in_force().ok();
            if let Some(policy) = policy {
                policy.counters.tcp_terminated(self.worker.index, self.caller);
            }
            self.record(policy, Err(Denial { reason: Denied::Revoked, route: None }));
            self.close.raise(CloseReason::Revoked);
        }
    }

    fn tick(&self) {
        let Some(bound) = self.worker.shared.config.timeouts.opaque_idle else { return };
        let quiet = self.worker.now().saturating_sub(self.active.get());
        if u64::from(quiet) > bound.as_secs() && self.close.get().is_none() {
            self.close.raise(CloseReason::Idle);
        }
    }

    fn reverify(&self, judge: &mut ProofVerifier) {
        let stale = self.peer.proof().and_then(|proof| judge.stale(proof));
        let (Some(stale), None) = (stale, self.close.get()) else { return };
        let kind = match stale {
            ProofError::Untrusted => ErrorKind::TlsCertificateUntrusted,
            ProofError::Expired(since) => {
                let grace = self.worker.shared.config.timeouts.grace;
                if judge.now().duration_since(since).is_ok_and(|late| late < grace) {
                    return;
                }
                ErrorKind::TlsCertificateExpired
            }
        };
        self.worker.tcp_error(kind, self.peer.address());
        self.close.raise(CloseReason::Revoked);
    }

    /// Opaque connections last until they end by themselves or the grace period is over.
    fn drain(&self) {}
}

impl InboundConnection for OpaqueConnection {
    fn activity(&self) -> (bool, u32) {
        (true, self.active.get())
    }

    fn give_way(&self) {
        self.close.raise(CloseReason::Displaced);
    }
}

/// Time in which a client sees that it is connected. A reset that comes before looks to it as if nobody
/// listened.
const CONNECTED: Duration = Duration::from_millis(50);
