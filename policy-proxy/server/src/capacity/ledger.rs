//! The state of shared capacity, without clock or waiting.

use crate::allowance::Peer;
use crate::client_group::ClientGroup;
use std::collections::{BTreeSet, HashMap};
use tokio_util::sync::CancellationToken;

/// Order in which the shares of a client are revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationOrder {
    /// The share that has been unused for the longest time; shares in use come last.
    LeastRecentlyUsed,
    /// The newest share, so that older ones can finish.
    Newest,
}

/// Limits of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityBounds {
    /// Total capacity.
    pub total: u64,
    /// Maximum capacity of one client.
    pub per_client: u64,
    /// Order in which the shares of one client are revoked.
    pub first: RevocationOrder,
}

/// Error of a share whose capacity was given to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityExceeded;

/// Tells clients that are known from strangers; absent: all are strangers.
pub(super) type IsKnown<'a> = Option<&'a dyn Fn(&Peer) -> bool>;

/// The holders of the capacity.
#[derive(Debug)]
pub(super) struct Ledger {
    bounds: CapacityBounds,
    pub(super) held: u64,
    next: u64,
    pub(super) entries: HashMap<u64, Entry>,
    pub(super) groups: HashMap<ClientGroup, Group>,
}

/// One share.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) peer: Peer,
    pub(super) amount: u64,
    /// Number of current users, of those that are at work, and the tick of the last change.
    users: u64,
    workers: u64,
    used: u64,
    pub(super) revoke: CancellationToken,
}

/// The holders of one group.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) amount: u64,
    clients: HashMap<Peer, Holder>,
}

/// The shares of one client.
#[derive(Debug, Default)]
struct Holder {
    amount: u64,
    entries: BTreeSet<u64>,
}

impl Ledger {
    pub(super) fn new(bounds: CapacityBounds) -> Self {
        Self { bounds, held: 0, next: 0, entries: HashMap::new(), groups: HashMap::new() }
    }

    pub(super) fn open(&mut self, peer: Peer, revoke: CancellationToken) -> u64 {
        let id = self.tick();
        let group = self.groups.entry(ClientGroup::of(&peer)).or_default();
        group.clients.entry(peer.clone()).or_default().entries.insert(id);
        let entry = Entry { peer, amount: 0, users: 0, workers: 0, used: id, revoke };
        self.entries.insert(id, entry);
        id
    }

    fn tick(&mut self) -> u64 {
        self.next = self.next.saturating_add(1);
        self.next
    }

