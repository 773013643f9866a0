//! What an answer may have read.

use super::edge::Edge;
use super::kind_set::KindSet;
use policy_crds::{Kind, ObjectKey};
use std::sync::Arc;

/// Something that can be read from the index, and that a change can touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// The object of this name, present or not.
    Object(ObjectKey),
    /// Which objects of a kind there are in a namespace, and what they say.
    List(Kind, Arc<str>),
    /// Which objects are on an edge, and what they say.
    Edge(Edge),
}

impl Topic {
    /// The kinds whose objects can touch it.
    pub(crate) fn kinds(&self) -> KindSet {
        match self {
            Self::Object(key) => KindSet::of(key.kind),
            Self::List(kind, _) => KindSet::of(*kind),
            Self::Edge(edge) => edge.kinds(),
        }
    }
}
