//! What a connection does about changes of policy, time and trust.

use super::{HttpConnection, Open};
use crate::sidecar::arrival::Arrival;
use crate::sidecar::worker::Member;
use policy_core::{Denial, Denied};
use policy_enforce::error::ErrorKind;
use policy_enforce::record::{DecisionInfo, RequestLine};
use policy_http::shutdown::Shutdown;
use policy_tls::identity::{ProofError, ProofVerifier};
use policy_tls::peer::Peer;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

impl HttpConnection {
    /// Makes the connection and registers it with its worker.
    pub(crate) fn register(arrival: Arrival, peer: Peer, http2: bool) -> Rc<Self> {
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
            self.ending.raise(Shutdown::Graceful);
        }
    }

    /// Ends an open request. Where its answer is yet to begin, the refusal in its place is recorded.
    fn revoke(&self, open: &mut Open) {
        let route = open.permit.route();
        let denial = Denial { reason: Denied::Revoked, route };
        open.policy.counters.http_denied(self.worker.index, self.caller, &denial);
        let decided = DecisionInfo {
            at: SystemTime::now(),
            port: self.handle.port(),
            peer: &self.peer,
            policy: Some(&open.policy),
            decision: Err(denial),
        };
        let (method, path) = (open.kept.method(), open.kept.target());
        let judged = RequestLine { method, path, canonical: false };
        self.worker.shared.config.notices.log(&decided, Some(judged), Instant::now());
        if let Some(begun) = open.begun {
            self.worker.record(&decided, open.request(begun));
        }
        open.lost_at = self.worker.now();
        open.lost.raise(Denied::Revoked);
        open.lost_upload.raise(Denied::Revoked);
    }
}

impl Member for HttpConnection {
    fn review(&self) {
        let live = self.handle.live();
        let policy = live.in_force().ok();
        for (_, open) in self.open.borrow_mut().iter_mut() {
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
            if !self.http2 && self.open.borrow().iter().any(|(_, open)| stuck(open)) {
                self.ending.raise(Shutdown::Immediate);
            } else if !self.http2 && self.is_uploading() {
                // Looks whether its client is still there, while nobody takes what it sends.
                self.ending.wake();
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
            self.ending.raise(Shutdown::Immediate);
        } else if over(idle, timeouts.idle) || self.handle.is_evicted() {
            self.end_gracefully();
        }
    }

    fn prove(&self, judge: &mut ProofVerifier) {
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
        // Tunnels do not end with the connection.
        let mut all = self.open.borrow_mut();
        let standing = all.iter_mut().filter(|(_, open)| open.lost.get().is_none());
        standing.for_each(|(_, open)| self.revoke(open));
        self.ending.raise(Shutdown::Immediate);
    }

    fn drain(&self) {
        self.end_gracefully();
    }
}

/// Ticks, of a second each, after which a client that does not take the end of what it lost is cut off.
const LOST_TICKS: u32 = 2;
