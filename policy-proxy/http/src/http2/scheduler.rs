//! Schedules the parts of one task: only those that were woken are polled.
//!
//! A connection's streams are polled by its own task, each with a waker of its own. A wake-up while
//! the task runs appends an entry to the run queue, which is polled before the task waits again:
//! the output of all streams woken by one read goes out in one write.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// The entries of one task and its run queue.
pub(super) struct Scheduler {
    queue: Arc<RunQueue>,
    entries: Vec<(Arc<Entry>, Waker)>,
}

struct RunQueue {
    state: Mutex<State>,
}

struct State {
    woken: VecDeque<usize>,
    task: Waker,
    /// True while the task is polling: wake-ups need not wake the task.
    running: bool,
}

/// One part of the task, with its waker.
pub(super) struct Entry {
    queue: Arc<RunQueue>,
    index: usize,
    /// True if the entry is in the run queue.
    woken: AtomicBool,
}

impl Scheduler {
    pub(super) fn new() -> Self {
        let task = Waker::noop().clone();
        let state = State { woken: VecDeque::new(), task, running: false };
        Self { queue: Arc::new(RunQueue { state: Mutex::new(state) }), entries: Vec::new() }
    }

    /// Returns the waker of an entry; creates the entry on first use.
    pub(super) fn waker(&mut self, index: usize) -> Waker {
        while self.entries.len() <= index {
            let (queue, index) = (Arc::clone(&self.queue), self.entries.len());
            let entry = Arc::new(Entry { queue, index, woken: AtomicBool::new(false) });
            self.entries.push((Arc::clone(&entry), Waker::from(entry)));
        }
        self.entries.get(index).map_or_else(|| Waker::noop().clone(), |(_, waker)| waker.clone())
    }

    /// Marks the task as running. It is woken again only by wake-ups after [`Self::next`] returned
    /// `None`.
    #[inline]
    pub(super) fn start(&self, cx: &Context<'_>) {
        let mut state = self.queue.state.lock();
        state.task.clone_from(cx.waker());
        state.running = true;
    }

    /// Returns the next entry of the run queue, for [`Self::take`]. `None`: the task waits.
    #[inline]
    pub(super) fn next(&self) -> Option<usize> {
        let mut state = self.queue.state.lock();
        let next = state.woken.pop_front();
        state.running = next.is_some();
        next
    }

    /// Takes an entry for polling: later wake-ups queue it again.
    #[inline]
    pub(super) fn take(&self, entry: usize) -> Waker {
        let Some((entry, waker)) = self.entries.get(entry) else { return Waker::noop().clone() };
        entry.woken.store(false, Ordering::Relaxed);
        waker.clone()
    }

    /// Lets other tasks run: wakes the task and ends its poll.
    #[inline]
    pub(super) fn yield_now(&self) {
        let mut state = self.queue.state.lock();
        state.running = false;
        state.task.wake_by_ref();
    }

    /// Returns an entry.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index).map(|(entry, _)| &**entry)
    }
}

impl Entry {
    /// Runs `act` with wake-ups of this entry suppressed.
    pub(super) fn without_wake<T>(&self, act: impl FnOnce() -> T) -> T {
        let woken = self.woken.swap(true, Ordering::Relaxed);
        let done = act();
        self.woken.store(woken, Ordering::Relaxed);
        done
    }
}

impl Wake for Entry {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut state = self.queue.state.lock();
        state.woken.push_back(self.index);
        if !state.running {
            state.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::tests::Count;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn the_task_is_woken_once_and_each_place_has_its_turn_in_the_order_of_waking() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let task = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&task);
        let woken = || count.0.load(Ordering::Relaxed);
        let mut turns = Scheduler::new();
        let (two, one) = (turns.waker(2), turns.waker(1));
        turns.start(&cx);
        assert_eq!(turns.next(), None);
        two.wake_by_ref();
        assert_eq!(woken(), 1, "it waits");
        turns.start(&cx);
        one.wake_by_ref();
        two.wake_by_ref();
        assert_eq!(woken(), 1, "it sees by itself");
        assert_eq!(turns.next(), Some(2));
        two.wake_by_ref();
        turns.take(2);
        two.wake_by_ref();
        let rest: Vec<_> =
            std::iter::from_fn(|| turns.next().inspect(|at| drop(turns.take(*at)))).collect();
        assert_eq!(rest, [1, 2], "what came before the turn was taken is not news");
        turns.entry(1).unwrap().without_wake(|| one.wake_by_ref());
        assert_eq!(woken(), 1);
        one.wake();
        assert_eq!(woken(), 2);
        turns.start(&cx);
        turns.yield_now();
        assert_eq!(woken(), 3, "there is more to do");
    }
}
