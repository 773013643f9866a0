//! Logs one error of each kind per interval, with the number of suppressed ones.

use crate::error::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One limiter per kind of error. Shared by all workers.
#[derive(Debug)]
pub struct Sampler {
    epoch: Instant,
    interval: Duration,
    kinds: [SampleState; ErrorKind::ALL.len()],
}

#[derive(Debug, Default)]
struct SampleState {
    /// Time when the next one may be logged, in milliseconds after `epoch`.
    next: AtomicU64,
    suppressed: AtomicU64,
}

impl Sampler {
    /// Creates a sampler that admits one error of each kind per `interval`.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { epoch: now, interval, kinds: Default::default() }
    }

    /// Returns the number of errors of this kind suppressed since the last line if this one is to
    /// be logged at `now`; else `None`.
    pub fn admit(&self, kind: ErrorKind, now: Instant) -> Option<u64> {
        let state = self.kinds.get(usize::from(kind as u8))?;
        let since = now.saturating_duration_since(self.epoch).as_millis();
        let now = u64::try_from(since).unwrap_or(u64::MAX);
        let step = u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX);
        let due = |next: u64| (now >= next).then(|| now.saturating_add(step));
        match state.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due) {
            Ok(_) => Some(state.suppressed.swap(0, Ordering::Relaxed)),
            Err(_) => {
                state.suppressed.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "tests")]
    use super::*;

    #[test]
    fn each_kind_is_logged_once_per_interval_with_the_number_left_out() {
        let start = Instant::now();
        let sampler = Sampler::new(Duration::from_secs(10), start);
        assert_eq!(sampler.admit(ErrorKind::Io, start), Some(0));
        for _ in 0..5 {
            assert_eq!(sampler.admit(ErrorKind::Io, start + Duration::from_secs(9)), None);
        }
        assert_eq!(sampler.admit(ErrorKind::Connect, start), Some(0), "another kind");
        assert_eq!(sampler.admit(ErrorKind::Io, start + Duration::from_secs(10)), Some(5));
    }

    #[test]
    fn every_kind_has_a_clock() {
        let start = Instant::now();
        let sampler = Sampler::new(Duration::from_secs(10), start);
        for (place, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(kind as u8), place);
            assert_eq!(sampler.admit(kind, start), Some(0), "{}", kind.as_str());
        }
    }
}
