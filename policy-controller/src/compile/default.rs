//! Ports that no Server owns (controller-semantics 2.3).

use super::DETECT_TIMEOUT;
use policy_core::{
    Authorization, Condition, DefaultPolicy, NetworkMatch, NetworkSymbol, Owner, Protocol,
    Requirement, ServerPolicy, Source, Test,
};
use std::sync::Arc;

/// The policy of such a port, before probes.
pub(super) fn policy(policy: DefaultPolicy, opaque: bool) -> ServerPolicy {
    let protocol =
        if opaque { Protocol::Opaque } else { Protocol::Detect { timeout: DETECT_TIMEOUT } };
    let mut compiled = ServerPolicy::without_grants(Owner::Default(policy), protocol);
    compiled.authorizations = policy.authorizations();
    compiled
}

/// The policy of the proxy's own port, whatever the default of the workload: any mesh identity and
/// the node may read metrics (product, *Admin port*). A Server that owns the port replaces it.
pub(super) fn proxy_port() -> ServerPolicy {
    let mut compiled = policy(DefaultPolicy::AllAuthenticated, false);
    let source = Source::Default("admin".into());
    let test = Test::Network(vec![NetworkMatch::symbol(NetworkSymbol::NodeLocal)]);
    let requirement = Requirement::All(vec![Condition { source: source.clone(), test }]);
    let node = Arc::new(Authorization { source, requirement, audit: false });
    compiled.authorizations = compiled.authorizations.iter().cloned().chain([node]).collect();
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
