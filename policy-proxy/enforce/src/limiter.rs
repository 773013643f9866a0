//! Rate limits: the generic cell rate algorithm with a burst of one second.
//!
//! Order (docs/spec/proxy.md 3.6): `total`, then the override that names the client, else `identity`.
//! The total is spent even if the client's own limit then refuses. Clients without an identity
//! share one bucket. The state survives policy updates while the limit's configuration is equal.
//!
//! The crate `governor` is not used (a test compares the two): its limiters read the clock
//! themselves, while one reading serves a whole request here, and its keyed store keeps a bucket
//! for every identity ever seen, while hostile ones share one here.

use hashbrown::HashMap;
use parking_lot::Mutex;
use policy_core::RateLimit;
use std::hash::RandomState;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The buckets of one port's rate limit. Shared by all workers.
#[derive(Debug)]
pub struct Limiter {
    refuses: bool,
    total: Option<Bucket>,
    identity: Option<NonZeroU32>,
    overrides: HashMap<Arc<str>, Arc<Bucket>, RandomState>,
    clients: Mutex<HashMap<Option<Arc<str>>, Arc<Bucket>, RandomState>>,
    /// Shared by new clients while `clients` is full of busy buckets.
    overflow: Option<Arc<Bucket>>,
    epoch: Instant,
}

/// The bucket of one client under one [`Limiter`]; looked up once per connection.
#[derive(Clone, Debug, Default)]
pub struct ClientBucket(Option<(Arc<Bucket>, Scope)>);

/// The limit that refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The limit of all clients together.
    Total,
    /// The client's own limit.
    Identity,
    /// The override that names the client.
    Override,
}

/// A request that exceeded a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitExceeded {
    /// The limit that refused the request.
    pub scope: Scope,
    /// The limit's rate, in requests per second.
    pub rate: NonZeroU32,
}

impl Limiter {
    /// Creates full buckets for `limit`; `None`: nothing is ever refused.
    pub fn new(limit: Option<&RateLimit>) -> Self {
        let mut overrides: HashMap<Arc<str>, Arc<Bucket>, RandomState> = HashMap::default();
        for entry in limit.iter().flat_map(|limit| &limit.overrides) {
            let bucket = Arc::new(Bucket::new(entry.requests_per_second));
            for client in &entry.clients {
                // The first override that names a client applies.
                overrides.entry(client.clone()).or_insert_with(|| bucket.clone());
            }
        }
        let identity = limit.and_then(|limit| limit.identity);
        Self {
            refuses: limit.is_some_and(|limit| limit.refuses),
            total: limit.and_then(|limit| limit.total).map(Bucket::new),
            identity,
            overrides,
            clients: Mutex::default(),
            overflow: identity.map(|rate| Arc::new(Bucket::new(rate))),
            epoch: Instant::now(),
        }
    }

    /// Returns true if every request is refused, because the limit cannot be read.
    pub fn refuses(&self) -> bool {
        self.refuses
    }

    /// Returns true if no request ever exceeds a limit.
    pub fn is_unlimited(&self) -> bool {
        self.total.is_none() && self.identity.is_none() && self.overrides.is_empty()
    }

    /// Returns the bucket of a client by its verified identity; `None` stands for all clients
    /// without one. Takes a lock if identities have their own buckets: call it once per connection.
    pub fn client(&self, identity: Option<&str>, now: Instant) -> ClientBucket {
        if let Some(bucket) = identity.and_then(|name| self.overrides.get(name)) {
            return ClientBucket(Some((bucket.clone(), Scope::Override)));
        }
        ClientBucket(self.identity.map(|rate| (self.own(identity, rate, now), Scope::Identity)))
    }

    /// Takes a token for one request at `now`.
    ///
    /// # Errors
    /// The limit that has no token. Of several, the first in the order above.
    pub fn take(&self, client: &ClientBucket, now: Instant) -> Result<(), RateLimitExceeded> {
        let now = self.since_epoch(now);
        if let Some(total) = &self.total {
            total.take(now).map_err(|rate| RateLimitExceeded { scope: Scope::Total, rate })?;
        }
        if let Some((bucket, scope)) = &client.0 {
            bucket.take(now).map_err(|rate| RateLimitExceeded { scope: *scope, rate })?;
        }
        Ok(())
    }

