//! A watch channel that holds the newest value only. `tokio::sync::watch` takes four times the
//! memory, and there is one channel for every pod and one for every watched port, mostly with one
//! receiver.

use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A new channel that holds `value`.
pub fn channel<T: Clone>(value: T) -> Sender<T> {
    let state = State {
        value,
        version: 0,
        closed: false,
        receivers: 0,
        numbers: 0,
        waiting: Waiting::default(),
    };
    Sender(Arc::new(Mutex::new(state)))
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// Counts the values.
    version: u32,
    closed: bool,
    receivers: u32,
    /// Number of receivers ever created.
    numbers: u32,
    /// Wakers of waiting receivers, by the receiver's number.
    waiting: Waiting,
}

/// The most waiting receivers kept in a list, which is searched linearly.
const MAX_LISTED: usize = 16;

/// The wakers of waiting receivers: of most channels there is one, of a destination that every
/// workload has there are ten thousand.
#[derive(Debug, Default)]
struct Waiting {
    few: SmallVec<[(u32, Waker); 1]>,
    /// Those beyond [`MAX_LISTED`].
    many: Option<Box<HashMap<u32, Waker>>>,
}

impl Waiting {
    /// Registers the waker of a receiver, replacing an earlier one.
    fn insert(&mut self, number: u32, waker: &Waker) {
        if let Some((_, listed)) = self.few.iter_mut().find(|(listed, _)| *listed == number) {
            listed.clone_from(waker);
        } else if self.few.len() < MAX_LISTED && !self.is_among_many(number) {
            self.few.push((number, waker.clone()));
        } else {
            self.many.get_or_insert_default().insert(number, waker.clone());
        }
    }

    fn is_among_many(&self, number: u32) -> bool {
        self.many.as_ref().is_some_and(|many| many.contains_key(&number))
    }

    fn remove(&mut self, number: u32) {
        self.few.retain(|(listed, _)| *listed != number);
        if let Some(many) = &mut self.many {
            many.remove(&number);
        }
    }

    fn wake(self) {
        self.few.into_iter().for_each(|(_, waker)| waker.wake());
        let many = self.many.map(|many| *many).unwrap_or_default();
        many.into_values().for_each(Waker::wake);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.few.len().saturating_add(self.many.as_ref().map_or(0, |many| many.len()))
    }
}

impl<T> State<T> {
    /// A receiver that has seen the value as it is.
    fn admit(&mut self) -> u32 {
        self.receivers = self.receivers.saturating_add(1);
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }
}

/// Puts values in; dropping it closes the channel.
#[derive(Debug)]
pub struct Sender<T>(Arc<Mutex<State<T>>>);

impl<T: Clone> Sender<T> {
    /// The value.
    pub fn current(&self) -> T {
        self.0.lock().value.clone()
    }

    /// Lets `change` modify the value; wakes the receivers if it returns true. It must not use the
    /// channel.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) {
        let mut state = self.0.lock();
        if !change(&mut state.value) {
            return;
        }
        state.version = state.version.wrapping_add(1);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.wake();
    }

    /// Another value.
    pub fn send(&self, value: T) {
        self.send_if_modified(|current| {
            *current = value;
            true
        });
    }

    /// A receiver that has seen the value as it is.
    pub fn subscribe(&self) -> Latest<T> {
        let mut state = self.0.lock();
        let (number, seen) = (state.admit(), state.version);
        Latest { state: self.0.clone(), seen, number }
    }

    /// True if there are receivers.
    pub fn has_receivers(&self) -> bool {
        self.0.lock().receivers > 0
    }

    /// True if there is more than one receiver.
    pub fn has_several_receivers(&self) -> bool {
        self.0.lock().receivers > 1
    }

    /// Number of receivers.
    #[cfg(any(test, feature = "testing"))]
    pub fn receivers(&self) -> usize {
        usize::try_from(self.0.lock().receivers).unwrap_or(usize::MAX)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.wake();
    }
}

/// Receives the newest value and notifications of changes.
#[derive(Debug)]
pub struct Latest<T> {
    state: Arc<Mutex<State<T>>>,
    /// The version that was read last.
    seen: u32,
    number: u32,
}

impl<T: Clone> Latest<T> {
    /// The value; whether it was seen before stays as it is.
    pub fn current(&self) -> T {
        self.state.lock().value.clone()
    }

