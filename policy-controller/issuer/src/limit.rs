//! How often one address may ask. A review of a token costs the API server something, and whoever has
//! no token costs it as much.

use parking_lot::Mutex;
use policy_kube::status::Limiter;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Requests of one address in a row, and how many a second after that. A pod asks once in hours; where
/// many are behind one address, they start together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// A second.
    pub per_second: u32,
    /// In a row.
    pub burst: u32,
}

/// Addresses that are remembered at most.
const MAX_ADDRESSES: usize = 16 * 1024;

/// Who has asked lately.
#[derive(Debug)]
pub(super) struct Limit {
    rate: Rate,
    seen: Mutex<HashMap<IpAddr, (Limiter, Instant)>>,
}

impl Limit {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, seen: Mutex::default() }
    }

    /// Whether `address` may ask now.
    pub(super) fn take(&self, address: IpAddr, now: Instant) -> bool {
        let mut seen = self.seen.lock();
        if seen.len() >= MAX_ADDRESSES && !seen.contains_key(&address) {
            // By then every one of these has its whole share again.
            let seconds = self.rate.burst.div_ceil(self.rate.per_second.max(1));
            let whole = Duration::from_secs(u64::from(seconds).max(1));
            seen.retain(|_, (_, last)| now.saturating_duration_since(*last) < whole);
            if seen.len() >= MAX_ADDRESSES {
                return false;
            }
        }
        let Rate { per_second, burst } = self.rate;
        let fresh = || (Limiter::new(per_second, burst), now);
        let (limiter, last) = seen.entry(address).or_insert_with(fresh);
        *last = now;
        limiter.take(now).is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_others_have_theirs() {
        let limit = Limit::new(Rate { per_second: 2, burst: 3 });
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        assert_eq!([0; 4].map(|_| limit.take(a, now)), [true, true, true, false]);
        assert!(limit.take(b, now));
        assert!(limit.take(a, now + Duration::from_millis(500)));
        assert!(!limit.take(a, now + Duration::from_millis(501)));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_idle_make_room() {
        let limit = Limit::new(Rate { per_second: 1, burst: 2 });
        let now = Instant::now();
        let at = |n: u32| IpAddr::from(n.to_be_bytes());
        for n in 0..u32::try_from(MAX_ADDRESSES).unwrap() {
            assert!(limit.take(at(n), now));
        }
        assert!(!limit.take(at(u32::MAX), now), "all of them have just asked");
        assert!(limit.take(at(u32::MAX), now + Duration::from_secs(2)));
        assert_eq!(limit.seen.lock().len(), 1);
    }
}
