//! The custom resources of the index, as far as their definitions are concerned.

use crate::index::Index;
use policy_crds::{Kind, ObjectKey};
use std::collections::BTreeSet;

/// The kinds in use whose definitions can be removed, and the objects that outlived theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The kinds of which there are objects, kept ones included.
    pub kinds: BTreeSet<Kind>,
    /// The objects that are in force although the definitions of their kinds are gone.
    pub kept: BTreeSet<ObjectKey>,
}

impl Inventory {
    /// The inventory of an index.
    pub(crate) fn of(index: &Index) -> Self {
        let custom = Kind::ALL.into_iter().filter(|kind| kind.is_custom());
        Self {
            kinds: custom.filter(|kind| index.all(*kind).next().is_some()).collect(),
            kept: index.kept().cloned().collect(),
        }
    }
}