    /// Returns the number of clients with a bucket of their own; at most [`MAX_CLIENTS`].
    pub fn clients(&self) -> usize {
        self.clients.lock().len()
    }

    fn own(&self, identity: Option<&str>, rate: NonZeroU32, now: Instant) -> Arc<Bucket> {
        let mut clients = self.clients.lock();
        let key: Option<Arc<str>> = identity.map(Into::into);
        if let Some(bucket) = clients.get(&key) {
            return bucket.clone();
        }
        if clients.len() >= MAX_CLIENTS {
            let now = self.since_epoch(now);
            // A full bucket without references is equal to a new one.
            clients.retain(|_, bucket| Arc::strong_count(bucket) > 1 || !bucket.is_full(now));
        }
        if clients.len() >= MAX_CLIENTS {
            return self.overflow.clone().unwrap_or_else(|| Arc::new(Bucket::new(rate)));
        }
        clients.entry(key).or_insert_with(|| Arc::new(Bucket::new(rate))).clone()
    }

    fn since_epoch(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.epoch);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Scope {
    /// Returns the name in messages: `total`, `per-identity`, `override`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Identity => "per-identity",
            Self::Override => "override",
        }
    }
}

/// A token bucket, stored as the time when it will be full again, in nanoseconds since the epoch of
/// its limiter.
#[derive(Debug)]
struct Bucket {
    full_at: AtomicU64,
    /// Cost of a request in nanoseconds, at least 1.
    cost: u64,
    rate: NonZeroU32,
}

impl Bucket {
    fn new(rate: NonZeroU32) -> Self {
        let cost = SECOND.checked_div(u64::from(rate.get())).unwrap_or(1).max(1);
        Self { full_at: AtomicU64::new(0), cost, rate }
    }

    fn take(&self, now: u64) -> Result<(), NonZeroU32> {
        let horizon = now.saturating_add(SECOND);
        let advance = |full_at: u64| {
            let next = full_at.max(now).saturating_add(self.cost);
            (next <= horizon).then_some(next)
        };
        match self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.rate),
        }
    }

    fn is_full(&self, now: u64) -> bool {
        self.full_at.load(Ordering::Relaxed) <= now
    }
}

/// Maximum number of identities with a bucket of their own. Beyond it, full buckets are dropped; if
/// there is none, new identities share one bucket.
pub const MAX_CLIENTS: usize = 16_384;

