//! Futures whose memory is reused. Connections are long-lived and requests are not: if each
//! connection kept the memory for answering a request, that would be most of an idle connection's
//! memory; allocating it for each request would cost as much as deciding on the request.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The allocation that a future lives in.
type PooledBox<F> = Box<Pin<Box<Option<F>>>>;

thread_local! {
    static SPARE: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// A future in memory that goes back to the thread's pool when it is dropped.
pub struct PooledFuture<F: 'static> {
    /// `None` only during drop.
    slot: Option<PooledBox<F>>,
}

impl<F: Future + 'static> PooledFuture<F> {
    /// Creates the future in pooled memory if there is some. `make` runs here because a future
    /// passed by value would be copied with all the space that it reserves.
    #[inline]
    pub fn new(make: impl FnOnce() -> F) -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let spare = spare.and_then(|spare| spare.downcast::<Pin<Box<Option<F>>>>().ok());
        let mut slot = spare.unwrap_or_else(|| Box::new(Box::pin(None)));
        (*slot).as_mut().set(Some(make()));
        Self { slot: Some(slot) }
    }

    /// Polls the future. Must not be called again once it is ready.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.slot.as_mut().and_then(|slot| (**slot).as_mut().as_pin_mut());
        future.map_or(Poll::Pending, |future| future.poll(cx))
    }
}

impl<F: 'static> Drop for PooledFuture<F> {
    fn drop(&mut self) {
        let Some(mut slot) = self.slot.take() else { return };
        // Before the pool is borrowed: dropping the future may run any code.
        (*slot).as_mut().set(None);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MAX_SPARE {
                spare.push(slot);
            }
        });
    }
}

/// Maximum number of allocations that a thread keeps.
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
