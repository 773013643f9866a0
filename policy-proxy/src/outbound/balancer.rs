//! The choice among the endpoints of a destination.
//!
//! Power of two choices: of two random endpoints, the one with fewer open connections. An endpoint
//! that failed is avoided for a while, unless every other one is avoided, too.
//!
//! **Invariants.** The state is bounded by the open connections and the endpoints that failed within
//! the last minutes. The clock is the caller's.

use foldhash::HashMap;
use policy_core::Endpoint;
use policy_tls::control::random;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::Instant;

/// The state of one destination's endpoints, shared by all connections to it.
#[derive(Debug)]
pub struct Balancer {
    /// Endpoints with open connections, and those that failed.
    endpoints: HashMap<SocketAddr, EndpointState>,
    /// The endpoint that session affinity keeps, and until when.
    kept: Option<(SocketAddr, Instant)>,
    /// The time since which nobody is known to hold the address.
    unknown_since: Option<Instant>,
    random: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct EndpointState {
    open: u32,
    /// Failures since the last success.
    failures: u32,
    avoided_until: Option<Instant>,
}

/// A connection's question for an endpoint.
pub struct Choice<'a, F> {
    /// The endpoints.
    pub endpoints: &'a [Endpoint],
    /// True of endpoints that this connection may use.
    pub usable: F,
    /// The endpoints that this connection has tried. An endpoint whose identity has changed since is
    /// another one.
    pub tried: &'a [Endpoint],
    /// Time for which the endpoint is kept for later connections; absent: each chooses anew.
    pub affinity: Option<Duration>,
}

impl Default for Balancer {
    fn default() -> Self {
        Self::seeded(random())
    }
}

impl Balancer {
    fn seeded(random: u64) -> Self {
        Self { endpoints: HashMap::default(), kept: None, unknown_since: None, random }
    }

