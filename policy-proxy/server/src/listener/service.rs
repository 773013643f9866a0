//! The service behind a listener.

use super::connection::Accepted;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Reason why a connection was refused or ended before its client ended it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionRefusal {
    /// The policy of the port does not permit its client.
    #[error("refused by policy: {0}")]
    Policy(&'static str),
    /// Its client, or all clients together, have too many connections.
    #[error("too many connections")]
    TooMany,
    /// It was closed to make room for another client.
    #[error("closed to make room for another connection")]
    Revoked,
    /// Its client sent nothing in time.
    #[error("no byte in time")]
    Silent,
    /// Its turn did not come in time.
    #[error("too many pending handshakes")]
    Handshakes,
    /// The handshake failed.
    #[error("handshake failed: {0}")]
    Handshake(#[source] io::Error),
    /// Its client made no request in time.
    #[error("no request in time")]
    Unused,
}

impl ConnectionRefusal {
    /// Returns the reason as a metric label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Policy(_) => "policy",
            Self::TooMany | Self::Revoked => "connections",
            Self::Silent => "silent",
            Self::Handshakes => "handshakes",
            Self::Handshake(_) => "handshake",
            Self::Unused => "unused",
        }
    }
}

/// Serves the connections of a listener.
pub trait ConnectionService: Send + Sync + 'static {
    /// A value that lives as long as a connection, such as a gauge of open ones.
    type Open: Send + 'static;

    /// Accepts or refuses a client before anything of it is read.
    ///
    /// # Errors
    /// The reason to refuse it.
    fn admits(&self, client: SocketAddr) -> Result<(), &'static str> {
        let _ = client;
        Ok(())
    }

    /// Counts a connection that was accepted, until the value is dropped.
    fn opened(&self) -> Self::Open;

    /// Counts a connection that was refused.
    fn refused(&self, client: SocketAddr, reason: &ConnectionRefusal);

    /// Serves a connection until it ends. It is dropped if its room is given to another client.
    fn serve(self: Arc<Self>, accepted: Accepted) -> impl Future<Output = ()> + Send;
}
