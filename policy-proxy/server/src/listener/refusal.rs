//! Reasons for which connections are refused.

use std::io;

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
