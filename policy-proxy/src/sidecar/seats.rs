//! How many connections each port has, and how many requests wait for the application: bounds that hold
//! for the whole sidecar, whichever workers serve them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections by port. Taken and given back once per connection.
#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<HashMap<NonZeroU16, usize>>);

/// Requests that the application is yet to answer.
#[derive(Debug, Default)]
pub(super) struct InFlight(AtomicUsize);

/// One such request; given back when dropped.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a InFlight);

impl Seats {
    /// One more connection of `port`; false: there are `bound` already.
    pub(super) fn take(&self, port: NonZeroU16, bound: usize) -> bool {
        let mut seats = self.0.lock();
        let taken = seats.entry(port).or_insert(0);
        let free = *taken < bound;
        if free {
            *taken = taken.saturating_add(1);
        } else if *taken == 0 {
            seats.remove(&port);
        }
        free
    }

    /// One connection of `port` less.
    pub(super) fn leave(&self, port: NonZeroU16) {
        let mut seats = self.0.lock();
        if let Some(taken) = seats.get_mut(&port) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                seats.remove(&port);
            }
        }
    }
}

impl InFlight {
    /// One more request; none: there are `bound` already.
    pub(super) fn enter(&self, bound: usize) -> Option<Waiting<'_>> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        // Made first, so that it is given back in any case.
        let waiting = Waiting(self);
        (before < bound).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_its_own_seats_and_they_are_given_back() {
        let port = |number| NonZeroU16::new(number).unwrap();
        let seats = Seats::default();
        assert!(seats.take(port(80), 2) && seats.take(port(80), 2));
        assert!(!seats.take(port(80), 2));
        assert!(seats.take(port(81), 2));
        seats.leave(port(80));
        assert!(seats.take(port(80), 2));
        assert!(!seats.take(port(82), 0));
        for left in [80, 80, 81] {
            seats.leave(port(left));
        }
        assert!(seats.0.lock().is_empty(), "a port without connections costs nothing");
    }

    #[test]
    fn requests_beyond_the_bound_find_no_room_until_others_are_answered() {
        let all = InFlight::default();
        let first = all.enter(1);
        assert!(first.is_some() && all.enter(1).is_none());
        drop(first);
        assert!(all.enter(1).is_some());
    }
}
