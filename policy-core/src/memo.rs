//! Results cached for one connection across its requests.

use crate::index::grants::ConnectionGrants;

/// The number of sets of authorizations that a [`Memo`] caches.
const CACHED_ROUTES: usize = 8;

/// Cache of authorization results for one connection under one [`crate::Evaluator`]: the first
/// authorization of each set that holds for the life of the connection, and whether the set has
/// grants that depend on the request. It never holds a result that depends on a request. Create a
/// new one for each connection, and whenever the evaluator or the workload's facts change. Takes 64
/// bytes.
#[derive(Clone, Debug)]
pub struct Memo {
    /// The set's number plus one, zero for an empty slot, and the result of the set.
    slots: [(u32, PackedGrants); CACHED_ROUTES],
}

/// A [`ConnectionGrants`] in four bytes: the number of the authorization plus one, zero for none;
/// the highest bit is `has_request_grants`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedGrants(u32);

const HAS_REQUEST_GRANTS: u32 = 1 << 31;

impl PackedGrants {
    /// `None`: the number is too large to be remembered.
    fn pack(grants: ConnectionGrants) -> Option<Self> {
        let ConnectionGrants { first, has_request_grants } = grants;
        let number = first.map_or(Some(0), |index| index.checked_add(1))?;
        let flag = if has_request_grants { HAS_REQUEST_GRANTS } else { 0 };
        (number & HAS_REQUEST_GRANTS == 0).then_some(Self(number | flag))
    }

    #[inline]
    fn unpack(self) -> ConnectionGrants {
        ConnectionGrants {
            first: (self.0 & !HAS_REQUEST_GRANTS).checked_sub(1),
            has_request_grants: self.0 & HAS_REQUEST_GRANTS != 0,
        }
    }
}

impl Memo {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self { slots: [(0, PackedGrants(0)); CACHED_ROUTES] }
    }

    /// Returns the cached result of a set, or else calls `find` and caches its result. `whose` is
    /// zero for the Server's set, or a route's number plus one.
    #[inline]
    pub(crate) fn get_or_insert_with(
        &mut self,
        whose: u32,
        find: impl FnOnce() -> ConnectionGrants,
    ) -> ConnectionGrants {
        let place = usize::try_from(whose).unwrap_or(0) % CACHED_ROUTES;
        let key = whose.saturating_add(1);
        match self.slots.get(place) {
            Some((owner, known)) if *owner == key => known.unpack(),
            Some(_) | None => {
                let found = find();
                if let (Some(slot), Some(known)) =
                    (self.slots.get_mut(place), PackedGrants::pack(found))
                {
                    *slot = (key, known);
                }
                found
            }
        }
    }
}

impl Default for Memo {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_was_found() {
        for first in [None, Some(0), Some(7), Some(HAS_REQUEST_GRANTS - 2)] {
            for has_request_grants in [false, true] {
                let found = ConnectionGrants { first, has_request_grants };
                let mut memo = Memo::new();
                assert_eq!(memo.get_or_insert_with(3, || found), found);
                assert_eq!(memo.get_or_insert_with(3, || panic!("it is known")), found);
            }
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_not_remembered() {
        for first in [HAS_REQUEST_GRANTS - 1, HAS_REQUEST_GRANTS, u32::MAX] {
            let found = ConnectionGrants { first: Some(first), has_request_grants: false };
            let mut memo = Memo::new();
            assert_eq!(memo.get_or_insert_with(3, || found), found);
            let other = ConnectionGrants { first: None, has_request_grants: true };
            assert_eq!(memo.get_or_insert_with(3, || other), other);
        }
    }

    #[test]
    fn what_is_remembered_of_one_set_is_not_taken_for_another() {
        let found = |index| ConnectionGrants { first: Some(index), has_request_grants: false };
        let mut memo = Memo::new();
        assert_eq!(memo.get_or_insert_with(1, || found(1)), found(1));
        assert_eq!(memo.get_or_insert_with(9, || found(2)), found(2), "it has the same place");
        assert_eq!(memo.get_or_insert_with(1, || found(3)), found(3));
    }

    #[test]
    fn a_memo_takes_64_bytes() {
        assert_eq!(size_of::<Memo>(), 64);
    }
}
