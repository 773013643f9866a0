//! The generation that each worker has reached, for acknowledgements.
//!
//! A worker is a thread with its own runtime. Publishing a policy is one atomic store, but a worker
//! may be in the middle of a decision, and its open streams have to be decided on again. So each
//! worker runs [`Worker::follow`] as a task: once that task has seen a generation, every earlier
//! poll of the thread is over and its streams have been reviewed.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The workers of one proxy.
#[derive(Clone, Debug)]
pub struct Workers {
    state: Arc<WorkersState>,
}

/// One worker of [`Workers`]; dropping it removes it from acknowledgements.
#[derive(Debug)]
pub struct Worker {
    index: usize,
    reached: Arc<AtomicU64>,
    published: watch::Receiver<u64>,
    state: Arc<WorkersState>,
}

#[derive(Debug)]
struct WorkersState {
    slots: Mutex<Vec<Option<Arc<AtomicU64>>>>,
    published: watch::Sender<u64>,
    /// Wakes waiters; the value has no meaning.
    progress: watch::Sender<()>,
}

impl Workers {
    pub(super) fn new() -> Self {
        let state = WorkersState {
            slots: Mutex::new(Vec::new()),
            published: watch::Sender::new(0),
            progress: watch::Sender::new(()),
        };
        Self { state: Arc::new(state) }
    }

    /// Registers a worker: acknowledgements wait for it until it is dropped.
    pub fn register(&self) -> Worker {
        let published = self.state.published.subscribe();
        // A worker that has decided nothing yet sees everything published so far.
        let reached = Arc::new(AtomicU64::new(*published.borrow()));
        let mut slots = self.state.slots.lock();
        let index = slots.iter().position(Option::is_none).unwrap_or(slots.len());
        match slots.get_mut(index) {
            Some(free) => *free = Some(Arc::clone(&reached)),
            None => slots.push(Some(Arc::clone(&reached))),
        }
        Worker { index, reached, published, state: Arc::clone(&self.state) }
    }

    /// Returns the newest published generation.
    pub fn published(&self) -> u64 {
        *self.state.published.borrow()
    }

    /// Returns the newest generation that every worker has reached. Without workers: the newest
    /// published.
    pub fn reached(&self) -> u64 {
        let slots = self.state.slots.lock();
        let least = slots.iter().flatten().map(|slot| slot.load(Ordering::Acquire)).min();
        least.unwrap_or_else(|| self.published())
    }

    /// Waits until every worker has reached `generation`. Has no timeout: a worker that hangs must
    /// not be reported as having applied anything.
    pub async fn wait_reached(&self, generation: u64) {
        let mut progress = self.state.progress.subscribe();
        loop {
            progress.mark_unchanged();
            if self.reached() >= generation {
                return;
            }
            // The sender lives in `self`, so this cannot fail while we wait.
            if progress.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn publish(&self, generation: u64) {
        self.state.published.send_if_modified(|newest| {
            let newer = generation > *newest;
            if newer {
                *newest = generation;
            }
            newer
        });
        self.state.progress.send_replace(());
    }
}

impl Worker {
    /// Returns a small number that is unique among the living workers of this proxy; workers count
    /// from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Records that this worker has reached `generation`.
    pub fn reach(&self, generation: u64) {
        self.reached.fetch_max(generation, Ordering::AcqRel);
        self.state.progress.send_replace(());
    }

    /// For each published generation, calls `review` to decide again on every open stream and
    /// connection of this worker, and then records the generation as reached. Does not return:
    /// abort the task or end its runtime, which has to be the worker's own.
    pub async fn follow(mut self, mut review: impl AsyncFnMut(u64)) {
        while self.published.changed().await.is_ok() {
            let generation = *self.published.borrow_and_update();
            review(generation).await;
            self.reach(generation);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(slot) = self.state.slots.lock().get_mut(self.index) {
            *slot = None;
        }
        self.state.progress.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn is_pending(workers: &Workers, generation: u64) -> bool {
        tokio::time::timeout(Duration::from_millis(20), workers.wait_reached(generation))
            .await
            .is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_generation_passes_only_when_the_last_worker_has_passed_it() {
        let workers = Workers::new();
        let (first, second) = (workers.register(), workers.register());
        workers.publish(1);
        first.reach(1);
        assert!(is_pending(&workers, 1).await);
        second.reach(1);
        workers.wait_reached(1).await;
        assert!(is_pending(&workers, 2).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_ends_is_not_waited_for() {
        let workers = Workers::new();
        let worker = workers.register();
        workers.publish(3);
        assert!(is_pending(&workers, 3).await);
        drop(worker);
        workers.wait_reached(3).await;
    }

    #[tokio::test(start_paused = true)]
    async fn following_reviews_before_it_passes() {
        let workers = Workers::new();
        let worker = workers.register();
        let observer = workers.clone();
        let reviewed = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&reviewed);
        let task = tokio::spawn(worker.follow(async move |generation| {
            assert!(observer.reached() < generation, "not passed before it is reviewed");
            seen.store(generation, Ordering::Release);
        }));
        workers.publish(7);
        workers.wait_reached(7).await;
        assert_eq!(reviewed.load(Ordering::Acquire), 7);
        task.abort();
    }

    #[test]
    fn indexes_of_ended_workers_are_used_again() {
        let workers = Workers::new();
        let first = workers.register();
        let second = workers.register();
        assert_eq!((first.index(), second.index()), (0, 1));
        drop(first);
        assert_eq!(workers.register().index(), 0);
    }
}
