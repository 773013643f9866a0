//! How many streams an application takes at once on a connection, and who waits for one.
//!
//! The library takes any number of requests and keeps those that the application does not take yet. It
//! cannot give them back: one that nobody wants any more is sent all the same and taken back after it,
//! and one that waits when the application ends the connection is lost. So requests wait here.

use bytes::Bytes;
use h2::client::SendRequest;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The streams of one connection.
#[derive(Debug, Default)]
pub(super) struct StreamPermits {
    taken: Cell<usize>,
    /// Those that wait, the first to come in front, each with its number.
    queue: RefCell<VecDeque<(u64, Waker)>>,
    next_number: Cell<u64>,
    /// Whether the connection takes no request any more.
    closed: Cell<bool>,
}

/// A stream of a connection, held until the request and its response are over.
#[derive(Debug)]
pub(super) struct StreamPermit {
    permits: Rc<StreamPermits>,
}

/// A request's place in the queue.
struct PermitWaiter<'a> {
    permits: &'a StreamPermits,
    number: Option<u64>,
}

impl StreamPermits {
    /// Waits until the application takes one stream more. `None`: the connection takes none any more.
    pub(super) async fn acquire(
        self: &Rc<Self>,
        sender: &mut SendRequest<Bytes>,
    ) -> Option<StreamPermit> {
        let mut waiter = PermitWaiter { permits: self, number: None };
        poll_fn(|cx| {
            // Ready for whoever has not sent by it.
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

    /// Looks whether the application takes more by now. `false`: it takes nothing any more.
    pub(super) fn update(&self, sender: &mut SendRequest<Bytes>) -> bool {
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

    /// Sends those that wait elsewhere.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.queue.borrow().iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Whoever is woken and has a stream wakes the next.
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
    /// Whether nobody waits in front.
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

/// Whoever waits no more, or has what it waited for, leaves its turn to the next.
impl Drop for PermitWaiter<'_> {
    fn drop(&mut self) {
        let Some(own) = self.number else { return };
        self.permits.queue.borrow_mut().retain(|(number, _)| *number != own);
        self.permits.wake_next();
    }
}
