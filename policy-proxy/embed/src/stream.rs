//! A connection's bytes, which can be ended while the application holds them.

use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;

/// Plaintext or TLS.
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Ends a stream, and says when its owner has dropped it.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    state: Arc<SwitchState>,
    open: watch::Receiver<()>,
}

#[derive(Debug, Default)]
struct SwitchState {
    ended: AtomicBool,
    /// True once bytes have arrived that say which version of HTTP follows.
    begun: AtomicBool,
    /// The tasks that wait to read and to write.
    waiting: Mutex<[Option<Waker>; 2]>,
}

impl Switch {
    /// Ends the stream: reads and writes fail from now on.
    pub(crate) fn end(&self) {
        self.state.ended.store(true, Ordering::Release);
        for waker in std::mem::take(&mut *self.state.waiting.lock()).into_iter().flatten() {
            waker.wake();
        }
    }

    /// True once bytes have arrived that say which version of HTTP follows.
    pub(crate) fn has_begun(&self) -> bool {
        self.state.begun.load(Ordering::Acquire)
    }

    /// Waits until the stream was dropped.
    pub(crate) async fn dropped(&mut self) {
        // Nothing is ever sent: the sender goes with the stream.
        while self.open.changed().await.is_ok() {}
    }
}

/// A stream that its [`Switch`] can end.
pub(crate) struct SwitchedStream {
    transport: Transport,
    state: Arc<SwitchState>,
    /// Bytes read, while they are those of HTTP/2's preface.
    preface: usize,
    _open: watch::Sender<()>,
}

/// The first bytes of a connection of HTTP/2 (RFC 9113 section 3.4). Until they are there, or others are, no
/// version is known, and the HTTP library waits without a bound.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const READ: usize = 0;
const WRITE: usize = 1;

impl SwitchedStream {
    pub(crate) fn new(transport: Transport) -> (Self, Switch) {
        let state = Arc::new(SwitchState::default());
        let (sender, open) = watch::channel(());
        let switch = Switch { state: Arc::clone(&state), open };
        (Self { transport, state, preface: 0, _open: sender }, switch)
    }

    /// Looks at what was read, until it says which version of HTTP follows.
    fn look_at(&mut self, read: &[u8]) {
        let Some(expected) = PREFACE.get(self.preface..).filter(|left| !left.is_empty()) else {
            return;
        };
        let same = expected.iter().zip(read).take_while(|(one, other)| one == other).count();
        self.preface = self.preface.saturating_add(same);
        if same < read.len() || self.preface == PREFACE.len() {
            self.preface = PREFACE.len();
            self.state.begun.store(true, Ordering::Release);
        }
    }

    /// Polls the transport, unless the stream was ended.
    fn poll<T>(
        &mut self,
        side: usize,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Transport, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.state.ended.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let polled = poll(&mut self.transport, cx);
        if polled.is_ready() {
            return polled;
        }
        if let Some(waiting) = self.state.waiting.lock().get_mut(side) {
            *waiting = Some(cx.waker().clone());
        }
        // It may have been ended before the waker was there.
        if self.state.ended.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Pending
    }
}

impl AsyncRead for SwitchedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let before = buffer.filled().len();
        let polled = own.poll(READ, cx, |transport, cx| match transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        });
        own.look_at(buffer.filled().get(before..).unwrap_or_default());
        polled
    }
}

impl AsyncWrite for SwitchedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll(WRITE, cx, |transport, cx| match transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll(WRITE, cx, |transport, cx| match transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        })
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll(WRITE, cx, |transport, cx| match transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll(WRITE, cx, |transport, cx| match transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        })
    }
}
