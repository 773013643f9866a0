//! InboundRoutes and RouteAdmissionPolicies as typed values.

use crate::key::{NamespacedName, ObjectKey};
use crate::path::PathPrefix;
use http::HeaderName;
use policy_core::{HostPattern, NetworkMatch};
use std::collections::BTreeMap;
use std::sync::Arc;

/// InboundRoute. With a virtual host it is the root of a tree, without one it takes effect through
/// roots alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRoute {
    /// Its hosts and the constraints of its tree, if it is a root.
    pub virtual_host: Option<VirtualHost>,
    /// The hosts under which it agrees to be delegated to. Empty for a root alone.
    pub delegated_from: Vec<Consent>,
    /// Rules; never empty, and no two of one path.
    pub routes: Vec<InboundRule>,
}

/// The part of an InboundRoute that makes it a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualHost {
    /// The fqdn, then the aliases, each once.
    pub hosts: Vec<HostPattern>,
    /// The Server of its namespace that answers `serve`.
    pub target: Option<Arc<str>>,
    /// Requirement on the connections of its clients.
    pub tls: RequiredTls,
    /// Networks of its clients; absent: every one, empty: none.
    pub access_list: Option<Vec<NetworkMatch>>,
    /// True if routes in its tree may have regular expressions as paths.
    pub allow_regex_children: bool,
}

/// The requirement of a root on connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequiredTls {
    /// Nothing.
    #[default]
    Optional,
    /// Mesh TLS, with or without an identity.
    Required,
    /// Mesh TLS with an identity.
    MutualRequired,
}

/// The agreement of an InboundRoute to be delegated to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// The host, equal to one of the root's.
    pub host: HostPattern,
    /// The object that delegates, with its namespace; absent: any.
    pub parent: Option<NamespacedName>,
}

/// One rule of an InboundRoute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRule {
    /// `match`.
    pub path: PathPrefix,
    /// The way in which the path is answered.
    pub action: InboundAction,
    /// True if the grants on the Server and on its namespace count for the path.
    pub inherits_server: bool,
    /// Filters that objects of other namespaces may have below a delegation of a root.
    pub allowed_filters: Vec<AllowedFilter>,
}

/// Filters of one type that objects of other namespaces may have below a delegation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedFilter {
    /// The type.
    pub kind: FilterType,
    /// Headers that are allowed although frameworks route by them.
    pub headers: Vec<HeaderName>,
    /// Further hosts to which a redirect may lead.
    pub hosts: Vec<HostPattern>,
}

/// A type of filters, by what says that they take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterType {
    /// Changes of headers of requests, by a filter of a route.
    RequestHeaders,
    /// Changes of headers of responses.
    ResponseHeaders,
    /// Redirects.
    Redirect,
    /// Changes of headers of requests, by a policy.
    Rewrites,
}

impl FilterType {
    /// Every type.
    pub const ALL: [Self; 4] =
        [Self::RequestHeaders, Self::ResponseHeaders, Self::Redirect, Self::Rewrites];

    /// The value as manifests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestHeaders => "RequestHeaderModifier",
            Self::ResponseHeaders => "ResponseHeaderModifier",
            Self::Redirect => "RequestRedirect",
            Self::Rewrites => "HeaderRewritePolicy",
        }
    }
}

/// The way in which a path is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundAction {
    /// By these Servers of the object's namespace; never empty.
    Servers(Vec<Arc<str>>),
    /// By the Server of the root.
    Serve,
    /// As other objects say.
    Delegate(Delegate),
}

/// The objects that a path is delegated to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delegate {
    /// This one: an InboundRoute, an HTTPRoute of the Gateway API, a GRPCRoute or an HttpRouteGroup.
    One(ObjectKey),
    /// InboundRoutes by their labels.
    Selected {
        /// Their namespace.
        namespace: Arc<str>,
        /// Labels that they all have; never empty.
        labels: BTreeMap<Arc<str>, Arc<str>>,
    },
}

/// RouteAdmissionPolicy: the rules of who holds a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteAdmission {
    /// Rule for claims of several namespaces.
    pub ownership: NamespaceOwnership,
    /// True if hosts such as `*.example.com` may be claimed.
    pub wildcards: bool,
    /// Namespaces whose roots count; empty: every one.
    pub root_namespaces: Vec<Arc<str>>,
    /// True if claims count only if the status of their root records them: the rules that the object
    /// states cannot be read.
    pub recorded_only: bool,
    /// Fields whose value is not known, so that the strict one counts.
    pub unknown: Vec<UnknownValue>,
}

/// A field of a [`RouteAdmission`] whose value is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownValue {
    /// Path of the field.
    pub field: &'static str,
    /// The value as written.
    pub value: Arc<str>,
    /// The value that counts.
    pub instead: &'static str,
}

/// The rule for claims of several namespaces on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceOwnership {
    /// The namespace with the first claim holds the host.
    #[default]
    Strict,
    /// The first claim on a path of the host holds the path.
    InterNamespaceAllowed,
}

impl NamespaceOwnership {
    /// The value as manifests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::InterNamespaceAllowed => "InterNamespaceAllowed",
        }
    }
}
