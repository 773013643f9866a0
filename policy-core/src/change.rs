//! Which routes of a policy are not those of the policy that it follows.
//!
//! Whoever applies an update knows which routes it names. Handed on, that is what the evaluator would
//! otherwise find by comparing every route with the one that was in its place.

use crate::policy::ServerPolicy;
use std::sync::Arc;

/// The routes that may differ before a difference is not worth keeping: an index of what changed is
/// looked through for each request beside the old one, which keeps what is gone.
pub const MAX_DIFF: usize = 64;

/// How the routes of a policy follow from those of the policy before.
#[derive(Clone, Debug)]
pub struct RouteChange {
    /// The policy before. The places are worth nothing for another one, so it is told by where it is.
    from: Arc<ServerPolicy>,
    diff: ListDiff,
}

impl RouteChange {
    /// A change from the policy `from`, whose list of routes `places` are places of. `None`: the list
    /// has another length.
    pub fn new(from: Arc<ServerPolicy>, diff: ListDiff) -> Option<Self> {
        (from.routes.routes.len() == diff.before).then_some(Self { from, diff })
    }

    /// Whether every route is what and where it was.
    pub fn is_empty(&self) -> bool {
        self.diff.is_empty()
    }

    /// The places of the routes that differ.
    pub fn diff(&self) -> &ListDiff {
        &self.diff
    }

    /// Whether each route of `policy` that is not named as new is stored where one of the policy before
    /// is, in the same order, and none is left over. Takes time in the size of the policies.
    pub fn leads_to(&self, policy: &ServerPolicy) -> bool {
        let ListDiff { removed, inserted, .. } = &self.diff;
        let (old, new) = (&self.from.routes.routes, &policy.routes.routes);
        let kept = rest(old, removed).map(Arc::as_ptr);
        self.diff.fit(old.len(), new.len()) && kept.eq(rest(new, inserted).map(Arc::as_ptr))
    }

    /// The places, if this is a change from just this policy.
    pub(crate) fn since(&self, policy: &Arc<ServerPolicy>) -> Option<&ListDiff> {
        Arc::ptr_eq(&self.from, policy).then_some(&self.diff)
    }
}

/// The elements of `list` that are not at `out`.
fn rest<'a, T>(list: &'a [T], out: &'a [usize]) -> impl Iterator<Item = &'a T> {
    let numbered = list.iter().enumerate();
    numbered.filter(|(place, _)| out.binary_search(place).is_err()).map(|(_, element)| element)
}

/// What of a list is not in the list before, by place. All else is the same in both, in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListDiff {
    before: usize,
    after: usize,
    /// The places in the list before of what is gone, ascending.
    removed: Vec<usize>,
    /// The places in the list after of what is new, ascending.
    inserted: Vec<usize>,
}

impl ListDiff {
    /// Notes how a list follows from one of `before` elements.
    pub fn builder(before: usize) -> ListDiffBuilder {
        ListDiffBuilder { diff: Self { before, ..Self::default() }, passed: 0 }
    }

    /// Whether the lists are the same.
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.inserted.is_empty()
    }

    /// The places in the list before of what is gone, ascending.
    pub fn removed(&self) -> &[usize] {
        &self.removed
    }

    /// The places in the list after of what is new, ascending.
    pub fn inserted(&self) -> &[usize] {
        &self.inserted
    }

    /// Whether these are places in lists of such lengths.
    pub(crate) fn fit(&self, before: usize, after: usize) -> bool {
        (self.before, self.after) == (before, after)
    }

    /// This change and then `next`, as one. `None`: too much differs.
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

    /// How many elements of the list before come before what is new at `place`, of those that stay and
    /// those that are gone between them.
    pub(crate) fn anchor(&self, place: usize) -> usize {
        let kept = place.saturating_sub(before(&self.inserted, place));
        index_of_rank(kept, &self.removed).min(self.before)
    }
}

/// Where an element of one list is in the other: `out` are the places here of those that are not there,
/// `into` the places there of those that are not here. `None`: it is not there.
fn map_index(place: usize, out: &[usize], into: &[usize]) -> Option<usize> {
    let rank = place.saturating_sub(before(out, place));
    out.binary_search(&place).is_err().then(|| index_of_rank(rank, into))
}

/// How many of `places` are less than `place`.
fn before(places: &[usize], place: usize) -> usize {
    places.partition_point(|other| *other < place)
}

/// The place of the element that has `rank` others before it, in a list that has more at `others`.
fn index_of_rank(rank: usize, others: &[usize]) -> usize {
    others
        .iter()
        .fold(rank, |place, other| if *other <= place { place.saturating_add(1) } else { place })
}

/// A [`ListDiff`] that is noted element by element, in the order of the new list.
#[derive(Clone, Debug)]
pub struct ListDiffBuilder {
    diff: ListDiff,
    /// How many elements of the list before are dealt with.
    passed: usize,
}

impl ListDiffBuilder {
    /// Notes that the next element is the one that was at `place`. What moved towards the front, or far
    /// ahead of others, counts as new.
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

    /// Notes that the next element is new, or not what it was.
    pub fn insert(&mut self) {
        // One more says that there are too many.
        if self.diff.inserted.len() <= MAX_DIFF {
            self.diff.inserted.push(self.diff.after);
        }
        self.diff.after = self.diff.after.saturating_add(1);
    }

    /// What was noted. `None`: too much differs.
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

    /// How `new` follows from `old`, both without repetitions.
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

    /// Whether what is neither gone nor new is the same, and in the same order.
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
