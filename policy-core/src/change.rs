//! The difference between the routes of two consecutive policies.
//!
//! The code that applies an update knows which routes it names. The evaluator takes that difference
//! instead of comparing every route with its predecessor.

use crate::policy::ServerPolicy;
use std::sync::Arc;

/// The most removed routes, and the most inserted ones, of a difference that is kept. Each request searches the overlay of changed
/// routes besides the old index, and the old index keeps removed routes.
pub const MAX_DIFF: usize = 64;

/// The difference between the routes of a policy and those of its predecessor.
#[derive(Clone, Debug)]
pub struct RouteChange {
    /// The previous policy. The indices are valid for this very policy only, so it is compared by
    /// address.
    from: Arc<ServerPolicy>,
    diff: ListDiff,
}

impl RouteChange {
    /// Creates a change from the policy `from`, to whose list of routes `diff` applies. `None` if
    /// the list has another length.
    pub fn new(from: Arc<ServerPolicy>, diff: ListDiff) -> Option<Self> {
        (from.routes.routes.len() == diff.before).then_some(Self { from, diff })
    }

    /// Returns true if no route differs.
    pub fn is_empty(&self) -> bool {
        self.diff.is_empty()
    }

    /// Returns the indices of the routes that differ.
    pub fn diff(&self) -> &ListDiff {
        &self.diff
    }

    /// Returns true if `policy` shares every route outside the difference with the previous policy,
    /// by pointer and in the same order. Takes time in the size of the policies.
    pub fn leads_to(&self, policy: &ServerPolicy) -> bool {
        let ListDiff { removed, inserted, .. } = &self.diff;
        let (old, new) = (&self.from.routes.routes, &policy.routes.routes);
        let kept = rest(old, removed).map(Arc::as_ptr);
        self.diff.fit(old.len(), new.len()) && kept.eq(rest(new, inserted).map(Arc::as_ptr))
    }

    /// Returns the difference if it is one from exactly this policy.
    pub(crate) fn since(&self, policy: &Arc<ServerPolicy>) -> Option<&ListDiff> {
        Arc::ptr_eq(&self.from, policy).then_some(&self.diff)
    }
}

/// Returns the elements of `list` whose indices are not in `out`.
fn rest<'a, T>(list: &'a [T], out: &'a [usize]) -> impl Iterator<Item = &'a T> {
    let numbered = list.iter().enumerate();
    numbered.filter(|(place, _)| out.binary_search(place).is_err()).map(|(_, element)| element)
}

/// The indices at which two lists differ. All other elements are the same in both, in the same
/// order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListDiff {
    before: usize,
    after: usize,
    /// Indices of removed elements in the old list, ascending.
    removed: Vec<usize>,
    /// Indices of inserted elements in the new list, ascending.
    inserted: Vec<usize>,
}

impl ListDiff {
    /// Returns a builder for the difference from a list of `before` elements.
    pub fn builder(before: usize) -> ListDiffBuilder {
        ListDiffBuilder { diff: Self { before, ..Self::default() }, passed: 0 }
    }

    /// Returns true if the lists are the same.
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.inserted.is_empty()
    }

    /// Indices of removed elements in the old list, ascending.
    pub fn removed(&self) -> &[usize] {
        &self.removed
    }

    /// Indices of inserted elements in the new list, ascending.
    pub fn inserted(&self) -> &[usize] {
        &self.inserted
    }

    /// Returns true if the lists have these lengths.
    pub(crate) fn fit(&self, before: usize, after: usize) -> bool {
        (self.before, self.after) == (before, after)
    }

    /// Composes this difference with `next`. `None` if the result exceeds [`MAX_DIFF`].
    pub(crate) fn then(&self, next: &Self) -> Option<Self> {
        if self.after != next.before {
            return None;
        }
        let old = next
            .removed
            .iter()
            .filter_map(|place| map_index(*place, &self.inserted, &self.removed));
        let kept = self
            .inserted
            .iter()
            .filter_map(|place| map_index(*place, &next.removed, &next.inserted));
        let mut removed: Vec<usize> = self.removed.iter().copied().chain(old).collect();
        let mut inserted: Vec<usize> = next.inserted.iter().copied().chain(kept).collect();
        removed.sort_unstable();
        inserted.sort_unstable();
        let few = removed.len() <= MAX_DIFF && inserted.len() <= MAX_DIFF;
        few.then_some(Self { before: self.before, after: next.after, removed, inserted })
    }

    /// Returns the number of elements of the old list that precede the inserted element at `place`,
    /// removed ones included.
    pub(crate) fn anchor(&self, place: usize) -> usize {
        let kept = place.saturating_sub(before(&self.inserted, place));
        index_of_rank(kept, &self.removed).min(self.before)
    }
}

/// Maps an index of one list to the other: `out` are the indices here of elements that are not
/// there, `into` the indices there of elements that are not here. `None` if the element is not
/// there.
fn map_index(place: usize, out: &[usize], into: &[usize]) -> Option<usize> {
    let rank = place.saturating_sub(before(out, place));
    out.binary_search(&place).is_err().then(|| index_of_rank(rank, into))
}

/// Returns the number of `places` less than `place`.
fn before(places: &[usize], place: usize) -> usize {
    places.partition_point(|other| *other < place)
}

/// Returns the index of the element that `rank` elements precede, not counting those at `others`.
fn index_of_rank(rank: usize, others: &[usize]) -> usize {
    others
        .iter()
        .fold(rank, |place, other| if *other <= place { place.saturating_add(1) } else { place })
}

