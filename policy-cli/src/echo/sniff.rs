//! Detects HTTP/1, HTTP/2 and other protocols by the first bytes of a connection.

use bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Connection preface of HTTP/2 (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// First byte of a TLS ClientHello: the content type `handshake` (RFC 8446 section 5.1).
pub(crate) const HANDSHAKE_RECORD: u8 = 22;

/// Length of the longest method that is detected.
const LONGEST_METHOD: usize = 32;

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectedProtocol {
    /// HTTP/1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// Another protocol.
    Raw,
}

/// Detects the protocol from the bytes so far; `None`: more are needed. An upper-case method, a
/// space and the beginning of a target are HTTP/1; the preface is HTTP/2.
pub fn sniff(bytes: &[u8]) -> Option<DetectedProtocol> {
    if bytes.starts_with(PREFACE) {
        return Some(DetectedProtocol::Http2);
    }
    if PREFACE.starts_with(bytes) {
        return None;
    }
    let method = bytes.iter().take_while(|b| b.is_ascii_uppercase() || **b == b'-').count();
    match (bytes.get(method), bytes.get(method.saturating_add(1))) {
        (None, _) if method <= LONGEST_METHOD => None,
        (Some(b' '), None) if method > 0 => None,
        (Some(b' '), Some(target)) if method > 0 => {
            let http = matches!(target, b'/' | b'*' | b'h' | b'H') || bytes.starts_with(b"CONNECT");
            Some(if http { DetectedProtocol::Http1 } else { DetectedProtocol::Raw })
        }
        (None | Some(_), _) => Some(DetectedProtocol::Raw),
    }
}

/// Reads until [`sniff`] returns a protocol, and returns the bytes as well. The end of the stream
/// means [`DetectedProtocol::Raw`].
pub(crate) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> io::Result<(DetectedProtocol, Bytes)> {
    let mut bytes = BytesMut::with_capacity(1024);
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok((DetectedProtocol::Raw, bytes.freeze()));
        }
        if let Some(protocol) = sniff(&bytes) {
            return Ok((protocol, bytes.freeze()));
        }
    }
}

/// A stream whose first bytes have already been read, and are returned first.
pub(crate) struct Prefixed<S> {
    prefix: Bytes,
    inner: S,
}

impl<S> Prefixed<S> {
    pub(crate) fn new(prefix: Bytes, inner: S) -> Self {
        Self { prefix, inner }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buffer);
        }
        let length = self.prefix.len().min(buffer.remaining());
        let head = self.prefix.split_to(length);
        buffer.put_slice(head.chunk());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_tell_the_protocol() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some(DetectedProtocol::Http1)),
            (b"M-SEARCH * HTTP/1.1", Some(DetectedProtocol::Http1)),
            (b"CONNECT a:1 HTTP/1.1", Some(DetectedProtocol::Http1)),
            (b"GET http://a/ HTTP/1.1", Some(DetectedProtocol::Http1)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0", Some(DetectedProtocol::Http2)),
            (b"hello", Some(DetectedProtocol::Raw)),
            (b"\x16\x03\x01", Some(DetectedProtocol::Raw)),
            (b"HELO mail.example", Some(DetectedProtocol::Raw)),
            (b" /", Some(DetectedProtocol::Raw)),
            (b"GE", None),
            (b"GET ", None),
            (b"PRI * HT", None),
            (b"", None),
        ] {
            assert_eq!(sniff(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_long_run_of_capitals_is_not_waited_for() {
        assert_eq!(sniff(&[b'A'; 100]), Some(DetectedProtocol::Raw));
    }
}
