//! Which routes of a policy are not those of the policy that it follows.
//!
//! Whoever applies an update knows which routes it names. Handed on, that is what the evaluator would
//! otherwise find by comparing every route with the one that was in its place.

use crate::policy::ServerPolicy;
use std::sync::Arc;

/// The routes that may differ before a difference is not worth keeping: an index of what changed is
/// looked through for each request beside the old one, which keeps what is gone.
pub const MOST: usize = 64;

/// How the routes of a policy follow from those of the policy before.
#[derive(Clone, Debug)]
pub struct RouteChange {
    /// The policy before. The places are worth nothing for another one, so it is told by where it is.
    from: Arc<ServerPolicy>,
    places: Places,
}

impl RouteChange {
    /// A change from the policy `from`, whose list of routes `places` are places of. `None`: the list
    /// has another length.
    pub fn new(from: Arc<ServerPolicy>, places: Places) -> Option<Self> {
        (from.routes.routes.len() == places.before).then_some(Self { from, places })
    }

    /// Whether every route is what and where it was.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The places of the routes that differ.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether each route of `policy` that is not named as new is stored where one of the policy before
    /// is, in the same order, and none is left over. Takes time in the size of the policies.
    pub fn leads_to(&self, policy: &ServerPolicy) -> bool {
        let Places { gone, fresh, .. } = &self.places;
        let (old, new) = (&self.from.routes.routes, &policy.routes.routes);
        let kept = rest(old, gone).map(Arc::as_ptr);
        self.places.fit(old.len(), new.len()) && kept.eq(rest(new, fresh).map(Arc::as_ptr))
    }

    /// The places, if this is a change from just this policy.
    pub(crate) fn since(&self, policy: &Arc<ServerPolicy>) -> Option<&Places> {
        Arc::ptr_eq(&self.from, policy).then_some(&self.places)
    }
}

/// The elements of `list` that are not at `out`.
fn rest<'a, T>(list: &'a [T], out: &'a [usize]) -> impl Iterator<Item = &'a T> {
    let numbered = list.iter().enumerate();
    numbered.filter(|(place, _)| out.binary_search(place).is_err()).map(|(_, element)| element)
}

/// What of a list is not in the list before, by place. All else is the same in both, in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    before: usize,
    after: usize,
    /// The places in the list before of what is gone, ascending.
    gone: Vec<usize>,
    /// The places in the list after of what is new, ascending.
    fresh: Vec<usize>,
}

impl Places {
    /// Notes how a list follows from one of `before` elements.
    pub fn from_list_of(before: usize) -> Draft {
        Draft { places: Self { before, ..Self::default() }, passed: 0 }
    }

    /// Whether the lists are the same.
    pub(crate) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.fresh.is_empty()
    }

    /// The places in the list before of what is gone, ascending.
    pub fn gone(&self) -> &[usize] {
        &self.gone
    }

    /// The places in the list after of what is new, ascending.
    pub fn fresh(&self) -> &[usize] {
        &self.fresh
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
        let old = next.gone.iter().filter_map(|place| across(*place, &self.fresh, &self.gone));
        let kept = self.fresh.iter().filter_map(|place| across(*place, &next.gone, &next.fresh));
        let mut gone: Vec<usize> = self.gone.iter().copied().chain(old).collect();
        let mut fresh: Vec<usize> = next.fresh.iter().copied().chain(kept).collect();
        gone.sort_unstable();
        fresh.sort_unstable();
        let few = gone.len() <= MOST && fresh.len() <= MOST;
        few.then_some(Self { before: self.before, after: next.after, gone, fresh })
    }

    /// How many elements of the list before come before what is new at `place`, of those that stay and
    /// those that are gone between them.
    pub(crate) fn anchor(&self, place: usize) -> usize {
        let kept = place.saturating_sub(before(&self.fresh, place));
        insert(kept, &self.gone).min(self.before)
    }
}

/// Where an element of one list is in the other: `out` are the places here of those that are not there,
/// `into` the places there of those that are not here. `None`: it is not there.
fn across(place: usize, out: &[usize], into: &[usize]) -> Option<usize> {
    let rank = place.saturating_sub(before(out, place));
    out.binary_search(&place).is_err().then(|| insert(rank, into))
}

/// How many of `places` are less than `place`.
fn before(places: &[usize], place: usize) -> usize {
    places.partition_point(|other| *other < place)
}

