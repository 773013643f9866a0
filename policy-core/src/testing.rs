//! Policies, connections and hostile requests for tests: builders and property-test strategies.
//!
//! The strategies draw from small alphabets, so that what is asked for and what is sent meet often
//! and near misses are common.

pub mod benchmark;
pub mod replay;
mod strategies;

pub use strategies::{any_client, any_policy, any_request};

use crate::authorization::{Authorization, AuthorizationSet, Condition, Requirement, Test};
use crate::few::Rare;
use crate::identity::{Identity, IdentityMatch};
use crate::matching::RequestMatch;
use crate::name::{ObjectRef, Origin, Source};
use crate::network::{Facts, NetworkMatch};
use crate::policy::{
    DefaultPolicy, Owner, Protocol, Route, RouteKind, Rule, ServerPolicy, Unmatched,
};
use crate::request::{Connection, RequestView, Tls};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::net::{IpAddr, Ipv4Addr};
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
        hosts: Box::default(),
        rules: [Rule { matches: matches.into(), effects: Rare::new() }].into(),
        authorizations: AuthorizationSet::default(),
        inherits_server: true,
        withheld: Rare::new(),
    }
}

/// A grant that asks for all of `tests`; for nothing if there are none.
pub fn grant(name: &str, tests: Vec<Test>) -> Arc<Authorization> {
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
pub fn identity(name: &str) -> Test {
    Test::Identity(vec![IdentityMatch::Exact(name.into())])
}

/// Clients in this block, given as CIDR. What is no block names nobody.
pub fn network(net: &str) -> Test {
    Test::Network(net.parse().map(NetworkMatch::net).into_iter().collect())
}

/// A connection that owns what it lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedConnection {
    /// The client's address.
    pub client: IpAddr,
    /// What is known of TLS.
    pub tls: OwnedTls,
    /// The workload's facts.
    pub facts: Facts,
}

/// The state of TLS on an [`OwnedConnection`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedTls {
    /// As [`Tls::Absent`].
    Absent,
    /// As [`Tls::Passthrough`].
    Passthrough,
    /// As [`Tls::Terminated`].
    Terminated(Option<Identity>),
}

impl OwnedConnection {
    /// Plaintext from an IPv4 address, without facts.
    pub fn plaintext(client: [u8; 4]) -> Self {
        Self {
            client: Ipv4Addr::from(client).into(),
            tls: OwnedTls::Absent,
            facts: Facts::default(),
        }
    }

    /// Mesh TLS with a DNS identity, from 10.0.0.1.
    pub fn meshed(name: &str) -> Self {
        let tls = OwnedTls::Terminated(Some(Identity::Dns(name.into())));
        Self { tls, ..Self::plaintext([10, 0, 0, 1]) }
    }

    /// What the evaluator sees.
    pub fn view(&self) -> Connection<'_> {
        let tls = match &self.tls {
            OwnedTls::Absent => Tls::Absent,
            OwnedTls::Passthrough => Tls::Passthrough,
            OwnedTls::Terminated(identity) => Tls::Terminated(identity.as_ref()),
        };
        Connection { client: self.client, tls, facts: &self.facts }
    }
}

/// A request that owns what it lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    /// Method.
    pub method: Method,
    /// Host.
    pub host: Option<String>,
    /// Path.
    pub path: String,
    /// Query without `?`.
    pub query: Option<String>,
    /// Header lines.
    pub headers: HeaderMap,
}

impl OwnedRequest {
    /// `GET path`, where `path` may have a query, without host and headers.
    pub fn get(path: &str) -> Self {
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (path, None),
        };
        Self {
            method: Method::GET,
            host: None,
            path: path.to_owned(),
            query,
            headers: HeaderMap::new(),
        }
    }

    /// The same with another method.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// The same for a host.
    #[must_use]
    pub fn host(self, host: &str) -> Self {
        Self { host: Some(host.to_owned()), ..self }
    }

    /// The same with one more header line. A name or value that HTTP does not allow is left out.
    #[must_use]
    pub fn header(mut self, name: &str, value: &[u8]) -> Self {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            self.headers.append(name, value);
        }
        self
    }

    /// What the evaluator sees.
    pub fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &self.method,
            host: self.host.as_deref(),
            path: &self.path,
            query: self.query.as_deref(),
            headers: &self.headers,
        }
    }
}
