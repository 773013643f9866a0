//! Counts of requests by kind of client, route and grant, per worker.
//!
//! A connection looks up its series once, and again when its requests take another route; counting
//! is then a few atomic adds, without a hash.

use super::buckets::Buckets;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The counts of one series.
#[derive(Debug)]
pub struct Series {
    requests: AtomicU64,
    pub(super) latency: Buckets<25>,
    pub(super) duration: Buckets<7>,
    pub(super) response: Buckets<4>,
    pub(super) request_frames: Buckets<3>,
    pub(super) response_frames: Buckets<3>,
    outcomes: [OutcomeSlot; OUTCOMES],
    /// Successes and failures whose outcome has no slot.
    others: [AtomicU64; 2],
}

#[derive(Debug)]
struct OutcomeSlot {
    /// The packed outcome; 0 if the slot is free.
    outcome: AtomicU32,
    count: AtomicU64,
}

/// Outcome of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome {
    /// HTTP status.
    pub status: u16,
    /// gRPC status, if the request was gRPC and the response had one.
    pub grpc: Option<u16>,
    /// True if the response was incomplete.
    pub broken: bool,
}

/// Durations of an exchange, from the request's head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Elapsed {
    /// Until the end of the request's body.
    pub upload: Duration,
    /// Until the end of the response.
    pub total: Duration,
}

/// The series of one policy on one worker.
#[derive(Debug)]
pub(super) struct SeriesTable {
    room: usize,
    slots: OnceLock<Box<[SeriesSlot]>>,
    made: AtomicU32,
    /// For keys beyond the limit.
    shared: OnceLock<Box<Series>>,
}

#[derive(Debug, Default)]
struct SeriesSlot {
    /// The key; 0 if the slot is free.
    key: AtomicU64,
    series: OnceLock<Box<Series>>,
}

/// Index of a series in its [`SeriesTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesId(usize);

impl SeriesId {
    /// The shared series of keys beyond the limit.
    pub(super) const SHARED: Self = Self(usize::MAX);
}

/// Number of outcomes that a series distinguishes.
const OUTCOMES: usize = 15;
/// Maximum number of series of a policy on a worker. Clients cannot exceed it by their identities
/// or routes.
const MAX_SERIES: u32 = 1024;
const PROBES: usize = 16;

/// Linkerd's bounds, in microseconds.
const LATENCY: [u64; 25] = [
    1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000, 100_000, 200_000,
    300_000, 400_000, 500_000, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000, 10_000_000,
    20_000_000, 30_000_000, 40_000_000, 50_000_000,
];
const DURATION: [u64; 7] = [25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 10_000_000];
const RESPONSE: [u64; 4] = [50_000, 500_000, 1_000_000, 10_000_000];
/// In bytes.
const FRAMES: [u64; 3] = [128, 1024, 10_240];

