//! The policy of the sidecar under test: routes that let requests through or not by each thing that a match
//! can look at, so that a request which reaches the application in another form than it was judged in is
//! one that ought not to be there.

use policy_core::testing::{default_policy, route};
use policy_core::{
    AuthorizationSet, DefaultPolicy, HeaderMatch, HostPattern, PathPattern, Pattern, Protocol,
    QueryMatch, RequestMatch, Route, ServerPolicy, Unmatched, ValueMatch,
};
use std::sync::Arc;

/// For a port of this protocol.
pub(super) fn policy(protocol: Protocol) -> ServerPolicy {
    let mut policy = default_policy(DefaultPolicy::AllUnauthenticated);
    policy.protocol = protocol;
    policy.routes.otherwise = Unmatched::NotFound;
    policy.routes.routes = routes().into_iter().map(Arc::new).collect();
    policy
}

fn routes() -> Vec<Route> {
    let by_path = |path| RequestMatch::path(PathPattern::prefix(path));
    let all = |path| PathPattern::prefix(path);
    let role = |name| {
        vec![HeaderMatch { name: http::HeaderName::from_static("x-role"), value: exact(name) }]
    };
    let cookie = vec![HeaderMatch { name: http::header::COOKIE, value: regex(".*guest.*") }];
    let token = vec![QueryMatch { name: "token".into(), value: exact("1") }];
    let mut inner = open("inner", by_path("/"));
    inner.hosts = [HostPattern::Exact("inner.example".into())].into();
    let written = RequestMatch::path(PathPattern::Regex(pattern("/files/[a-z]+\\.txt")));
    vec![
        open("open", by_path("/open")),
        closed("admin", by_path("/open/admin")),
        open("post", RequestMatch::new(all("/post"), Some(http::Method::POST), vec![], vec![])),
        open("roles", by_path("/roles")),
        closed("guests", RequestMatch::new(all("/roles"), None, role("guest"), vec![])),
        closed("cookies", RequestMatch::new(all("/roles"), None, cookie, vec![])),
        open("staff", RequestMatch::new(all("/staff"), None, role("staff"), vec![])),
        open("tokens", RequestMatch::new(all("/tokens"), None, vec![], token)),
        open("files", written),
        inner,
    ]
}

fn exact(text: &str) -> ValueMatch {
    ValueMatch::Exact(text.as_bytes().into())
}

fn regex(text: &str) -> ValueMatch {
    ValueMatch::Regex(pattern(text))
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).expect("the pattern is one")
}

fn open(name: &str, matched: RequestMatch) -> Route {
    Route {
        authorizations: DefaultPolicy::AllUnauthenticated.authorizations(),
        ..closed(name, matched)
    }
}

fn closed(name: &str, matched: RequestMatch) -> Route {
    let route = route(name, vec![matched]);
    Route { inherits_server: false, authorizations: AuthorizationSet::default(), ..route }
}
