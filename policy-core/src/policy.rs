//! Everything in force on one port, as plain data.

pub use crate::path_handling::PathHandling;

use crate::authorization::{
    Authorization, AuthorizationSet, Condition, Predicate, Requirement, UnresolvedGrant,
};
use crate::compact_list::{OneOrMany, ThinVec};
use crate::decision::Denied;
use crate::filter::Filter;
use crate::identity::IdentityMatch;
use crate::limit::RateLimit;
use crate::matching::{HostPattern, RequestMatch};
use crate::name::{ObjectRef, Origin, Source};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// The policy of a workload: its declared ports, and what holds for all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkloadPolicy {
    /// Ports that a container port, a probe, a hook, the proxy or a Server names.
    pub ports: BTreeMap<NonZeroU16, Arc<ServerPolicy>>,
    /// Every other port.
    pub undeclared: Undeclared,
}

/// The policy of undeclared ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Undeclared {
    /// This policy, the workload's default.
    Policy(Arc<ServerPolicy>),
    /// Refused as `port_undeclared`.
    Deny,
}

/// Everything in force on one port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerPolicy {
    /// The owner of the port.
    pub owner: Owner,
    /// The protocol of connections.
    pub protocol: Protocol,
    /// If present, the whole port is denied with this reason and nothing below counts.
    pub deny: Option<Denied>,
    /// The handling of ambiguous targets.
    pub paths: PathHandling,
    /// The informational headers of forwarded requests.
    pub informational_headers: InformationalHeaders,
    /// The reuse of connections to the application.
    pub upstream_reuse: UpstreamReuse,
    /// Grants for every connection, and for every request whose route inherits them.
    pub authorizations: AuthorizationSet,
    /// Connections and requests that are permitted before routes are evaluated (kubelet probes).
    pub exemptions: Vec<Exemption>,
    /// The routes. Not looked at where the protocol is opaque or TLS.
    pub routes: RouteTable,
    /// Rate limit of requests; absent: unlimited.
    pub rate_limit: Option<RateLimit>,
    /// Filters on every permitted request, after those of its rule.
    pub effects: Vec<Filter>,
    /// Grants on the Server that resolved to nothing.
    pub withheld: Vec<UnresolvedGrant>,
}

impl ServerPolicy {
    /// A policy that grants nothing to anybody: what is known of a port before its grants, routes
    /// and limits are added. Requests are decided by the Server's authorizations, of which there
    /// are none.
    pub fn without_grants(owner: Owner, protocol: Protocol) -> Self {
        Self {
            owner,
            protocol,
            deny: None,
            paths: PathHandling::Canonical,
            informational_headers: InformationalHeaders::Enabled,
            upstream_reuse: UpstreamReuse::Usual,
            authorizations: AuthorizationSet::default(),
            exemptions: Vec::new(),
            routes: RouteTable {
                routes: Vec::new(),
                hosts: BTreeMap::new(),
                otherwise: Unmatched::DefaultRoute,
            },
            rate_limit: None,
            effects: Vec::new(),
            withheld: Vec::new(),
        }
    }

    /// Returns true if a connection may carry something other than HTTP. On a port of unknown
    /// protocol it may not once requests are governed, because a request that the proxy takes for
    /// other bytes would bypass every route, limit and required effect.
    pub fn admits_bytes(&self) -> bool {
        let detects = matches!(self.protocol, Protocol::Detect { .. });
        self.protocol.allows_opaque() && !(detects && self.governs_requests())
    }

    /// Returns true if routes are attached, requests are limited, or none may be forwarded without an
    /// effect. Routes for probes and the default route do not count, because nearly every port has
    /// them.
    fn governs_requests(&self) -> bool {
        let RouteTable { routes, hosts, otherwise } = &self.routes;
        let attached = match routes.as_slice() {
            // All that was attached is invalid or gone.
            [] => hosts.values().chain([otherwise]).all(|then| *then != Unmatched::DefaultRoute),
            routes => routes.iter().any(|route| route.origin.is_attached()),
        };
        attached
            || self.rate_limit.as_ref().is_some_and(RateLimit::limits)
            || self.effects.iter().any(|effect| effect.kind.is_required())
    }
}

/// The owner of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A Server owns the port.
    Server(ObjectRef),
    /// No Server owns it; the default policy holds.
    Default(DefaultPolicy),
}

/// The protocol of connections to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1 or HTTP/2 if the client's first bytes say so within the time given, else opaque.
    Detect {
        /// The time to wait for the first bytes.
        timeout: Duration,
    },
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
    /// gRPC over HTTP/2.
    Grpc,
    /// Bytes; TLS is not looked for.
    Opaque,
    /// TLS that the workload terminates.
    Tls,
}

impl Protocol {
    /// Returns true if requests can be decided on.
    pub fn is_http(self) -> bool {
        match self {
            Self::Detect { .. } | Self::Http1 | Self::Http2 | Self::Grpc => true,
            Self::Opaque | Self::Tls => false,
        }
    }

    /// Returns true if the protocol allows connections that are not HTTP; see
    /// [`ServerPolicy::admits_bytes`].
    pub fn allows_opaque(self) -> bool {
        match self {
            Self::Detect { .. } | Self::Opaque | Self::Tls => true,
            Self::Http1 | Self::Http2 | Self::Grpc => false,
        }
    }
}

