//! A connection on its way from the listener to what carries it.

use super::detect::Detected;
use super::first_line::Spoken;
use super::worker::{Seat, Worker};
use policy_core::{Denial, Denied, Protocol, fold_mapped};
use policy_enforce::error::ErrorKind;
use policy_enforce::record::DecisionInfo;
use policy_enforce::store::{Live, PortHandle};
use policy_tls::peer::Peer;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// A connection whose destination is known.
pub(super) struct Arrival {
    pub(super) worker: Rc<Worker>,
    pub(super) seat: Seat,
    pub(super) handle: PortHandle,
    pub(super) client: SocketAddr,
    pub(super) upstream: SocketAddr,
    pub(super) at: SystemTime,
}

impl Arrival {
    /// How the connection is to be read now. Without a policy to say, HTTP is looked for, so that
    /// the refusal can be told.
    pub(super) fn protocol(&self) -> Protocol {
        let timeout = self.worker.shared.config.timeouts.detect;
        let live = self.handle.live();
        live.in_force()
            .map_or(Protocol::Detect { timeout }, |policy| policy.evaluator.policy().protocol)
    }

    /// Whether the port's policy refuses whatever is not HTTP. False without a policy, which decides
    /// nothing.
    pub(super) fn refuses_bytes(&self) -> bool {
        let live = self.handle.live();
        live.in_force().is_ok_and(|policy| !policy.evaluator.policy().admits_bytes())
    }

    /// Whether the connection was going to the pod. Asked once policy is there, or will not be, since
    /// the facts beside it state the pod's addresses. `local`: the address that this end has.
    pub(super) fn is_ours(&self, local: Option<IpAddr>) -> bool {
        let live = self.handle.live();
        let facts: &[IpAddr] = live.in_force().map_or(&[], |policy| &policy.facts.pod_addresses);
        let configured: &[IpAddr] = &self.worker.shared.config.pod_addresses;
        is_one_of(self.upstream.ip(), [facts, configured], local)
    }

    /// Closes a connection that is not of the kind that the Server declares.
    pub(super) fn refuse(&self, peer: &Peer, reason: Denied) {
        let live = self.handle.live();
        let policy = live.in_force().ok();
        let worker = &self.worker;
        if let Some(policy) = policy {
            let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
            policy.counters.tcp_denied(worker.index, caller, reason);
        }
        let decided = DecisionInfo {
            at: self.at,
            port: self.handle.port(),
            peer,
            policy: policy.map(|policy| &**policy),
            decision: Err(Denial { reason, route: None }),
        };
        worker.record_connection(&decided);
        if reason == Denied::ProtocolMismatch {
            worker.count_tcp_error(ErrorKind::ProtocolMismatch);
        }
    }

    /// Waits for the first policy, bounded. Still waiting afterwards is decided like any other state:
    /// as `policy_pending`.
    pub(super) async fn policy_there(&self) {
        if matches!(**self.handle.live(), Live::Waiting) {
            let _ = self.handle.ready(self.worker.shared.config.timeouts.pending_policy).await;
        }
    }

    pub(super) fn count_detected(&self, detected: Detected, took: Duration) {
        use policy_enforce::telemetry::DetectionResult as Counted;
        let counted = match detected {
            Detected::Told(Spoken::Http1) => Counted::Http1,
            Detected::Told(Spoken::Http2) => Counted::Http2,
            Detected::Told(Spoken::Other | Spoken::Proxy) => Counted::NotHttp,
            Detected::Silent => Counted::Timeout,
            Detected::Ended => Counted::Error,
        };
        if let Ok(policy) = self.handle.live().in_force() {
            policy.counters.detected(self.worker.index, counted, took);
        }
    }
}

/// What is stated of the pod's addresses decides alone. Where nothing is, the pod is reached at the
/// address that this end of the connection has.
fn is_one_of(address: IpAddr, stated: [&[IpAddr]; 2], local: Option<IpAddr>) -> bool {
    if stated.iter().all(|stated| stated.is_empty()) {
        return local == Some(address);
    }
    stated.iter().any(|stated| stated.iter().any(|ip| fold_mapped(*ip) == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_addresses_decide_alone_and_the_sockets_own_only_without_them() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let (pod, other) = (ip("10.1.2.3"), ip("10.1.2.4"));
        assert!(is_one_of(pod, [&[pod], &[]], None));
        assert!(is_one_of(pod, [&[], &[ip("::ffff:10.1.2.3")]], None));
        assert!(!is_one_of(other, [&[pod], &[]], Some(other)), "an address of the host's");
        assert!(is_one_of(other, [&[], &[]], Some(other)));
        assert!(!is_one_of(other, [&[], &[]], Some(pod)));
        assert!(!is_one_of(other, [&[], &[]], None));
    }
}
