//! Pieces of bodies that the library holds until they are written. Its own bound counts bytes of a
//! stream within the peer's windows; a piece of one byte costs hundreds.

use bytes::{Buf, Bytes};
use slab::Slab;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The pieces of all streams of one connection.
#[derive(Clone, Default)]
pub(super) struct SendQueue(Rc<RefCell<Held>>);

#[derive(Default)]
struct Held {
    /// Bytes of the pieces, and [`PIECE`] for each.
    cost: usize,
    streams: Slab<HeldOfStream>,
}

#[derive(Default)]
struct HeldOfStream {
    pieces: usize,
    /// True once the stream adds no more pieces.
    closed: bool,
    waiter: Option<Waker>,
}

/// One stream's part of the queue.
pub(super) struct StreamQueue {
    queue: SendQueue,
    key: usize,
}

/// A piece in the library's queue.
pub(super) struct Piece {
    data: Bytes,
    cost: usize,
    /// `None` for a piece without content.
    held_by: Option<(SendQueue, usize)>,
}

impl SendQueue {
    /// Adds a stream.
    pub(super) fn stream(&self) -> StreamQueue {
        let key = self.0.borrow_mut().streams.insert(HeldOfStream::default());
        StreamQueue { queue: self.clone(), key }
    }
}

impl StreamQueue {
    /// Ready if another piece may be added: always to a stream that has none, so that no stream waits
    /// for another. Else wakes `cx` when it may.
    #[inline]
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.is_full() {
            return Poll::Ready(());
        }
        if let Some(own) = self.queue.0.borrow_mut().streams.get_mut(self.key) {
            own.waiter = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Returns true if [`Self::poll_room`] is not ready.
    pub(super) fn is_full(&self) -> bool {
        let held = self.queue.0.borrow();
        held.cost >= MOST && held.streams.get(self.key).is_some_and(|own| own.pieces > 0)
    }

    /// Adds a piece. A small one behind others is copied, because it would keep all memory alive that
    /// was read with it.
    pub(super) fn piece(&self, data: Bytes) -> Piece {
        if data.is_empty() {
            return Piece { data, cost: 0, held_by: None };
        }
        let cost = data.len().saturating_add(PIECE);
        let mut held = self.queue.0.borrow_mut();
        held.cost = held.cost.saturating_add(cost);
        let own = held.streams.get_mut(self.key);
        let before = own.map_or(0, |own| {
            let before = own.pieces;
            own.pieces = before.saturating_add(1);
            before
        });
        drop(held);
        let copied = before > 0 && data.len() < SMALL;
        let data = if copied { Bytes::copy_from_slice(&data) } else { data };
        Piece { data, cost, held_by: Some((self.queue.clone(), self.key)) }
    }
}

impl Drop for StreamQueue {
    fn drop(&mut self) {
        let mut held = self.queue.0.borrow_mut();
        if let Some(own) = held.streams.get_mut(self.key) {
            (own.closed, own.waiter) = (true, None);
            if own.pieces == 0 {
                held.streams.try_remove(self.key);
            }
        }
    }
}

impl Held {
    /// Removes a piece and wakes who may add one.
    fn remove(&mut self, key: usize, cost: usize) {
        let before = self.cost;
        self.cost = before.saturating_sub(cost);
        if let Some(own) = self.streams.get_mut(key) {
            own.pieces = own.pieces.saturating_sub(1);
            if own.pieces == 0 {
                wake(own);
                if own.closed {
                    self.streams.try_remove(key);
                }
            }
        }
        // Not at each piece: all of them would be woken for one place.
        let half = MOST / 2;
        if before >= half && self.cost < half {
            self.streams.iter_mut().for_each(|(_, own)| wake(own));
        }
    }
}

fn wake(stream: &mut HeldOfStream) {
    if let Some(waiter) = stream.waiter.take() {
        waiter.wake();
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some((queue, key)) = &self.held_by {
            queue.0.borrow_mut().remove(*key, self.cost);
        }
    }
}

impl Buf for Piece {
    #[inline]
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    #[inline]
    fn advance(&mut self, bytes: usize) {
        self.data.advance(bytes);
    }
}

/// Cost of a piece beside its bytes: an entry of the library, and the memory of its bytes.
const PIECE: usize = 1024;
/// Cost of the pieces of a connection from which on a stream may have one alone.
const MOST: usize = 1024 * 1024;
/// Pieces below this size keep at least three times their size alive.
pub(super) const SMALL: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_bounded_like_bytes_and_a_stream_without_any_may_always_add_one() {
        let queue = SendQueue::default();
        let (first, second) = (queue.stream(), queue.stream());
        let cx = Context::from_waker(Waker::noop());
        let mut all = Vec::new();
        while first.poll_room(&cx).is_ready() {
            all.push(first.piece(Bytes::from_static(b"x")));
        }
        assert_eq!(all.len(), MOST.div_ceil(PIECE + 1));
        assert!(first.is_full() && second.poll_room(&cx).is_ready());
        let other = second.piece(Bytes::from_static(b"x"));
        assert!(second.poll_room(&cx).is_pending());
        drop(other);
        assert!(second.poll_room(&cx).is_ready() && first.poll_room(&cx).is_pending());
        drop((first, second));
        assert_eq!(queue.0.borrow().streams.len(), 1, "its pieces are still there");
        drop(all);
        assert_eq!((queue.0.borrow().cost, queue.0.borrow().streams.len()), (0, 0));
    }

    #[test]
    fn a_small_piece_behind_others_does_not_keep_its_neighbours_memory_alive() {
        let (queue, read) = (SendQueue::default(), Bytes::from(vec![0; 16 * 1024]));
        let stream = queue.stream();
        let first = stream.piece(read.slice(..1));
        let second = stream.piece(read.slice(1..2));
        assert_eq!(first.chunk().as_ptr(), read.as_ptr());
        assert_ne!(second.chunk().as_ptr(), read.slice(1..).as_ptr());
    }
}
