//! Concurrency limits of the whole sidecar, shared by its workers: connections per port, and
//! requests that wait for the application.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Open connections by port. Locked once per connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionPermits(Mutex<HashMap<NonZeroU16, usize>>);

/// Number of requests that wait for the application's response.
#[derive(Debug, Default)]
pub(super) struct RequestPermits(AtomicUsize);

/// Permit of one such request; released on drop.
#[derive(Debug)]
pub(super) struct RequestPermit<'a>(&'a RequestPermits);

impl ConnectionPermits {
    /// Counts another connection of `port`; false if there are `bound` already.
    pub(super) fn acquire(&self, port: NonZeroU16, bound: usize) -> bool {
        let mut ports = self.0.lock();
        let open = ports.entry(port).or_insert(0);
        let free = *open < bound;
        if free {
            *open = open.saturating_add(1);
        } else if *open == 0 {
            ports.remove(&port);
        }
        free
    }

    /// Releases a connection of `port`.
    pub(super) fn release(&self, port: NonZeroU16) {
        let mut ports = self.0.lock();
        if let Some(open) = ports.get_mut(&port) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                ports.remove(&port);
            }
        }
    }
}

impl RequestPermits {
    /// Returns a permit for another request; none if there are `bound` already.
    pub(super) fn acquire(&self, bound: usize) -> Option<RequestPermit<'_>> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        // Created before the check, so that it is released in any case.
        let permit = RequestPermit(self);
        (before < bound).then_some(permit)
    }
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_its_own_permits_and_they_are_given_back() {
        let port = |number| NonZeroU16::new(number).unwrap();
        let permits = ConnectionPermits::default();
        assert!(permits.acquire(port(80), 2) && permits.acquire(port(80), 2));
        assert!(!permits.acquire(port(80), 2));
        assert!(permits.acquire(port(81), 2));
        permits.release(port(80));
        assert!(permits.acquire(port(80), 2));
        assert!(!permits.acquire(port(82), 0));
        for left in [80, 80, 81] {
            permits.release(port(left));
        }
        assert!(permits.0.lock().is_empty(), "a port without connections costs nothing");
    }

    #[test]
    fn requests_beyond_the_bound_find_no_room_until_others_are_answered() {
        let all = RequestPermits::default();
        let first = all.acquire(1);
        assert!(first.is_some() && all.acquire(1).is_none());
        drop(first);
        assert!(all.acquire(1).is_some());
    }
}
