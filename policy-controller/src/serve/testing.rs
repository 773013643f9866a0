//! Policies for the tests of this module.

use policy_core::{
    DefaultPolicy, ObjectRef, Owner, PathHandling, Protocol, RouteTable, ServerPolicy, Unmatched,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A policy owned by the Server `name` of the namespace `ns` that admits everybody.
pub(crate) fn policy(name: &str) -> Arc<ServerPolicy> {
    Arc::new(ServerPolicy {
        owner: Owner::Server(ObjectRef::new("policy.linkerd.io", "Server", "ns", name)),
        protocol: Protocol::Http1,
        deny: None,
        paths: PathHandling::Canonical,
        authorizations: DefaultPolicy::AllUnauthenticated.authorizations(),
        exemptions: Vec::new(),
        routes: RouteTable {
            routes: Vec::new(),
            hosts: BTreeMap::new(),
            otherwise: Unmatched::DefaultRoute,
        },
        rate_limit: None,
        effects: Vec::new(),
        withheld: Vec::new(),
    })
}
