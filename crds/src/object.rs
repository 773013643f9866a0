//! An object as the index holds it: metadata, and a body that is valid or keeps its claims.

use crate::resource::{
    BindingClaims, GrantClaims, GroupClaims, PathPrefix, PolicyTarget, PortRef, RateLimitNumbers,
    Recorded, Resource, RouteAdmission, RouteClaims, ServerRef, ServiceClaims, TargetDestination,
    WorkloadSelector,
};
use policy_core::HostPattern;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

pub use crate::key::ObjectKey;

/// The metadata that policy depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Identity.
    pub key: ObjectKey,
    /// Labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Creation time, seconds since the epoch, if the source states one.
    pub created: Option<i64>,
    /// The API server's uid, if any.
    pub uid: Option<Arc<str>>,
    /// Generation, if any.
    pub generation: Option<i64>,
    /// True once the API server has been asked to delete the object.
    pub is_ending: bool,
    /// The times that the status of an InboundRoute or a route records, if any.
    pub recorded: Option<Arc<Recorded>>,
}

/// An object: always indexed, valid or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Metadata.
    pub meta: ObjectMeta,
    /// Content.
    pub body: Body,
}

/// The content of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Every rule holds.
    Valid(Resource),
    /// Some rule does not: it grants nothing and keeps its claims.
    Invalid(Invalid),
}

impl Object {
    /// The claims that an invalid root keeps: those that its status records. What its spec says does
    /// not count, because a part that cannot be read may have named any host. A time before the
    /// creation of the object counts as little as it does for a valid root.
    pub fn kept_claims(&self) -> impl Iterator<Item = &(HostPattern, PathPrefix)> {
        let is_invalid = matches!(self.body, Body::Invalid(_));
        let recorded = self.meta.recorded.as_deref().filter(|_| is_invalid);
        let claims = recorded.into_iter().flat_map(|recorded| &recorded.claims);
        let created = self.meta.created;
        claims
            .filter(move |(_, time)| created.is_none_or(|created| **time >= created))
            .map(|(claim, _)| claim)
    }

    /// The hosts that a root claims, each once. Of an invalid one those of the claims that it keeps.
    pub fn claimed_hosts(&self) -> Vec<HostPattern> {
        match &self.body {
            Body::Valid(Resource::InboundRoute(route)) => {
                route.virtual_host.iter().flat_map(|own| &own.hosts).cloned().collect()
            }
            Body::Valid(_) => Vec::new(),
            Body::Invalid(_) => {
                let mut hosts: Vec<_> = self.kept_claims().map(|(host, _)| host.clone()).collect();
                hosts.dedup();
                hosts
            }
        }
    }
}

/// An object that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Every rule it breaks. Never empty.
    pub errors: Vec<FieldError>,
    /// Its claims, which it keeps.
    pub claims: Claims,
}

/// The claims that an invalid object keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claims {
    /// Nothing.
    Nothing,
    /// The routes of other namespaces that it may have permitted, which deny what they match.
    ReferenceGrant(GrantClaims),
    /// Ports, which it denies with `server_invalid`.
    Server {
        /// Workloads; unreadable: every workload of the namespace.
        workloads: Option<WorkloadSelector>,
        /// Port; unreadable: every port that no older Server owns.
        port: Option<PortRef>,
    },
    /// Servers, which stay route-bound, and the requests that it denies there.
    Route(Box<RouteClaims>),
    /// Hosts and Servers, which stay closed but for what other objects permit on them.
    InboundRoute {
        /// The hosts that could be read, its own and those that it would be delegated.
        hosts: Vec<HostPattern>,
        /// The Servers of its namespace that could be read.
        servers: Vec<Arc<str>>,
        /// True if a part that may name a Server could not be read: it may have been any one of the
        /// namespace.
        unread: bool,
        /// True if it is a root, or may be one: where labels select it, nothing is handed down.
        root: bool,
        /// The paths of its rules, which others that are selected with it do not have; `None` if one of
        /// them could not be read.
        paths: Option<Vec<PathPrefix>>,
        /// True if a host that it would be delegated could not be read: it may have been any host.
        any_host: bool,
    },
    /// The target on which it would grant; it grants nothing, and is listed there as withheld.
    AuthorizationPolicy {
        /// Its target, if readable.
        target: Option<PolicyTarget>,
    },
    /// The Servers that it would grant; it grants nothing, and is listed there as withheld.
    ServerAuthorization {
        /// The Servers, if readable.
        server: Option<ServerRef>,
    },
    /// The Server that it binds routes to, which stays bound to routes, and the requests that it denies
    /// there.
    Binding(Box<BindingClaims>),
    /// The requests that it describes, which are denied where it is bound.
    HttpRouteGroup(Box<GroupClaims>),
    /// The calls that it describes, which are denied where it is bound.
    GrpcService(Box<ServiceClaims>),
    /// The target whose requests are not forwarded without its changes.
    HeaderRewrite {
        /// Its target, if readable.
        target: Option<PolicyTarget>,
        /// True if it says, or may say, that requests must not be forwarded without its changes.
        required: bool,
    },
    /// Addresses that it answers with no endpoint at all.
    Service {
        /// The addresses that could be read.
        addresses: Vec<IpAddr>,
    },
    /// Addresses that clients reach in mesh TLS alone. Whose identity to expect there is not known, so
    /// that they reach nobody.
    ExternalWorkload {
        /// The addresses that could be read.
        addresses: Vec<IpAddr>,
    },
    /// Pods, which it closes to every client.
    TrafficTarget {
        /// The pods, in its namespace; unreadable: it may have been any of the namespace.
        destination: Option<TargetDestination>,
    },
    /// The rules that its status records, under which the claims stay that statuses record.
    RouteAdmission(RouteAdmission),
    /// The limit of a Server, which keeps its place among the limits there.
    RateLimit {
        /// Name of the Server; unreadable: it may have been any one of the namespace.
        server: Option<Arc<str>>,
        /// The numbers that could be read, which hold.
        numbers: RateLimitNumbers,
    },
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, for example `spec.rules[0].matches[1].path.value`.
    pub field: String,
    /// The error, and the values that are allowed. Lower case, no full stop, the user's value in
    /// backticks.
    pub message: String,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
