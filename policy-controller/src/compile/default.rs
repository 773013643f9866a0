//! Ports that no Server owns (controller-semantics 2.3).

use super::{DETECT_TIMEOUT, bare};
use policy_core::{DefaultPolicy, Owner, Protocol, ServerPolicy};

/// The policy of such a port, before probes.
pub(super) fn policy(policy: DefaultPolicy, opaque: bool) -> ServerPolicy {
    let protocol =
        if opaque { Protocol::Opaque } else { Protocol::Detect { timeout: DETECT_TIMEOUT } };
    let mut compiled = bare(Owner::Default(policy), protocol);
    compiled.authorizations = policy.authorizations();
    compiled
}

/// What a policy becomes where clients must have an identity.
pub(super) fn authenticated(policy: DefaultPolicy) -> DefaultPolicy {
    match policy {
        DefaultPolicy::AllUnauthenticated | DefaultPolicy::AllAuthenticated => {
            DefaultPolicy::AllAuthenticated
        }
        DefaultPolicy::ClusterUnauthenticated | DefaultPolicy::ClusterAuthenticated => {
            DefaultPolicy::ClusterAuthenticated
        }
        DefaultPolicy::Deny => DefaultPolicy::Deny,
        DefaultPolicy::Audit => DefaultPolicy::Audit,
    }
}
