//! InboundRoutes and RouteAdmissionPolicies as typed values (docs/spec/delegation.md).

use crate::kind::Kind;
use crate::object::ObjectKey;
use crate::parse::path::canonical;
use crate::resource::NamespacedName;
use policy_core::{HostPattern, NetworkMatch, PathPattern, match_form};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// InboundRoute: a root, or a vertex that takes effect through roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRoute {
    /// The hosts of a root; absent: a vertex.
    pub virtual_host: Option<VirtualHost>,
    /// The consent of a vertex to be delegated to; empty for a root.
    pub delegated_from: Vec<Consent>,
    /// Rules, each with a path of its own; never empty.
    pub routes: Vec<InboundRule>,
}

/// The part of an InboundRoute that makes it a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualHost {
    /// The fqdn, then the aliases. Each is its own.
    pub hosts: Vec<HostPattern>,
    /// Name of the Server of its namespace that answers rules that `serve`.
    pub target: Option<Arc<str>>,
    /// Requirement on the connections of clients.
    pub tls: RequiredTls,
    /// Networks of clients; absent: every network.
    pub access_list: Option<Vec<NetworkMatch>>,
    /// True if routes with regular expressions may be children at `/`.
    pub allow_regex_children: bool,
}

/// `virtualhost.tls.mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequiredTls {
    /// Nothing is required.
    #[default]
    Optional,
    /// Mesh TLS, with or without an identity.
    Required,
    /// Mesh TLS with an identity.
    MutualRequired,
}

/// An entry of `delegatedFrom`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// The host that may be served.
    pub host: HostPattern,
    /// The only InboundRoute that may delegate, with its namespace; absent: any.
    pub parent: Option<NamespacedName>,
}

/// A rule of an InboundRoute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRule {
    /// Its match.
    pub path: PathPrefix,
    /// Its action.
    pub action: InboundAction,
    /// True if grants on the Server and its namespace count (`serverAuthorizations: Inherit`).
    pub inherits_server: bool,
}

/// The action of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundAction {
    /// These Servers of its namespace answer. Never empty.
    Servers(Vec<Arc<str>>),
    /// The Server of the root answers.
    Serve,
    /// Other objects decide.
    Delegate(Delegate),
}

/// The objects that a rule delegates to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delegate {
    /// This InboundRoute, HTTPRoute or GRPCRoute.
    One(ObjectKey),
    /// The InboundRoutes of a namespace with these labels.
    Selected {
        /// The namespace.
        namespace: Arc<str>,
        /// The labels; never empty.
        labels: BTreeMap<Arc<str>, Arc<str>>,
    },
}

/// A path prefix in match form: `/`, or `/a/b` without a `/` at the end.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathPrefix(Arc<str>);

impl PathPrefix {
    /// Parses a path. A `/` at its end is left out; nothing else is repaired, because a repaired path
    /// would match something else than its author wrote.
    ///
    /// # Errors
    /// The reason, to follow the quoted text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = canonical(text)?;
        let form = match_form(&path);
        if *form != *path {
            return Err(format!(
                "has an encoding that requests are matched without, write `{form}`"
            ));
        }
        let trimmed = path.strip_suffix('/').filter(|trimmed| !trimmed.is_empty());
        Ok(Self(trimmed.unwrap_or(&path).into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if `other` is this path or below it, by whole segments.
    pub fn contains(&self, other: &Self) -> bool {
        let rest = other.0.strip_prefix(&*self.0);
        *self.0 == *"/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The pattern of requests for this path and all below it.
    pub fn pattern(&self) -> PathPattern {
        PathPattern::prefix(&self.0)
    }

    /// The segments; none for `/`.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// The path, and each path above it, the longest first: `/a/b`, `/a` and `/`.
    pub fn and_above(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(&*self.0), |path| above(path))
    }
}

fn above(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (above, _) => Some(above),
    }
}

impl Borrow<str> for PathPrefix {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// RouteAdmissionPolicy. The default is the strictest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteAdmission {
    /// The meaning of claims on one host from several namespaces.
    pub ownership: NamespaceOwnership,
    /// True if roots may claim wildcards.
    pub wildcards: bool,
    /// Namespaces that may have roots; empty: all.
    pub root_namespaces: Vec<Arc<str>>,
}

/// `namespaceOwnership`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceOwnership {
    /// One namespace holds a host.
    #[default]
    Strict,
    /// Namespaces may hold different paths of a host.
    InterNamespaceAllowed,
}

impl NamespaceOwnership {
    /// The value in the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::InterNamespaceAllowed => "InterNamespaceAllowed",
        }
    }
}

/// The parts of an InboundRoute's own status that later decisions depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The times of claims, in seconds since the epoch.
    pub claims: BTreeMap<(HostPattern, PathPrefix), i64>,
    /// The objects that delegated to it, each with the path and the time of the connection.
    pub connected: Vec<(ObjectKey, PathPrefix, i64)>,
    /// The objects that delegated to it before, each with the time at which that ended.
    pub orphaned: Vec<(ObjectKey, i64)>,
}

impl Recorded {
    /// The recorded time of a claim.
    pub fn claimed_at(&self, host: &HostPattern, path: &PathPrefix) -> Option<i64> {
        self.claims.get(&(host.clone(), path.clone())).copied()
    }

    /// The recorded time at which an object began to delegate a path.
    pub fn connected_at(&self, parent: &ObjectKey, path: &PathPrefix) -> Option<i64> {
        let found = self.connected.iter().find(|(key, prefix, _)| key == parent && prefix == path);
        found.map(|(_, _, time)| *time)
    }

    /// The objects that the status says delegate to it or did so, each once, with the recorded time
    /// of the end.
    pub fn former_parents(&self) -> Vec<(ObjectKey, Option<i64>)> {
        let connected = self.connected.iter().map(|(key, _, _)| (key.clone(), None));
        let orphaned = self.orphaned.iter().map(|(key, since)| (key.clone(), Some(*since)));
        let mut parents: BTreeMap<ObjectKey, Option<i64>> = orphaned.collect();
        parents.extend(connected);
        parents.into_iter().collect()
    }

    /// The key of an InboundRoute that a status names.
    pub(crate) fn parent(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey { kind: Kind::InboundRoute, namespace: namespace.into(), name: name.into() }
    }
}
