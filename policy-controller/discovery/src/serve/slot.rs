//! A channel with one place, in a fraction of the room of `tokio::sync::mpsc`: every watch has one,
//! and most watches are silent nearly all the time.

use futures_util::stream::Stream;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A new channel.
pub(crate) fn slot<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Mutex::new(SlotState {
        place: None,
        sender: SlotSide::default(),
        receiver: SlotSide::default(),
    }));
    (Sender(shared.clone()), Receiver(shared))
}

#[derive(Debug)]
struct SlotState<T> {
    place: Option<T>,
    sender: SlotSide,
    receiver: SlotSide,
}

#[derive(Debug, Default)]
struct SlotSide {
    gone: bool,
    /// Waker of the task on this side. It is one task, for all it waits for.
    waiting: Option<Waker>,
}

impl SlotSide {
    fn wait(&mut self, cx: &Context<'_>) {
        match &self.waiting {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            Some(_) | None => self.waiting = Some(cx.waker().clone()),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

/// The sending half, for one task alone.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Mutex<SlotState<T>>>);

impl<T> Sender<T> {
    /// Waits until the slot is free; false: the receiver is gone.
    pub(crate) async fn ready(&self) -> bool {
        poll_fn(|cx| {
            let mut shared = self.0.lock();
            if shared.receiver.gone {
                return Poll::Ready(false);
            }
            if shared.place.is_none() {
                return Poll::Ready(true);
            }
            shared.sender.wait(cx);
            Poll::Pending
        })
        .await
    }

    /// Waits until the receiver is gone.
    pub(crate) async fn closed(&self) {
        poll_fn(|cx| {
            let mut shared = self.0.lock();
            if shared.receiver.gone {
                return Poll::Ready(());
            }
            shared.sender.wait(cx);
            Poll::Pending
        })
        .await;
    }

    /// Sends a message into the slot, which is free: see [`Sender::ready`].
    pub(crate) fn send(&self, message: T) {
        let mut shared = self.0.lock();
        shared.place = Some(message);
        shared.receiver.wake();
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.sender.gone = true;
        shared.receiver.wake();
    }
}

/// The receiving half: yields messages until the sender is gone and the slot is empty.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Mutex<SlotState<T>>>);

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut shared = self.0.lock();
        if let Some(message) = shared.place.take() {
            shared.sender.wake();
            return Poll::Ready(Some(message));
        }
        if shared.sender.gone {
            return Poll::Ready(None);
        }
        shared.receiver.wait(cx);
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.receiver.gone = true;
        shared.place = None;
        shared.sender.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use std::thread::JoinHandle;
    use std::time::Duration;

    #[tokio::test]
    async fn messages_come_in_order_and_the_last_survives_its_sender() {
        let (sender, receiver) = slot();
        let sending = async move {
            for number in 0..100 {
                assert!(sender.ready().await);
                sender.send(number);
                tokio::task::yield_now().await;
            }
        };
        let (received, ()) = tokio::join!(receiver.collect::<Vec<_>>(), sending);
        assert_eq!(received, (0..100).collect::<Vec<_>>());
    }

    /// Most that anything here may take.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Waits as a session does, for the end and for room at once.
    async fn put(sender: &Sender<u32>, number: u32) -> bool {
        tokio::select! {
            biased;
            () = sender.closed() => false,
            room = sender.ready() => {
                if room {
                    sender.send(number);
                }
                room
            }
        }
    }

    /// Runs `future` on a thread of its own.
    fn apart<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let limited = async { tokio::time::timeout(PATIENCE, future).await };
            runtime.unwrap().block_on(limited).expect("a wake-up was lost")
        })
    }

    #[test]
    fn between_threads_no_message_and_no_wake_up_is_lost() {
        const MESSAGES: u32 = 20_000;
        let (sender, receiver) = slot();
        let sending = apart(async move {
            for number in 0..MESSAGES {
                assert!(put(&sender, number).await);
            }
        });
        let receiving = apart(receiver.collect::<Vec<_>>());
        assert_eq!(receiving.join().unwrap(), (0..MESSAGES).collect::<Vec<_>>());
        sending.join().unwrap();
    }

    #[test]
    fn between_threads_it_is_always_noticed_that_nobody_listens() {
        for round in 0..500 {
            let (sender, mut receiver) = slot();
            let sending = apart(async move {
                let mut sent = 0;
                while put(&sender, sent).await {
                    sent += 1;
                }
                sent
            });
            let taken = round % 5;
            let receiving = apart(async move {
                for number in 0..taken {
                    assert_eq!(receiver.next().await, Some(number));
                }
            });
            receiving.join().unwrap();
            let sent = sending.join().unwrap();
            assert!((taken..=taken + 1).contains(&sent), "{sent} were sent, {taken} taken");
        }
    }

    /// Every watch has one, for what it sends.
    #[test]
    fn a_slot_takes_a_fraction_of_the_room_of_a_channel_of_tokio() {
        use crate::serve::codec::Payload;
        use tonic::Status;
        let mut kept = None;
        let ours = allocation_counter::measure(|| kept = Some(slot::<Result<Payload, Status>>()));
        drop(kept);
        let mut kept = None;
        let theirs = allocation_counter::measure(|| {
            kept = Some(tokio::sync::mpsc::channel::<Result<Payload, Status>>(1));
        });
        drop(kept);
        let (ours, theirs) = (ours.bytes_current, theirs.bytes_current);
        println!("{ours} bytes, and {theirs} of tokio::sync::mpsc");
        assert!(ours * 3 <= theirs, "{ours} bytes, and {theirs} of tokio::sync::mpsc");
    }

    #[tokio::test]
    async fn a_sender_learns_that_nobody_listens() {
        let (sender, receiver) = slot();
        assert!(sender.ready().await);
        sender.send(1);
        let leaving = async {
            tokio::task::yield_now().await;
            drop(receiver);
        };
        let (open, (), ()) = tokio::join!(sender.ready(), sender.closed(), leaving);
        assert!(!open);
        sender.closed().await;
    }
}
