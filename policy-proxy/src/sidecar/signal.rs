//! Wakes a connection's task from its worker: a reason to end, and who to wake for it.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// A value that a task waits for beside its I/O. Written by the worker, read by the task.
#[derive(Debug)]
pub(super) struct Signal<T: Copy> {
    value: Cell<Option<T>>,
    waker: RefCell<Option<Waker>>,
}

impl<T: Copy> Signal<T> {
    pub(super) const fn new() -> Self {
        Self { value: Cell::new(None), waker: RefCell::new(None) }
    }

    /// Sets the value and wakes the task. The last value counts.
    pub(super) fn raise(&self, value: T) {
        self.value.set(Some(value));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The value, if it was raised.
    pub(super) fn get(&self) -> Option<T> {
        self.value.get()
    }

    /// The value, or else a promise to wake `cx` when there is one.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Option<T> {
        if let Some(value) = self.value.get() {
            return Some(value);
        }
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(known) => known.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
        None
    }
}