    /// Chooses an endpoint, and returns its index; `None`: there is none left.
    pub fn choose<F>(&mut self, choice: &Choice<'_, F>, now: Instant) -> Option<usize>
    where
        F: Fn(&Endpoint) -> bool,
    {
        let index = match self.kept_index(choice, now) {
            Some(index) => index,
            None => self.choose_anew(choice, now)?,
        };
        let address = choice.endpoints.get(index)?.address;
        self.kept = choice.affinity.and_then(|time| Some((address, now.checked_add(time)?)));
        Some(index)
    }

    /// The index of the endpoint that affinity keeps, if it may be used.
    fn kept_index<F>(&self, choice: &Choice<'_, F>, now: Instant) -> Option<usize>
    where
        F: Fn(&Endpoint) -> bool,
    {
        choice.affinity?;
        let (address, _) = self.kept.filter(|(_, until)| now < *until)?;
        let endpoints = choice.endpoints;
        let index = endpoints.binary_search_by(|endpoint| endpoint.address.cmp(&address)).ok()?;
        let kept = endpoints.get(index)?;
        let free = !choice.tried.contains(kept) && !self.is_avoided(address, now);
        (free && (choice.usable)(kept)).then_some(index)
    }

    fn choose_anew<F>(&mut self, choice: &Choice<'_, F>, now: Instant) -> Option<usize>
    where
        F: Fn(&Endpoint) -> bool,
    {
        for avoid in [true, false] {
            let mut draw = Draw { random: self.random, seen: 0, picked: [None, None] };
            let accepts = |endpoint: &Endpoint| {
                (choice.usable)(endpoint)
                    && !choice.tried.contains(endpoint)
                    && !(avoid && self.is_avoided(endpoint.address, now))
            };
            draw.run(choice.endpoints, accepts);
            let picked = draw.picked;
            self.random = draw.random;
            let open = |index: usize| {
                let address = choice.endpoints.get(index).map(|endpoint| endpoint.address);
                address.and_then(|address| self.endpoints.get(&address)).map_or(0, |own| own.open)
            };
            match picked {
                [Some(one), Some(other)] => {
                    return Some(if open(other) < open(one) { other } else { one });
                }
                [Some(only), None] | [None, Some(only)] => return Some(only),
                [None, None] => {}
            }
        }
        None
    }

    fn is_avoided(&self, address: SocketAddr, now: Instant) -> bool {
        let state = self.endpoints.get(&address);
        state.and_then(|state| state.avoided_until).is_some_and(|until| now < until)
    }

    /// Counts a connection to an endpoint, from the attempt on.
    pub fn opened(&mut self, address: SocketAddr) {
        let state = self.endpoints.entry(address).or_default();
        state.open = state.open.saturating_add(1);
    }

    /// Counts the end of a connection or attempt.
    pub fn closed(&mut self, address: SocketAddr) {
        if let Some(state) = self.endpoints.get_mut(&address) {
            state.open = state.open.saturating_sub(1);
            if state.open == 0 && state.failures == 0 {
                self.endpoints.remove(&address);
            }
        }
    }

    /// Notes that an endpoint serves.
    pub fn succeeded(&mut self, address: SocketAddr) {
        if let Some(state) = self.endpoints.get_mut(&address) {
            (state.failures, state.avoided_until) = (0, None);
        }
    }

    /// Avoids an endpoint for a while: longer with each failure, and jittered, so that clients do not
    /// come back together.
    pub fn failed(&mut self, address: SocketAddr, now: Instant) {
        let random = next(&mut self.random);
        // What failed long ago is forgotten here, so that endpoints that are gone cost nothing.
        self.endpoints.retain(|_, state| {
            let over = state.avoided_until.and_then(|until| until.checked_add(LONGEST_AVOIDANCE));
            state.open > 0 || over.is_some_and(|over| now < over)
        });
        let state = self.endpoints.entry(address).or_default();
        // Attempts that were under way together are one failure.
        if state.avoided_until.is_none_or(|until| until <= now) {
            state.failures = state.failures.saturating_add(1);
            state.avoided_until = now.checked_add(avoidance(state.failures, random));
        }
        if self.kept.is_some_and(|(kept, _)| kept == address) {
            self.kept = None;
        }
    }

    /// Returns the time since which nobody is known to hold the address, which begins now.
    pub fn unknown_since(&mut self, now: Instant) -> Instant {
        *self.unknown_since.get_or_insert(now)
    }

    /// Notes that somebody is known to hold the address.
    pub fn is_known(&mut self) {
        self.unknown_since = None;
    }
}

/// A draw of two different endpoints.
struct Draw {
    random: u64,
    seen: u64,
    picked: [Option<usize>; 2],
}

impl Draw {
    fn run(&mut self, endpoints: &[Endpoint], accepts: impl Fn(&Endpoint) -> bool) {
        if endpoints.len() > SCANNED {
            self.sample(endpoints, &accepts);
        }
        if self.picked.iter().any(Option::is_none) {
            (self.seen, self.picked) = (0, [None, None]);
            self.scan(endpoints, accepts);
        }
    }

    /// Tries a few of many, so that a choice costs the same however many there are.
    fn sample(&mut self, endpoints: &[Endpoint], accepts: impl Fn(&Endpoint) -> bool) {
        for _ in 0..DRAWS {
            let index = below(&mut self.random, endpoints.len());
            if self.picked[0] == Some(index) || !endpoints.get(index).is_some_and(&accepts) {
                continue;
            }
            if self.picked[0].is_none() {
                self.picked[0] = Some(index);
            } else {
                self.picked[1] = Some(index);
                return;
            }
        }
    }

    /// Looks at all: reservoir sampling of two (Vitter's algorithm R).
    fn scan(&mut self, endpoints: &[Endpoint], accepts: impl Fn(&Endpoint) -> bool) {
        for (index, _) in endpoints.iter().enumerate().filter(|(_, endpoint)| accepts(endpoint)) {
            let seen = usize::try_from(self.seen).unwrap_or(usize::MAX);
            let place =
                if seen < 2 { seen } else { below(&mut self.random, seen.saturating_add(1)) };
            if let Some(picked) = self.picked.get_mut(place) {
                *picked = Some(index);
            }
            self.seen = self.seen.saturating_add(1);
        }
        // The first of two with as many connections is chosen: it must be a random one.
        if next(&mut self.random) & 1 == 1 {
            self.picked.swap(0, 1);
        }
    }
}

/// The time for which an endpoint is avoided after this many failures in a row.
fn avoidance(failures: u32, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let step = FIRST_AVOIDANCE.saturating_mul(1_u32.wrapping_shl(doublings)).min(LONGEST_AVOIDANCE);
    let half = step.checked_div(2).unwrap_or_default();
    let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    let extra = random.checked_rem(nanos.saturating_add(1)).unwrap_or(0);
    half.saturating_add(Duration::from_nanos(extra))
}

/// A number below `bound`, or 0.
fn below(random: &mut u64, bound: usize) -> usize {
    let bound = u64::try_from(bound).unwrap_or(u64::MAX);
    usize::try_from(next(random).checked_rem(bound).unwrap_or(0)).unwrap_or(0)
}

/// The next number of SplitMix64 (Steele et al. 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The longest avoidance after the first failure; each further one doubles it.
const FIRST_AVOIDANCE: Duration = Duration::from_secs(2);
/// The longest avoidance.
const LONGEST_AVOIDANCE: Duration = Duration::from_secs(60);
/// Sets of up to this size are looked at as a whole.
const SCANNED: usize = 16;
/// Draws among larger sets before they are looked at as a whole.
const DRAWS: usize = 8;

#[cfg(test)]
mod tests;
