//! Permits for the concurrent streams that an application accepts on a connection.
//!
//! h2 accepts any number of requests and queues those that exceed the application's limit. It
//! cannot give them back: a cancelled request is sent all the same and reset afterwards, and a
//! queued request is lost if the application closes the connection. So requests wait here.

use super::send_queue::Piece;
use h2::client::SendRequest;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The stream permits of one connection.
#[derive(Debug, Default)]
pub(super) struct StreamPermits {
    taken: Cell<usize>,
    /// Waiters in order of arrival, each with its number.
    queue: RefCell<VecDeque<(u64, Waker)>>,
    next_number: Cell<u64>,
    /// True once the connection accepts no more requests.
    closed: Cell<bool>,
}

/// Permit for one stream, held until the request and its response are complete.
#[derive(Debug)]
pub(super) struct StreamPermit {
    permits: Rc<StreamPermits>,
}

/// A request's position in the queue.
struct PermitWaiter<'a> {
    permits: &'a StreamPermits,
    number: Option<u64>,
}

impl StreamPermits {
    /// Waits for a permit. `None`: the connection accepts no more requests.
    pub(super) async fn acquire(
        self: &Rc<Self>,
        sender: &mut SendRequest<Piece>,
    ) -> Option<StreamPermit> {
        let mut waiter = PermitWaiter { permits: self, number: None };
        poll_fn(|cx| {
            // `poll_ready` is always ready for a sender that has not sent.
            if self.closed.get() || matches!(sender.poll_ready(cx), Poll::Ready(Err(_))) {
                return Poll::Ready(None);
            }
            if waiter.is_first() && self.taken.get() < sender.current_max_send_streams() {
                self.taken.set(self.taken.get().saturating_add(1));
                return Poll::Ready(Some(StreamPermit { permits: Rc::clone(self) }));
            }
            waiter.wait(cx);
            Poll::Pending
        })
        .await
    }

    /// Checks for a raised limit of the application and wakes the first waiter. Returns false if
    /// the connection accepts no more requests.
    pub(super) fn update(&self, sender: &mut SendRequest<Piece>) -> bool {
        if self.queue.borrow().is_empty() {
            return true;
        }
        let mut cx = Context::from_waker(Waker::noop());
        if matches!(sender.poll_ready(&mut cx), Poll::Ready(Err(_))) {
            return false;
        }
        if self.taken.get() < sender.current_max_send_streams() {
            self.wake_next();
        }
        true
    }

    /// Wakes all waiters: no permit will be granted any more.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.queue.borrow().iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Wakes the first waiter. A waiter that gets a permit wakes the next one.
    fn wake_next(&self) {
        if let Some((_, waker)) = self.queue.borrow().front() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.permits.taken.set(self.permits.taken.get().saturating_sub(1));
        self.permits.wake_next();
    }
}

impl PermitWaiter<'_> {
    /// Returns true if no other waiter is in front.
    fn is_first(&self) -> bool {
        self.permits.queue.borrow().front().is_none_or(|(first, _)| Some(*first) == self.number)
    }

    fn wait(&mut self, cx: &Context<'_>) {
        let mut queue = self.permits.queue.borrow_mut();
        let own = queue.iter_mut().find(|(number, _)| Some(*number) == self.number);
        if let Some((_, waker)) = own {
            waker.clone_from(cx.waker());
            return;
        }
        let number = self.permits.next_number.get();
        self.permits.next_number.set(number.wrapping_add(1));
        self.number = Some(number);
        queue.push_back((number, cx.waker().clone()));
    }
}

/// A waiter that is dropped, or has its permit, leaves the queue and wakes the next one.
impl Drop for PermitWaiter<'_> {
    fn drop(&mut self) {
        let Some(own) = self.number else { return };
        self.permits.queue.borrow_mut().retain(|(number, _)| *number != own);
        self.permits.wake_next();
    }
}
