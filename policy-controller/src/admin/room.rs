//! How many connections the admin port serves at a time: so many of the node and of the pod itself, and
//! so many of everybody else. Strangers who hold connections open, from however many addresses, do not
//! keep out the kubelet, which would restart the controller for it.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of each of the two kinds.
pub(super) const MOST: usize = 256;

/// Room for connections; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    near: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Room {
    pub(super) fn new() -> Self {
        let room = || Arc::new(Semaphore::new(MOST));
        Self { near: room(), others: room() }
    }

    /// A place, given back when dropped; none: there are too many. `near`: the client is the node or
    /// the pod itself.
    pub(super) fn enter(&self, near: bool) -> Option<OwnedSemaphorePermit> {
        let room = if near { &self.near } else { &self.others };
        Arc::clone(room).try_acquire_owned().ok()
    }
}
