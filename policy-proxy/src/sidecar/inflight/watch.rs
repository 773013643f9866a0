//! Reviews of an HTTP connection: on changes of policy, by the clock, and on changes of trust.

use super::{HttpConnection, InflightGuard, InflightRequest};
use crate::sidecar::accepted::AcceptedConnection;
use crate::sidecar::places::InboundConnection;
use crate::sidecar::worker::TrackedConnection;
use policy_core::{DecisionId, Denial, Denied};
use policy_enforce::error::ErrorKind;
use policy_enforce::record::{DecisionInfo, RequestLine};
use policy_http::shutdown::Shutdown;
use policy_tls::identity::{ProofError, ProofVerifier};
use policy_tls::peer::Peer;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant, SystemTime};

impl HttpConnection {
    /// Creates the connection and registers it with its worker.
    pub(crate) fn register(accepted: AcceptedConnection, peer: Peer, http2: bool) -> Rc<Self> {
        let connection = Rc::new(Self::new(accepted, peer, http2));
        let weak = Rc::downgrade(&connection);
        if let Some(account) = connection.upstream.streams.account() {
            Self::end_by(account, Weak::clone(&weak));
        }
        connection.permit.serves(&connection.peer, Weak::<Self>::clone(&weak));
        let tracked: Weak<dyn TrackedConnection> = weak;
        let registration = connection.worker.register(tracked);
        connection.registration.get_or_init(|| registration);
        connection
    }

    /// Ends after the in-flight requests, unless it is to end at once already.
    fn end_gracefully(&self) {
        if self.ending.get().is_none() {
            self.ending.raise(Shutdown::Graceful);
        }
    }

    /// Revokes an in-flight request. If its response has not started, the denial in its place is
    /// recorded.
    fn revoke(&self, open: &mut InflightRequest) {
        let route = open.permit.route();
        let denial = Denial { reason: Denied::Revoked, route };
        open.policy.counters.http_denied(self.worker.index, self.caller, &denial);
        let mut decided = DecisionInfo {
            at: SystemTime::now(),
            port: self.handle.port(),
            peer: &self.peer,
            policy: Some(&open.policy),
            decision: Err(denial),
            id: None,
        };
        let (method, path) = (open.request.method(), open.request.target());
        let judged = RequestLine { method, host: open.request.authority(), path, canonical: false };
        let notices = &self.worker.shared.config.notices;
        let id = notices.log(&mut decided, Some(judged), Instant::now());
        if let Some(begun) = open.begun {
            self.worker.record(&decided, open.record(begun));
        }
        open.refusal = id;
        open.lost_at = self.worker.now();
        open.lost.raise(Denied::Revoked);
        open.lost_upload.raise(Denied::Revoked);
    }
}

impl InflightGuard {
    /// Notes that bytes of the request or its answer have moved.
    pub(in crate::sidecar) fn moved(&self) {
        self.connection.active.set(self.connection.worker.now());
    }

    /// The reason of the lost permission; none wakes `cx` when it is lost.
    pub(in crate::sidecar) fn poll_revoked(&self, cx: &Context<'_>) -> Option<Denied> {
        let open = self.connection.inflight.borrow();
        let open = open.get(self.key)?;
        if self.upload { open.lost_upload.poll(cx) } else { open.lost.poll(cx) }
    }

    /// The reason of the lost permission, if it is lost by now.
    pub(in crate::sidecar) fn revoked(&self) -> Option<Denied> {
        let open = self.connection.inflight.borrow();
        let open = open.get(self.key)?;
        if self.upload { open.lost_upload.get() } else { open.lost.get() }
    }

    /// The id of the record of the lost permission.
    pub(in crate::sidecar) fn refusal(&self) -> Option<DecisionId> {
        self.connection.inflight.borrow().get(self.key)?.refusal
    }
}

