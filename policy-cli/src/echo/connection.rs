//! Shared state of responses: options, counters, and the connection of the request.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// Body of a response.
pub(super) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Options of the echo server. The default has no name and speaks plaintext.
#[derive(Clone, Default)]
pub struct EchoOptions {
    /// Name in the responses, for example `emojivoto/web-0:8080`.
    pub name: Option<Arc<str>>,
    /// Terminates TLS with this configuration.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// With `tls`, serves plaintext clients too instead of disconnecting them.
    pub plaintext_too: bool,
}

/// Counters of the echo server.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) requests: AtomicU64,
}

impl Counters {
    /// Connections accepted.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// HTTP requests and gRPC calls whose headers arrived.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Connection of a request, with the server's options and counters.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    pub(super) options: EchoOptions,
    pub(super) counters: Arc<Counters>,
    pub(super) stop: CancellationToken,
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
}

/// Sends every byte back, and closes when the client has closed.
pub(super) async fn echo_bytes<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> io::Result<()> {
    let (mut read, mut write) = tokio::io::split(stream);
    tokio::io::copy(&mut read, &mut write).await?;
    write.shutdown().await
}
