//! Rate limits of operations that are costly for others: API server reviews of a token, or a full
//! list.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// A token bucket: a burst, then one token per interval.
#[derive(Clone, Debug)]
pub struct Limiter {
    interval: Duration,
    burst: Duration,
    /// Time when the bucket will be full.
    full_at: Option<Instant>,
}

impl Limiter {
    /// Creates a bucket; rate and burst are at least 1.
    pub fn new(per_second: u32, burst: u32) -> Self {
        let second = Duration::from_secs(1);
        Self::every(second.checked_div(per_second.max(1)).unwrap_or(second), burst)
    }

    /// Creates a bucket with one token per `interval`; the burst is at least 1.
    pub fn every(interval: Duration, burst: u32) -> Self {
        Self { interval, burst: interval.saturating_mul(burst.max(1)), full_at: None }
    }

    /// Returns true if there is a token.
    pub fn has_left(&self, now: Instant) -> bool {
        self.clone().take(now).is_ok()
    }

    /// Takes a token if there is one.
    ///
    /// # Errors
    /// The time when there will be a token.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now));
        let after = full_at.checked_add(self.interval).unwrap_or(full_at);
        let missing = after.saturating_duration_since(now).saturating_sub(self.burst);
        if missing.is_zero() {
            self.full_at = Some(after);
            Ok(())
        } else {
            Err(now.checked_add(missing).unwrap_or(now))
        }
    }
}

/// A rate and its burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens per second.
    pub per_second: u32,
    /// Size of the burst.
    pub burst: u32,
}

/// Maximum number of keys.
const MAX_KEYS: usize = 16 * 1024;

/// A token bucket for each key, such as an address or a peer.
#[derive(Debug)]
pub struct Limit<K> {
    fresh: Limiter,
    /// True if it forgets all keys where there are too many, rather than refuse another.
    forgets: bool,
    seen: Mutex<HashMap<K, (Limiter, Instant)>>,
}

impl<K: Clone + Eq + Hash> Limit<K> {
    /// Creates a limit with this rate for each key.
    pub fn new(rate: Rate) -> Self {
        Self::of(Limiter::new(rate.per_second, rate.burst))
    }

    /// Creates a limit with a copy of this full bucket for each key.
    pub fn of(fresh: Limiter) -> Self {
        Self { fresh, forgets: false, seen: Mutex::default() }
    }

    /// Forgets all keys where there are too many, so that who can make up keys holds nobody else up.
    /// What the keys are used for needs a bound in all then.
    #[must_use]
    pub fn forgetting(self) -> Self {
        Self { forgets: true, ..self }
    }

    /// Returns true if `key` has a token. An unknown key has all of its tokens.
    pub fn has_left(&self, key: &K, now: Instant) -> bool {
        self.seen.lock().get(key).is_none_or(|(limiter, _)| limiter.has_left(now))
    }

    /// Takes a token for `key`; returns false if there is none.
    pub fn take(&self, key: &K, now: Instant) -> bool {
        let mut seen = self.seen.lock();
        if seen.len() >= MAX_KEYS && !seen.contains_key(key) {
            // By then all of these buckets are full again.
            let whole = self.fresh.burst.max(Duration::from_secs(1));
            seen.retain(|_, (_, last)| now.saturating_duration_since(*last) < whole);
            if seen.len() >= MAX_KEYS && self.forgets {
                seen.clear();
            } else if seen.len() >= MAX_KEYS {
                return false;
            }
        }
        let fresh = || (self.fresh.clone(), now);
        let (limiter, last) = seen.entry(key.clone()).or_insert_with(fresh);
        *last = now;
        limiter.take(now).is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn so_many_in_a_row_and_so_many_a_second() {
        let (mut limiter, start) = (Limiter::new(10, 3), Instant::now());
        let mut granted = Vec::new();
        let mut now = start;
        while granted.len() < 8 {
            match limiter.take(now) {
                Ok(()) => granted.push((now - start).as_millis()),
                Err(when) => now = when,
            }
        }
        assert_eq!(granted, [0, 0, 0, 100, 200, 300, 400, 500]);
        now += Duration::from_secs(60);
        let burst = (0..5).filter(|_| limiter.take(now).is_ok()).count();
        assert_eq!(burst, 3, "rest does not add up");
    }

    #[test]
    fn an_address_has_its_share_and_others_have_theirs() {
        let limit = Limit::new(Rate { per_second: 2, burst: 3 });
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        assert!(limit.has_left(&a, now));
        assert_eq!([0; 4].map(|_| limit.take(&a, now)), [true, true, true, false]);
        assert!(!limit.has_left(&a, now) && limit.has_left(&b, now));
        assert!(limit.take(&b, now));
        assert!(limit.take(&a, now + Duration::from_millis(500)));
        assert!(!limit.take(&a, now + Duration::from_millis(501)));
    }

    #[test]
    fn keys_that_are_made_up_keep_no_other_out_where_all_have_a_bound() {
        let limit = Limit::new(Rate { per_second: 1, burst: 1 }).forgetting();
        let now = Instant::now();
        for n in 0..=u32::try_from(MAX_KEYS).unwrap() {
            assert!(limit.take(&IpAddr::from(n.to_be_bytes()), now));
        }
        assert_eq!(limit.seen.lock().len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_idle_make_room() {
        let limit = Limit::new(Rate { per_second: 1, burst: 2 });
        let now = Instant::now();
        let at = |n: u32| IpAddr::from(n.to_be_bytes());
        for n in 0..u32::try_from(MAX_KEYS).unwrap() {
            assert!(limit.take(&at(n), now));
        }
        assert!(!limit.take(&at(u32::MAX), now), "all of them have just asked");
        assert!(limit.take(&at(u32::MAX), now + Duration::from_secs(2)));
        assert_eq!(limit.seen.lock().len(), 1);
    }
}
