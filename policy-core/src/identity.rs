//! Verified client identities and the patterns that name them.

use std::sync::Arc;

/// The identity that a client proved by its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// A DNS name, lower-case, without a trailing dot: Linkerd's
    /// `<sa>.<ns>.serviceaccount.identity.<control-plane-ns>.<trust-domain>`.
    Dns(Arc<str>),
    /// A `spiffe://` URI, byte for byte.
    Spiffe(Arc<str>),
}

impl Identity {
    /// The name as policy and logs write it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Dns(name) | Self::Spiffe(name) => name,
        }
    }
}

/// A pattern over verified identities.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IdentityMatch {
    /// Any verified identity, SPIFFE included (`*`).
    Any,
    /// Exactly this name.
    Exact(Arc<str>),
    /// DNS names that end in `.` and this text, which is stored without the leading dot
    /// (`*.ns.serviceaccount…` is stored as `ns.serviceaccount…`). SPIFFE identities never match.
    Suffix(Arc<str>),
}

impl IdentityMatch {
    /// Reads Linkerd's notation: `*` is any identity, a leading `*.` a suffix, all else exact
    /// (docs/spec/controller.md 2.5). Cannot fail; admission rules are stricter.
    pub fn parse(text: &str) -> Self {
        if text == "*" {
            return Self::Any;
        }
        match text.strip_prefix("*.") {
            Some(rest) => Self::Suffix(rest.into()),
            None => Self::Exact(text.into()),
        }
    }

    /// Returns true if the pattern names `identity`.
    pub fn admits(&self, identity: &Identity) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(name) => **name == *identity.as_str(),
            Self::Suffix(suffix) => match identity {
                Identity::Dns(name) => name
                    .strip_suffix(&**suffix)
                    .is_some_and(|head| head.len() > 1 && head.ends_with('.')),
                Identity::Spiffe(_) => false,
            },
        }
    }
}
