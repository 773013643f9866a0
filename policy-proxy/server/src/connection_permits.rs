//! Connection limits of an admin port: one for the node and the pod itself, and one for all other
//! clients. Clients that hold connections open, from any number of addresses, can keep other
//! clients waiting, but not the kubelet, which would restart the process for it.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for connections of all listeners; clones share them.
#[derive(Clone, Debug)]
pub struct ConnectionPermits {
    local: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl ConnectionPermits {
    /// Creates `most` permits for each of the two kinds.
    pub fn new(most: usize) -> Self {
        let room = || Arc::new(Semaphore::new(most));
        Self { local: room(), others: room() }
    }

    /// Takes a permit, returned when dropped; `None` if there are too many connections. `local`:
    /// the client is the node or the pod itself.
    pub fn try_acquire(&self, local: bool) -> Option<OwnedSemaphorePermit> {
        let room = if local { &self.local } else { &self.others };
        Arc::clone(room).try_acquire_owned().ok()
    }
}
