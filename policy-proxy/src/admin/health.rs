//! `/live` and `/ready`, on the admin port and on the port that only the redirection leads to the
//! sidecar: a response there proves that what arrives at the pod is redirected.

use super::answer::{refuse, refuse_method, text};
use super::{Admin, AdminState};
use crate::capture::Capture;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use policy_core::Denied;
use policy_enforce::respond::status_of;
use policy_enforce::store::{PortHandle, Unready};
use policy_tls::identity::IdentityStatus;
use policy_tls::peer::Peer;

impl Admin {
    /// Authorizes `/live` and `/ready`: every client while the node's addresses are unknown.
    pub(super) fn authorize_health<B>(
        &self,
        peer: &Peer,
        request: &Request<B>,
    ) -> Result<(), Denied> {
        let live = self.shared.own.as_ref().map(PortHandle::live);
        let policy = live.as_ref().and_then(|live| live.in_force().ok());
        let early = policy.is_none_or(|policy| policy.facts.node_local.is_empty());
        if early || self.is_pod_or_node(peer.ip()) { Ok(()) } else { self.decide(peer, request) }
    }

    pub(super) fn ready(&self) -> Response<Full<Bytes>> {
        let shared = &self.shared;
        let mut missing = Vec::new();
        if shared.drain.is_cancelled() {
            missing.push("draining".to_owned());
        }
        let reason = shared.status.as_ref().and_then(IdentityStatus::missing);
        missing.extend(reason.map(|reason| format!("identity: {reason}")));
        if let Some(Unready { workload, ports }) = shared.store.unready() {
            if workload {
                missing.push("workload: the declared ports are not known yet".to_owned());
            }
            missing.extend(ports.iter().map(|port| format!("port {port}: policy")));
        }
        missing.extend(shared.uncaptured());
        if missing.is_empty() {
            return text(StatusCode::OK, "ready\n");
        }
        let list: String = missing.iter().map(|what| format!("  {what}\n")).collect();
        text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready, missing:\n{list}"))
    }

    /// Returns the response to a request on the probed port: `/live` answers whether the pod's
    /// connections are captured, `/ready` besides whether the proxy is ready.
    pub(super) fn answer_captured<B>(
        &self,
        peer: &Peer,
        request: &Request<B>,
    ) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        match (path, request.method()) {
            ("/live" | "/ready", &Method::GET | &Method::HEAD) => {}
            ("/live" | "/ready", _) => return refuse_method("GET, HEAD"),
            (_, _) => return refuse(StatusCode::NOT_FOUND, "not found"),
        }
        if let Err(reason) = self.authorize_health(peer, request) {
            self.notice(peer, request, reason);
            return refuse(status_of(reason), reason.as_str());
        }
        if path == "/ready" {
            return self.ready();
        }
        match self.shared.uncaptured() {
            None => text(StatusCode::OK, "captured\n"),
            Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        }
    }
}

impl AdminState {
    /// The reason for which the pod's own connections are not proven to be captured, if they should
    /// be.
    fn uncaptured(&self) -> Option<String> {
        self.config.capture.as_ref().and_then(Capture::missing)
    }
}
