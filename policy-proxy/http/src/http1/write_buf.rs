//! Output of a connection: a head and the data that follows it, in one write.

use crate::backlog::Backlog;
use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes that are pending to be written, in order. Unallocated while empty.
#[derive(Debug, Default)]
pub struct WriteBuf {
    /// Heads and other small pieces, copied together; they come first.
    small: Vec<u8>,
    /// Number of bytes of `small` that were written.
    written: usize,
    /// Body pieces, which are not copied, and the framing between them.
    pieces: VecDeque<Bytes>,
    /// Number of bytes in `pieces`.
    rest: usize,
    /// True if the writer may hold bytes back until it is flushed.
    unflushed: bool,
    /// True if `small` is kept once it is written, for [`Self::rewind`].
    kept: bool,
    /// The bytes that the writer does not take.
    backlog: Backlog,
}

impl WriteBuf {
    /// Returns the number of pending bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.small.len().saturating_sub(self.written).saturating_add(self.rest)
    }

    /// Returns true if nothing is pending, neither here nor in the writer.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.has_pending() && !self.unflushed
    }

    #[inline]
    fn has_pending(&self) -> bool {
        self.written < self.small.len() || self.rest > 0
    }

    /// Returns the number of pending pieces.
    #[inline]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the buffer for small pieces if the next bytes directly follow it; `None` while body
    /// pieces are pending, which the bytes would overtake.
    #[inline]
    pub fn small(&mut self) -> Option<&mut Vec<u8>> {
        if !self.pieces.is_empty() {
            return None;
        }
        if self.small.capacity() == 0 {
            self.small = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        Some(&mut self.small)
    }

    /// Keeps the bytes of a head once they are written, until [`Self::forget`].
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    /// Drops the bytes that [`Self::keep`] kept.
    pub(super) fn forget(&mut self) {
        self.kept = false;
        self.drop_written();
    }

    /// Makes the bytes that [`Self::keep`] kept pending again, to be written to another writer. They are
    /// not kept a second time.
    pub(super) fn rewind(&mut self) {
        self.kept = false;
        self.written = 0;
        self.unflushed = false;
    }

    fn drop_written(&mut self) {
        if self.written == self.small.len() {
            self.written = 0;
            recycle(std::mem::take(&mut self.small));
        }
    }

    /// Appends a head, which `write` writes.
    pub fn head<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        if let Some(small) = self.small() {
            return write(small);
        }
        let mut own = Vec::new();
        let done = write(&mut own);
        self.queue(own.into());
        done
    }

    /// Appends a small piece.
    pub fn copy(&mut self, piece: &[u8]) {
        match self.small() {
            Some(small) => small.extend_from_slice(piece),
            None => self.queue(Bytes::copy_from_slice(piece)),
        }
    }

    /// Appends a static piece.
    pub fn fixed(&mut self, piece: &'static [u8]) {
        match self.small() {
            Some(small) => small.extend_from_slice(piece),
            None => self.queue(Bytes::from_static(piece)),
        }
    }

    fn queue(&mut self, piece: Bytes) {
        self.rest = self.rest.saturating_add(piece.len());
        self.pieces.push_back(piece);
    }

    /// Appends a piece; copies it only if that is cheaper.
    pub fn push(&mut self, piece: Bytes) {
        if piece.len() <= CHEAPLY_COPIED
            && let Some(small) = self.small()
        {
            small.extend_from_slice(&piece);
        } else if !piece.is_empty() {
            self.queue(piece);
        }
    }

    /// Writes all pending bytes with as few calls as the writer allows, and flushes the writer.
    pub fn poll_flush<W: AsyncWrite + Unpin>(
        &mut self,
        io: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.has_pending() {
            let polled = self.poll_write(io, cx);
            self.backlog.set(if polled.is_pending() { self.len() } else { 0 });
            let written = ready!(polled)?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            self.advance(written);
        }
        if self.unflushed {
            ready!(Pin::new(io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write<W: AsyncWrite + Unpin>(
        &self,
        io: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let small = self.small.get(self.written..).unwrap_or_default();
        if self.pieces.is_empty() {
            return Pin::new(io).poll_write(cx, small);
        }
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let parts = [small].into_iter().filter(|small| !small.is_empty());
        let parts = parts.chain(self.pieces.iter().map(|piece| &**piece));
        let mut count: usize = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count = count.saturating_add(1);
        }
        let slices = slices.get(..count).unwrap_or_default();
        Pin::new(io).poll_write_vectored(cx, slices)
    }

    fn advance(&mut self, written: usize) {
        let small = written.min(self.small.len().saturating_sub(self.written));
        self.written = self.written.saturating_add(small);
        let mut left = written.saturating_sub(small);
        self.rest = self.rest.saturating_sub(left);
        while let Some(first) = self.pieces.front_mut() {
            if first.len() > left {
                first.advance(left);
                break;
            }
            left = left.saturating_sub(first.len());
            self.pieces.pop_front();
        }
        if !self.kept {
            self.drop_written();
        }
        if self.pieces.is_empty() && self.pieces.capacity() > 0 {
            self.pieces = VecDeque::new();
        }
    }
}

fn recycle(mut small: Vec<u8>) {
    if small.capacity() == 0 || small.capacity() > MAX_SPARE_SIZE {
        return;
    }
    small.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE {
            spare.push(small);
        }
    });
}

/// Maximum size of a piece for which copying costs less than another element of a vectored write.
const CHEAPLY_COPIED: usize = 1024;
/// Maximum number of pieces in one vectored write.
const MAX_SLICES: usize = 17;
/// Maximum capacity of a pooled buffer.
const MAX_SPARE_SIZE: usize = 8 * 1024;
/// Maximum number of buffers that a thread keeps.
const MAX_SPARE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// Takes at most `most` bytes at a time.
    struct Slow {
        most: usize,
        got: Vec<u8>,
        calls: usize,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = buf.len().min(self.most);
            self.got.extend_from_slice(&buf[..taken]);
            self.calls = self.calls.saturating_add(1);
            Poll::Ready(Ok(taken))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            let taken = all.len().min(self.most);
            self.got.extend_from_slice(&all[..taken]);
            self.calls = self.calls.saturating_add(1);
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    async fn written(most: usize) -> (Vec<u8>, usize) {
        let mut out = WriteBuf::default();
        out.copy(b"head");
        out.push(Bytes::from(vec![b'x'; 3000]));
        out.copy(b"tail");
        out.push(Bytes::from(vec![b'y'; 2000]));
        assert_eq!(out.len(), 5008);
        let mut io = Slow { most, got: Vec::new(), calls: 0 };
        poll_fn(|cx| out.poll_flush(&mut io, cx)).await.unwrap();
        assert!(out.is_empty() && out.small.capacity() == 0 && out.pieces.capacity() == 0);
        (io.got, io.calls)
    }

    #[tokio::test]
    async fn what_was_appended_is_written_in_order_whatever_the_writer_takes_at_a_time() {
        let whole = [b"head".to_vec(), vec![b'x'; 3000], b"tail".to_vec(), vec![b'y'; 2000]];
        for most in [1, 3, 5, 1000, 4000, 5008, 9000] {
            assert_eq!(written(most).await.0, whole.concat(), "{most}");
        }
    }

    #[tokio::test]
    async fn a_head_and_its_body_are_one_call() {
        assert_eq!(written(usize::MAX).await.1, 1);
    }
}
