//! Shared capacity, and the shares that are held of it.

use super::ledger::{CapacityBounds, CapacityExceeded, Ledger};
use crate::allowance::Peer;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// A function that tells known clients from strangers.
type Known = Arc<dyn Fn(&Peer) -> bool + Send + Sync>;

/// Capacity and its holders. Clones share it.
#[derive(Clone)]
pub struct SharedCapacity {
    ledger: Arc<Mutex<Ledger>>,
    known: Option<Known>,
}

impl std::fmt::Debug for SharedCapacity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedCapacity").field("held", &self.ledger.lock().held).finish()
    }
}

/// Capacity held by one connection or request; released when dropped.
#[derive(Debug)]
pub struct Share {
    id: u64,
    capacity: SharedCapacity,
    revoked: CancellationToken,
    /// True once it was in use or at work.
    touched: AtomicBool,
    /// True if it stays in use.
    stays: AtomicBool,
}

impl SharedCapacity {
    /// Creates capacity with these limits. All clients are strangers.
    pub fn new(bounds: CapacityBounds) -> Self {
        Self { ledger: Arc::new(Mutex::new(Ledger::new(bounds))), known: None }
    }

    /// Keeps half of the capacity for the clients that `known` accepts.
    #[must_use]
    pub fn with_known(self, known: impl Fn(&Peer) -> bool + Send + Sync + 'static) -> Self {
        Self { known: Some(Arc::new(known)), ..self }
    }

    /// Takes capacity for a new connection or request of `peer`.
    ///
    /// # Errors
    /// [`CapacityExceeded`]: nobody who holds more can give it back.
    pub fn take(&self, peer: &Peer, amount: u64) -> Result<Share, CapacityExceeded> {
        let revoked = CancellationToken::new();
        let mut ledger = self.ledger.lock();
        let id = ledger.open(peer.clone(), revoked.clone());
        self.grow(&mut ledger, id, amount)?;
        drop(ledger);
        let [touched, stays] = [const { AtomicBool::new(false) }; 2];
        Ok(Share { id, capacity: self.clone(), revoked, touched, stays })
    }

    fn grow(&self, ledger: &mut Ledger, id: u64, more: u64) -> Result<(), CapacityExceeded> {
        match &self.known {
            Some(known) => ledger.grow(id, more, Some(&|peer| known(peer))),
            None => ledger.grow(id, more, None),
        }
    }

    /// Returns the capacity that is held.
    pub fn held(&self) -> u64 {
        self.ledger.lock().held
    }
}

impl Share {
    /// Takes more capacity.
    ///
    /// # Errors
    /// [`CapacityExceeded`]: this share was revoked, now or before.
    pub fn grow(&self, more: u64) -> Result<(), CapacityExceeded> {
        self.capacity.grow(&mut self.capacity.ledger.lock(), self.id, more)
    }

    /// Marks the share as in use until the guard is dropped: its client is sending, or reading.
    pub fn in_use(&self) -> UseGuard<'_> {
        self.touched.store(true, Ordering::Relaxed);
        self.capacity.ledger.lock().used(self.id, true);
        UseGuard { share: self }
    }

    /// Marks the share as in use, although its client has not used it yet.
    pub(crate) fn pending(&self) -> UseGuard<'_> {
        self.capacity.ledger.lock().used(self.id, true);
        UseGuard { share: self }
    }

    /// Marks the share as in use for good: its client has proved who it is.
    pub fn stay_in_use(&self) {
        if !self.stays.swap(true, Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
            self.capacity.ledger.lock().used(self.id, true);
        }
    }

    /// Keeps the share from being revoked for good. Its client is this machine.
    pub fn keep(&self) {
        self.touched.store(true, Ordering::Relaxed);
        self.capacity.ledger.lock().worked(self.id, true);
    }

    /// Keeps the share from being revoked until the guard is dropped, because its client waits for
    /// this process. Such work has a bound of its own, in time and number.
    pub fn at_work(&self) -> WorkGuard<'_> {
        self.touched.store(true, Ordering::Relaxed);
        self.capacity.ledger.lock().worked(self.id, true);
        WorkGuard { share: self }
    }

    /// Returns true if it was ever in use or at work.
    pub fn was_used(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Completes once the share is revoked.
    pub async fn revoked(&self) {
        self.revoked.cancelled().await;
    }

    /// Cancels `instead` if the share is revoked from now on.
    pub fn cancel_instead(&self, instead: CancellationToken) {
        if let Some(entry) = self.capacity.ledger.lock().entries.get_mut(&self.id) {
            entry.revoke = instead;
        }
    }

    /// Returns the token that is cancelled once the share is revoked.
    pub fn token(&self) -> CancellationToken {
        self.revoked.clone()
    }
}

