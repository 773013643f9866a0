//! Exponential backoff with jitter, reset by lasting success.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The delays between attempts. Never zero, so that a server that ends every stream at once is not
/// called in a loop.
#[derive(Clone, Debug)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates a backoff whose first delay is about `least`, and which doubles up to `most`. Both
    /// are at least one millisecond.
    pub fn new(least: Duration, most: Duration) -> Self {
        let least = least.max(Duration::from_millis(1));
        Self { least, most: most.max(least), next: least }
    }

    /// Returns the delay before the next attempt: between half and all of the current step, by
    /// `random`, so that clients that lost the same server do not reconnect together.
    pub fn delay(&mut self, random: u64) -> Duration {
        let step = self.next;
        self.next = step.saturating_mul(2).min(self.most);
        jittered(step, random)
    }

    /// Returns the longest delay, jittered: for errors that will not change soon.
    pub fn slow(&self, random: u64) -> Duration {
        jittered(self.most, random)
    }

    /// Resets the delay if an attempt was successful for at least the longest delay. A shorter
    /// success does not count: a server may accept, send one message and fail.
    pub fn settle(&mut self, lasted: Duration) {
        if lasted >= self.most {
            self.next = self.least;
        }
    }
}

/// Returns a duration between half and all of `step`.
fn jittered(step: Duration, random: u64) -> Duration {
    let half = step.checked_div(2).unwrap_or(step);
    let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    let extra = random.checked_rem(nanos.saturating_add(1)).unwrap_or(0);
    half.saturating_add(Duration::from_nanos(extra)).max(Duration::from_millis(1))
}

/// Returns an unpredictable number: the standard library seeds its hasher from the system.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(100);
    const MOST: Duration = Duration::from_secs(10);

    #[test]
    fn delays_double_up_to_the_bound_and_stay_within_their_jitter() {
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            let mut backoff = Backoff::new(LEAST, MOST);
            let mut step = LEAST;
            for _ in 0..20 {
                let delay = backoff.delay(random);
                assert!(delay >= step / 2 && delay <= step, "{delay:?} of {step:?}");
                step = step.saturating_mul(2).min(MOST);
            }
        }
    }

    #[test]
    fn only_a_success_that_lasted_begins_anew() {
        let mut backoff = Backoff::new(LEAST, MOST);
        for _ in 0..5 {
            backoff.delay(0);
        }
        backoff.settle(Duration::from_secs(9));
        assert!(backoff.delay(0) > LEAST);
        backoff.settle(MOST);
        assert!(backoff.delay(u64::MAX) <= LEAST);
    }

    #[test]
    fn no_delay_is_zero() {
        let mut backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
        assert!(backoff.delay(0) >= Duration::from_millis(1));
        assert!(backoff.slow(0) >= Duration::from_millis(1));
    }
}
