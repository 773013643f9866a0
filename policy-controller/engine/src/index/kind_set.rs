//! Sets of kinds.

use policy_crds::{Field, Kind};

/// A kind is a bit of a `u32`.
const _: () = assert!(Kind::ALL.len() <= 32);

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindSet(u32);

impl KindSet {
    pub(crate) fn of(kind: Kind) -> Self {
        let mut set = Self::default();
        set.insert(kind);
        set
    }

    /// The kinds with one of these reference fields.
    pub(crate) fn referring(fields: &[Field]) -> Self {
        let mut set = Self::default();
        for kind in Kind::ALL.into_iter().filter(|kind| kind.spec().reference(fields).is_some()) {
            set.insert(kind);
        }
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
