//! Why there was no answer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The source address is not one of this machine's.
    #[error("cannot send from `{from}`: {error}")]
    From {
        /// The address asked for.
        from: IpAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// Nothing accepts connections there.
    #[error("cannot connect to `{address}`: {error}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// The TLS handshake did not complete.
    #[error("TLS handshake with `{address}` failed: {error}")]
    Handshake {
        /// With whom.
        address: SocketAddr,
        /// What the TLS library says.
        error: std::io::Error,
    },
    /// On the direct path, a server that does not negotiate the transport header.
    #[error("`{address}` is no sidecar's own port: it does not negotiate the transport header")]
    NotDirect {
        /// Who answered.
        address: SocketAddr,
    },
    /// The connection ended before an answer was complete.
    #[error("`{address}` closed the connection without an answer: {error}")]
    Closed {
        /// Who closed it.
        address: SocketAddr,
        /// What the HTTP library or the system says.
        error: String,
    },
    /// The question cannot be written as asked.
    #[error("cannot send the request: {0}")]
    Invalid(String),
    /// Not complete within the bound.
    #[error("no complete answer from `{address}` within {} ms", .bound.as_millis())]
    Timeout {
        /// From whom.
        address: SocketAddr,
        /// The bound.
        bound: Duration,
    },
}
