//! Names of the objects that policy comes from, as decisions, metrics and explanations show them.

use crate::compact_list::OneOrMany;
use crate::decision::Denied;
use std::fmt;
use std::sync::Arc;

/// An object that contributed to a policy. Opaque to the evaluator: only compared and shown.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// The shared part of the reference.
    family: Arc<Family>,
    name: Arc<str>,
}

/// The objects of one kind in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Kind in its own spelling, for example `AuthorizationPolicy`.
    pub kind: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
}

impl ObjectRef {
    /// Builds a reference from its four parts.
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let family = Family { group: group.into(), kind: kind.into(), namespace: namespace.into() };
        Self::of(Arc::new(family), name.into())
    }

    /// The object of this name; `family` may be shared with others.
    pub fn of(family: Arc<Family>, name: Arc<str>) -> Self {
        Self { family, name }
    }

    /// API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.family.group
    }

    /// Kind in its own spelling, for example `AuthorizationPolicy`.
    pub fn kind(&self) -> &str {
        &self.family.kind
    }

    /// Namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.family.namespace
    }

    /// Name within the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, name } = self;
        let Family { group, kind, namespace } = &**family;
        let mut shown = f.debug_struct("ObjectRef");
        shown.field("group", group).field("kind", kind).field("namespace", namespace);
        shown.field("name", name).finish()
    }
}

/// `kind namespace/name`, or `kind name` where there is no namespace.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace().is_empty() {
            write!(f, "{} {}", self.kind(), self.name())
        } else {
            write!(f, "{} {}/{}", self.kind(), self.namespace(), self.name())
        }
    }
}

/// The source of a grant, a limit or a filter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An object that a user wrote.
    Object(ObjectRef),
    /// Something built in, by the name Linkerd gives it: a default policy (`all-unauthenticated`,
    /// `audit`, …), `probe`, `localhost`.
    Default(Arc<str>),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => object.fmt(f),
            Self::Default(name) => write!(f, "default {name}"),
        }
    }
}

/// The origin of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The objects that produced it, outermost first (one for a plain route; a delegation chain
    /// ends with the object that holds the rule). Never empty.
    Objects(OneOrMany<ObjectRef>),
    /// The route that a port without routes of its own gets.
    Default,
    /// The route for kubelet probes, where a route has to stand in for an exemption.
    Probe,
    /// A route that refuses what must not be matched by anything else.
    Guard,
    /// A route that only denies.
    Deny(Denied),
}

impl Origin {
    /// Returns true if the route was attached to the port, by an object or in place of one. False
    /// for the routes that every port has.
    pub fn is_attached(&self) -> bool {
        match self {
            Self::Objects(_) | Self::Guard | Self::Deny(_) => true,
            Self::Default | Self::Probe => false,
        }
    }

    /// The object that holds the rule, where a user wrote one.
    pub fn object(&self) -> Option<&ObjectRef> {
        match self {
            Self::Objects(chain) => chain.last(),
            Self::Default | Self::Probe | Self::Guard | Self::Deny(_) => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects(chain) => match chain.last() {
                Some(object) => object.fmt(f),
                None => f.write_str("none"),
            },
            Self::Default => f.write_str("default default"),
            Self::Probe => f.write_str("default probe"),
            Self::Guard => f.write_str("default guard"),
            Self::Deny(reason) => write!(f, "deny {}", reason.as_str()),
        }
    }
}
