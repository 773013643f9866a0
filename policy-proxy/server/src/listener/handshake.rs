//! The transport of a port, and handshakes in their turns.

use super::refusal::ConnectionRefusal;
use super::settings::HandshakeTurns;
use super::stream::ListenerStream;
use crate::client_network::ClientNetwork;
use crate::fair_scheduler::{FairScheduler, SchedulerPermit};
use crate::tls::{TlsHandle, no_certificate};
use futures_util::FutureExt;
use policy_core::Identity;
use policy_tls::identity::Proof;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// Transport below the protocol of a port.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Plaintext.
    Plaintext,
    /// TLS of the mesh, with HTTP/2 by ALPN.
    Tls(TlsHandle),
    /// TLS of the mesh for clients that begin with it and where there are credentials, else
    /// plaintext.
    Either(CurrentTls),
    /// TLS in which clients prove nothing.
    Server(Arc<ServerConfig>),
}

/// Credentials that are there from some time on.
#[derive(Clone)]
pub struct CurrentTls(Arc<dyn Fn() -> Option<TlsHandle> + Send + Sync>);

impl CurrentTls {
    /// Creates credentials that `current` returns.
    pub fn new(current: impl Fn() -> Option<TlsHandle> + Send + Sync + 'static) -> Self {
        Self(Arc::new(current))
    }
}

impl std::fmt::Debug for CurrentTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CurrentTls").finish_non_exhaustive()
    }
}

/// A client after its handshake, or without one.
pub(super) struct Arrived {
    pub(super) stream: ListenerStream,
    pub(super) identity: Option<Identity>,
    pub(super) expires: Option<SystemTime>,
    pub(super) proof: Option<(TlsHandle, Arc<Proof>)>,
    pub(super) tls: Option<TlsHandle>,
}

impl Arrived {
    fn plain(stream: TcpStream) -> Self {
        let stream = ListenerStream::Plain(stream);
        Self { stream, identity: None, expires: None, proof: None, tls: None }
    }
}

/// The type of a record that begins a TLS connection (RFC 8446 section 5.1).
pub(super) const TLS_HANDSHAKE: u8 = 22;

/// The client's side of a handshake.
pub(super) struct Greeting {
    pub(super) stream: TcpStream,
    /// True if the first byte begins TLS.
    pub(super) is_tls: bool,
    pub(super) remote: SocketAddr,
    pub(super) timeout: Duration,
}

/// Turns of handshakes.
#[derive(Debug)]
pub(super) struct Turns {
    settings: HandshakeTurns,
    scheduler: FairScheduler,
}

impl Turns {
    pub(super) fn new(settings: HandshakeTurns) -> Self {
        Self { settings, scheduler: FairScheduler::new(settings.at_once) }
    }

    /// Performs what the transport of a client that has sent its first byte demands.
    pub(super) async fn arrive(
        &self,
        transport: &Transport,
        greeting: Greeting,
    ) -> Result<Arrived, ConnectionRefusal> {
        match transport {
            Transport::Plaintext => Ok(Arrived::plain(greeting.stream)),
            Transport::Tls(tls) => self.mutual(tls, true, greeting).await,
            Transport::Server(config) => {
                let accepted = self.accept(config.clone(), greeting).await?;
                let stream = accepted.map_err(ConnectionRefusal::Handshake)?;
                let stream = ListenerStream::Tls(Box::new(stream));
                Ok(Arrived { stream, identity: None, expires: None, proof: None, tls: None })
            }
            Transport::Either(CurrentTls(current)) => match current().filter(|_| greeting.is_tls) {
                Some(tls) => self.mutual(&tls, false, greeting).await,
                None => Ok(Arrived::plain(greeting.stream)),
            },
        }
    }

    /// Performs a handshake of the mesh. `counted`: the port is the one that counts handshakes, and
    /// demands HTTP/2.
    async fn mutual(
        &self,
        tls: &TlsHandle,
        counted: bool,
        greeting: Greeting,
    ) -> Result<Arrived, ConnectionRefusal> {
        let credentials = tls.current();
        let credentials =
            credentials.ok_or_else(|| ConnectionRefusal::Handshake(no_certificate()))?;
        let config = if counted { credentials.http2() } else { credentials.any() };
        let accepted = self.accept(config.clone(), greeting).await?;
        let accepted = if counted {
            tls.counted(&credentials, accepted)
        } else {
            accepted.map(|stream| credentials.connection(stream))
        };
        let connection = accepted.map_err(ConnectionRefusal::Handshake)?;
        Ok(Arrived {
            stream: ListenerStream::Tls(Box::new(connection.stream)),
            identity: connection.identity,
            expires: connection.expires,
            proof: connection.proof.map(|proof| (tls.clone(), proof)),
            tls: Some(tls.clone()),
        })
    }

    /// Reads the ClientHello, then does the expensive part in the turn of the client's network. A
    /// failed handshake is a value, because its reason is counted.
    async fn accept(
        &self,
        config: Arc<ServerConfig>,
        greeting: Greeting,
    ) -> Result<io::Result<TlsStream<TcpStream>>, ConnectionRefusal> {
        let timeout = greeting.timeout;
        let handshake = async {
            let Greeting { stream, remote, .. } = greeting;
            let greeted = match LazyConfigAcceptor::new(Acceptor::default(), stream).await {
                Ok(greeted) => greeted,
                Err(error) => return Ok(Err(error)),
            };
            let turn = self.turn(remote).await?;
            // A client may have given up meanwhile, and its handshake would delay the others.
            let ready = greeted.io.ready(Interest::READABLE).now_or_never();
            if ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed())) {
                return Ok(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            let mut accepting = std::pin::pin!(greeted.into_stream(config));
            if !self.settings.kept.is_zero() {
                tokio::select! {
                    biased;
                    accepted = accepting.as_mut() => return Ok(accepted),
                    () = tokio::time::sleep(self.settings.kept) => {}
                }
            }
            drop(turn);
            Ok(accepting.await)
        };
        let timed_out = || Ok(Err(io::ErrorKind::TimedOut.into()));
        tokio::time::timeout(timeout, handshake).await.unwrap_or_else(|_| timed_out())
    }

    /// Waits for the turn of a client.
    async fn turn(&self, remote: SocketAddr) -> Result<SchedulerPermit, ConnectionRefusal> {
        let next = self.scheduler.acquire(ClientNetwork::of(remote.ip()), 1);
        let turn = tokio::time::timeout(self.settings.wait, next).await;
        turn.ok().flatten().ok_or(ConnectionRefusal::Handshakes)
    }
}