    /// Counts a user of a share, or one less.
    pub(super) fn used(&mut self, id: u64, begins: bool) {
        let tick = self.tick();
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.used = tick;
            entry.users = counted(entry.users, begins);
        }
    }

    /// Counts work on a share, or one less. Shares with work are not revoked.
    pub(super) fn worked(&mut self, id: u64, begins: bool) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.workers = counted(entry.workers, begins);
        }
    }

    pub(super) fn grow(
        &mut self,
        id: u64,
        more: u64,
        is_known: IsKnown<'_>,
    ) -> Result<(), CapacityExceeded> {
        // Every iteration but the last removes an entry.
        loop {
            let peer = self.entries.get(&id).ok_or(CapacityExceeded)?.peer.clone();
            let own = self.amount_of(&peer).saturating_add(more);
            let victim = if own > self.bounds.per_client {
                self.first_of(&[&peer], id)
            } else if self.held.saturating_add(more) > self.bounds.total {
                self.victim(id, more, is_known)
            } else {
                self.add(&peer, id, more);
                return Ok(());
            };
            self.revoke(victim.unwrap_or(id));
        }
    }

    fn add(&mut self, peer: &Peer, id: u64, more: u64) {
        let group = self.groups.get_mut(&ClientGroup::of(peer));
        if let (Some(entry), Some(group)) = (self.entries.get_mut(&id), group) {
            self.held = self.held.saturating_add(more);
            entry.amount = entry.amount.saturating_add(more);
            group.amount = group.amount.saturating_add(more);
            if let Some(holder) = group.clients.get_mut(peer) {
                holder.amount = holder.amount.saturating_add(more);
            }
        }
    }

    fn holder(&self, peer: &Peer) -> Option<&Holder> {
        self.groups.get(&ClientGroup::of(peer))?.clients.get(peer)
    }

    fn amount_of(&self, peer: &Peer) -> u64 {
        self.holder(peer).map_or(0, |holder| holder.amount)
    }

    /// Returns the entry to revoke if the entry `id` needs `more`.
    fn victim(&self, id: u64, more: u64, is_known: IsKnown<'_>) -> Option<u64> {
        let peer = &self.entries.get(&id)?.peer;
        let own_group = ClientGroup::of(peer);
        let known = self.half_to_cut(peer, more, is_known);
        let in_half = |other: &Peer| is_known.is_none_or(|is_known| is_known(other) == known);
        let amount = |other: &Peer, holder: &Holder| {
            holder.amount.saturating_add(if other == peer { more } else { 0 })
        };
        let groups = self.groups.iter().map(|(key, group)| {
            let all = if is_known.is_some() {
                let members = group.clients.iter().filter(|(other, _)| in_half(other));
                members.map(|(other, holder)| amount(other, holder)).sum()
            } else {
                group.amount.saturating_add(if *key == own_group { more } else { 0 })
            };
            (all, group)
        });
        largest_first(groups.collect(), |groups| {
            let members = groups.iter().flat_map(|group| &group.clients);
            let members = members.filter(|(other, _)| in_half(other));
            let members = members.map(|(other, holder)| (amount(other, holder), other));
            largest_first(members.collect(), |peers| self.first_of(peers, id))
        })
    }

    /// Returns true if known clients have to give back, and strangers need not.
    fn half_to_cut(&self, peer: &Peer, more: u64, is_known: IsKnown<'_>) -> bool {
        let Some(is_known) = is_known else { return false };
        let members = self.groups.values().flat_map(|group| &group.clients);
        let strangers = members.filter(|(other, _)| !is_known(other));
        let strangers = strangers.map(|(_, holder)| holder.amount).sum::<u64>();
        let strangers = strangers.saturating_add(if is_known(peer) { 0 } else { more });
        // At least one half is over its size, because the total is.
        strangers <= self.bounds.total / 2
    }

    /// Returns the entry of these clients that is revoked first; `None` if all are at work. The one
    /// that needs capacity is in use, and was last.
    fn first_of(&self, peers: &[&Peer], needs: u64) -> Option<u64> {
        let entries = peers.iter().filter_map(|peer| self.holder(peer));
        let entries = entries.flat_map(|holder| &holder.entries);
        let entries = entries.filter_map(|id| Some((*id, self.entries.get(id)?)));
        let entries = entries.filter(|(_, entry)| entry.workers == 0);
        let first = match self.bounds.first {
            RevocationOrder::LeastRecentlyUsed => {
                let used = |id: u64, entry: &Entry| match id == needs {
                    true => (true, u64::MAX),
                    false => (entry.users > 0, entry.used),
                };
                entries.min_by_key(|(id, entry)| used(*id, entry))
            }
            RevocationOrder::Newest => entries.max_by_key(|(id, _)| *id),
        };
        first.map(|(id, _)| id)
    }

    fn revoke(&mut self, id: u64) {
        if let Some(entry) = self.close(id) {
            entry.revoke.cancel();
        }
    }

    pub(super) fn close(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.held = self.held.saturating_sub(entry.amount);
        let key = ClientGroup::of(&entry.peer);
        if let Some(group) = self.groups.get_mut(&key) {
            group.amount = group.amount.saturating_sub(entry.amount);
            if let Some(holder) = group.clients.get_mut(&entry.peer) {
                holder.amount = holder.amount.saturating_sub(entry.amount);
                holder.entries.remove(&id);
                if holder.entries.is_empty() {
                    group.clients.remove(&entry.peer);
                }
            }
            if group.clients.is_empty() {
                self.groups.remove(&key);
            }
        }
        Some(entry)
    }
}

fn counted(count: u64, begins: bool) -> u64 {
    if begins { count.saturating_add(1) } else { count.saturating_sub(1) }
}

/// Calls `find` with all candidates of the largest amount, then with those of the next, until it
/// finds something.
fn largest_first<T: Copy>(
    candidates: Vec<(u64, T)>,
    find: impl Fn(&[T]) -> Option<u64>,
) -> Option<u64> {
    let mut below = None;
    loop {
        let left = candidates.iter().filter(|(amount, _)| below.is_none_or(|top| *amount < top));
        let most = left.map(|(amount, _)| *amount).max()?;
        let largest = candidates.iter().filter(|(amount, _)| *amount == most);
        let largest: Vec<T> = largest.map(|(_, candidate)| *candidate).collect();
        if let Some(found) = find(&largest) {
            return Some(found);
        }
        below = Some(most);
    }
}

#[cfg(test)]
mod tests;