/// The place of the element that has `rank` others before it, in a list that has more at `others`.
fn insert(rank: usize, others: &[usize]) -> usize {
    others
        .iter()
        .fold(rank, |place, other| if *other <= place { place.saturating_add(1) } else { place })
}

/// A [`Places`] that is noted element by element, in the order of the new list.
#[derive(Clone, Debug)]
pub struct Draft {
    places: Places,
    /// How many elements of the list before are dealt with.
    passed: usize,
}

impl Draft {
    /// Notes that the next element is the one that was at `place`. What moved towards the front, or far
    /// ahead of others, counts as new.
    pub fn kept(&mut self, place: usize) {
        match place.checked_sub(self.passed) {
            Some(0) => self.passed = place.saturating_add(1),
            Some(skipped) if skipped <= MOST => {
                self.places.gone.extend(self.passed..place);
                self.passed = place.saturating_add(1);
            }
            Some(_) | None => return self.fresh(),
        }
        self.places.after = self.places.after.saturating_add(1);
    }

    /// Notes that the next element is new, or not what it was.
    pub fn fresh(&mut self) {
        // One more says that there are too many.
        if self.places.fresh.len() <= MOST {
            self.places.fresh.push(self.places.after);
        }
        self.places.after = self.places.after.saturating_add(1);
    }

    /// What was noted. `None`: too much differs.
    pub fn finish(mut self) -> Option<Places> {
        let left = self.places.before.saturating_sub(self.passed);
        if self.places.gone.len().saturating_add(left) > MOST || self.places.fresh.len() > MOST {
            return None;
        }
        self.places.gone.extend(self.passed..self.places.before);
        Some(self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How `new` follows from `old`, both without repetitions.
    fn noted(old: &[u32], new: &[u32]) -> Option<Places> {
        let mut draft = Places::from_list_of(old.len());
        for one in new {
            match old.iter().position(|other| other == one) {
                Some(place) => draft.kept(place),
                None => draft.fresh(),
            }
        }
        draft.finish()
    }

    /// Whether what is neither gone nor new is the same, and in the same order.
    fn says(places: &Places, old: &[u32], new: &[u32]) -> bool {
        places.fit(old.len(), new.len()) && rest(old, &places.gone).eq(rest(new, &places.fresh))
    }

    #[test]
    fn what_is_gone_and_what_is_new_is_named_and_nothing_else() {
        let places = noted(&[1, 2, 3, 4, 5], &[1, 9, 3, 5, 8]).unwrap();
        assert_eq!((places.gone(), places.fresh()), (&[1, 3][..], &[1, 4][..]));
        assert_eq!(noted(&[1, 2], &[1, 2]).unwrap().gone(), &[] as &[usize]);
        let moved = noted(&[1, 2, 3], &[3, 1, 2]).unwrap();
        assert!(says(&moved, &[1, 2, 3], &[3, 1, 2]), "{moved:?}");
    }

    #[test]
    fn too_much_is_not_kept() {
        let many: Vec<u32> = (0..100).collect();
        assert_eq!(noted(&many, &[]), None);
        assert_eq!(noted(&[], &many), None);
        assert_eq!(noted(&many, &many[MOST + 1..]), None);
        let less = noted(&many, &many[MOST..]).unwrap();
        assert_eq!(less.gone().len(), MOST);
        assert_eq!(less.then(&noted(&many[MOST..], &many[MOST + 1..]).unwrap()), None);
    }

    #[test]
    fn a_change_counts_from_just_one_policy() {
        let from = Arc::new(crate::testing::policy());
        let places = Places::from_list_of(0).finish().unwrap();
        let change = RouteChange::new(Arc::clone(&from), places.clone()).unwrap();
        assert!(change.since(&from).is_some() && change.is_empty());
        assert!(change.since(&Arc::new(ServerPolicy::clone(&from))).is_none());
        assert!(RouteChange::new(from, Places { before: 1, ..places }).is_none());
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
            prop_assert!(both.gone.is_sorted() && both.fresh.is_sorted());
            prop_assert!(second.then(&first).is_none() || c.len() == a.len());
        }

        #[test]
        fn what_is_new_stands_behind_all_that_stays_before_it(a in any_list(), b in any_list()) {
            let places = noted(&a, &b).unwrap();
            for place in places.fresh() {
                let anchor = places.anchor(*place);
                for (at, one) in a.iter().enumerate().filter(|(at, _)| !places.gone.contains(at)) {
                    let now = b.iter().position(|other| other == one).unwrap();
                    prop_assert_eq!(at < anchor, now < *place, "{} in {:?}", place, places);
                }
            }
        }
    }
}
