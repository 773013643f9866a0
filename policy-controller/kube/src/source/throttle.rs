//! When everything is listed again. A client that may watch a workload can ask for that by what it says
//! it has in force, true or not, and storage that goes back and forth does each time: if they go on,
//! it becomes rare.

use std::time::Duration;
use tokio::time::Instant;

/// The least time between two begins, while they are few.
const MIN_INTERVAL: Duration = Duration::from_secs(3);

/// The same once there have been many in a streak.
const SLOW_INTERVAL: Duration = Duration::from_secs(30);

/// So many in a streak are many.
const BURST: u32 = 10;

/// After so long without one a streak has ended.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// A throttle at which everything is listed again: at once at first, then rarely, then more rarely.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    last: Option<Instant>,
    /// How many came before it in its streak.
    streak: u32,
}

impl Throttle {
    /// The moment when the next may begin; none: there has been none.
    pub(super) fn next_allowed(&self) -> Option<Instant> {
        let every = if self.streak < BURST { MIN_INTERVAL } else { SLOW_INTERVAL };
        self.last?.checked_add(every)
    }

    /// Notes that one begins.
    pub(super) fn record(&mut self, now: Instant) {
        let before = self.last.map(|last| now.saturating_duration_since(last));
        let goes_on = before.is_some_and(|before| before < RESET_AFTER);
        self.streak = if goes_on { self.streak.saturating_add(1) } else { 0 };
        self.last = Some(now);
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;

    #[test]
    fn refreshes_that_somebody_goes_on_asking_for_become_rare() {
        let start = Instant::now();
        let mut throttle = Throttle::default();
        assert_eq!(throttle.next_allowed(), None);
        let mut begins = Vec::new();
        let mut now = start;
        while now < start + Duration::from_secs(630) {
            begins.push((now - start).as_secs());
            throttle.record(now);
            now = throttle.next_allowed().unwrap();
        }
        // Ten of them soon, then one in half a minute.
        let expected: Vec<u64> =
            (0..=10).map(|n| 3 * n).chain((1..=19).map(|n| 30 + 30 * n)).collect();
        assert_eq!(begins, expected);
        let quiet = now + RESET_AFTER;
        throttle.record(quiet);
        assert_eq!(throttle.next_allowed(), Some(quiet + MIN_INTERVAL));
    }
}
