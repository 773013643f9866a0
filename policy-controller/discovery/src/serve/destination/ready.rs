//! The lookups of one stream that may have changed. Each lookup wakes with its number, so that a
//! change of one is not looked for among all.

use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The numbers of lookups to look at, for one task.
#[derive(Debug, Default)]
pub(super) struct ReadyList(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    ids: Vec<u32>,
    task: Option<Waker>,
}

/// Puts a number on the list.
struct LookupWaker {
    list: Arc<Mutex<State>>,
    id: u32,
}

impl ReadyList {
    /// Returns a waker that puts `id` on the list.
    pub(super) fn waker(&self, id: u32) -> Waker {
        Arc::new(LookupWaker { list: Arc::clone(&self.0), id }).into()
    }

    /// The next number. It may be there several times, and after the end of its lookup.
    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<u32> {
        let mut state = self.0.lock();
        match state.ids.pop() {
            Some(id) => Poll::Ready(id),
            None => {
                // The room for a burst is not kept.
                state.ids = Vec::new();
                state.task = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Wake for LookupWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = {
            let mut state = self.list.lock();
            state.ids.push(self.id);
            state.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    #[tokio::test]
    async fn the_task_is_woken_and_gets_each_number() {
        let list = ReadyList::default();
        let wakers = [1, 2].map(|id| list.waker(id));
        let waking = async {
            tokio::task::yield_now().await;
            for waker in &wakers {
                waker.wake_by_ref();
            }
        };
        let taking = async {
            let mut taken = Vec::new();
            while taken.len() < 2 {
                taken.push(poll_fn(|cx| list.poll_next(cx)).await);
            }
            taken.sort_unstable();
            taken
        };
        let both = async { tokio::join!(taking, waking) };
        let (taken, ()) = tokio::time::timeout(Duration::from_secs(10), both).await.unwrap();
        assert_eq!(taken, [1, 2]);
        let next = tokio::time::timeout(Duration::ZERO, poll_fn(|cx| list.poll_next(cx)));
        assert!(next.await.is_err(), "nothing else woke");
    }
}
