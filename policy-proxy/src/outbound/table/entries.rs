//! The entries of a table: which are in use, and which goes first.

use super::entry::Entry;
use super::settings::TableSettings;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::Instant;

/// The entries.
pub(super) struct Entries<B> {
    by_address: HashMap<SocketAddr, Place<B>>,
    /// Entries without connections, the least recently used first.
    idle: BTreeMap<u64, SocketAddr>,
    /// The last number that was given to a demand or to an idle entry.
    last_number: u64,
}

struct Place<B> {
    entry: Arc<Entry<B>>,
    /// The number of the demand.
    serial: u64,
    usage: Usage,
}

enum Usage {
    /// The number of references.
    Used(usize),
    /// No reference.
    Idle {
        /// Its number in the order of use.
        number: u64,
        since: Instant,
    },
}

impl<B> Default for Entries<B> {
    fn default() -> Self {
        Self { by_address: HashMap::new(), idle: BTreeMap::new(), last_number: 0 }
    }
}

impl<B> Entries<B> {
    /// Counts a use of the entry of `address`, which is made if there is none. The flag says whether it
    /// was made. `None`: there is no room.
    pub(super) fn take(
        &mut self,
        address: SocketAddr,
        bound: usize,
    ) -> Option<(Arc<Entry<B>>, bool)>
    where
        B: Default,
    {
        if let Some(place) = self.by_address.get_mut(&address) {
            place.usage = match place.usage {
                Usage::Used(count) => Usage::Used(count.saturating_add(1)),
                Usage::Idle { number, .. } => {
                    self.idle.remove(&number);
                    Usage::Used(1)
                }
            };
            return Some((Arc::clone(&place.entry), false));
        }
        if self.by_address.len() >= bound {
            let (_, oldest) = self.idle.pop_first()?;
            self.by_address.remove(&oldest);
        }
        let entry = Arc::new(Entry::new(address));
        let serial = self.next_number();
        let place = Place { entry: Arc::clone(&entry), serial, usage: Usage::Used(1) };
        self.by_address.insert(address, place);
        Some((entry, true))
    }

    /// Counts the end of a use.
    pub(super) fn release(&mut self, address: SocketAddr, now: Instant) {
        let number = self.next_number();
        let Some(place) = self.by_address.get_mut(&address) else { return };
        if let Usage::Used(count) = place.usage {
            place.usage = match count.saturating_sub(1) {
                0 => {
                    self.idle.insert(number, address);
                    Usage::Idle { number, since: now }
                }
                fewer => Usage::Used(fewer),
            };
        }
    }

    /// Makes the demand for `address` another one.
    pub(super) fn renew(&mut self, address: SocketAddr) {
        let serial = self.next_number();
        if let Some(place) = self.by_address.get_mut(&address) {
            place.serial = serial;
        }
    }

    /// Drops what was idle for its time. Returns true if something was. An answer that the controller
    /// does not confirm stays: nobody would give another one now.
    pub(super) fn sweep(&mut self, settings: &TableSettings, now: Instant) -> bool {
        let before = self.by_address.len();
        let by_address = &mut self.by_address;
        self.idle.retain(|_, address| {
            let Some(place) = by_address.get(address) else { return false };
            let keep = match place.usage {
                Usage::Used(_) => true,
                Usage::Idle { since, .. } => {
                    let bound = if place.entry.is_service() {
                        settings.keep_services
                    } else {
                        settings.keep_addresses
                    };
                    now.saturating_duration_since(since) < bound || place.entry.is_unconfirmed()
                }
            };
            if !keep {
                by_address.remove(address);
            }
            keep
        });
        self.by_address.len() != before
    }

    pub(super) fn get(&self, address: SocketAddr) -> Option<Arc<Entry<B>>> {
        self.by_address.get(&address).map(|place| Arc::clone(&place.entry))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<B>> {
        self.by_address.values().map(|place| &*place.entry)
    }

    pub(super) fn wanted(&self) -> Vec<(SocketAddr, u64)> {
        self.by_address.iter().map(|(address, place)| (*address, place.serial)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    fn next_number(&mut self) -> u64 {
        self.last_number = self.last_number.wrapping_add(1);
        self.last_number
    }
}
