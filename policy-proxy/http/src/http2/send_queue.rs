//! Pieces of bodies that the library holds until they are written. Its own bound counts bytes of a
//! stream within the peer's windows; a piece of one byte costs hundreds.

use super::body_room::{BodyAccount, HeldBytes};
use super::frame_filter::PeerIo;
use crate::interim::head_size;
use bytes::{Buf, Bytes};
use http::HeaderMap;
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
    /// The same of heads that the peer does not take, and of those that it was not given yet.
    heads: usize,
    fresh: usize,
    /// The state of a client's stream.
    client: Option<PeerIo>,
    streams: Slab<HeldOfStream>,
    /// The account of the client's connection.
    account: Option<Rc<BodyAccount>>,
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
    /// Creates a queue whose pieces count for an account.
    pub(super) fn of(account: Option<Rc<BodyAccount>>) -> Self {
        Self(Rc::new(RefCell::new(Held { account, ..Held::default() })))
    }

    /// Creates the queue of a client's connection.
    pub(super) fn of_client(account: Option<Rc<BodyAccount>>, client: PeerIo) -> Self {
        Self(Rc::new(RefCell::new(Held { account, client: Some(client), ..Held::default() })))
    }

    /// Holds a head of this cost ([`head_cost`]) that was queued for a client: of an interim response, of
    /// the last one, or trailers. No window holds heads back, so that they lie in the library. It counts
    /// once the client takes nothing.
    pub(super) fn hold_head(&self, cost: usize) {
        let mut held = self.0.borrow_mut();
        if let Some(is_blocked) = held.client.as_ref().map(PeerIo::is_blocked) {
            held.fresh = held.fresh.saturating_add(cost);
            if is_blocked {
                held.count_heads();
            }
        }
    }

    /// Looks at the heads after the client was written to. If it takes bytes, they are forgotten: no window
    /// holds them back, so that all were written before it was asked to wait again. Otherwise those count
    /// that were queued before it took nothing.
    pub(super) fn release_heads(&self) {
        let mut held = self.0.borrow_mut();
        if held.client.as_ref().is_some_and(PeerIo::is_blocked) {
            return held.count_heads();
        }
        held.fresh = 0;
        let heads = std::mem::take(&mut held.heads);
        if let Some(account) = held.account.as_ref().filter(|_| heads > 0) {
            account.remove(heads);
        }
    }

    /// Adds a stream.
    pub(super) fn stream(&self) -> StreamQueue {
        let key = self.0.borrow_mut().streams.insert(HeldOfStream::default());
        StreamQueue { queue: self.clone(), key }
    }
}

/// Returns the cost of a head in the library's queue.
pub(super) fn head_cost(headers: &HeaderMap) -> usize {
    head_size(headers).saturating_add(PIECE)
}

impl StreamQueue {
    /// Holds trailers ([`SendQueue::hold_head`]).
    pub(super) fn hold_trailers(&self, cost: usize) {
        self.queue.hold_head(cost);
    }

    /// Holds bytes of a piece that is not added yet.
    pub(super) fn hold(&self, bytes: usize) -> Option<HeldBytes> {
        let held = self.queue.0.borrow();
        held.account.as_ref().map(|account| HeldBytes::of(account, bytes))
    }

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
        held.cost >= held.most() && held.streams.get(self.key).is_some_and(|own| own.pieces > 0)
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
        if let Some(account) = &held.account {
            account.add(cost);
        }
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
    /// Returns the cost of the pieces from which on a stream may have one alone.
    fn most(&self) -> usize {
        let is_pressed = self.account.as_ref().is_some_and(|account| account.is_pressed());
        if is_pressed { MOST_PRESSED } else { MOST }
    }

    /// Counts the heads that were queued since the client was last written to.
    fn count_heads(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        self.heads = self.heads.saturating_add(fresh);
        if let Some(account) = self.account.as_ref().filter(|_| fresh > 0) {
            account.add(fresh);
        }
    }

    /// Removes a piece and wakes who may add one.
    fn remove(&mut self, key: usize, cost: usize) {
        let before = self.cost;
        self.cost = before.saturating_sub(cost);
        if let Some(account) = &self.account {
            account.remove(cost);
        }
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
/// The same while much of the room for bodies is held.
const MOST_PRESSED: usize = 16 * 1024;
/// Pieces below this size keep at least three times their size alive.
pub(super) const SMALL: usize = 4096;

#[cfg(test)]
mod tests {
    use super::super::body_room::{BodyGroup, BodyRoom};
    use super::*;
    use std::cell::Cell;

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
    fn heads_that_a_client_does_not_take_count_for_its_connection_until_it_takes_bytes() {
        let (room, ended) = (Rc::new(BodyRoom::new(1_000_000)), Rc::new(Cell::new(0)));
        let account = room.account(BodyGroup { key: 1, share: 1 });
        let count = Rc::clone(&ended);
        account.ended_by(move || count.set(count.get() + 1));
        let client = PeerIo::default();
        let queue = SendQueue::of_client(Some(Rc::new(account)), client.clone());
        let mut head = HeaderMap::new();
        head.insert("link", "x".repeat(996).parse().unwrap());
        let hold = |heads| (0..heads).for_each(|_| queue.hold_head(head_cost(&head)));
        // Nothing waits: they are written at once.
        hold(10_000);
        queue.release_heads();
        assert_eq!((queue.0.borrow().heads, ended.get()), (0, 0));
        // Those count, too, that were queued before the client was found to take nothing.
        hold(300);
        let _ = client.wrote(Poll::Pending);
        queue.release_heads();
        assert_eq!((queue.0.borrow().heads, ended.get()), (300 * (1000 + PIECE), 0));
        hold(100);
        queue.release_heads();
        assert_eq!((queue.0.borrow().heads, ended.get()), (400 * (1000 + PIECE), 0));
        let _ = client.wrote(Poll::Ready(Ok(1)));
        queue.release_heads();
        assert_eq!((queue.0.borrow().heads, ended.get()), (0, 0));
        let _ = client.wrote(Poll::Pending);
        hold(600);
        assert_eq!(ended.get(), 1);
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