/// Guard of a share in use.
#[derive(Debug)]
pub struct UseGuard<'a> {
    share: &'a Share,
}

impl Drop for UseGuard<'_> {
    fn drop(&mut self) {
        self.share.capacity.ledger.lock().used(self.share.id, false);
    }
}

/// Guard of a share with work in progress.
#[derive(Debug)]
pub struct WorkGuard<'a> {
    share: &'a Share,
}

impl Drop for WorkGuard<'_> {
    fn drop(&mut self) {
        self.share.capacity.ledger.lock().worked(self.share.id, false);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.capacity.ledger.lock().close(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::RevocationOrder;
    use super::*;

    fn client(n: u8) -> Peer {
        Peer::at([10, 0, 0, n].into())
    }

    #[tokio::test]
    async fn room_is_given_back_by_drop_and_a_revoked_share_knows_it() {
        let first = RevocationOrder::Newest;
        let capacity = SharedCapacity::new(CapacityBounds { total: 10, per_client: 10, first });
        let large = capacity.take(&client(1), 8).unwrap();
        let small = capacity.take(&client(2), 2).unwrap();
        drop(small);
        let again = capacity.take(&client(2), 2).unwrap();
        assert!(!again.token().is_cancelled());
        drop(again);
        let instead = CancellationToken::new();
        large.cancel_instead(instead.clone());
        let other = capacity.take(&client(2), 3).unwrap();
        assert!(instead.is_cancelled() && !large.token().is_cancelled());
        assert_eq!(large.grow(1), Err(CapacityExceeded));
        drop((large, other));
        assert_eq!(capacity.held(), 0);
        assert!(capacity.ledger.lock().groups.is_empty());
    }

    #[test]
    fn half_of_the_capacity_is_for_known_clients() {
        let first = RevocationOrder::LeastRecentlyUsed;
        let capacity = SharedCapacity::new(CapacityBounds { total: 4, per_client: 4, first })
            .with_known(|peer| *peer == client(1));
        let known = [capacity.take(&client(1), 1).unwrap(), capacity.take(&client(1), 1).unwrap()];
        let strangers: Vec<_> = (2..20).map(|n| capacity.take(&client(n), 1).unwrap()).collect();
        let held = |shares: &[Share]| shares.iter().filter(|s| !s.token().is_cancelled()).count();
        assert_eq!((held(&known), held(&strangers)), (2, 2));
    }

    #[test]
    fn a_guard_marks_a_share_while_it_lives() {
        let first = RevocationOrder::LeastRecentlyUsed;
        let capacity = SharedCapacity::new(CapacityBounds { total: 1, per_client: 1, first });
        let only = capacity.take(&client(1), 1).unwrap();
        let (used, working) = (only.in_use(), only.at_work());
        assert!(matches!(capacity.take(&client(2), 1), Err(CapacityExceeded)));
        drop(working);
        let next = capacity.take(&client(2), 1).unwrap();
        assert!(only.token().is_cancelled() && !next.token().is_cancelled());
        drop(used);
    }
}
