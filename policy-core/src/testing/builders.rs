//! Policies, grants and routes in few words.

use crate::authorization::{Authorization, AuthorizationSet, Condition, Predicate, Requirement};
use crate::compact_list::ThinVec;
use crate::identity::IdentityMatch;
use crate::matching::RequestMatch;
use crate::name::{ObjectRef, Origin, Source};
use crate::network::NetworkMatch;
use crate::policy::{
    DefaultPolicy, Owner, Protocol, Route, RouteKind, Rule, ServerPolicy, Unmatched,
};
use std::sync::Arc;

/// A policy of a Server on HTTP/1 that has no routes and grants nothing.
pub fn policy() -> ServerPolicy {
    let owner = Owner::Server(object("Server", "web"));
    let mut policy = ServerPolicy::without_grants(owner, Protocol::Http1);
    policy.routes.otherwise = Unmatched::NotFound;
    policy
}

/// A policy as `policy`, with the grants of a default policy instead of a Server.
pub fn default_policy(default: DefaultPolicy) -> ServerPolicy {
    let mut made = policy();
    made.owner = Owner::Default(default);
    made.authorizations = default.authorizations();
    made.routes.otherwise = Unmatched::DefaultRoute;
    made
}

/// An object of our tests' namespace.
pub fn object(kind: &str, name: &str) -> ObjectRef {
    ObjectRef::new("policy.linkerd.io", kind, "test", name)
}

/// An HTTP route with one rule, for every host, without grants.
pub fn route(name: &str, matches: Vec<RequestMatch>) -> Route {
    Route {
        origin: Origin::Objects([object("HTTPRoute", name)].into()),
        kind: RouteKind::Http,
        created: None,
        label: None,
        hosts: ThinVec::new(),
        rules: [Rule { matches: matches.into(), effects: ThinVec::new() }].into(),
        authorizations: AuthorizationSet::default(),
        inherits_server: true,
        withheld: ThinVec::new(),
    }
}

/// A grant with the conditions `tests`; without conditions if there are none.
pub fn grant(name: &str, tests: Vec<Predicate>) -> Arc<Authorization> {
    let source = Source::Object(object("AuthorizationPolicy", name));
    let requirement = if tests.is_empty() {
        Requirement::Nothing
    } else {
        let condition = |test| Condition { source: source.clone(), test };
        Requirement::All(tests.into_iter().map(condition).collect())
    };
    Arc::new(Authorization { source, requirement, audit: false })
}

/// A set of grants.
pub fn set(grants: Vec<Arc<Authorization>>) -> AuthorizationSet {
    grants.into()
}

/// Clients with exactly this identity.
pub fn identity(name: &str) -> Predicate {
    Predicate::Identity(vec![IdentityMatch::Exact(name.into())])
}

/// Clients in this block, given as CIDR. An invalid block admits no client.
pub fn network(net: &str) -> Predicate {
    Predicate::Network(net.parse().map(NetworkMatch::net).into_iter().collect())
}
