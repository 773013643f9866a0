//! HTTPRoutes and GRPCRoutes as typed values.

use crate::kind::Kind;
use policy_core::{FilterKind, HostPattern, ObjectRef, RequestMatch};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const UNSUPPORTED: &str = "not supported here: the route permits nothing";

/// HTTPRoute or GRPCRoute (1.7, 1.10).
#[derive(Clone, Debug, PartialEq)]
pub struct RouteResource {
    /// Parents of every kind, as written.
    pub parents: Vec<ParentRef>,
    /// Hosts; empty: every host.
    pub hostnames: Vec<HostPattern>,
    /// Rules; empty: the route matches nothing.
    pub rules: Vec<RouteRule>,
    /// Filters that are not supported here. Because of one, the route denies all that it matches.
    pub unsupported: Vec<UnsupportedFilter>,
    /// Backends in other namespaces, each once. Nothing is sent there inbound.
    pub foreign_backends: Vec<ObjectRef>,
}

impl RouteResource {
    /// True if all parents are of kinds that no controller of this API reads: the route is not judged
    /// here.
    pub fn is_of_others(&self) -> bool {
        !self.parents.is_empty() && self.parents.iter().all(ParentRef::is_of_others)
    }

    /// Returns the reason why the route permits nothing although it is valid: its first filter that
    /// is not supported here, and the number of the others.
    pub fn denies_because(&self) -> Option<String> {
        let (first, others) = self.unsupported.split_first()?;
        let UnsupportedFilter { field, name } = first;
        Some(match others.len() {
            0 => format!("{field}: {first}"),
            1 => format!("{field}: `{name}` and 1 more filter are {UNSUPPORTED}"),
            more => format!("{field}: `{name}` and {more} more filters are {UNSUPPORTED}"),
        })
    }
}

/// The parts of an invalid route that could be read. It permits nothing, and nothing that it may have
/// been meant to refuse is permitted by others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteClaims {
    /// The parents that could be read.
    pub parents: Vec<ParentRef>,
    /// True if a parent could not be read: it may have been any Server of the namespace.
    pub unread: bool,
    /// The hosts that could be read, which stay closed where it is a child of InboundRoutes.
    pub hostnames: Vec<HostPattern>,
    /// True if a host could not be read: it may have been any host.
    pub any_host: bool,
    /// The matches that could be read, in their order. They keep their place, and deny.
    pub matches: Vec<RequestMatch>,
    /// Of each match that could not be read, the conditions that could. They deny before every other
    /// route. Of a match whose hosts could not be read, all conditions.
    pub unreadable: Vec<RequestMatch>,
}

impl RouteClaims {
    /// The claims of a route of which nothing could be read.
    pub(crate) fn of_nothing() -> Self {
        let unreadable = vec![RequestMatch::everything()];
        Self { unread: true, any_host: true, unreadable, ..Self::default() }
    }

    /// The claims of a valid route whose file can no longer be read.
    pub(crate) fn of(route: &RouteResource) -> Self {
        let matches = route.rules.iter().flat_map(|rule| &rule.matches);
        Self {
            parents: route.parents.clone(),
            hostnames: route.hostnames.clone(),
            matches: matches.cloned().collect(),
            ..Self::default()
        }
    }
}

/// A filter of a type that the Gateway API has and that is not applied here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedFilter {
    /// Path of its type in the route.
    pub field: String,
    /// Its type.
    pub name: &'static str,
}

impl fmt::Display for UnsupportedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field: _, name } = self;
        write!(f, "`{name}` is {UNSUPPORTED}")
    }
}

/// A reference from a route to a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentRef {
    /// API group, with the default applied.
    pub group: Arc<str>,
    /// Kind, with the default applied.
    pub kind: Arc<str>,
    /// Namespace, if stated.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// Port, if stated.
    pub port: Option<u16>,
    /// Section, if stated.
    pub section: Option<Arc<str>>,
}

impl ParentRef {
    /// True if the parent is a `policy.linkerd.io` Server (compared without case).
    pub fn is_server(&self) -> bool {
        self.inbound_kind() == Some(Kind::Server)
    }

    /// The kind of a parent through which the route counts for inbound traffic: a Server, or an
    /// InboundRoute that delegates to it (compared without case).
    pub fn inbound_kind(&self) -> Option<Kind> {
        let kind = Kind::find(&self.group, &self.kind);
        kind.filter(|kind| matches!(kind, Kind::Server | Kind::InboundRoute))
    }
}

/// One rule of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRule {
    /// Alternatives; never empty (the default match is written out).
    pub matches: Vec<RequestMatch>,
    /// Filters that take effect inbound, in order.
    pub filters: Vec<FilterKind>,
    /// `timeouts.request`, if positive.
    pub timeout: Option<Duration>,
}
