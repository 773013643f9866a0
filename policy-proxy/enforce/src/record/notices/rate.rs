//! A bound on lines per second.

use std::time::{Duration, Instant};

/// The times of the last `N` lines. Between any two times a second apart there are `N` at most.
#[derive(Clone, Debug)]
pub(super) struct Rate<const N: usize> {
    /// The oldest first.
    last: [Option<Instant>; N],
}

impl<const N: usize> Rate<N> {
    /// Nothing has been written yet.
    pub(super) const fn new() -> Self {
        Self { last: [None; N] }
    }

    /// Whether one more line may be written at `now`.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        let oldest = self.last.first().copied().flatten();
        oldest.is_none_or(|at| now.saturating_duration_since(at) >= SECOND)
    }

    /// Takes note of a line that is written at `now`.
    pub(super) fn take(&mut self, now: Instant) {
        self.last.rotate_left(1);
        if let Some(newest) = self.last.last_mut() {
            *newest = Some(now);
        }
    }
}

/// What the bounds of lines are about.
pub(super) const SECOND: Duration = Duration::from_secs(1);
