//! How many connections an admin port serves at a time: so many of the node and of the pod itself, and so
//! many of everybody else. Strangers who hold connections open, from however many addresses, can keep
//! others waiting, but not the kubelet, which would restart the process for it.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for connections, whichever way they come; clones share it.
#[derive(Clone, Debug)]
pub struct ConnectionPermits {
    local: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl ConnectionPermits {
    /// For so many connections of each of the two kinds.
    pub fn new(most: usize) -> Self {
        let room = || Arc::new(Semaphore::new(most));
        Self { local: room(), others: room() }
    }

    /// A place, given back when dropped; none: there are too many. `local`: the client is the node or the
    /// pod itself.
    pub fn try_acquire(&self, local: bool) -> Option<OwnedSemaphorePermit> {
        let room = if local { &self.local } else { &self.others };
        Arc::clone(room).try_acquire_owned().ok()
    }
}
