//! An arena for message heads: several heads share one allocation, because a head lives only as
//! long as its request and an allocation of its own would cost two allocations.

use bytes::{Bytes, BytesMut};
use std::cell::RefCell;

thread_local! {
    /// Empty; its spare capacity is handed out from the front.
    static PIECE: RefCell<BytesMut> = RefCell::default();
}

/// Returns a copy of `bytes`. The memory is freed when the last copy in it is dropped.
pub(super) fn keep(bytes: &[u8]) -> Bytes {
    if bytes.len() > MAX_POOLED {
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

/// Size of an allocation. A long request keeps a whole one: no more than its connection needs
/// anyway.
const PIECE_SIZE: usize = 2 * 1024;
/// Larger heads get memory of their own.
const MAX_POOLED: usize = PIECE_SIZE / 2;
