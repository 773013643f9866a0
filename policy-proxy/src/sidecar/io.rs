//! The client's side of a connection: bytes that were read ahead, then the socket or TLS.

use bytes::{Buf, Bytes};
use policy_enforce::telemetry::Meter;
use policy_http::stall::Stall;
use std::io::{self, IoSlice};
use std::num::NonZeroU32;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A stream with a prefix of bytes that were read ahead.
#[derive(Debug)]
pub(crate) struct Prefixed<S> {
    prefix: Bytes,
    inner: S,
}

/// The client's side of a connection. One type for plaintext and TLS, so that HTTP is compiled
/// once; not boxed for plaintext.
#[derive(Debug)]
pub(crate) enum ClientIo {
    /// Plaintext.
    Plain(Prefixed<TcpStream>),
    /// TLS that the proxy terminates.
    Tls(Box<Prefixed<TlsStream<Prefixed<TcpStream>>>>),
}

/// A stream whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    inner: S,
    meter: Meter,
    /// Timer of a write that makes no progress.
    stall: Stall,
    /// Timeout of such a write, in seconds; absent: none.
    bound: Option<NonZeroU32>,
}

impl<S> Prefixed<Metered<S>> {
    /// The same stream without a write timeout.
    pub(crate) fn without_timeout(self) -> Self {
        Self { inner: self.inner.with_write_timeout(None), ..self }
    }
}

impl<S> Prefixed<S> {
    pub(crate) fn new(prefix: Bytes, inner: S) -> Self {
        Self { prefix, inner }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Prepends `bytes` to the unread prefix.
    fn unread(&mut self, bytes: Bytes) {
        self.prefix = if self.prefix.is_empty() {
            bytes
        } else {
            [bytes, self.prefix.clone()].concat().into()
        };
    }
}

impl ClientIo {
    /// A plaintext stream with a prefix.
    pub(crate) fn plain(prefix: Bytes, stream: TcpStream) -> Self {
        Self::Plain(Prefixed::new(prefix, stream))
    }

    /// True for plaintext.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Puts `bytes` that were read from this stream back.
    pub(crate) fn unread(&mut self, bytes: Bytes) {
        match self {
            Self::Plain(stream) => stream.unread(bytes),
            Self::Tls(stream) => stream.unread(bytes),
        }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => &stream.inner,
            Self::Tls(stream) => &stream.inner.get_ref().0.inner,
        }
    }

    /// True if the client has closed its side or is gone, also before the bytes that precede the
    /// end are read.
    pub(crate) fn is_read_closed(&self) -> bool {
        let ready = pin!(self.socket().ready(Interest::READABLE));
        let ready = ready.poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    /// True if the connection was reset or failed, also before the bytes that precede it are read.
    /// Returns true only once.
    pub(crate) fn is_reset(&self) -> bool {
        !matches!(self.socket().take_error(), Ok(None))
    }

    /// Received bytes that are not read yet; none for TLS, whose records carry more than data.
    pub(crate) fn unread_bytes(&self) -> Option<u64> {
        let Self::Plain(stream) = self else { return None };
        let put_back = u64::try_from(stream.prefix.len()).ok()?;
        rustix::io::ioctl_fionread(&stream.inner).ok()?.checked_add(put_back)
    }
}

impl<S> Metered<S> {
    pub(crate) fn new(inner: S, meter: Meter) -> Self {
        Self { inner, meter, stall: Stall::default(), bound: None }
    }

    /// Sets the timeout of a write that makes no progress: in whole seconds, at least one; none if
    /// the bound is 0.
    pub(crate) fn with_write_timeout(self, bound: Option<Duration>) -> Self {
        let bound = bound.filter(|bound| !bound.is_zero());
        let seconds = bound.map(|bound| u32::try_from(bound.as_secs().max(1)).unwrap_or(u32::MAX));
        Self { bound: seconds.and_then(NonZeroU32::new), ..self }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Counts a write's bytes, and fails a write that made no progress within the timeout.
    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => {
                self.stall.reset();
                self.meter.wrote(*bytes);
            }
            Poll::Ready(Err(error)) => self.meter.failed(error),
            Poll::Pending => {
                let bound = self.bound.map(|bound| Duration::from_secs(bound.get().into()));
                if bound.is_some_and(|bound| self.stall.poll(cx, bound).is_ready()) {
                    let error = io::Error::from(io::ErrorKind::TimedOut);
                    self.meter.failed(&error);
                    return Poll::Ready(Err(error));
                }
            }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        let taken = self.prefix.len().min(buf.remaining());
        let head = self.prefix.split_to(taken);
        buf.put_slice(&head);
        if !self.prefix.has_remaining() {
            // Frees the prefix.
            self.prefix = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        match &read {
            Ok(()) => self.meter.read(buf.filled().len().saturating_sub(before)),
            Err(error) => self.meter.failed(error),
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.wrote(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Most writes are one slice, for which a plain write costs the system less.
        let mut pieces = bufs.iter().filter(|piece| !piece.is_empty());
        let written = match (pieces.next(), pieces.next()) {
            (Some(only), None) => Pin::new(&mut self.inner).poll_write(cx, only),
            (_, _) => Pin::new(&mut self.inner).poll_write_vectored(cx, bufs),
        };
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    /// After a PROXY header in two reads, more bytes may follow than the detection of HTTP reads at
    /// once.
    #[tokio::test]
    async fn what_is_put_back_comes_before_what_was_put_back_earlier_and_nothing_is_lost() {
        let mut stream = Prefixed::new(Bytes::from_static(b"0123456789"), &b"abc"[..]);
        let mut read = [0; 4];
        stream.read_exact(&mut read).await.unwrap();
        stream.unread(Bytes::copy_from_slice(&read));
        let mut all = String::new();
        stream.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "0123456789abc");
    }
}
