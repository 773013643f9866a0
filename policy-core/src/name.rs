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
    /// A path of a host that was handed down a chain of objects, and arrived.
    Delegated(Arc<DelegatedPath>),
    /// A path of a host that was handed down a chain of objects, and did not arrive. The route
    /// denies what it matches as [`Denied::NotDelegated`]; its own grants and those of the Server
    /// do not count.
    Undelegated(Arc<DelegatedPath>),
    /// An object with a match that cannot be read. The route has the conditions of such matches that
    /// can be read. It denies what it matches as [`Denied::RouteInvalid`], before every other route
    /// and whatever table the host names, because the match may have been meant for these requests.
    Unreadable(ObjectRef),
}

/// A path of a host that was handed down a chain of objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DelegatedPath {
    /// The objects, the root first; the last one holds the rule. Never empty.
    pub chain: OneOrMany<ObjectRef>,
    /// The path that the rule governs, with everything below it: `/` or `/a/b`.
    pub prefix: Arc<str>,
}

/// The chain in full: `/a/b of InboundRoute x/root > InboundRoute y/child`.
impl fmt::Display for DelegatedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain, prefix } = self;
        write!(f, "{prefix} of ")?;
        for (place, object) in chain.iter().enumerate() {
            let separator = if place == 0 { "" } else { " > " };
            write!(f, "{separator}{object}")?;
        }
        Ok(())
    }
}

impl Origin {
    /// Returns true if the route was attached to the port, by an object or in place of one. False
    /// for the routes that every port has.
    pub fn is_attached(&self) -> bool {
        match self {
            Self::Objects(_)
            | Self::Guard
            | Self::Deny(_)
            | Self::Delegated(_)
            | Self::Undelegated(_)
            | Self::Unreadable(_) => true,
            Self::Default | Self::Probe => false,
        }
    }

    /// The object that holds the rule, where a user wrote one.
    pub fn object(&self) -> Option<&ObjectRef> {
        self.chain().last()
    }

    /// The objects that produced the route, outermost first; empty where no user wrote one.
    pub fn chain(&self) -> &[ObjectRef] {
        match self {
            Self::Objects(chain) => chain,
            Self::Delegated(path) | Self::Undelegated(path) => &path.chain,
            Self::Unreadable(object) => std::slice::from_ref(object),
            Self::Default | Self::Probe | Self::Guard | Self::Deny(_) => &[],
        }
    }

    /// The path that was handed down, if one was: with the result, whether it arrived or not.
    pub fn delegated_path(&self) -> Option<&DelegatedPath> {
        match self {
            Self::Delegated(path) | Self::Undelegated(path) => Some(path),
            Self::Objects(_)
            | Self::Default
            | Self::Probe
            | Self::Guard
            | Self::Deny(_)
            | Self::Unreadable(_) => None,
        }
    }

    /// Returns true if the route is looked at before all others, and in no table of a host.
    pub fn comes_first(&self) -> bool {
        matches!(self, Self::Unreadable(_))
    }

    /// The reason with which the route denies all that it matches; `None`: its grants decide.
    pub fn refusal(&self) -> Option<Denied> {
        match self {
            Self::Deny(reason) => Some(*reason),
            Self::Undelegated(_) => Some(Denied::NotDelegated),
            Self::Unreadable(_) => Some(Denied::RouteInvalid),
            Self::Objects(_) | Self::Default | Self::Probe | Self::Guard | Self::Delegated(_) => {
                None
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects(_) | Self::Delegated(_) | Self::Undelegated(_) => match self.object() {
                Some(object) => object.fmt(f),
                None => f.write_str("none"),
            },
            Self::Unreadable(object) => object.fmt(f),
            Self::Default => f.write_str("default default"),
            Self::Probe => f.write_str("default probe"),
            Self::Guard => f.write_str("default guard"),
            Self::Deny(reason) => write!(f, "deny {}", reason.as_str()),
        }
    }
}