impl TrackedConnection for HttpConnection {
    fn review(&self) {
        let live = self.handle.live();
        let policy = live.in_force().ok();
        for (_, open) in self.inflight.borrow_mut().iter_mut() {
            let same = policy.is_some_and(|policy| Arc::ptr_eq(policy, &open.policy));
            if same || open.lost.get().is_some() {
                continue;
            }
            match (open.request.review(&live, &self.peer), policy) {
                (Ok(permit), Some(policy)) => {
                    // Otherwise a long stream would keep the policy of its start in memory.
                    let (worker, caller) = (self.worker.index, self.caller);
                    open.exchange.series = policy.counters.series_of(worker, caller, &permit);
                    open.keep_rewritten();
                    open.permit = permit;
                    open.policy = Arc::clone(policy);
                }
                (Ok(_) | Err(_), _) => self.revoke(open),
            }
        }
        self.authorizer.borrow_mut().forget_unless(policy);
    }

    fn tick(&self) {
        if !self.inflight.borrow().is_empty() {
            // A client that reads no response never sees that its response was cut off.
            let old = |open: &InflightRequest| {
                self.worker.now().saturating_sub(open.lost_at) >= LOST_TICKS
            };
            let stuck = |open: &InflightRequest| open.lost.get().is_some() && old(open);
            if !self.http2 && self.inflight.borrow().iter().any(|(_, open)| stuck(open)) {
                self.ending.raise(Shutdown::Immediate);
            } else if !self.http2 && (self.is_uploading() || self.half_closed.get()) {
                // Checks if the client is still there while its body is not read.
                self.ending.wake();
            }
            return;
        }
        self.upstream.remove_closed();
        let timeouts = &self.worker.shared.config.timeouts;
        let over = |seconds: u32, bound: Duration| u64::from(seconds) > bound.as_secs();
        let since = self.unfinished_since.get();
        let unfinished = self.worker.now().saturating_sub(since);
        let idle = self.worker.now().saturating_sub(self.active.get());
        // A client that does not read the rest of its response does not end by a graceful close.
        let unresponsive = timeouts.idle.saturating_add(timeouts.request_head);
        if (since > 0 && over(unfinished, timeouts.request_head)) || over(idle, unresponsive) {
            self.ending.raise(Shutdown::Immediate);
        } else if over(idle, timeouts.idle) || self.handle.is_evicted() {
            self.end_gracefully();
        }
    }

    fn reverify(&self, judge: &mut ProofVerifier) {
        let stale = self.peer.proof().and_then(|proof| judge.stale(proof));
        let (Some(stale), false) = (stale, self.ending.get() == Some(Shutdown::Immediate)) else {
            return;
        };
        let kind = match stale {
            ProofError::Untrusted => ErrorKind::TlsCertificateUntrusted,
            ProofError::Expired(since) => {
                let grace = self.worker.shared.config.timeouts.grace;
                if judge.now().duration_since(since).is_ok_and(|late| late < grace) {
                    self.end_gracefully();
                    return;
                }
                ErrorKind::TlsCertificateExpired
            }
        };
        self.worker.tcp_error(kind, self.client());
        // Tunnels outlive the connection.
        let mut all = self.inflight.borrow_mut();
        let standing = all.iter_mut().filter(|(_, open)| open.lost.get().is_none());
        standing.for_each(|(_, open)| self.revoke(open));
        self.ending.raise(Shutdown::Immediate);
    }

    fn drain(&self) {
        self.end_gracefully();
    }
}

impl InboundConnection for HttpConnection {
    fn activity(&self) -> (bool, u32) {
        (!self.inflight.borrow().is_empty(), self.active.get())
    }

    fn give_way(&self) {
        // Tunnels outlive the connection.
        self.inflight.borrow().iter().for_each(|(_, open)| open.lost.raise(Denied::Revoked));
        self.ending.raise(Shutdown::Immediate);
    }
}

/// Ticks, of a second each, after which a client that does not read the end of a revoked response
/// is disconnected.
const LOST_TICKS: u32 = 2;
