//! How many connections the admin port serves at a time: so many of the node and of the pod itself, and
//! so many of everybody else. A stranger who holds connections open can keep others waiting, but not the
//! kubelet, which would restart the proxy for it.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of each of the two kinds.
pub(super) const MOST: usize = 64;

/// Room for connections, whichever way they come.
#[derive(Debug)]
pub(super) struct Room {
    near: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Room {
    pub(super) fn new() -> Self {
        let room = || Arc::new(Semaphore::new(MOST));
        Self { near: room(), others: room() }
    }

    /// A place, given back when dropped; none: there are too many. `near`: the client is the node or the
    /// pod itself.
    pub(super) fn enter(&self, near: bool) -> Option<OwnedSemaphorePermit> {
        let room = if near { &self.near } else { &self.others };
        Arc::clone(room).try_acquire_owned().ok()
    }
}
