//! Throttles relists of everything. A client that may watch a workload can cause one by the revision
//! that it reports, true or not, and so does storage that flips between two states: relists that
//! continue become rare.

use std::time::Duration;
use tokio::time::Instant;

/// Minimum interval between two relists, in a short streak.
const MIN_INTERVAL: Duration = Duration::from_secs(3);

/// Minimum interval in a long streak.
const SLOW_INTERVAL: Duration = Duration::from_secs(30);

/// Number of relists after which a streak is long.
const BURST: u32 = 10;

/// The pause that ends a streak.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// Throttle of relists: the first is immediate, later ones are rare.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    last: Option<Instant>,
    /// Number of relists before the last one in its streak.
    streak: u32,
}

impl Throttle {
    /// The earliest time of the next one; `None` before the first.
    pub(super) fn next_allowed(&self) -> Option<Instant> {
        let every = if self.streak < BURST { MIN_INTERVAL } else { SLOW_INTERVAL };
        self.last?.checked_add(every)
    }

    /// Records that one begins.
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
        // Ten soon, then one every 30 s.
        let expected: Vec<u64> =
            (0..=10).map(|n| 3 * n).chain((1..=19).map(|n| 30 + 30 * n)).collect();
        assert_eq!(begins, expected);
        let quiet = now + RESET_AFTER;
        throttle.record(quiet);
        assert_eq!(throttle.next_allowed(), Some(quiet + MIN_INTERVAL));
    }
}
