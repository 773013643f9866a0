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

/// A stream in front of which bytes that were already read are put back.
#[derive(Debug)]
pub(crate) struct Prefixed<S> {
    prefix: Bytes,
    inner: S,
}

/// The client's side of a connection. One type for plaintext and TLS, so that what carries HTTP is
/// compiled once; not boxed for plaintext.
#[derive(Debug)]
pub(crate) enum ClientIo {
    /// Bytes as they arrive.
    Plain(Prefixed<TcpStream>),
    /// Inside TLS that is terminated here.
    Tls(Box<Prefixed<TlsStream<Prefixed<TcpStream>>>>),
}

/// A stream whose bytes are counted as they pass.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    inner: S,
    meter: Meter,
    /// How long what is to be written has not been taken.
    stall: Stall,
    /// In seconds; absent: for ever.
    bound: Option<NonZeroU32>,
}

impl<S> Prefixed<Metered<S>> {
    /// The same stream, whose other side may take as long as it likes.
    pub(crate) fn for_ever(self) -> Self {
        Self { inner: self.inner.within(None), ..self }
    }
}

impl<S> Prefixed<S> {
    pub(crate) fn new(prefix: Bytes, inner: S) -> Self {
        Self { prefix, inner }
    }

    /// Puts `bytes` in front of what was put back before and has not been read again.
    fn unread(&mut self, bytes: Bytes) {
        self.prefix = if self.prefix.is_empty() {
            bytes
        } else {
            [bytes, self.prefix.clone()].concat().into()
        };
    }
}

impl ClientIo {
    /// The same stream with more bytes put back in front.
    pub(crate) fn plain(prefix: Bytes, stream: TcpStream) -> Self {
        Self::Plain(Prefixed::new(prefix, stream))
    }

    /// Whether it is not inside TLS.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Puts `bytes`, which were read from this stream, back.
    pub(crate) fn unread(&mut self, bytes: Bytes) {
        match self {
            Self::Plain(stream) => stream.unread(bytes),
            Self::Tls(stream) => stream.unread(bytes),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => &stream.inner,
            Self::Tls(stream) => &stream.inner.get_ref().0.inner,
        }
    }

    /// Whether the client sends nothing behind what has come, or is gone. Says so before that is read.
    pub(crate) fn is_read_closed(&self) -> bool {
        let ready = pin!(self.socket().ready(Interest::READABLE));
        let ready = ready.poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    /// Whether the connection broke, also where that lies behind what has come. Says so once.
    pub(crate) fn is_reset(&self) -> bool {
        !matches!(self.socket().take_error(), Ok(None))
    }

    /// Bytes that have come and are not read; none for TLS, of whose bytes some are no data.
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

    /// Gives up on what is to be written when nothing of it was taken for so long: in whole seconds, at
    /// least one; never where the bound is 0.
    pub(crate) fn within(self, bound: Option<Duration>) -> Self {
        let bound = bound.filter(|bound| !bound.is_zero());
        let seconds = bound.map(|bound| u32::try_from(bound.as_secs().max(1)).unwrap_or(u32::MAX));
        Self { bound: seconds.and_then(NonZeroU32::new), ..self }
    }

    pub(crate) fn get(&self) -> &S {
        &self.inner
    }

    /// Counts what came of a write, and gives up on one that has waited for too long.
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
            // Gives the memory back.
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
        // One piece, as most are, costs the system less as what it is.
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

    /// A header in two reads may leave more behind it than who looks for HTTP reads at once.
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
