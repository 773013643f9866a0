//! Accepts connections and responds to them.

use super::connection::{ConnectionContext, Counters, EchoOptions, echo_bytes};
use super::http;
use super::sniff::{self, DetectedProtocol, Prefixed};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Timeout of the client's TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A running echo server. Dropping it stops it and closes its connections.
#[derive(Debug)]
pub struct EchoServer {
    address: SocketAddr,
    counters: Arc<Counters>,
    _stop: DropGuard,
}

impl EchoServer {
    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counters of the server.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

/// Starts the server on `address` (port 0: a free one) in the current runtime. Fails if the address
/// cannot be bound.
pub async fn start(address: SocketAddr, options: EchoOptions) -> io::Result<EchoServer> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let counters = Arc::new(Counters::default());
    let stop = CancellationToken::new();
    tokio::spawn(serve(listener, options, Arc::clone(&counters), stop.clone()));
    Ok(EchoServer { address, counters, _stop: stop.drop_guard() })
}

/// Creates a TLS configuration for [`EchoOptions::tls`] with this certificate, HTTP/2 and HTTP/1.1
/// by ALPN, and unauthenticated clients.
///
/// # Errors
/// If certificate and key do not match.
pub fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Accepts connections until `stop`, which also closes the open ones.
pub async fn serve(
    listener: TcpListener,
    options: EchoOptions,
    counters: Arc<Counters>,
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, client)) => {
                counters.connections.fetch_add(1, Ordering::Relaxed);
                let connection = ConnectionContext {
                    options: options.clone(),
                    counters: Arc::clone(&counters),
                    stop: stop.clone(),
                    client,
                    server: stream.local_addr().unwrap_or(client),
                };
                connections.spawn(async move {
                    if let Err(error) = connection.handle(stream).await {
                        tracing::debug!(%client, %error, "connection ended");
                    }
                });
            }
            // Out of file descriptors, or the client disconnected before it was accepted: the
            // server continues.
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

impl ConnectionContext {
    async fn handle(self, stream: TcpStream) -> io::Result<()> {
        // Responses are small, and tests depend on their latency.
        stream.set_nodelay(true)?;
        let Some(config) = self.options.tls.clone() else { return self.serve_stream(stream).await };
        if !self.options.plaintext_too {
            return self.accept(config, stream).await;
        }
        let mut first = [0];
        match stream.peek(&mut first).await? {
            1 if first == [sniff::HANDSHAKE_RECORD] => self.accept(config, stream).await,
            _ => self.serve_stream(stream).await,
        }
    }

    async fn accept(self, config: Arc<rustls::ServerConfig>, stream: TcpStream) -> io::Result<()> {
        let accept = tokio_rustls::TlsAcceptor::from(config).accept(stream);
        let stream = tokio::time::timeout(HANDSHAKE, accept).await??;
        self.serve_stream(stream).await
    }

    async fn serve_stream<S>(self, mut stream: S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (protocol, bytes) = sniff::read(&mut stream).await?;
        let stream = Prefixed::new(bytes, stream);
        match protocol {
            DetectedProtocol::Raw => echo_bytes(stream).await,
            DetectedProtocol::Http1 => {
                let service = hyper::service::service_fn(move |r| http::answer(self.clone(), r));
                hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .half_close(true)
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades()
                    .await
                    .map_err(io::Error::other)
            }
            DetectedProtocol::Http2 => {
                let service = hyper::service::service_fn(move |r| http::answer(self.clone(), r));
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .enable_connect_protocol()
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .map_err(io::Error::other)
            }
        }
    }
}
