//! The followers of what is in force, and the ports that are pending for each.

use parking_lot::Mutex;
use policy_core::WorkloadKey;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::Notify;

/// A port of a workload.
pub type WorkloadPort = (WorkloadKey, NonZeroU16);

/// The policy that all clients of a port have in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Hash of the policy as published, if all of them have the same; else 0.
    pub content: u64,
    /// Reason for which the newest update was refused, if it was.
    pub refused: Option<Arc<str>>,
    /// Since when the content is this.
    pub since: Instant,
}

/// Pending changes of one follower.
#[derive(Debug)]
pub(super) struct FeedState {
    /// Ports that changed since they were last taken.
    pub(super) dirty: Mutex<BTreeSet<WorkloadPort>>,
    /// True if the omissions may have changed since they were last taken.
    pub(super) unsent: AtomicBool,
    /// Woken when there are some.
    pub(super) wake: Notify,
}

/// Every follower.
#[derive(Debug, Default)]
pub(super) struct Feeds(Mutex<Vec<Weak<FeedState>>>);

impl Feeds {
    /// Adds a follower, for which these ports are pending.
    pub(super) fn add(&self, dirty: BTreeSet<WorkloadPort>) -> Arc<FeedState> {
        let state = Arc::new(FeedState {
            dirty: Mutex::new(dirty),
            unsent: AtomicBool::new(true),
            wake: Notify::new(),
        });
        state.wake.notify_one();
        let mut feeds = self.0.lock();
        feeds.retain(|feed| feed.strong_count() > 0);
        feeds.push(Arc::downgrade(&state));
        state
    }

    /// Notifies all followers that a port changed.
    pub(super) fn mark_dirty(&self, at: &WorkloadPort) {
        for state in self.0.lock().iter().filter_map(Weak::upgrade) {
            state.dirty.lock().insert(at.clone());
            state.wake.notify_one();
        }
    }

    /// Notifies all followers that the omissions changed.
    pub(super) fn mark_unsent(&self) {
        for state in self.0.lock().iter().filter_map(Weak::upgrade) {
            state.unsent.store(true, Ordering::Release);
            state.wake.notify_one();
        }
    }

    /// Returns the number of followers.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
