//! Errors of a request without a response.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Error of a request without a response.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The source address is not one of this machine's.
    #[error("cannot send from `{from}`: {error}")]
    From {
        /// The source address.
        from: IpAddr,
        /// The I/O error.
        error: std::io::Error,
    },
    /// The connection was refused.
    #[error("cannot connect to `{address}`: {error}")]
    Connect {
        /// The destination.
        address: SocketAddr,
        /// The I/O error.
        error: std::io::Error,
    },
    /// The TLS handshake did not complete.
    #[error("TLS handshake with `{address}` failed: {error}")]
    Handshake {
        /// The server's address.
        address: SocketAddr,
        /// The TLS library's error.
        error: std::io::Error,
    },
    /// On the direct path, the server does not negotiate the transport header.
    #[error("`{address}` is no sidecar's own port: it does not negotiate the transport header")]
    NotDirect {
        /// The server's address.
        address: SocketAddr,
    },
    /// The connection ended before the response was complete.
    #[error("`{address}` closed the connection without an answer: {error}")]
    Closed {
        /// The server's address.
        address: SocketAddr,
        /// Error of the HTTP library or of the connection.
        error: String,
    },
    /// The request cannot be encoded.
    #[error("cannot send the request: {0}")]
    Invalid(String),
    /// The timeout expired.
    #[error("no complete answer from `{address}` within {} ms", .bound.as_millis())]
    Timeout {
        /// The server's address.
        address: SocketAddr,
        /// The timeout.
        bound: Duration,
    },
}
