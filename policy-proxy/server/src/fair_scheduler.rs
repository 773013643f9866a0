//! A scheduler that is fair to client networks: for handshakes, admission reviews and requests to
//! the API server.
//!
//! The next waiter is the one whose work would finish first if all networks ran side by side
//! (self-clocked fair queueing). So a network with much work delays only itself: one small review
//! waits for the work in progress and for a small one of each other network, however many large
//! ones they have queued before.

use crate::client_network::ClientNetwork;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A number of concurrent permits. Clones share them.
#[derive(Clone, Debug)]
pub struct FairScheduler {
    queue: Arc<Mutex<Queue<oneshot::Sender<SchedulerPermit>>>>,
}

/// A permit; granted to the next waiter when dropped.
#[derive(Debug)]
pub struct SchedulerPermit {
    of: Option<FairScheduler>,
}

impl FairScheduler {
    /// Creates a scheduler with `at_once` permits.
    pub fn new(at_once: usize) -> Self {
        Self { queue: Arc::new(Mutex::new(Queue::new(at_once))) }
    }

    /// Waits for a permit for work of this cost. Cancelled when dropped. `None` does not occur
    /// while the scheduler exists.
    pub async fn acquire(&self, network: ClientNetwork, cost: u64) -> Option<SchedulerPermit> {
        let (sender, receiver) = oneshot::channel();
        let key = {
            let mut queue = self.queue.lock();
            if queue.try_start() {
                return Some(SchedulerPermit { of: Some(self.clone()) });
            }
            queue.push(network, cost, sender)
        };
        let _waiter = QueuedWaiter { scheduler: self, key };
        receiver.await.ok()
    }

    fn wake_next(&self) {
        loop {
            let Some(sender) = self.queue.lock().next_waiter() else { return };
            let permit = SchedulerPermit { of: Some(self.clone()) };
            match sender.send(permit) {
                Ok(()) => return,
                // This waiter was just cancelled: grant the permit to the next one.
                Err(mut permit) => permit.of = None,
            }
        }
    }
}

impl Drop for SchedulerPermit {
    fn drop(&mut self) {
        if let Some(scheduler) = self.of.take() {
            scheduler.wake_next();
        }
    }
}

/// A position in the queue; removed when dropped.
struct QueuedWaiter<'a> {
    scheduler: &'a FairScheduler,
    key: QueueKey,
}

impl Drop for QueuedWaiter<'_> {
    fn drop(&mut self) {
        self.scheduler.queue.lock().cancel(self.key);
    }
}

/// Virtual finish time of the work, and order of arrival.
type QueueKey = (u64, u64);

/// State of the queue, without clock or waiting. While a permit is free there are no waiters.
#[derive(Debug)]
struct Queue<W> {
    free: usize,
    /// Virtual time: the finish time of the work started last.
    now: u64,
    arrivals: u64,
    waiting: BTreeMap<QueueKey, (ClientNetwork, W)>,
    backlogs: HashMap<ClientNetwork, Backlog>,
}

/// The queued work of one network.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    count: usize,
    done: u64,
}

impl<W> Queue<W> {
    fn new(at_once: usize) -> Self {
        let (waiting, backlogs) = (BTreeMap::new(), HashMap::new());
        Self { free: at_once, now: 0, arrivals: 0, waiting, backlogs }
    }

    /// Takes a permit if one is free.
    fn try_start(&mut self) -> bool {
        let left = self.free.checked_sub(1);
        self.free = left.unwrap_or_default();
        left.is_some()
    }

    fn push(&mut self, network: ClientNetwork, cost: u64, waiter: W) -> QueueKey {
        self.arrivals = self.arrivals.saturating_add(1);
        let backlog = self.backlogs.entry(network).or_default();
        backlog.count = backlog.count.saturating_add(1);
        backlog.done = backlog.done.max(self.now).saturating_add(cost.max(1));
        let key = (backlog.done, self.arrivals);
        self.waiting.insert(key, (network, waiter));
        key
    }

    /// Removes a cancelled waiter.
    fn cancel(&mut self, key: QueueKey) {
        if let Some((network, _)) = self.waiting.remove(&key) {
            self.dequeued(network);
        }
    }

    /// Ends a permit and returns the next waiter; without one the permit becomes free.
    fn next_waiter(&mut self) -> Option<W> {
        let Some(((done, _), (network, waiter))) = self.waiting.pop_first() else {
            self.free = self.free.saturating_add(1);
            return None;
        };
        self.now = done;
        self.dequeued(network);
        Some(waiter)
    }

    fn dequeued(&mut self, network: ClientNetwork) {
        if let Some(backlog) = self.backlogs.get_mut(&network) {
            backlog.count = backlog.count.saturating_sub(1);
            if backlog.count == 0 {
                self.backlogs.remove(&network);
            }
        }
        if self.waiting.is_empty() {
            self.now = 0;
        }
    }
}

#[cfg(test)]
mod tests;
