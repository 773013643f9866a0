//! Whose turn it is in a task that does many things: what is woken is polled, nothing else.
//!
//! A connection's streams are polled by its own task, each with a waker that says which of them it is.
//! What wakes another while the task runs costs a place in a list, and is polled before the task
//! waits again: whatever the streams of one read have to send goes in one write.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// The places of one task, and which of them have been woken.
pub(super) struct Turns {
    shared: Arc<Shared>,
    places: Vec<(Arc<Place>, Waker)>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    woken: VecDeque<usize>,
    task: Waker,
    /// Whether the task is polling, and sees by itself who is woken.
    running: bool,
}

/// Where one of them is woken.
pub(super) struct Place {
    shared: Arc<Shared>,
    index: usize,
    /// Whether it is in the list.
    woken: AtomicBool,
}

impl Turns {
    pub(super) fn new() -> Self {
        let task = Waker::noop().clone();
        let state = State { woken: VecDeque::new(), task, running: false };
        Self { shared: Arc::new(Shared { state: Mutex::new(state) }), places: Vec::new() }
    }

    /// The waker of a place. One that was not asked for yet is new, and has its first turn.
    pub(super) fn waker(&mut self, index: usize) -> Waker {
        while self.places.len() <= index {
            let (shared, index) = (Arc::clone(&self.shared), self.places.len());
            let place = Arc::new(Place { shared, index, woken: AtomicBool::new(false) });
            self.places.push((Arc::clone(&place), Waker::from(place)));
        }
        self.places.get(index).map_or_else(|| Waker::noop().clone(), |(_, waker)| waker.clone())
    }

    /// The task polls. It is woken again only for what is woken after [`Self::next`] said that there
    /// is nobody.
    #[inline]
    pub(super) fn begin(&self, cx: &Context<'_>) {
        let mut state = self.shared.state.lock();
        state.task.clone_from(cx.waker());
        state.running = true;
    }

    /// Who has the next turn, once [`Self::take`] takes it. If nobody has, the task waits.
    #[inline]
    pub(super) fn next(&self) -> Option<usize> {
        let mut state = self.shared.state.lock();
        let next = state.woken.pop_front();
        state.running = next.is_some();
        next
    }

    /// Takes a turn: what wakes the place from now on is news. What did before it knows when it is
    /// polled.
    #[inline]
    pub(super) fn take(&self, place: usize) -> Waker {
        let Some((place, waker)) = self.places.get(place) else { return Waker::noop().clone() };
        place.woken.store(false, Ordering::Relaxed);
        waker.clone()
    }

    /// The task lets others have their turn before it goes on.
    #[inline]
    pub(super) fn pause(&self) {
        let mut state = self.shared.state.lock();
        state.running = false;
        state.task.wake_by_ref();
    }

    /// The place that has its turn.
    #[inline]
    pub(super) fn place(&self, index: usize) -> Option<&Place> {
        self.places.get(index).map(|(place, _)| &**place)
    }
}

impl Place {
    /// Does something that wakes whoever does it, who knows already.
    pub(super) fn unheard<T>(&self, act: impl FnOnce() -> T) -> T {
        let woken = self.woken.swap(true, Ordering::Relaxed);
        let done = act();
        self.woken.store(woken, Ordering::Relaxed);
        done
    }
}

impl Wake for Place {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut state = self.shared.state.lock();
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
        let mut turns = Turns::new();
        let (two, one) = (turns.waker(2), turns.waker(1));
        turns.begin(&cx);
        assert_eq!(turns.next(), None);
        two.wake_by_ref();
        assert_eq!(woken(), 1, "it waits");
        turns.begin(&cx);
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
        turns.place(1).unwrap().unheard(|| one.wake_by_ref());
        assert_eq!(woken(), 1);
        one.wake();
        assert_eq!(woken(), 2);
        turns.begin(&cx);
        turns.pause();
        assert_eq!(woken(), 3, "there is more to do");
    }
}
