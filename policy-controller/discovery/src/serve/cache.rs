//! Encodings shared between the streams that send them.
//!
//! An encoding lives as long as some stream holds it: a stream keeps what it sent last, to know
//! what changed. Nothing is kept for values without a watch.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

/// Entries looked through at once for dead ones, at least.
const MIN_PURGE: usize = 64;

/// Encodings by the value of type `T` that they encode, and by whatever else they depend on.
#[derive(Debug)]
pub(crate) struct Cache<T, K, V> {
    entries: Mutex<Entries<T, K, V>>,
}

#[derive(Debug)]
struct Entries<T, K, V> {
    map: HashMap<(usize, K), Entry<T, V>>,
    purge_at: usize,
}

#[derive(Debug)]
struct Entry<T, V> {
    /// Keeps the encoded value's address from being given to another.
    encoded: Weak<T>,
    value: Weak<V>,
}

impl<T, K, V> Default for Cache<T, K, V> {
    fn default() -> Self {
        Self { entries: Mutex::new(Entries { map: HashMap::new(), purge_at: MIN_PURGE }) }
    }
}

impl<T, K: Eq + Hash, V> Cache<T, K, V> {
    /// The encoding of `encoded` under `key`, if some stream holds it.
    pub(crate) fn known(&self, encoded: &Arc<T>, key: K) -> Option<Arc<V>> {
        let at = (Arc::as_ptr(encoded).addr(), key);
        self.entries.lock().map.get(&at)?.value.upgrade()
    }

    /// The encoding of `encoded` under `key`, made by `encode` unless some stream holds it. The flag
    /// says whether it was made.
    pub(crate) fn get(
        &self,
        encoded: &Arc<T>,
        key: K,
        encode: impl FnOnce(&K) -> V,
    ) -> (Arc<V>, bool) {
        let at = (Arc::as_ptr(encoded).addr(), key);
        if let Some(value) = self.entries.lock().map.get(&at).and_then(|e| e.value.upgrade()) {
            return (value, false);
        }
        // Not under the lock: a large policy takes milliseconds.
        let value = Arc::new(encode(&at.1));
        let entry = Entry { encoded: Arc::downgrade(encoded), value: Arc::downgrade(&value) };
        let mut entries = self.entries.lock();
        entries.purge();
        entries.map.insert(at, entry);
        (value, true)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.lock().map.len()
    }
}

impl<T, K: Eq + Hash, V> Entries<T, K, V> {
    /// Drops dead entries whenever the map has doubled, so that it costs a constant per insertion.
    fn purge(&mut self) {
        if self.map.len() < self.purge_at {
            return;
        }
        self.map
            .retain(|_, entry| entry.value.strong_count() > 0 && entry.encoded.strong_count() > 0);
        self.purge_at = self.map.len().saturating_mul(2).max(MIN_PURGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::policy;

    #[test]
    fn an_encoding_is_made_once_while_somebody_holds_it() {
        let cache = Cache::default();
        let one = policy("one");
        let (first, made) = cache.get(&one, 1, |_| "encoded".to_owned());
        assert!(made);
        let (second, made) = cache.get(&one, 1, |_| unreachable!("it exists"));
        assert!(!made && Arc::ptr_eq(&first, &second));
        assert!(cache.get(&one, 2, |_| String::new()).1, "another key is another encoding");
        assert!(cache.get(&policy("one"), 1, |_| String::new()).1, "another allocation");
        drop((first, second));
        assert!(cache.get(&one, 1, |_| String::new()).1, "nobody held it");
    }

    #[test]
    fn dead_entries_are_dropped() {
        let cache = Cache::default();
        let one = policy("one");
        let (held, _) = cache.get(&one, 0, |_| ());
        for key in 1..10_000 {
            cache.get(&one, key, |_| ());
        }
        assert!(cache.len() <= MIN_PURGE * 2, "{} entries", cache.len());
        assert!(!cache.get(&one, 0, |_| ()).1);
        drop(held);
    }
}
