//! A limit on lines per second.

use std::time::{Duration, Instant};

/// The times of the last `N` lines. Any period of a second has at most `N`.
#[derive(Clone, Debug)]
pub(super) struct Rate<const N: usize> {
    /// Oldest first.
    last: [Option<Instant>; N],
}

impl<const N: usize> Rate<N> {
    /// Creates a rate without any lines.
    pub(super) const fn new() -> Self {
        Self { last: [None; N] }
    }

    /// Returns true if one more line may be written at `now`.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        let oldest = self.last.first().copied().flatten();
        oldest.is_none_or(|at| now.saturating_duration_since(at) >= SECOND)
    }

    /// Records a line written at `now`.
    pub(super) fn take(&mut self, now: Instant) {
        self.last.rotate_left(1);
        if let Some(newest) = self.last.last_mut() {
            *newest = Some(now);
        }
    }
}

/// Period of the limits.
pub(super) const SECOND: Duration = Duration::from_secs(1);
