//! The endpoint's side of a connection: the socket, or mesh TLS.

use socket2::SockRef;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The endpoint's side of a connection. Not boxed for plaintext.
#[derive(Debug)]
pub enum ServerIo {
    /// Plaintext.
    Plain(TcpStream),
    /// Mesh TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl ServerIo {
    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Sets the time for which sent bytes may stay unacknowledged, or unsent because the endpoint takes
    /// no more; absent: the system's default for the former, no bound for the latter.
    pub fn set_user_timeout(&self, bound: Option<Duration>) {
        // A socket that refuses the option keeps its bound.
        let _ = SockRef::from(self.socket()).set_tcp_user_timeout(Some(bound.unwrap_or_default()));
    }
}

/// Makes a connection's end a reset.
pub fn reset_on_close(stream: &TcpStream) {
    // A socket that refuses the option is closed in order.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

impl AsyncRead for ServerIo {
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

impl AsyncWrite for ServerIo {
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
}