impl Series {
    fn new() -> Self {
        let slot = || OutcomeSlot { outcome: AtomicU32::new(0), count: AtomicU64::new(0) };
        Self {
            requests: AtomicU64::new(0),
            latency: Buckets::new(&LATENCY),
            duration: Buckets::new(&DURATION),
            response: Buckets::new(&RESPONSE),
            request_frames: Buckets::new(&FRAMES),
            response_frames: Buckets::new(&FRAMES),
            outcomes: std::array::from_fn(|_| slot()),
            others: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Counts a forwarded request.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a forwarded piece of a request's body.
    pub fn request_frame(&self, bytes: usize) {
        self.request_frames.observe(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Counts a forwarded piece of a response's body.
    pub fn response_frame(&self, bytes: usize) {
        self.response_frames.observe(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Records the first bytes of a response, or its end without any.
    pub fn first_byte(&self, since: Duration) {
        self.latency.observe(micros(since));
    }

    /// Counts the end of a response.
    pub fn ended(&self, outcome: Outcome, elapsed: Elapsed) {
        self.duration.observe(micros(elapsed.total));
        self.response.observe(micros(elapsed.total.saturating_sub(elapsed.upload)));
        let packed = outcome.pack();
        let slot = self.outcomes.iter().find(|slot| slot.claim(packed)).map(|slot| &slot.count);
        let other = self.others.get(usize::from(outcome.is_failure()));
        if let Some(count) = slot.or(other) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the responses by outcome; `Err` holds whether the remaining ones are failures.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (Result<Outcome, bool>, u64)> + '_ {
        let known = self.outcomes.iter().filter_map(|slot| {
            let outcome = Outcome::unpack(slot.outcome.load(Ordering::Acquire))?;
            Some((Ok(outcome), slot.count.load(Ordering::Relaxed)))
        });
        let others = self.others.iter().zip([false, true]);
        let others = others.map(|(count, failure)| (Err(failure), count.load(Ordering::Relaxed)));
        known.chain(others).filter(|(_, count)| *count != 0)
    }
}

impl OutcomeSlot {
    fn claim(&self, outcome: u32) -> bool {
        let holder = self.outcome.load(Ordering::Acquire);
        if holder != 0 {
            return holder == outcome;
        }
        let claimed =
            self.outcome.compare_exchange(0, outcome, Ordering::AcqRel, Ordering::Acquire);
        claimed.map_or_else(|other| other == outcome, |_| true)
    }
}

impl Outcome {
    /// Returns true for a failure by Linkerd's classification: the gRPC statuses of server errors,
    /// else HTTP statuses from 500.
    pub fn is_failure(self) -> bool {
        self.broken || self.grpc.map_or(self.status >= 500, |code| FAILURES.contains(&code))
    }

    /// Packs the outcome, never to 0: a bit that is always set, one for broken, five of gRPC, ten
    /// of HTTP.
    fn pack(self) -> u32 {
        // A code that gRPC does not define is unknown (2).
        let grpc = self.grpc.map_or(0, |code| if code > 16 { 3 } else { code.saturating_add(1) });
        let status = u32::from(self.status.min(1023));
        1 << 16 | u32::from(self.broken) << 15 | u32::from(grpc) << 10 | status
    }

    fn unpack(packed: u32) -> Option<Self> {
        let field = |value: u32| u16::try_from(value).ok();
        (packed != 0).then_some(())?;
        Some(Self {
            status: field(packed & 0x3ff)?,
            grpc: field(packed >> 10 & 0x1f)?.checked_sub(1),
            broken: packed >> 15 & 1 == 1,
        })
    }
}

/// Unknown, deadline exceeded, permission denied, internal, unavailable, data loss.
const FAILURES: [u16; 6] = [2, 4, 7, 13, 14, 15];

impl SeriesTable {
    /// Creates a table for about this many series; allocates nothing before the first.
    pub(super) fn new(room: usize) -> Self {
        let room = room.max(1).checked_next_power_of_two().unwrap_or(1);
        Self { room, slots: OnceLock::new(), made: AtomicU32::new(0), shared: OnceLock::new() }
    }

    /// Returns the series of `key`, which must not be 0, created on first use; the shared one if
    /// the table is full.
    pub(super) fn find(&self, key: u64) -> SeriesId {
        let new = || (0..self.room).map(|_| SeriesSlot::default()).collect();
        let slots = self.slots.get_or_init(new);
        let mask = slots.len().saturating_sub(1);
        let start = usize::try_from(super::table::mix(key)).unwrap_or(0);
        for probe in 0..PROBES {
            let place = start.wrapping_add(probe) & mask;
            let Some(slot) = slots.get(place) else { break };
            if self.claim(slot, key) {
                slot.series.get_or_init(|| Box::new(Series::new()));
                return SeriesId(place);
            }
        }
        SeriesId::SHARED
    }

    pub(super) fn get(&self, id: SeriesId) -> &Series {
        let own = self.slots.get().and_then(|slots| slots.get(id.0)?.series.get());
        own.unwrap_or_else(|| self.shared.get_or_init(|| Box::new(Series::new())))
    }

    /// Returns every series with its key; `None` for the shared one.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Option<u64>, &Series)> {
        let slots = self.slots.get().into_iter().flatten();
        let own = slots.filter_map(|slot| {
            Some((Some(slot.key.load(Ordering::Acquire)), &**slot.series.get()?))
        });
        own.chain(self.shared.get().map(|shared| (None, &**shared)))
    }

    fn claim(&self, slot: &SeriesSlot, key: u64) -> bool {
        let holder = slot.key.load(Ordering::Acquire);
        if holder != 0 {
            return holder == key;
        }
        let more = |made: u32| (made < MAX_SERIES).then(|| made.saturating_add(1));
        if self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return false;
        }
        let claimed = slot.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
        claimed.map_or_else(|other| other == key, |_| true)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ok(status: u16) -> Outcome {
        Outcome { status, grpc: None, broken: false }
    }

    #[test]
    fn failures_are_what_linkerd_calls_so() {
        for (status, failure) in
            [(200, false), (404, false), (499, false), (500, true), (504, true)]
        {
            assert_eq!(ok(status).is_failure(), failure, "{status}");
        }
        for code in 0..=16 {
            let grpc = Outcome { grpc: Some(code), ..ok(200) };
            assert_eq!(grpc.is_failure(), [2, 4, 7, 13, 14, 15].contains(&code), "{code}");
        }
        assert!(Outcome { broken: true, ..ok(200) }.is_failure());
    }

    #[test]
    fn statuses_beyond_the_room_are_counted_as_others_and_none_is_lost() {
        let series = Series::new();
        for status in 200..700 {
            series.ended(ok(status), Elapsed::default());
        }
        let outcomes: Vec<_> = series.outcomes().collect();
        assert_eq!(outcomes.len(), OUTCOMES + 2);
        assert_eq!(outcomes.iter().map(|(_, count)| count).sum::<u64>(), 500);
        assert_eq!(outcomes.last(), Some(&(Err(true), 200)));
    }

    #[test]
    fn keys_beyond_the_bound_share_one_series_and_a_client_keeps_its_own() {
        let table = SeriesTable::new(4096);
        let own = table.find(1);
        for key in 1..=20_000 {
            table.get(table.find(key)).request();
            table.get(table.find(1)).request();
        }
        let entries: Vec<_> = table.entries().collect();
        assert!(entries.len() <= 1025, "{}", entries.len());
        assert_eq!(entries.iter().map(|(_, series)| series.requests()).sum::<u64>(), 40_000);
        assert_eq!((table.find(1), table.get(own).requests()), (own, 20_001));
        // One that comes later is counted, too.
        table.get(table.find(20_001)).request();
        let all = table.entries().map(|(_, series)| series.requests()).sum::<u64>();
        assert_eq!(all, 40_001);
    }

    proptest! {
        #[test]
        fn an_outcome_is_told_again_as_it_was(
            status in 100u16..1000, grpc in proptest::option::of(0u16..17), broken: bool,
        ) {
            let outcome = Outcome { status, grpc, broken };
            prop_assert_eq!(Outcome::unpack(outcome.pack()), Some(outcome));
        }
    }
}