/// Builder of a [`ListDiff`], called for each element in the order of the new list.
#[derive(Clone, Debug)]
pub struct ListDiffBuilder {
    diff: ListDiff,
    /// Number of elements of the old list that are accounted for.
    passed: usize,
}

impl ListDiffBuilder {
    /// Records that the next element is the old one at `place`. An element that moved towards the
    /// front, or far ahead of others, counts as inserted.
    pub fn retain(&mut self, place: usize) {
        match place.checked_sub(self.passed) {
            Some(0) => self.passed = place.saturating_add(1),
            Some(skipped) if skipped <= MAX_DIFF => {
                self.diff.removed.extend(self.passed..place);
                self.passed = place.saturating_add(1);
            }
            Some(_) | None => return self.insert(),
        }
        self.diff.after = self.diff.after.saturating_add(1);
    }

    /// Records that the next element is new or has changed.
    pub fn insert(&mut self) {
        // One more than the maximum marks an overflow.
        if self.diff.inserted.len() <= MAX_DIFF {
            self.diff.inserted.push(self.diff.after);
        }
        self.diff.after = self.diff.after.saturating_add(1);
    }

    /// Returns the difference. `None` if it exceeds [`MAX_DIFF`].
    pub fn finish(mut self) -> Option<ListDiff> {
        let left = self.diff.before.saturating_sub(self.passed);
        if self.diff.removed.len().saturating_add(left) > MAX_DIFF
            || self.diff.inserted.len() > MAX_DIFF
        {
            return None;
        }
        self.diff.removed.extend(self.passed..self.diff.before);
        Some(self.diff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The difference from `old` to `new`, both without repetitions.
    fn noted(old: &[u32], new: &[u32]) -> Option<ListDiff> {
        let mut draft = ListDiff::builder(old.len());
        for one in new {
            match old.iter().position(|other| other == one) {
                Some(place) => draft.retain(place),
                None => draft.insert(),
            }
        }
        draft.finish()
    }

    /// Returns true if the elements in both lists are the same, and in the same order.
    fn says(places: &ListDiff, old: &[u32], new: &[u32]) -> bool {
        places.fit(old.len(), new.len())
            && rest(old, &places.removed).eq(rest(new, &places.inserted))
    }

    #[test]
    fn what_is_gone_and_what_is_new_is_named_and_nothing_else() {
        let places = noted(&[1, 2, 3, 4, 5], &[1, 9, 3, 5, 8]).unwrap();
        assert_eq!((places.removed(), places.inserted()), (&[1, 3][..], &[1, 4][..]));
        assert_eq!(noted(&[1, 2], &[1, 2]).unwrap().removed(), &[] as &[usize]);
        let moved = noted(&[1, 2, 3], &[3, 1, 2]).unwrap();
        assert!(says(&moved, &[1, 2, 3], &[3, 1, 2]), "{moved:?}");
    }

    #[test]
    fn too_much_is_not_kept() {
        let many: Vec<u32> = (0..100).collect();
        assert_eq!(noted(&many, &[]), None);
        assert_eq!(noted(&[], &many), None);
        assert_eq!(noted(&many, &many[MAX_DIFF + 1..]), None);
        let less = noted(&many, &many[MAX_DIFF..]).unwrap();
        assert_eq!(less.removed().len(), MAX_DIFF);
        assert_eq!(less.then(&noted(&many[MAX_DIFF..], &many[MAX_DIFF + 1..]).unwrap()), None);
    }

    #[test]
    fn a_change_counts_from_just_one_policy() {
        let from = Arc::new(crate::testing::policy());
        let places = ListDiff::builder(0).finish().unwrap();
        let change = RouteChange::new(Arc::clone(&from), places.clone()).unwrap();
        assert!(change.since(&from).is_some() && change.is_empty());
        assert!(change.since(&Arc::new(ServerPolicy::clone(&from))).is_none());
        assert!(RouteChange::new(from, ListDiff { before: 1, ..places }).is_none());
    }

    fn any_list() -> impl Strategy<Value = Vec<u32>> {
        Just((0..12).collect::<Vec<u32>>()).prop_shuffle().prop_flat_map(|list| {
            (Just(list), 0_usize..12).prop_map(|(list, length)| list[..length].to_vec())
        })
    }

    proptest! {
        #[test]
        fn two_changes_are_one(a in any_list(), b in any_list(), c in any_list()) {
            let (first, second) = (noted(&a, &b).unwrap(), noted(&b, &c).unwrap());
            prop_assert!(says(&first, &a, &b), "{:?}", first);
            let both = first.then(&second).unwrap();
            prop_assert!(says(&both, &a, &c), "{:?}", both);
            prop_assert!(both.removed.is_sorted() && both.inserted.is_sorted());
            prop_assert!(second.then(&first).is_none() || c.len() == a.len());
        }

        #[test]
        fn what_is_new_stands_behind_all_that_stays_before_it(a in any_list(), b in any_list()) {
            let places = noted(&a, &b).unwrap();
            for place in places.inserted() {
                let anchor = places.anchor(*place);
                for (at, one) in a.iter().enumerate().filter(|(at, _)| !places.removed.contains(at)) {
                    let now = b.iter().position(|other| other == one).unwrap();
                    prop_assert_eq!(at < anchor, now < *place, "{} in {:?}", place, places);
                }
            }
        }
    }
}
