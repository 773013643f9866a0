//! When everything is listed again. A client that may watch a workload can ask for that by what it says
//! it has in force, true or not, and storage that goes back and forth does each time: if they go on,
//! it becomes rare.

use std::time::Duration;
use tokio::time::Instant;

/// The least time between two begins, while they are few.
const EVERY: Duration = Duration::from_secs(3);

/// The same once there have been many in a row.
const SELDOM: Duration = Duration::from_secs(30);

/// So many in a row are many.
const MANY: u32 = 10;

/// After so long without one a row has ended.
const ROW_ENDS: Duration = Duration::from_secs(120);

/// A pace at which everything is listed again: at once at first, then rarely, then more rarely.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<Instant>,
    /// How many came before it in its row.
    row: u32,
}

impl Pace {
    /// The moment when the next may begin; none: there has been none.
    pub(super) fn next(&self) -> Option<Instant> {
        let every = if self.row < MANY { EVERY } else { SELDOM };
        self.last?.checked_add(every)
    }

    /// Notes that one begins.
    pub(super) fn begin(&mut self, now: Instant) {
        let before = self.last.map(|last| now.saturating_duration_since(last));
        let goes_on = before.is_some_and(|before| before < ROW_ENDS);
        self.row = if goes_on { self.row.saturating_add(1) } else { 0 };
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
        let mut pace = Pace::default();
        assert_eq!(pace.next(), None);
        let mut begins = Vec::new();
        let mut now = start;
        while now < start + Duration::from_secs(630) {
            begins.push((now - start).as_secs());
            pace.begin(now);
            now = pace.next().unwrap();
        }
        // Ten of them soon, then one in half a minute.
        let expected: Vec<u64> =
            (0..=10).map(|n| 3 * n).chain((1..=19).map(|n| 30 + 30 * n)).collect();
        assert_eq!(begins, expected);
        let quiet = now + ROW_ENDS;
        pace.begin(quiet);
        assert_eq!(pace.next(), Some(quiet + EVERY));
    }
}
