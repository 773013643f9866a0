//! Who follows what is in force, and which ports each has to be told of.

use parking_lot::Mutex;
use policy_core::WorkloadKey;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::Notify;

/// A port of a workload.
pub type PortAt = (WorkloadKey, NonZeroU16);

/// What the clients that answer for a port have in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Hash of the policy as published, if all of them have the same; else 0.
    pub content: u64,
    /// Why the newest update was refused, if it was.
    pub refused: Option<Arc<str>>,
    /// Since when the content is this.
    pub since: Instant,
}

/// What a follower has to be told.
#[derive(Debug)]
pub(super) struct Noted {
    /// Ports that changed since they were last taken.
    pub(super) dirty: Mutex<BTreeSet<PortAt>>,
    /// Whether what clients are not sent may have changed since that was last taken.
    pub(super) unsent: AtomicBool,
    /// Woken when there are some.
    pub(super) wake: Notify,
}

/// Every follower.
#[derive(Debug, Default)]
pub(super) struct Feeds(Mutex<Vec<Weak<Noted>>>);

impl Feeds {
    /// One more, to whom these ports are news.
    pub(super) fn add(&self, dirty: BTreeSet<PortAt>) -> Arc<Noted> {
        let noted = Arc::new(Noted {
            dirty: Mutex::new(dirty),
            unsent: AtomicBool::new(true),
            wake: Notify::new(),
        });
        noted.wake.notify_one();
        let mut feeds = self.0.lock();
        feeds.retain(|feed| feed.strong_count() > 0);
        feeds.push(Arc::downgrade(&noted));
        noted
    }

    /// Tells all of them that a port changed.
    pub(super) fn note(&self, at: &PortAt) {
        for noted in self.0.lock().iter().filter_map(Weak::upgrade) {
            noted.dirty.lock().insert(at.clone());
            noted.wake.notify_one();
        }
    }

    /// Tells all of them that what clients are not sent changed.
    pub(super) fn note_unsent(&self) {
        for noted in self.0.lock().iter().filter_map(Weak::upgrade) {
            noted.unsent.store(true, Ordering::Release);
            noted.wake.notify_one();
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
