//! The names of objects.

use crate::kind::Kind;
use crate::routes::ParentRef;
use std::fmt;
use std::sync::Arc;

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Kind.
    pub kind: Kind,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind.as_str(), self.name)
        } else {
            write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
        }
    }
}

impl ObjectKey {
    /// The object of another kind and name in the same namespace.
    pub fn beside(&self, kind: Kind, name: &Arc<str>) -> Self {
        Self { kind, namespace: Arc::clone(&self.namespace), name: Arc::clone(name) }
    }

    /// The object that a reference of this one names.
    pub fn elsewhere(&self, kind: Kind, name: &NamespacedName) -> Self {
        let namespace = name.namespace.as_ref().unwrap_or(&self.namespace);
        Self { kind, namespace: Arc::clone(namespace), name: Arc::clone(&name.name) }
    }

    /// The Server that a parent reference names, seen from a route's namespace.
    pub fn server_of(parent: &ParentRef, namespace: &Arc<str>) -> Option<Self> {
        Self::parent_of(parent, namespace).filter(|key| key.kind == Kind::Server)
    }

    /// The Server or InboundRoute that a parent reference names, seen from a route's namespace.
    pub fn parent_of(parent: &ParentRef, namespace: &Arc<str>) -> Option<Self> {
        Some(Self {
            kind: parent.inbound_kind()?,
            namespace: Arc::clone(parent.namespace.as_ref().unwrap_or(namespace)),
            name: Arc::clone(&parent.name),
        })
    }

    /// The Namespace that holds it.
    pub fn own_namespace(&self) -> Self {
        Self { kind: Kind::Namespace, namespace: "".into(), name: Arc::clone(&self.namespace) }
    }

    /// The same name for the policy model.
    pub fn to_ref(&self) -> policy_core::ObjectRef {
        let family = policy_core::name::Family {
            group: self.kind.group().into(),
            kind: self.kind.as_str().into(),
            namespace: Arc::clone(&self.namespace),
        };
        policy_core::ObjectRef::of(Arc::new(family), Arc::clone(&self.name))
    }
}

/// A name in a namespace; absent: the namespace of the object that holds the reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    /// Namespace, if stated.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
}