    /// The value, which counts as seen from now on.
    pub fn read(&mut self) -> T {
        let state = self.state.lock();
        self.seen = state.version;
        state.value.clone()
    }
}

impl<T> Latest<T> {
    /// True if there is a value that was not seen.
    #[cfg(any(test, feature = "testing"))]
    pub fn has_changed(&self) -> bool {
        self.state.lock().version != self.seen
    }

    /// True if the sender is gone, so that there is never another value.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Waits until there is a value that was not seen, and marks it as seen. False if the channel
    /// is closed.
    pub async fn changed(&mut self) -> bool {
        poll_fn(|cx| self.poll_changed(cx)).await
    }

    /// The same as a poll function. The last waker registered for a receiver is woken.
    pub fn poll_changed(&mut self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.state.lock();
        if state.version != self.seen {
            self.seen = state.version;
            return Poll::Ready(true);
        }
        if state.closed {
            return Poll::Ready(false);
        }
        state.waiting.insert(self.number, cx.waker());
        Poll::Pending
    }
}

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        let number = self.state.lock().admit();
        Self { state: self.state.clone(), seen: self.seen, number }
    }
}

impl<T> Drop for Latest<T> {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.receivers = state.receivers.saturating_sub(1);
        state.waiting.remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn soon<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(60), future).await.expect("it took too long")
    }

    #[tokio::test]
    async fn every_receiver_hears_of_the_newest_value_once() {
        let sender = channel(1);
        let (mut first, mut second) = (sender.subscribe(), sender.subscribe());
        assert!(!first.has_changed());
        sender.send(2);
        sender.send(3);
        for receiver in [&mut first, &mut second] {
            assert!(soon(receiver.changed()).await);
            assert_eq!((receiver.current(), receiver.has_changed()), (3, false));
        }
        sender.send_if_modified(|_| false);
        assert!(!first.has_changed());
        sender.send(4);
        assert!(first.has_changed());
        assert_eq!((first.current(), first.has_changed()), (4, true));
        assert_eq!((first.read(), first.has_changed()), (4, false));
        assert!(second.has_changed());
        assert!(second.clone().has_changed(), "a clone has seen what its original has");
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_a_value_and_by_the_end() {
        let sender = channel(0);
        let mut receivers: Vec<_> = (0..50).map(|_| sender.subscribe()).collect();
        let waiting: Vec<_> = receivers
            .drain(..)
            .map(|mut receiver| {
                tokio::spawn(async move { (receiver.changed().await, receiver.changed().await) })
            })
            .collect();
        tokio::task::yield_now().await;
        sender.send(1);
        tokio::task::yield_now().await;
        drop(sender);
        for task in waiting {
            assert_eq!(soon(task).await.unwrap(), (true, false));
        }
    }

    #[tokio::test]
    async fn the_last_value_is_there_after_the_end() {
        let sender = channel(0);
        let mut receiver = sender.subscribe();
        sender.send(1);
        drop(sender);
        assert!(receiver.is_closed());
        assert!(soon(receiver.changed()).await);
        assert_eq!(receiver.current(), 1);
        assert!(!soon(receiver.changed()).await);
    }

    #[tokio::test]
    async fn who_is_gone_is_not_counted_and_not_kept() {
        let sender = channel(0);
        assert!(!sender.has_receivers());
        let mut receiver = sender.subscribe();
        let mut clone = receiver.clone();
        for _ in 0..3 {
            // Begun and given up.
            tokio::select! {
                biased;
                changed = receiver.changed() => panic!("nothing changed: {changed}"),
                changed = clone.changed() => panic!("nothing changed: {changed}"),
                () = std::future::ready(()) => {}
            }
        }
        assert_eq!(sender.0.lock().waiting.len(), 2);
        drop(clone);
        assert!(sender.has_receivers());
        assert_eq!(sender.0.lock().waiting.len(), 1);
        drop(receiver);
        assert!(!sender.has_receivers());
        assert_eq!(sender.0.lock().waiting.len(), 0);
    }

    #[test]
    fn between_threads_the_last_value_is_always_heard_of() {
        for round in 0..200_u32 {
            let sender = channel(0_u32);
            let mut receiver = sender.subscribe();
            let receiving = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async move {
                    let mut last = 0;
                    while receiver.changed().await {
                        last = receiver.current();
                    }
                    last
                })
            });
            (1..=round).for_each(|value| sender.send(value));
            drop(sender);
            assert_eq!(receiving.join().unwrap(), round);
        }
    }
}
