//! A read buffer of the thread for small messages: a connection owns only the memory for the bytes
//! that it has to keep, and a read allocates nothing.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads once and passes the bytes to `take`; an empty slice at the end of the stream.
///
/// # Errors
/// The errors of `io`.
pub fn poll_read<S: AsyncRead + Unpin, T>(
    io: &mut S,
    cx: &mut Context<'_>,
    take: impl FnOnce(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.is_empty() {
            scratch.resize(SIZE, 0);
        }
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(io).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(take(buffer.filled())))
    })
}

/// Size that fits any usual message.
const SIZE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn what_is_read_is_handed_on_and_the_end_is_nothing() {
        let mut io = &b"some bytes"[..];
        let mut seen = Vec::new();
        for _ in 0..2 {
            let read = poll_fn(|cx| poll_read(&mut io, cx, <[u8]>::to_vec)).await.unwrap();
            seen.push(read);
        }
        assert_eq!(seen, [b"some bytes".to_vec(), Vec::new()]);
    }
}
