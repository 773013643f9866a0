//! Counters without locks or allocation: a small table of atomics, indexed by a packed key.

use std::sync::atomic::{AtomicU64, Ordering};

/// A fixed number of counters, each claimed by the first key that needs it. Keys beyond are counted
/// together, so that clients cannot make it grow.
#[derive(Debug)]
pub(super) struct Table {
    slots: Box<[CounterSlot]>,
    mask: u64,
    overflow: AtomicU64,
}

#[derive(Debug, Default)]
struct CounterSlot {
    /// The key; 0 if the slot is free.
    key: AtomicU64,
    count: AtomicU64,
}

/// Number of slots tried before a key counts as overflow.
const PROBES: u64 = 16;

impl Table {
    /// Creates a table of at least `room` counters, rounded up to a power of two.
    pub(super) fn new(room: usize) -> Self {
        let size = room.max(1).checked_next_power_of_two().unwrap_or(1);
        let slots: Box<[CounterSlot]> = (0..size).map(|_| CounterSlot::default()).collect();
        let mask = u64::try_from(size).unwrap_or(1).saturating_sub(1);
        Self { slots, mask, overflow: AtomicU64::new(0) }
    }

    /// Adds one to the counter of `key`, which must not be 0.
    pub(super) fn increment(&self, key: u64) {
        let start = mix(key);
        for probe in 0..PROBES {
            let index = start.wrapping_add(probe) & self.mask;
            let Some(slot) = usize::try_from(index).ok().and_then(|index| self.slots.get(index))
            else {
                break;
            };
            if slot.claim(key) {
                slot.count.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.overflow.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns every key with its count.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let read = |slot: &CounterSlot| {
            (slot.key.load(Ordering::Acquire), slot.count.load(Ordering::Relaxed))
        };
        self.slots.iter().map(read).filter(|(key, _)| *key != 0)
    }

    /// Returns the number of counts without a counter of their own.
    pub(super) fn overflow(&self) -> u64 {
        self.overflow.load(Ordering::Relaxed)
    }
}

impl CounterSlot {
    /// Returns true if the slot counts for `key`; claims a free slot.
    fn claim(&self, key: u64) -> bool {
        let holder = self.key.load(Ordering::Acquire);
        if holder != 0 {
            return holder == key;
        }
        match self.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(other) => other == key,
        }
    }
}

/// Mixes the bits of a key (the finaliser of SplitMix64, Steele et al. 2014).
pub(super) fn mix(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn each_key_has_its_own_count() {
        let table = Table::new(64);
        for key in 1..=10 {
            for _ in 0..key {
                table.increment(key);
            }
        }
        let entries: BTreeMap<u64, u64> = table.entries().collect();
        assert_eq!(entries, (1..=10).map(|key| (key, key)).collect());
        assert_eq!(table.overflow(), 0);
    }

    #[test]
    fn more_keys_than_room_are_counted_together_and_none_is_lost() {
        let table = Table::new(16);
        for key in 1..=1000 {
            table.increment(key);
        }
        let counted: u64 = table.entries().map(|(_, count)| count).sum();
        assert_eq!(table.entries().count(), 16);
        assert_eq!(counted.saturating_add(table.overflow()), 1000);
    }

    #[test]
    fn threads_that_claim_the_same_key_lose_nothing() {
        let table = Arc::new(Table::new(64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let table = Arc::clone(&table);
                std::thread::spawn(move || (0..10_000u64).for_each(|n| table.increment(n % 20 + 1)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let entries: Vec<_> = table.entries().collect();
        assert_eq!(entries.len(), 20);
        assert!(entries.iter().all(|(_, count)| *count == 2000), "{entries:?}");
    }
}
