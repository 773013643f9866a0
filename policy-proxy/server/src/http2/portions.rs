//! A connection that is read in portions.

use crate::listener::ListenerStream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read before the frames in them are taken out of h2. It keeps the room of 256 bytes for
/// each of the most frames that it ever held.
const PORTION: usize = 512;

/// The state that a connection and its bytes share.
#[derive(Debug, Default)]
pub(super) struct ReadState {
    left: AtomicUsize,
    /// Bytes by which the client has shown life.
    life: AtomicU64,
    /// True while the client does not take what is to be written.
    is_blocked: AtomicBool,
    /// True while nothing is read, because the client does not take its answers.
    is_paused: AtomicBool,
}

impl ReadState {
    /// Permits another portion.
    pub(super) fn permit(&self) {
        self.is_paused.store(false, Ordering::Relaxed);
        self.left.store(PORTION, Ordering::Relaxed);
    }

    /// Permits nothing. The task is woken when something was written.
    pub(super) fn pause(&self) {
        self.is_paused.store(true, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    /// True while the client does not take what is to be written.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
    }

    /// Notes whether the client takes bytes. While it is not read, they are all that shows its life.
    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.is_blocked.store(written.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(bytes)) = &written
            && self.is_paused.load(Ordering::Relaxed)
        {
            self.lives(*bytes);
        }
        written
    }

    fn flushed(&self, flushed: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        self.is_blocked.store(flushed.is_pending(), Ordering::Relaxed);
        flushed
    }

    /// Returns the number of bytes by which the client has shown life so far: what was read, and what it took
    /// while it was not read.
    pub(super) fn life(&self) -> u64 {
        self.life.load(Ordering::Relaxed)
    }

    fn read(&self, bytes: usize) {
        self.left.store(self.left.load(Ordering::Relaxed).saturating_sub(bytes), Ordering::Relaxed);
        self.lives(bytes);
    }

    fn lives(&self, bytes: usize) {
        self.life.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// The bytes of a connection. After a portion the task is woken, instead of more being read.
#[derive(Debug)]
pub(super) struct PortionedStream {
    stream: ListenerStream,
    state: Arc<ReadState>,
}

impl PortionedStream {
    pub(super) fn new(stream: ListenerStream, state: Arc<ReadState>) -> Self {
        Self { stream, state }
    }
}

impl AsyncRead for PortionedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, state } = self.get_mut();
        let left = state.left.load(Ordering::Relaxed);
        if left == 0 {
            if !state.is_paused.load(Ordering::Relaxed) {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        if buffer.remaining() <= left {
            ready!(Pin::new(stream).poll_read(cx, buffer))?;
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(left));
            ready!(Pin::new(stream).poll_read(cx, &mut part))?;
            let read = part.filled().len();
            buffer.advance(read);
        }
        state.read(buffer.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PortionedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, state } = self.get_mut();
        state.wrote(Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, state } = self.get_mut();
        state.wrote(Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, state } = self.get_mut();
        state.flushed(Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    /// Its pings are not answered meanwhile, because nobody reads the answers.
    #[tokio::test]
    async fn a_client_that_is_not_read_lives_while_it_takes_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let state = Arc::<ReadState>::default();
        let mut stream = PortionedStream::new(ListenerStream::Plain(server), state.clone());
        state.permit();
        stream.write_all(b"abc").await.unwrap();
        assert_eq!(state.life(), 0, "it may be gone, and its pings are answered if not");
        state.pause();
        stream.write_all(b"abc").await.unwrap();
        assert_eq!(state.life(), 3);
    }
}
