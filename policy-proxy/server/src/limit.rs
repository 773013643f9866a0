//! How often somebody may do what costs others something: ask the API server about a token, or have
//! everything listed.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// A token bucket: so many in a row, and one after each interval from then on.
#[derive(Clone, Debug)]
pub struct Limiter {
    interval: Duration,
    burst: Duration,
    /// When the bucket would be full.
    full_at: Option<Instant>,
}

impl Limiter {
    /// At least one a second, at least one in a row.
    pub fn new(per_second: u32, burst: u32) -> Self {
        let second = Duration::from_secs(1);
        Self::every(second.checked_div(per_second.max(1)).unwrap_or(second), burst)
    }

    /// One after each `interval`, at least one in a row.
    pub fn every(interval: Duration, burst: u32) -> Self {
        Self { interval, burst: interval.saturating_mul(burst.max(1)), full_at: None }
    }

    /// Whether there is a token.
    pub fn has_left(&self, now: Instant) -> bool {
        self.clone().take(now).is_ok()
    }

    /// Takes a token if there is one.
    ///
    /// # Errors
    /// When there will be one.
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

/// So many in a row, and so many a second after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// A second.
    pub per_second: u32,
    /// In a row.
    pub burst: u32,
}

/// Keys that are remembered at most.
const MAX_KEYS: usize = 16 * 1024;

/// A token bucket for each of many: addresses, or peers.
#[derive(Debug)]
pub struct Limit<K> {
    fresh: Limiter,
    seen: Mutex<HashMap<K, (Limiter, Instant)>>,
}

impl<K: Clone + Eq + Hash> Limit<K> {
    /// Allows each so much.
    pub fn new(rate: Rate) -> Self {
        Self::of(Limiter::new(rate.per_second, rate.burst))
    }

    /// Allows each a bucket like this one, which is full.
    pub fn of(fresh: Limiter) -> Self {
        Self { fresh, seen: Mutex::default() }
    }

    /// Whether `key` could take one now. Who is not known has taken none.
    pub fn has_left(&self, key: &K, now: Instant) -> bool {
        self.seen.lock().get(key).is_none_or(|(limiter, _)| limiter.has_left(now))
    }

    /// Takes one for `key`; false if there is none now.
    pub fn take(&self, key: &K, now: Instant) -> bool {
        let mut seen = self.seen.lock();
        if seen.len() >= MAX_KEYS && !seen.contains_key(key) {
            // By then every one of these has its whole share again.
            let whole = self.fresh.burst.max(Duration::from_secs(1));
            seen.retain(|_, (_, last)| now.saturating_duration_since(*last) < whole);
            if seen.len() >= MAX_KEYS {
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
