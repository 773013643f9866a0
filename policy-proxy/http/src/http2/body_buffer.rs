//! Buffer for body data that cannot be forwarded yet.

use super::body_room::BodyAccount;
use super::send_queue::SMALL;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::rc::Rc;

/// Pieces of a body in order. Small pieces are merged, so that memory grows with the bytes, which
/// the flow-control windows bound, and not with the number of frames.
#[derive(Debug, Default)]
pub(super) struct BodyBuffer {
    pieces: VecDeque<Bytes>,
    /// Small pieces behind `pieces`, merged.
    small: BytesMut,
    /// The error that ended the body.
    pub(super) failed: Option<h2::Error>,
    /// The account of the client's connection.
    account: Option<Rc<BodyAccount>>,
}

impl BodyBuffer {
    /// Creates a buffer whose bytes count for an account.
    pub(super) fn of(account: Option<Rc<BodyAccount>>) -> Self {
        Self { pieces: VecDeque::new(), small: BytesMut::new(), failed: None, account }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.small.is_empty()
    }

    /// Returns the number of buffered bytes.
    pub(super) fn bytes(&self) -> usize {
        let large = self.pieces.iter().map(Bytes::len);
        large.fold(self.small.len(), usize::saturating_add)
    }

    /// Small pieces are copied, because each keeps the whole memory alive that was read with it.
    pub(super) fn push(&mut self, piece: Bytes) {
        if let Some(account) = &self.account {
            account.add(piece.len());
        }
        if piece.len() < SMALL {
            self.small.extend_from_slice(&piece);
            return;
        }
        if !self.small.is_empty() {
            self.pieces.push_back(self.small.split().freeze());
        }
        self.pieces.push_back(piece);
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let piece = self.pieces.pop_front();
        let piece = piece
            .or_else(|| (!self.small.is_empty()).then(|| std::mem::take(&mut self.small).freeze()));
        if let (Some(account), Some(piece)) = (&self.account, &piece) {
            account.remove(piece.len());
        }
        piece
    }
}

impl Drop for BodyBuffer {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.remove(self.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_put_together_and_nothing_changes_its_place() {
        let mut kept = BodyBuffer::default();
        for piece in ["a", "b", &"c".repeat(5000), "d", "e", "f"] {
            kept.push(Bytes::copy_from_slice(piece.as_bytes()));
        }
        assert_eq!(kept.bytes(), 5005);
        let all: Vec<_> = std::iter::from_fn(|| kept.pop()).collect();
        assert_eq!(all, ["ab".to_owned(), "c".repeat(5000), "def".to_owned()]);
        assert!(kept.is_empty());
        assert_eq!(kept.bytes(), 0);
    }
}
