//! What an answer may have read.

use super::Edge;
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

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindSet(u32);

impl KindSet {
    pub(crate) fn of(kind: Kind) -> Self {
        let mut set = Self::default();
        set.insert(kind);
        set
    }

    pub(crate) fn insert(&mut self, kind: Kind) {
        self.0 |= bit(kind);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.0 & bit(*kind) != 0)
    }
}

fn bit(kind: Kind) -> u32 {
    1_u32.checked_shl(kind as u32).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_bit_of_its_own() {
        for kind in Kind::ALL {
            let set = KindSet::of(kind);
            assert_eq!(set.iter().collect::<Vec<_>>(), [kind]);
        }
        let mut set = KindSet::of(Kind::Pod);
        set.extend(KindSet::of(Kind::Server));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Kind::Server, Kind::Pod]);
    }
}
