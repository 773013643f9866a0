//! Capacity that is divided fairly among client networks: connections, and bytes of reviews.
//!
//! No client waits for capacity. If it is short, a share of the network that holds the most is
//! revoked: its connection or review ends. Half of the capacity is for networks whose reviews have
//! been answered, half for strangers; either group may use all of it until the other needs its
//! half.
//!
//! A client therefore gets capacity while it holds less than the largest holder of its half,
//! however early others connected and however much they request.

use super::clients::AnsweredNetworks;
use parking_lot::Mutex;
use policy_server::ClientNetwork;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Order in which the shares of a network are revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RevocationOrder {
    /// The share that has been unused for the longest time; shares in use come last.
    LeastRecentlyUsed,
    /// The newest share, so that older ones can finish.
    Newest,
}

/// Limits of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Total capacity.
    pub(super) total: u64,
    /// Maximum capacity of one network.
    pub(super) per_network: u64,
    /// Order in which the shares of one network are revoked.
    pub(super) first: RevocationOrder,
}

/// Error of a share whose capacity was given to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CapacityExceeded;

/// Capacity and its holders. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct SharedCapacity {
    ledger: Arc<Mutex<Ledger>>,
    answered: AnsweredNetworks,
}

/// Capacity held by one connection or review; released when dropped.
#[derive(Debug)]
pub(super) struct Share {
    id: u64,
    capacity: SharedCapacity,
    revoked: CancellationToken,
}

impl SharedCapacity {
    /// Creates capacity with these limits; networks in `answered` may use the reserve.
    pub(super) fn new(bounds: Bounds, answered: AnsweredNetworks) -> Self {
        Self { ledger: Arc::new(Mutex::new(Ledger::new(bounds))), answered }
    }

    /// Takes capacity for a new connection or review of `network`.
    ///
    /// # Errors
    /// [`CapacityExceeded`]: the network already holds the most.
    pub(super) fn take(
        &self,
        network: ClientNetwork,
        amount: u64,
    ) -> Result<Share, CapacityExceeded> {
        let revoked = CancellationToken::new();
        let mut ledger = self.ledger.lock();
        let id = ledger.open(network, revoked.clone());
        self.grow(&mut ledger, id, amount)?;
        drop(ledger);
        Ok(Share { id, capacity: self.clone(), revoked })
    }

    fn grow(&self, ledger: &mut Ledger, id: u64, more: u64) -> Result<(), CapacityExceeded> {
        let now = Instant::now();
        ledger.grow(id, more, &|network| self.answered.contains(network, now))
    }
}

impl Share {
    /// Takes more capacity.
    ///
    /// # Errors
    /// [`CapacityExceeded`]: this share was revoked, now or before.
    pub(super) fn grow(&self, more: u64) -> Result<(), CapacityExceeded> {
        self.capacity.grow(&mut self.capacity.ledger.lock(), self.id, more)
    }

    /// Marks the share as in use until the guard is dropped.
    pub(super) fn in_use(&self) -> UseGuard<'_> {
        self.capacity.ledger.lock().begin(self.id);
        UseGuard { share: self }
    }

    /// Completes once the share is revoked.
    pub(super) async fn revoked(&self) {
        self.revoked.cancelled().await;
    }

    /// Cancels `instead` if the share is revoked from now on.
    pub(super) fn cancel_instead(&self, instead: CancellationToken) {
        if let Some(entry) = self.capacity.ledger.lock().entries.get_mut(&self.id) {
            entry.revoke = instead;
        }
    }

    /// Returns the token that is cancelled once the share is revoked.
    pub(super) fn token(&self) -> CancellationToken {
        self.revoked.clone()
    }
}

/// Guard of a share in use.
#[derive(Debug)]
pub(super) struct UseGuard<'a> {
    share: &'a Share,
}

impl Drop for UseGuard<'_> {
    fn drop(&mut self) {
        self.share.capacity.ledger.lock().end(self.share.id);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.capacity.ledger.lock().close(self.id);
    }
}

/// The state, without clock or waiting.
#[derive(Debug)]
struct Ledger {
    bounds: Bounds,
    held: u64,
    next: u64,
    entries: HashMap<u64, Entry>,
    networks: HashMap<ClientNetwork, NetworkUsage>,
}

#[derive(Debug)]
struct Entry {
    network: ClientNetwork,
    amount: u64,
    /// Number of current users, and the tick of the last change.
    users: u64,
    used: u64,
    revoke: CancellationToken,
}

