//! What is remembered of one connection between its requests.

use crate::index::grants::Lasting;

/// The number of routes whose authorizations a [`Memo`] remembers.
const REMEMBERED: usize = 8;

/// What was found out about one connection under one [`crate::Evaluator`]: which authorization of a
/// set holds for as long as the connection lives, and whether requests have to be asked besides. What
/// depends on a request is never in it. Make a new one for each connection, and whenever the evaluator
/// or the workload's facts change. Takes 64 bytes.
#[derive(Clone, Debug)]
pub struct Memo {
    /// Whose set it is, plus one; zero is nobody's. With it what is known of the set.
    slots: [(u32, Known); REMEMBERED],
}

/// A [`Lasting`] in four bytes: the number of the authorization plus one, zero for none, and in the
/// highest bit whether requests have to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known(u32);

const ASKS_REQUESTS: u32 = 1 << 31;

impl Known {
    /// `None`: the number is too large to be remembered.
    fn of(lasting: Lasting) -> Option<Self> {
        let Lasting { first, asks_requests } = lasting;
        let number = first.map_or(Some(0), |index| index.checked_add(1))?;
        let flag = if asks_requests { ASKS_REQUESTS } else { 0 };
        (number & ASKS_REQUESTS == 0).then_some(Self(number | flag))
    }

    #[inline]
    fn lasting(self) -> Lasting {
        Lasting {
            first: (self.0 & !ASKS_REQUESTS).checked_sub(1),
            asks_requests: self.0 & ASKS_REQUESTS != 0,
        }
    }
}

impl Memo {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self { slots: [(0, Known(0)); REMEMBERED] }
    }

    /// What is known of a set, or else what `find` says. `whose`: zero for the Server's, or a route's
    /// number plus one.
    #[inline]
    pub(crate) fn recall(&mut self, whose: u32, find: impl FnOnce() -> Lasting) -> Lasting {
        let place = usize::try_from(whose).unwrap_or(0) % REMEMBERED;
        let key = whose.saturating_add(1);
        match self.slots.get(place) {
            Some((owner, known)) if *owner == key => known.lasting(),
            Some(_) | None => {
                let found = find();
                if let (Some(slot), Some(known)) = (self.slots.get_mut(place), Known::of(found)) {
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
        for first in [None, Some(0), Some(7), Some(ASKS_REQUESTS - 2)] {
            for asks_requests in [false, true] {
                let found = Lasting { first, asks_requests };
                let mut memo = Memo::new();
                assert_eq!(memo.recall(3, || found), found);
                assert_eq!(memo.recall(3, || panic!("it is known")), found);
            }
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_not_remembered() {
        for first in [ASKS_REQUESTS - 1, ASKS_REQUESTS, u32::MAX] {
            let found = Lasting { first: Some(first), asks_requests: false };
            let mut memo = Memo::new();
            assert_eq!(memo.recall(3, || found), found);
            let other = Lasting { first: None, asks_requests: true };
            assert_eq!(memo.recall(3, || other), other);
        }
    }

    #[test]
    fn what_is_remembered_of_one_set_is_not_taken_for_another() {
        let found = |index| Lasting { first: Some(index), asks_requests: false };
        let mut memo = Memo::new();
        assert_eq!(memo.recall(1, || found(1)), found(1));
        assert_eq!(memo.recall(9, || found(2)), found(2), "it has the same place");
        assert_eq!(memo.recall(1, || found(3)), found(3));
    }

    #[test]
    fn a_memo_takes_64_bytes() {
        assert_eq!(size_of::<Memo>(), 64);
    }
}
