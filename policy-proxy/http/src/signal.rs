//! A signal from a connection's worker to the connection's task.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// A value that a task waits for beside its I/O. Written by the worker, read by the task.
#[derive(Debug)]
pub struct Signal<T: Copy> {
    value: Cell<Option<T>>,
    waker: RefCell<Option<Waker>>,
}

impl<T: Copy> Signal<T> {
    /// Creates a signal without a value.
    pub const fn new() -> Self {
        Self { value: Cell::new(None), waker: RefCell::new(None) }
    }

    /// Sets the value and wakes the task. The last value counts.
    pub fn raise(&self, value: T) {
        self.value.set(Some(value));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Wakes the task without setting a value.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Returns the value, if there is one.
    pub fn get(&self) -> Option<T> {
        self.value.get()
    }

    /// Returns the value, if there is one, and registers `cx` to be woken when a value is set.
    pub fn poll(&self, cx: &Context<'_>) -> Option<T> {
        store_waker(&mut self.waker.borrow_mut(), cx);
        self.value.get()
    }
}

impl<T: Copy> Default for Signal<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Stores the waker of `cx`; clones it only if it differs from the stored one.
#[inline]
pub fn store_waker(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(known) => known.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    /// Counts wake-ups.
    pub(crate) struct Count(pub(crate) AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_has_seen_a_value_is_woken_by_the_next_one() {
        let (signal, count) = (Signal::new(), Arc::new(Count(AtomicUsize::new(0))));
        let waker = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&waker);
        assert_eq!(signal.poll(&cx), None);
        signal.raise("gracefully");
        assert_eq!((signal.poll(&cx), count.0.load(Ordering::Relaxed)), (Some("gracefully"), 1));
        signal.raise("now");
        assert_eq!((signal.poll(&cx), count.0.load(Ordering::Relaxed)), (Some("now"), 2));
    }
}
