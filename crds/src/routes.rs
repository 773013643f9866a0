//! HTTPRoutes and GRPCRoutes as typed values.

use crate::kind::Kind;
use policy_core::{FilterKind, HostPattern, ObjectRef, RequestMatch};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const UNSUPPORTED: &str = "not supported here: the rule permits nothing";

/// HTTPRoute or GRPCRoute (1.7, 1.10).
#[derive(Clone, Debug, PartialEq)]
pub struct RouteResource {
    /// Parents of every kind, as written.
    pub parents: Vec<ParentRef>,
    /// Hosts; empty: every host.
    pub hostnames: Vec<HostPattern>,
    /// Rules; empty: the route matches nothing.
    pub rules: Vec<RouteRule>,
    /// Backends in other namespaces, each once. Nothing is sent there inbound.
    pub foreign_backends: Vec<ObjectRef>,
}

impl RouteResource {
    /// Returns the matches of all rules, in their order.
    pub fn matches(&self) -> impl Iterator<Item = &RequestMatch> {
        self.rules.iter().flat_map(|rule| &rule.matches)
    }

    /// True if all parents are of kinds that no controller of this API reads: the route is not judged
    /// here.
    pub fn is_of_others(&self) -> bool {
        !self.parents.is_empty() && self.parents.iter().all(ParentRef::is_of_others)
    }

    /// Returns the reason why the route permits nothing although it is valid: every rule of it has a
    /// filter that is not supported here. `None` if a rule remains, or there is none.
    pub fn denies_because(&self) -> Option<String> {
        let remains = self.rules.iter().any(|rule| rule.unsupported.is_empty());
        if remains { None } else { unsupported_because(self.unsupported()) }
    }

    /// Returns the reason why some rules permit nothing while others of the route remain, with the
    /// beginning that the Gateway API demands of `PartiallyInvalid`.
    pub fn dropped_because(&self) -> Option<String> {
        let remains = self.rules.iter().any(|rule| rule.unsupported.is_empty());
        let reason = if remains { unsupported_because(self.unsupported()) } else { None };
        reason.map(|reason| format!("Dropped Rule: {reason}"))
    }

    /// Returns the filters of all rules that are not supported here.
    pub fn unsupported(&self) -> impl Iterator<Item = &UnsupportedFilter> {
        self.rules.iter().flat_map(|rule| &rule.unsupported)
    }
}

/// Returns words for the first of these filters, and the number of the others; `None` if there is none.
fn unsupported_because<'a>(
    mut filters: impl Iterator<Item = &'a UnsupportedFilter>,
) -> Option<String> {
    let first = filters.next()?;
    let UnsupportedFilter { field, name } = first;
    Some(match filters.count() {
        0 => format!("{field}: {first}"),
        1 => format!("{field}: `{name}` and 1 more filter are {UNSUPPORTED}"),
        more => format!("{field}: `{name}` and {more} more filters are {UNSUPPORTED}"),
    })
}

/// The parts of an invalid route that could be read. It permits nothing, and nothing that it may have
/// been meant to refuse is permitted by others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteClaims {
    /// The parents that could be read.
    pub parents: Vec<ParentRef>,
    /// The parents that could not be read, as far as they could.
    pub unread: Vec<UnreadParent>,
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
        let unread = vec![UnreadParent::default()];
        Self { unread, any_host: true, unreadable, ..Self::default() }
    }

    /// Returns true if a parent that could not be read may have been the Server of this namespace and
    /// name.
    pub fn may_name(&self, namespace: &str, name: &str) -> bool {
        self.unread.iter().any(|parent| parent.may_be(namespace, name))
    }

    /// The claims of a valid route whose file can no longer be read.
    pub(crate) fn of(route: &RouteResource) -> Self {
        Self {
            parents: route.parents.clone(),
            hostnames: route.hostnames.clone(),
            matches: route.matches().cloned().collect(),
            ..Self::default()
        }
    }
}

/// A parent of which a part could not be read: any Server with the other parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadParent {
    /// Namespace, with the default applied, if it could be read.
    pub namespace: Option<Arc<str>>,
    /// Name, if it could be read.
    pub name: Option<Arc<str>>,
}

impl UnreadParent {
    fn may_be(&self, namespace: &str, name: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
            && self.name.as_deref().is_none_or(|own| own == name)
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
    /// Filters that are not supported here. Because of one, the rule denies what it matches.
    pub unsupported: Vec<UnsupportedFilter>,
}

impl RouteRule {
    /// Returns the reason why the rule permits nothing; `None` if it is served.
    pub fn denies_because(&self) -> Option<String> {
        unsupported_because(self.unsupported.iter())
    }
}
