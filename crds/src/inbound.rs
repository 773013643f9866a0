//! InboundRoutes and RouteAdmissionPolicies as typed values.

use crate::object::ObjectKey;
use crate::parse::path::canonical;
use crate::resource::NamespacedName;
use policy_core::{HostPattern, NetworkMatch, PathPattern, match_form};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
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
    /// This one: an InboundRoute, an HTTPRoute of the Gateway API or a GRPCRoute.
    One(ObjectKey),
    /// InboundRoutes by their labels.
    Selected {
        /// Their namespace.
        namespace: Arc<str>,
        /// Labels that they all have; never empty.
        labels: BTreeMap<Arc<str>, Arc<str>>,
    },
}

/// A path prefix in match form: `/`, or `/a/b` without a slash at its end. It stands for whole
/// segments: `/a` contains `/a/b`, not `/ab`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathPrefix(Arc<str>);

impl PathPrefix {
    /// Reads a prefix. A text with another form than the one in which paths are matched is refused,
    /// not repaired: its author would not see what is matched. Hex digits are written in upper case,
    /// and a slash at the end is left out. The reason follows the quoted text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = canonical(text)?;
        if let Some((written, form)) = other_form(&path) {
            return Err(format!("has `{written}`, which paths are matched with as `{form}`"));
        }
        let trimmed = path.strip_suffix('/').unwrap_or(&path);
        Ok(Self(if trimmed.is_empty() { "/" } else { trimmed }.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if `other` is the same path or below it, by whole segments.
    pub fn contains(&self, other: &Self) -> bool {
        let rest = other.0.strip_prefix(&*self.0);
        *self.0 == *"/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The segments; none for `/`.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// The path and each one above it, the longest first; `/` is the last.
    pub fn and_above(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(&*self.0), |path| above(path))
    }

    /// The pattern of the paths that it contains.
    pub fn pattern(&self) -> PathPattern {
        PathPattern::prefix(&self.0)
    }
}

impl Borrow<str> for PathPrefix {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path above; `None` for `/`.
fn above(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (above, _) => Some(above),
    }
}

/// The first character of a canonical path that its match form spells in another way, as it is
/// written and as it is matched.
fn other_form(path: &str) -> Option<(String, String)> {
    let mut rest = path.chars();
    while let Some(first) = rest.next() {
        let mut written = String::from(first);
        if first == '%' {
            written.extend(rest.by_ref().take(2));
        }
        let form = match_form(&written);
        if *form != *written {
            let form = form.into_owned();
            return Some((written, form));
        }
    }
    None
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
