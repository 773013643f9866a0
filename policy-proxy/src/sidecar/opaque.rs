//! Carries bytes both ways, and ends the connection when policy takes its permission back.
//!
//! The connection is registered with its worker before it is decided on, so that no change of policy
//! falls between the decision and the watch.

use super::arrival::Arrival;
use super::copy::{Copied, Copy, Look};
use super::io::{ClientIo, Metered};
use super::upstream;
use super::worker::{Member, Worker, outcome};
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
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::SystemTime;

/// An open connection that carries bytes.
struct Carried {
    worker: Rc<Worker>,
    handle: PortHandle,
    peer: Peer,
    caller: Caller,
    at: SystemTime,
    /// Whether HTTP was not looked for, because of the protocol that the port had.
    unseen: bool,
    /// Raised to end the connection.
    over: Signal<Over>,
    /// When bytes were last carried, by the worker's clock.
    active: Cell<u32>,
}

/// Why an open connection ends from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// Its permission was lost.
    Revoked,
    /// Nothing was carried for longer than the bound.
    Idle,
}

/// Decides on a connection and carries it. Where HTTP was looked for and not found, `look` goes on
/// looking: a client that turns out to speak HTTP is refused, lest waiting be a way around HTTP policy.
pub(super) async fn carry(arrival: Arrival, peer: Peer, io: ClientIo, look: Look) {
    let Arrival { worker, seat, handle, client, upstream, at } = arrival;
    let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
    let active = Cell::new(worker.now());
    let unseen = look == Look::Never;
    let over = Signal::new();
    let carried = Rc::new(Carried { worker, handle, peer, caller, at, unseen, over, active });
    let weak = Rc::downgrade(&carried);
    let member: Weak<dyn Member> = weak;
    let _membership = carried.worker.join(member);
    if !carried.decide() {
        return;
    }
    let io = carried.metered(Side::Source, io);
    let config = &carried.worker.shared.config;
    let server = match upstream::connect(upstream, config.timeouts.connect, &config.sockets).await {
        Ok(server) => server,
        Err(fault) => {
            let kind = match fault {
                Fault::ConnectTimeout => ErrorKind::ConnectTimeout,
                Fault::Connect
                | Fault::Broken
                | Fault::UnaskedUpgrade
                | Fault::Timeout
                | Fault::HeadTooLarge => ErrorKind::Connect,
            };
            return carried.worker.tcp_error(kind, client);
        }
    };
    let server = carried.metered(Side::Destination, server);
    let copied = carried.copy(Copy::new(io, server, look)).await;
    match copied {
        Ok(Copied::Done) | Err(_) => {}
        Ok(Copied::SpokeHttp) => carried.refuse_late_http(),
    }
    drop(seat);
}

impl Carried {
    /// Decides, counts and records. False: refused.
    fn decide(&self) -> bool {
        let live = self.handle.live();
        let policy = live.in_force();
        let decision = match &policy {
            Ok(policy) => {
                let connection = self.peer.connection(&policy.facts);
                outcome(policy.evaluator.decide_connection(&connection))
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
        let decided = DecisionInfo {
            at: self.at,
            port: self.handle.port(),
            peer: &self.peer,
            policy: policy.map(|policy| &**policy),
            decision,
        };
        self.worker.record_connection(&decided);
    }

    /// Copies until both sides have ended, or permission is lost. Revocation is looked at first.
    async fn copy(&self, copy: Copy) -> std::io::Result<Copied> {
        let mut copy = pin!(copy);
        let mut before = (0, 0);
        poll_fn(|cx| match self.over.poll(cx) {
            Some(_) => Poll::Ready(Ok(Copied::Done)),
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
        .await
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

impl Member for Carried {
    fn review(&self) {
        let live = self.handle.live();
        let lost = match live.in_force() {
            Ok(policy) => {
                let connection = self.peer.connection(&policy.facts);
                let protocol = policy.evaluator.policy().protocol;
                match policy.evaluator.decide_connection(&connection) {
                    Decision::Permit(_)
                        if self.unseen && matches!(protocol, Protocol::Detect { .. }) =>
                    {
                        Some(Denial { reason: Denied::ProtocolMismatch, route: None })
                    }
                    Decision::Permit(_) => None,
                    Decision::Deny(denial) => Some(denial),
                }
            }
            Err(reason) => Some(Denial { reason, route: None }),
        };
        if lost.is_some() && self.over.get().is_none() {
            let policy = live.in_force().ok();
            if let Some(policy) = policy {
                policy.counters.tcp_terminated(self.worker.index, self.caller);
            }
            self.record(policy, Err(Denial { reason: Denied::Revoked, route: None }));
            self.over.raise(Over::Revoked);
        }
    }

    fn tick(&self) {
        let Some(bound) = self.worker.shared.config.timeouts.opaque_idle else { return };
        let quiet = self.worker.now().saturating_sub(self.active.get());
        if u64::from(quiet) > bound.as_secs() && self.over.get().is_none() {
            self.over.raise(Over::Idle);
        }
    }

    fn prove(&self, judge: &mut ProofVerifier) {
        let stale = self.peer.proof().and_then(|proof| judge.stale(proof));
        let (Some(stale), None) = (stale, self.over.get()) else { return };
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
        self.over.raise(Over::Revoked);
    }

    /// Bytes run on until they end by themselves or the grace period is over.
    fn drain(&self) {}
}
