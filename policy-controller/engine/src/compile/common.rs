//! What ports with and without a Server have in common.

use crate::incremental::Context;
use policy_core::{
    Authorization, Condition, DefaultPolicy, NetworkMatch, Requirement, Source, Test,
};
use std::sync::Arc;

/// Adds the grant to loopback addresses that every port of Linkerd's proxy has, if configured.
/// What is audited stays last.
pub(super) fn with_localhost(
    cx: &Context<'_>,
    mut authorizations: Vec<Arc<Authorization>>,
) -> Vec<Arc<Authorization>> {
    if cx.config.localhost_authorization {
        let source = Source::Default("localhost".into());
        let loopback = [
            ipnet::Ipv4Net::new(std::net::Ipv4Addr::LOCALHOST, 8).ok().map(|n| n.trunc().into()),
            ipnet::Ipv6Net::new(std::net::Ipv6Addr::LOCALHOST, 128).ok().map(Into::into),
        ];
        let test = Test::Network(loopback.into_iter().flatten().map(NetworkMatch::net).collect());
        let condition = Condition { source: source.clone(), test };
        let requirement = Requirement::All([condition].into());
        let grant = Arc::new(Authorization { source, requirement, audit: false });
        let audited = authorizations.iter().position(|a| a.audit).unwrap_or(authorizations.len());
        authorizations.insert(audited, grant);
    }
    authorizations
}

/// The grant of a default policy, as a list.
pub(super) fn grants_of(policy: DefaultPolicy) -> Vec<Arc<Authorization>> {
    policy.authorizations().to_vec()
}
