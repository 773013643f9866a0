//! A table of names that finds a name exactly or by the suffixes that end it.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A map from names to values.
#[derive(Debug)]
pub(crate) struct NameTable<T> {
    table: HashTable<(Arc<str>, T)>,
    /// Bit set of the lengths that occur, so that most suffixes are rejected without hashing; the
    /// last bit stands for every greater length.
    lengths: [u64; 4],
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self { table: HashTable::new(), lengths: [0; 4] }
    }
}

impl<T> NameTable<T> {
    /// Returns the value of `name`, inserting it if it is missing.
    pub(crate) fn entry(&mut self, name: &Arc<str>, new: impl FnOnce() -> T) -> &mut T {
        let (word, bit) = place(name.len());
        if let Some(word) = self.lengths.get_mut(word) {
            *word |= bit;
        }
        let entry = self.table.entry(hash(name), |(known, _)| known == name, |(n, _)| hash(n));
        let entry = entry.or_insert_with(|| (name.clone(), new()));
        &mut entry.into_mut().1
    }

    /// Returns the value of exactly this name.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        let (word, bit) = place(name.len());
        if self.lengths.get(word)? & bit == 0 {
            return None;
        }
        self.table.find(hash(name), |(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// Returns true if the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the value of each suffix of `name` that follows a dot with at least one byte before
    /// it, longest first.
    pub(crate) fn suffixes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a T> {
        let all = if self.table.is_empty() { None } else { Some(suffixes(name)) };
        all.into_iter().flatten().filter_map(|suffix| self.get(suffix))
    }
}

/// Each suffix of `name` that begins after a dot and has something before that dot, the longest first.
pub(crate) fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    let dots = name.bytes().enumerate().filter(|(at, byte)| *byte == b'.' && *at > 0);
    dots.filter_map(|(at, _)| name.get(at.checked_add(1)?..))
}

fn hash(name: &str) -> u64 {
    FixedState::default().hash_one(name)
}

fn place(length: usize) -> (usize, u64) {
    let length = length.min(255);
    (length >> 6, 1_u64.wrapping_shl(u32::try_from(length & 63).unwrap_or(63)))
}
