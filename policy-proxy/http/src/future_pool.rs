//! Futures whose memory is used again. Requests come and go on connections that stay: held by each
//! connection, the room for answering one would be most of an idle connection's memory; taken from
//! the allocator, it would cost each request as much as deciding on it.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A place that a future was in.
type PooledBox<F> = Box<Pin<Box<Option<F>>>>;

thread_local! {
    static SPARE: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// A future in memory that is given back to the thread.
pub struct PooledFuture<F: 'static> {
    /// Absent only while it is dropped.
    slot: Option<PooledBox<F>>,
}

impl<F: Future + 'static> PooledFuture<F> {
    /// Makes the future in memory that another one had, if there is some. It is made here because one
    /// that is handed over is copied with all the room for what it has yet to hold.
    #[inline]
    pub fn new(make: impl FnOnce() -> F) -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let spare = spare.and_then(|spare| spare.downcast::<Pin<Box<Option<F>>>>().ok());
        let mut slot = spare.unwrap_or_else(|| Box::new(Box::pin(None)));
        (*slot).as_mut().set(Some(make()));
        Self { slot: Some(slot) }
    }

    /// Polls the future; not again once it is ready.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.slot.as_mut().and_then(|slot| (**slot).as_mut().as_pin_mut());
        future.map_or(Poll::Pending, |future| future.poll(cx))
    }
}

impl<F: 'static> Drop for PooledFuture<F> {
    fn drop(&mut self) {
        let Some(mut slot) = self.slot.take() else { return };
        // Before the list is borrowed: what is dropped may be anything.
        (*slot).as_mut().set(None);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MAX_SPARE {
                spare.push(slot);
            }
        });
    }
}

/// Places that a thread keeps.
const MAX_SPARE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{self, poll_fn, ready};
    use std::rc::Rc;

    #[tokio::test]
    async fn a_future_is_dropped_with_its_place_and_another_takes_it() {
        let shared = Rc::new(());
        for other in [true, false] {
            let own = Rc::clone(&shared);
            let mut unready = PooledFuture::new(|| async move {
                future::pending::<()>().await;
                drop(own);
            });
            let pending = poll_fn(|cx| Poll::Ready(unready.poll(cx).is_pending())).await;
            assert!(pending);
            assert_eq!(Rc::strong_count(&shared), 2);
            drop(unready);
            assert_eq!(Rc::strong_count(&shared), 1);
            if other {
                let mut number = PooledFuture::new(|| ready(7));
                assert_eq!(poll_fn(|cx| number.poll(cx)).await, 7, "a place of another type");
            }
        }
    }
}
