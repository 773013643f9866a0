//! Bytes as choices, from which random worlds are made.

/// Bytes that are not used yet; without any left, the first alternative is chosen.
pub(super) struct Choices<'a>(pub(super) &'a [u8]);

impl Choices<'_> {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % bound
    }

    /// True in one of so many cases, and where nothing is left.
    pub(super) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// One of several.
    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Swaps the elements of a list.
    pub(super) fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in 1..all.len() {
            all.swap(at, self.below(at + 1));
        }
    }
}
