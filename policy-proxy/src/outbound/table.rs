//! The destinations that this pod connects to, and what the controller says of them.
//!
//! A connection takes the [`EntryRef`] of its address. A new address becomes a demand, which the
//! client of discovery reads and answers. All threads share one table. A connection takes its lock
//! twice, for a lookup in a map each time.
//!
//! **Invariants.** The number of entries is bounded. An entry with connections never goes. "Meshed"
//! is known until another answer; "not meshed" is known only while the controller confirms it. While it
//! is lost, no time ends what is known.

mod demand;
mod entries;
mod entry;
mod settings;
#[cfg(test)]
mod tests;

pub use demand::Demand;
pub use entry::Knowledge;
pub use settings::TableSettings;

use entries::Entries;
use entry::Entry;
use parking_lot::Mutex;
use policy_core::destination::Destination;
use policy_core::network::fold_mapped;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The error of a new destination while every entry of the table has connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} destinations have open connections, the most allowed")]
pub struct TooManyDestinations(pub usize);

/// The table. `B` is what the data path keeps with each entry.
pub struct DestinationTable<B> {
    shared: Arc<Shared<B>>,
}

struct Shared<B> {
    settings: TableSettings,
    entries: Mutex<Entries<B>>,
    /// Counts the changes of what is wanted.
    demand: watch::Sender<u64>,
}

/// The use of an entry. The entry stays at least as long.
pub struct EntryRef<B> {
    shared: Arc<Shared<B>>,
    entry: Arc<Entry<B>>,
}

impl<B> Clone for DestinationTable<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B> fmt::Debug for DestinationTable<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DestinationTable").field("entries", &self.len()).finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for EntryRef<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryRef").field("address", &self.entry.address).finish_non_exhaustive()
    }
}

impl<B> DestinationTable<B> {
    /// Returns an empty table.
    pub fn new(settings: TableSettings) -> Self {
        let shared = Shared {
            settings,
            entries: Mutex::new(Entries::default()),
            demand: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the entry of `address`. A new one is asked for.
    ///
    /// # Errors
    /// [`TooManyDestinations`]: there is no room, and every entry has connections.
    pub fn entry(&self, address: SocketAddr) -> Result<EntryRef<B>, TooManyDestinations>
    where
        B: Default,
    {
        let address = canonical(address);
        let bound = self.shared.settings.max_entries;
        let (entry, is_new) =
            self.shared.entries.lock().take(address, bound).ok_or(TooManyDestinations(bound))?;
        if is_new {
            self.shared.demand_changed();
        }
        Ok(EntryRef { shared: Arc::clone(&self.shared), entry })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.shared.entries.lock().len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the count of changes of [`wanted`](Self::wanted).
    pub fn demand(&self) -> watch::Receiver<u64> {
        self.shared.demand.subscribe()
    }

    /// Returns the wanted addresses, each with its serial number, in no order. Another serial number
    /// of an address is another demand: what was answered to the former one may be wrong.
    pub fn wanted(&self) -> Vec<(SocketAddr, u64)> {
        self.shared.entries.lock().wanted()
    }

    /// Takes the controller's answer about a wanted address.
    pub fn answer(&self, address: SocketAddr, destination: Arc<Destination>) {
        if let Some(entry) = self.shared.wanted(address) {
            entry.answer(destination);
        }
    }

    /// Takes the controller's refusal to answer about a wanted address. A former answer ages until
    /// the next, so that nothing that was meshed becomes unknown.
    pub fn refuse(&self, address: SocketAddr, reason: &str) {
        if let Some(entry) = self.shared.wanted(address) {
            entry.refuse(reason, Instant::now());
        }
    }

    /// Notes that the controller does not confirm the answer about this address any more: it ages
    /// until the next answer.
    pub fn lose(&self, address: SocketAddr) {
        if let Some(entry) = self.shared.wanted(address) {
            entry.lose(Instant::now());
        }
    }

    /// Notes that the controller is lost: answers age until it answers again.
    pub fn lose_all(&self) {
        let now = Instant::now();
        for entry in self.shared.entries.lock().iter() {
            entry.lose(now);
        }
    }

    /// Drops what was not used for its time, except what is known while the controller is lost. To be
    /// called about once a second.
    pub fn sweep(&self) {
        if self.shared.entries.lock().sweep(&self.shared.settings, Instant::now()) {
            self.shared.demand_changed();
        }
    }
}

impl<B: Send> Demand for DestinationTable<B> {
    fn demand(&self) -> watch::Receiver<u64> {
        self.demand()
    }

    fn wanted(&self) -> Vec<(SocketAddr, u64)> {
        self.wanted()
    }

    fn answer(&self, address: SocketAddr, destination: Arc<Destination>) {
        self.answer(address, destination);
    }

    fn refuse(&self, address: SocketAddr, reason: &str) {
        self.refuse(address, reason);
    }

    fn lose(&self, address: SocketAddr) {
        self.lose(address);
    }

    fn lose_all(&self) {
        self.lose_all();
    }

    fn sweep(&self) {
        self.sweep();
    }
}

impl<B> Shared<B> {
    /// The entry of an address. The table is free for others meanwhile.
    fn wanted(&self, address: SocketAddr) -> Option<Arc<Entry<B>>> {
        self.entries.lock().get(address)
    }

    fn demand_changed(&self) {
        self.demand.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl<B> EntryRef<B> {
    /// The address, as it was dialled. IPv4 addresses mapped into IPv6 are IPv4.
    pub fn address(&self) -> SocketAddr {
        self.entry.address
    }

    /// Returns what is known now.
    pub fn state(&self) -> Knowledge {
        self.entry.state(self.shared.settings.stale_unmeshed, Instant::now())
    }

    /// Waits until the controller has answered, or refused to, once in this process; perhaps forever.
    pub async fn answered(&self) -> Knowledge {
        self.wait_for(|known| !matches!(known, Knowledge::Unanswered)).await
    }

    /// Waits until `accept` holds of what is known; perhaps forever. It is asked once at first, and
    /// after each answer.
    pub async fn wait_for(&self, mut accept: impl FnMut(&Knowledge) -> bool) -> Knowledge {
        loop {
            // Registered before the look, so that no answer falls between.
            let mut changed = std::pin::pin!(self.entry.changed.notified());
            changed.as_mut().enable();
            let known = self.state();
            if accept(&known) {
                return known;
            }
            changed.await;
        }
    }

    /// Asks the controller again, because an endpoint is not what the last answer says. No effect
    /// while a former renewal waits for its answer, or shortly after it.
    pub fn renew(&self) {
        if self.entry.begin_renewal(Instant::now()) {
            self.shared.entries.lock().renew(self.entry.address);
            self.shared.demand_changed();
        }
    }

    /// The state that the data path keeps with this entry.
    pub fn balancer(&self) -> &Mutex<B> {
        &self.entry.balancer
    }
}

impl<B> Drop for EntryRef<B> {
    fn drop(&mut self) {
        self.shared.entries.lock().release(self.entry.address, Instant::now());
    }
}

/// The one form of an address: a lookup is an IP address and a port, nothing else.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(fold_mapped(address.ip()), address.port())
}