/// Headers that describe the connection of a forwarded request: `l5d-client-id`,
/// `l5d-connection-secure` and `forwarded`. The client's own values of the first two are always
/// removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InformationalHeaders {
    /// The proxy adds them.
    Enabled,
    /// The proxy does not add them (opt-out by annotation).
    Disabled,
}

/// The requests after which an HTTP/1 connection to the application is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamReuse {
    /// All but those with a body whose method some applications expect none of.
    Usual,
    /// Those without a body: the application may leave any body unread, and take it for the next request,
    /// which nobody judged.
    WithoutBody,
}

/// A connection or request that passes without looking at routes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exemption {
    /// The exempted requests; absent: connections that are not HTTP.
    pub request: Option<Arc<RequestMatch>>,
    /// The grant that must hold; otherwise the exemption does not apply.
    pub authorization: Arc<Authorization>,
}

/// Routes and what happens where none matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteTable {
    /// Routes in tie-breaking order: oldest first, those without a time last, then by name
    /// (Gateway API; docs/spec/controller.md 2.6).
    pub routes: Vec<Arc<Route>>,
    /// The result of a host's table if no rule of it matches. Hosts that appear on routes only are
    /// `FallThrough` and need not be listed.
    pub hosts: BTreeMap<HostPattern, Unmatched>,
    /// The result if nothing matches at all. `FallThrough` is read as `NotFound`.
    pub otherwise: Unmatched,
}

/// The result if no rule of a host's table matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unmatched {
    /// The request is decided by the Server's authorizations alone, as route `default`.
    DefaultRoute,
    /// 404.
    NotFound,
    /// Refused with this reason.
    Deny(Denied),
    /// The next less specific host table is searched.
    FallThrough,
}

/// A route: who may send which requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Its origin. Several routes of a table have the same one where one object has other matches on some
    /// of its hosts.
    pub origin: Origin,
    /// The API that it came from.
    pub kind: RouteKind,
    /// Creation time, seconds since the epoch; part of the order, absent sorts last.
    pub created: Option<i64>,
    /// Its name among the routes of its origin, for people and metrics. Decides nothing.
    pub label: Option<RouteLabel>,
    /// Hosts it applies to; empty: every host, and requests without one.
    pub hosts: ThinVec<HostPattern>,
    /// Its rules. Empty: it matches nothing.
    pub rules: OneOrMany<Rule>,
    /// Its own grants.
    pub authorizations: AuthorizationSet,
    /// True if the Server's grants count too, after its own.
    pub inherits_server: bool,
    /// Grants on the route that resolved to nothing.
    pub withheld: ThinVec<UnresolvedGrant>,
}

/// The name of a route among those of one object: its path as an author wrote it, such as
/// `/books/:book-id`. One pointer, because nearly no route of a large policy has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteLabel(Arc<Box<str>>);

impl RouteLabel {
    /// A label with this text.
    pub fn new(text: &str) -> Self {
        Self(Arc::new(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The API that a route came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteKind {
    /// HTTPRoute, and everything built in.
    Http,
    /// GRPCRoute.
    Grpc,
}

/// One rule of a route: it applies when any of its matches does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Alternatives. Empty: it matches every request (Gateway API: default match).
    pub matches: OneOrMany<RequestMatch>,
    /// Filters on the requests that it permits, in order.
    pub effects: ThinVec<Filter>,
}

/// The default policies there are (docs/spec/controller.md 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DefaultPolicy {
    /// Everybody.
    AllUnauthenticated,
    /// Any verified identity.
    AllAuthenticated,
    /// Everybody in the cluster's networks.
    ClusterUnauthenticated,
    /// Any verified identity in the cluster's networks.
    ClusterAuthenticated,
    /// Nobody.
    Deny,
    /// Everybody, and each permit is logged.
    Audit,
}

impl DefaultPolicy {
    /// All of them, for messages and tests.
    pub const ALL: [DefaultPolicy; 6] = [
        Self::AllUnauthenticated,
        Self::AllAuthenticated,
        Self::ClusterUnauthenticated,
        Self::ClusterAuthenticated,
        Self::Deny,
        Self::Audit,
    ];

    /// The name in annotations, flags and `accessPolicy`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllUnauthenticated => "all-unauthenticated",
            Self::AllAuthenticated => "all-authenticated",
            Self::ClusterUnauthenticated => "cluster-unauthenticated",
            Self::ClusterAuthenticated => "cluster-authenticated",
            Self::Deny => "deny",
            Self::Audit => "audit",
        }
    }

    /// Reads a name; exact and case-sensitive. `None`: no such policy.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }

    /// The grants it stands for: one, or none for `deny`.
    pub fn authorizations(self) -> AuthorizationSet {
        let source = Source::Default(self.as_str().into());
        let (networks, identity) = match self {
            Self::Deny => return AuthorizationSet::default(),
            Self::AllUnauthenticated | Self::Audit => (Predicate::all_networks(), false),
            Self::AllAuthenticated => (Predicate::all_networks(), true),
            Self::ClusterUnauthenticated => (Predicate::cluster_networks(), false),
            Self::ClusterAuthenticated => (Predicate::cluster_networks(), true),
        };
        let mut conditions = vec![Condition { source: source.clone(), test: networks }];
        if identity {
            let test = Predicate::Identity(vec![IdentityMatch::Any]);
            conditions.push(Condition { source: source.clone(), test });
        }
        let requirement = Requirement::All(conditions.into());
        let audit = matches!(self, Self::Audit);
        AuthorizationSet::from([Arc::new(Authorization { source, requirement, audit })])
    }
}
