//! Backoff of requests that failed.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first delay, before jitter.
const INITIAL_DELAY: Duration = Duration::from_millis(250);

/// The longest delay, before jitter.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The longest `Retry-After` that is honored.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Exponential backoff: delays that double with every failure in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Resets the delay after a success.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next delay, at least the API server's `Retry-After`.
    pub(super) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let delay = INITIAL_DELAY
            .saturating_mul(2_u32.saturating_pow(self.failures.min(16)))
            .min(MAX_DELAY);
        self.failures = self.failures.saturating_add(1);
        let retry_after = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        // Jitter, because clients that failed together must not retry together.
        retry_after.saturating_add(jittered(delay))
    }
}

/// A random duration between half of `duration` and all of it.
pub(super) fn jittered(duration: Duration) -> Duration {
    // The standard library's hash keys are its one source of randomness.
    let random = RandomState::new().hash_one(0_u8) & 0xFFFF;
    let share = u32::try_from(random).unwrap_or_default();
    let half = duration.checked_div(2).unwrap_or_default();
    half.saturating_add(half.saturating_mul(share).checked_div(0xFFFF).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound_and_start_again_after_a_success() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next(None)).collect();
        assert!(waits[0] <= INITIAL_DELAY && waits[0] >= INITIAL_DELAY / 2, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= MAX_DELAY), "{waits:?}");
        assert!(waits[39] >= MAX_DELAY / 2, "{waits:?}");
        backoff.reset();
        assert!(backoff.next(None) <= INITIAL_DELAY);
    }

    #[test]
    fn what_the_api_server_asks_for_is_honoured_within_reason() {
        let mut backoff = Backoff::default();
        assert!(backoff.next(Some(Duration::from_secs(7))) >= Duration::from_secs(7));
        assert!(backoff.next(Some(Duration::from_secs(86_400))) <= MAX_RETRY_AFTER + MAX_DELAY);
    }

    #[test]
    fn waits_differ() {
        let waits: std::collections::BTreeSet<Duration> =
            (0..50).map(|_| jittered(Duration::from_secs(10))).collect();
        assert!(waits.len() > 10, "{waits:?}");
        assert!(waits.iter().all(|w| (5_000..=10_000).contains(&w.as_millis())), "{waits:?}");
    }
}
