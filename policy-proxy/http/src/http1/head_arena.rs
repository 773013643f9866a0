//! Memory that heads are kept in, several in one piece: a head lives as long as its request, and a piece
//! of its own for each costs two allocations.

use bytes::{Bytes, BytesMut};
use std::cell::RefCell;

thread_local! {
    /// Empty; what it has room for is given out from the front.
    static PIECE: RefCell<BytesMut> = RefCell::default();
}

/// A copy of `bytes`. The memory comes back when every copy in it is let go of.
pub(super) fn keep(bytes: &[u8]) -> Bytes {
    if bytes.len() > LARGEST {
        return Bytes::copy_from_slice(bytes);
    }
    PIECE.with_borrow_mut(|piece| {
        if piece.capacity() < bytes.len() {
            piece.reserve(PIECE_SIZE);
        }
        piece.extend_from_slice(bytes);
        piece.split().freeze()
    })
}

/// A long request keeps a whole piece: no more than its connection needs anyway.
const PIECE_SIZE: usize = 2 * 1024;
/// Larger ones have memory of their own.
const LARGEST: usize = PIECE_SIZE / 2;
