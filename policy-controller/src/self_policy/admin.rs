//! Connections and requests that are decided on without a layer in front.

use http::{Request, StatusCode};
use policy_core::evaluator::Memo;
use policy_core::target::canonical_target;
use policy_core::{Decision, Denied, RequestView};
use policy_enforce::PortHandle;
use policy_tls::peer::Peer;

/// The answer to a request that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// Its text: the reason.
    pub text: &'static str,
}

impl Refusal {
    pub(super) fn of(reason: Denied) -> Self {
        Self { status: policy_enforce::respond::status_of(reason), text: reason.as_str() }
    }
}

/// Decides on a connection without reading its bytes.
pub(super) fn connection(handle: &PortHandle, peer: &Peer) -> Result<(), Denied> {
    let live = handle.live();
    let policy = live.in_force()?;
    match policy.evaluator.decide_connection(&peer.connection(&policy.facts)) {
        Decision::Permit(_) => Ok(()),
        Decision::Deny(denial) => Err(denial.reason),
    }
}

/// Decides on a request.
pub(super) fn request<B>(
    handle: &PortHandle,
    peer: &Peer,
    request: &Request<B>,
) -> Result<(), Denied> {
    let live = handle.live();
    let policy = live.in_force()?;
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let handling = policy.evaluator.policy().paths;
    let target = canonical_target(method, uri, request.version(), headers, handling);
    let target = target.map_err(Denied::Target)?;
    let view = RequestView {
        method,
        host: target.host.as_deref(),
        path: &target.path,
        query: target.query,
        headers,
    };
    let connection = peer.connection(&policy.facts);
    match policy.evaluator.decide_request(&connection, &mut Memo::new(), &view) {
        Decision::Permit(_) => Ok(()),
        Decision::Deny(denial) => Err(denial.reason),
    }
}
