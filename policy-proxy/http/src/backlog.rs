//! Bytes that one side of a connection does not take, of all connections of the process that carry
//! HTTP/1 or bytes. While they are many, every connection reads little at a time, so that many
//! clients that take nothing cost little each. HTTP/2 has room of its own
//! ([`crate::http2::BodyRoom`]).

use bytes::BytesMut;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt as _};

static HELD: AtomicU64 = AtomicU64::new(0);

/// The bytes of one direction of a connection that wait to be taken, or the buffer of a read that waits;
/// none once it is dropped. Small, because every connection has several.
#[derive(Debug, Default)]
pub struct Backlog(u32);

impl Backlog {
    /// Counts this many bytes.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if bytes != self.0 {
            HELD.fetch_add(bytes.into(), Ordering::Relaxed);
            HELD.fetch_sub(self.0.into(), Ordering::Relaxed);
            self.0 = bytes;
        }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Reads into `buffer`, which is given up while the read and many bytes wait: a connection whose sender
/// pauses has none then.
///
/// # Errors
/// The errors of `io`.
#[inline]
pub fn poll_read<S: AsyncRead + Unpin>(
    io: &mut S,
    cx: &mut Context<'_>,
    (buffer, waiting): (&mut BytesMut, &mut Backlog),
) -> Poll<io::Result<usize>> {
    let polled = pin!(io.read_buf(buffer)).poll(cx);
    if polled.is_pending() {
        pause(buffer, waiting)
    } else {
        waiting.set(0)
    }
    polled
}

fn pause(buffer: &mut BytesMut, waiting: &mut Backlog) {
    if buffer.is_empty() && is_pressed() {
        *buffer = BytesMut::new();
    }
    waiting.set(buffer.capacity());
}

#[inline]
fn is_pressed() -> bool {
    HELD.load(Ordering::Relaxed) > MANY
}

/// Returns the number of bytes to buffer where `wanted` would be best: as many, or few while many
/// wait to be taken.
#[inline]
pub fn bounded(wanted: usize) -> usize {
    if is_pressed() { wanted.min(FEW) } else { wanted }
}

/// Bytes in all above which every connection buffers [`FEW`].
const MANY: u64 = 4 * 1024 * 1024;
const FEW: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_many_bytes_wait_everybody_buffers_few() {
        assert_eq!((bounded(64 * 1024), bounded(100)), (64 * 1024, 100));
        let mut held = Backlog::default();
        held.set(2 * 1024 * 1024);
        let mut more = Backlog::default();
        more.set(8 * 1024 * 1024);
        assert_eq!((bounded(64 * 1024), bounded(100)), (FEW, 100));
        let (mut buffer, mut waiting) = (BytesMut::with_capacity(64 * 1024), Backlog::default());
        pause(&mut buffer, &mut waiting);
        assert_eq!((buffer.capacity(), waiting.0), (0, 0));
        more.set(1);
        assert_eq!(bounded(64 * 1024), 64 * 1024);
        buffer.reserve(64 * 1024);
        pause(&mut buffer, &mut waiting);
        assert_eq!((buffer.capacity(), waiting.0), (64 * 1024, 64 * 1024));
        more.set(8 * 1024 * 1024);
        drop(more);
        assert_eq!(bounded(64 * 1024), 64 * 1024);
    }
}