/// Usage of one network.
#[derive(Clone, Copy, Debug, Default)]
struct NetworkUsage {
    entries: usize,
    amount: u64,
}

impl Ledger {
    fn new(bounds: Bounds) -> Self {
        let (entries, networks) = (HashMap::new(), HashMap::new());
        Self { bounds, held: 0, next: 0, entries, networks }
    }

    fn open(&mut self, network: ClientNetwork, revoke: CancellationToken) -> u64 {
        let id = self.tick();
        self.entries.insert(id, Entry { network, amount: 0, users: 0, used: id, revoke });
        let usage = self.networks.entry(network).or_default();
        usage.entries = usage.entries.saturating_add(1);
        id
    }

    fn tick(&mut self) -> u64 {
        self.next = self.next.saturating_add(1);
        self.next
    }

    fn begin(&mut self, id: u64) {
        self.used(id, |users| users.saturating_add(1));
    }

    fn end(&mut self, id: u64) {
        self.used(id, |users| users.saturating_sub(1));
    }

    fn used(&mut self, id: u64, change: impl FnOnce(u64) -> u64) {
        let tick = self.tick();
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.used = tick;
            entry.users = change(entry.users);
        }
    }

    fn grow(
        &mut self,
        id: u64,
        more: u64,
        is_answered: &dyn Fn(ClientNetwork) -> bool,
    ) -> Result<(), CapacityExceeded> {
        // Every iteration but the last removes an entry.
        loop {
            let network = self.entries.get(&id).ok_or(CapacityExceeded)?.network;
            let own = self.amount_of(network).saturating_add(more);
            let victim = if own > self.bounds.per_network {
                self.first_of(&|other| other == network)
            } else if self.held.saturating_add(more) > self.bounds.total {
                self.victim(network, more, is_answered)
            } else {
                self.add(id, more);
                return Ok(());
            };
            self.revoke(victim.unwrap_or(id));
        }
    }

    fn add(&mut self, id: u64, more: u64) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.amount = entry.amount.saturating_add(more);
        self.held = self.held.saturating_add(more);
        if let Some(usage) = self.networks.get_mut(&entry.network) {
            usage.amount = usage.amount.saturating_add(more);
        }
    }

    fn amount_of(&self, network: ClientNetwork) -> u64 {
        self.networks.get(&network).map_or(0, |usage| usage.amount)
    }

    /// Returns the entry to revoke if `network` needs `more`.
    fn victim(
        &self,
        network: ClientNetwork,
        more: u64,
        is_answered: &dyn Fn(ClientNetwork) -> bool,
    ) -> Option<u64> {
        let networks = self.networks.iter().map(|(other, usage)| {
            let more = if *other == network { more } else { 0 };
            (*other, usage.amount.saturating_add(more), is_answered(*other))
        });
        let networks: Vec<_> = networks.collect();
        let strangers = networks.iter().filter(|(.., answered)| !answered);
        let strangers: u64 = strangers.map(|(_, amount, _)| *amount).sum();
        // At least one half is over its size, because the total is.
        let answered = strangers <= self.bounds.total / 2;
        let half = || networks.iter().filter(|(.., is_answered)| *is_answered == answered);
        let most = half().map(|(_, amount, _)| *amount).max()?;
        let largest = half().filter(|(_, amount, _)| *amount == most);
        let largest: HashSet<ClientNetwork> = largest.map(|(network, ..)| *network).collect();
        self.first_of(&|other| largest.contains(&other))
    }

    /// Returns the entry of these networks that is revoked first.
    fn first_of(&self, of: &dyn Fn(ClientNetwork) -> bool) -> Option<u64> {
        let entries = self.entries.iter().filter(|(_, entry)| of(entry.network));
        let first = match self.bounds.first {
            RevocationOrder::LeastRecentlyUsed => {
                entries.min_by_key(|(_, entry)| (entry.users > 0, entry.used))
            }
            RevocationOrder::Newest => entries.max_by_key(|(id, _)| **id),
        };
        first.map(|(id, _)| *id)
    }

    fn revoke(&mut self, id: u64) {
        if let Some(entry) = self.close(id) {
            entry.revoke.cancel();
        }
    }

    fn close(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.held = self.held.saturating_sub(entry.amount);
        if let Some(usage) = self.networks.get_mut(&entry.network) {
            usage.amount = usage.amount.saturating_sub(entry.amount);
            usage.entries = usage.entries.saturating_sub(1);
            if usage.entries == 0 {
                self.networks.remove(&entry.network);
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