#[allow(clippy::cast_possible_truncation, reason = "one second is 10^9 ns")]
const SECOND: u64 = Duration::from_secs(1).as_nanos() as u64;

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "tests")]
    use super::*;
    use governor::clock::FakeRelativeClock;
    use governor::{Quota, RateLimiter};
    use policy_core::{LimitOverride, Source};
    use proptest::prelude::*;

    fn rps(rate: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(rate)
    }

    fn limit(total: u32, identity: u32, overrides: Vec<LimitOverride>) -> RateLimit {
        let source = Source::Default("test".into());
        let refuses = false;
        RateLimit { source, total: rps(total), identity: rps(identity), overrides, refuses }
    }

    fn room(limiter: &Limiter, client: &ClientBucket, now: Instant) -> usize {
        (0..1000).take_while(|_| limiter.take(client, now).is_ok()).count()
    }

    #[test]
    fn no_limit_refuses_nothing() {
        let limiter = Limiter::new(None);
        let now = Instant::now();
        assert!(limiter.is_unlimited());
        assert_eq!(room(&limiter, &limiter.client(None, now), now), 1000);
    }

    #[test]
    fn the_burst_is_one_second_and_refills_at_the_rate() {
        let limiter = Limiter::new(Some(&limit(10, 0, vec![])));
        let start = limiter.epoch;
        let client = limiter.client(None, start);
        assert_eq!(room(&limiter, &client, start), 10);
        assert_eq!(room(&limiter, &client, start + Duration::from_millis(300)), 3);
        let refused = limiter.take(&client, start + Duration::from_millis(300)).unwrap_err();
        assert_eq!((refused.scope, refused.rate.get()), (Scope::Total, 10));
    }

    #[test]
    fn each_identity_has_its_own_and_strangers_share_one() {
        let limiter = Limiter::new(Some(&limit(0, 5, vec![])));
        let now = limiter.epoch;
        assert_eq!(room(&limiter, &limiter.client(Some("a"), now), now), 5);
        assert_eq!(room(&limiter, &limiter.client(Some("b"), now), now), 5);
        assert_eq!(room(&limiter, &limiter.client(None, now), now), 5);
        assert_eq!(room(&limiter, &limiter.client(None, now), now), 0);
    }

    #[test]
    fn an_override_replaces_the_identity_limit_and_is_shared_by_those_it_names() {
        let named = LimitOverride {
            requests_per_second: NonZeroU32::new(3).unwrap(),
            clients: vec!["a".into(), "b".into()],
        };
        let limiter = Limiter::new(Some(&limit(0, 5, vec![named])));
        let now = limiter.epoch;
        assert_eq!(room(&limiter, &limiter.client(Some("a"), now), now), 3);
        assert_eq!(room(&limiter, &limiter.client(Some("b"), now), now), 0);
        assert_eq!(room(&limiter, &limiter.client(Some("c"), now), now), 5);
    }

    #[test]
    fn the_total_is_spent_even_if_the_identity_refuses() {
        let limiter = Limiter::new(Some(&limit(6, 2, vec![])));
        let now = limiter.epoch;
        let a = limiter.client(Some("a"), now);
        for _ in 0..4 {
            let _ = limiter.take(&a, now);
        }
        assert_eq!(room(&limiter, &limiter.client(Some("b"), now), now), 2);
        assert_eq!(limiter.take(&a, now).unwrap_err().scope, Scope::Total);
    }

    #[test]
    fn hostile_identities_cannot_grow_the_map_and_others_keep_their_bucket() {
        let limiter = Limiter::new(Some(&limit(0, 2, vec![])));
        let now = limiter.epoch;
        let open = limiter.client(Some("open"), now);
        let closed = limiter.client(Some("closed"), now);
        limiter.take(&closed, now).unwrap();
        drop(closed);
        for n in 0..MAX_CLIENTS + 100 {
            let client = limiter.client(Some(&format!("id-{n}")), now);
            let _ = limiter.take(&client, now);
        }
        assert!(limiter.clients() <= MAX_CLIENTS);
        // Of an open connection, and of one that comes back: neither more nor less than its own.
        assert_eq!(room(&limiter, &open, now), 2);
        assert_eq!(room(&limiter, &limiter.client(Some("closed"), now), now), 1);
        // Whom no bucket is left for shares one, and waits for it no longer than for its own.
        let late = limiter.client(Some("late"), now);
        let _ = room(&limiter, &late, now);
        limiter.take(&late, now + Duration::from_secs(1)).unwrap();
        let later = now + Duration::from_secs(5);
        limiter.client(Some("one more"), later);
        assert!(limiter.clients() < 10, "full buckets are forgotten");
    }

    proptest! {
        /// At rates of which a nanosecond is a whole part, so that neither rounds.
        #[test]
        fn a_bucket_admits_what_another_implementation_admits(
            rate in prop::sample::select(vec![1, 2, 5, 10, 64, 1000]),
            waits in prop::collection::vec(0_u64..300_000, 1..200),
        ) {
            let (rate, clock) = (rps(rate).unwrap(), FakeRelativeClock::default());
            let other = RateLimiter::direct_with_clock(Quota::per_second(rate), clock.clone());
            let bucket = Bucket::new(rate);
            let mut now = 0;
            // Several at a time, so that the larger bursts are used up too.
            for wait in waits.into_iter().map(Duration::from_micros) {
                clock.advance(wait);
                now += u64::try_from(wait.as_nanos()).unwrap();
                for _ in 0..20 {
                    prop_assert_eq!(bucket.take(now).is_ok(), other.check().is_ok());
                }
            }
        }
    }
}
