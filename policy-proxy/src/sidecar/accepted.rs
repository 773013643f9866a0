//! An accepted connection whose destination is known, before its protocol is.

use super::detect::Detection;
use super::first_line::WireProtocol;
use super::server_first::ServerFirst;
use super::worker::{ConnectionPermit, Worker};
use policy_core::{Decision, Denial, Denied, Protocol, fold_mapped};
use policy_enforce::error::ErrorKind;
use policy_enforce::record::DecisionInfo;
use policy_enforce::store::{Live, PortHandle};
use policy_tls::peer::Peer;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// A connection whose destination is known.
pub(super) struct AcceptedConnection {
    pub(super) worker: Rc<Worker>,
    pub(super) permit: ConnectionPermit,
    pub(super) handle: PortHandle,
    pub(super) client: SocketAddr,
    pub(super) upstream: SocketAddr,
    pub(super) at: SystemTime,
}

impl AcceptedConnection {
    /// The protocol by which the connection is read now. Without a policy, HTTP is detected, so
    /// that the client can be sent a refusal.
    pub(super) fn protocol(&self) -> Protocol {
        let timeout = self.worker.shared.config.timeouts.detect;
        let live = self.handle.live();
        live.in_force()
            .map_or(Protocol::Detect { timeout }, |policy| policy.evaluator.policy().protocol)
    }

    /// True if the port's policy refuses everything but HTTP. False without a policy, which decides
    /// nothing.
    pub(super) fn requires_http(&self) -> bool {
        let live = self.handle.live();
        live.in_force().is_ok_and(|policy| !policy.evaluator.policy().admits_bytes())
    }

    /// The application's side of the connection, which may be dialled before the client speaks. Boxed,
    /// because it moves through the tasks of connections that are HTTP, too.
    pub(super) fn server_first(&self) -> Box<ServerFirst> {
        Box::new(ServerFirst::new(self.upstream, &self.worker.shared.config))
    }

    /// True if bytes would be carried for this client on a port of unknown protocol. Nothing is
    /// counted or recorded: the connection is decided on once its protocol is known.
    pub(super) fn would_carry_bytes(&self, peer: &Peer) -> bool {
        let live = self.handle.live();
        let Ok(policy) = live.in_force() else { return false };
        let own = policy.evaluator.policy();
        if !matches!(own.protocol, Protocol::Detect { .. }) || !own.admits_bytes() {
            return false;
        }
        match policy.evaluator.decide_connection(&peer.connection(&policy.facts)) {
            Decision::Permit(_) => true,
            Decision::Deny(_) => false,
        }
    }

    /// True if the original destination is one of the pod's addresses. Call it after
    /// [`Self::wait_for_policy`], because the policy's facts state these addresses. `local`: the
    /// local address of the socket.
    pub(super) fn is_for_this_pod(&self, local: Option<IpAddr>) -> bool {
        let live = self.handle.live();
        let facts: &[IpAddr] = live.in_force().map_or(&[], |policy| &policy.facts.pod_addresses);
        let configured: &[IpAddr] = &self.worker.shared.config.pod_addresses;
        is_pod_address(self.upstream.ip(), [facts, configured], local)
    }

    /// Counts and records the refusal of a connection that does not speak the Server's protocol.
    pub(super) fn refuse(&self, peer: &Peer, reason: Denied) {
        let live = self.handle.live();
        let policy = live.in_force().ok();
        let worker = &self.worker;
        if let Some(policy) = policy {
            let caller = worker.shared.store.telemetry().caller(&peer.as_tls());
            policy.counters.tcp_denied(worker.index, caller, reason);
        }
        let mut decided = DecisionInfo {
            at: self.at,
            port: self.handle.port(),
            peer,
            policy: policy.map(|policy| &**policy),
            decision: Err(Denial { reason, route: None }),
            id: None,
        };
        worker.record_connection(&mut decided);
        if reason == Denied::ProtocolMismatch {
            worker.count_tcp_error(ErrorKind::ProtocolMismatch);
        }
    }

    /// Waits for the first policy, bounded. A connection whose policy is still missing is decided
    /// on as `policy_pending`.
    pub(super) async fn wait_for_policy(&self) {
        if matches!(**self.handle.live(), Live::Waiting) {
            let _ = self.handle.ready(self.worker.shared.config.timeouts.pending_policy).await;
        }
    }

    pub(super) fn record_detection(&self, detected: Detection, took: Duration) {
        use policy_enforce::telemetry::DetectionResult as Counted;
        let counted = match detected {
            Detection::Protocol(WireProtocol::Http1) => Counted::Http1,
            Detection::Protocol(WireProtocol::Http2) => Counted::Http2,
            Detection::Protocol(WireProtocol::Other | WireProtocol::Proxy)
            | Detection::ServerFirst => Counted::NotHttp,
            Detection::Timeout => Counted::Timeout,
            Detection::Eof => Counted::Error,
        };
        if let Ok(policy) = self.handle.live().in_force() {
            policy.counters.detected(self.worker.index, counted, took);
        }
    }
}

/// True if `address` is among the stated addresses of the pod. If none are stated, the pod's
/// address is the local address of the socket.
fn is_pod_address(address: IpAddr, stated: [&[IpAddr]; 2], local: Option<IpAddr>) -> bool {
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
        assert!(is_pod_address(pod, [&[pod], &[]], None));
        assert!(is_pod_address(pod, [&[], &[ip("::ffff:10.1.2.3")]], None));
        assert!(!is_pod_address(other, [&[pod], &[]], Some(other)), "an address of the host's");
        assert!(is_pod_address(other, [&[], &[]], Some(other)));
        assert!(!is_pod_address(other, [&[], &[]], Some(pod)));
        assert!(!is_pod_address(other, [&[], &[]], None));
    }
}
