//! Errors of a client's HTTP/1 connection.

use policy_http::http1::decode::BodyError;
use policy_http::http1::request_decode::RequestHeadError;
use std::io;

/// Error of reading a request body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// The body is malformed.
    #[error(transparent)]
    Bad(#[from] BodyError),
    /// Reading failed.
    #[error("client: {0}")]
    Io(#[from] io::Error),
}

/// Error that ends a connection, other than the client closing it between two requests.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientConnError {
    /// The request head is malformed or too large.
    #[error(transparent)]
    Head(#[from] RequestHeadError),
    /// Reading or writing failed, or the client closed during an exchange.
    #[error("client: {0}")]
    Io(#[from] io::Error),
    /// The response body failed, which was counted there.
    #[error("response body failed")]
    ResponseAborted,
    /// The application closed a connection that was kept open, which was counted there.
    #[error("no response")]
    Unanswered,
    /// The connection was closed at once, for example by a revocation.
    #[error("connection closed")]
    Closed,
}

impl ClientConnError {
    /// True if the client was reset, and did not end its side.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self, Self::Io(error) if is_reset(error))
    }
}

impl UploadError {
    /// True if the client was reset, and did not end its side.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self, Self::Io(error) if is_reset(error))
    }
}

fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// The error of a read, where TLS that ends without its closing message is a reset.
pub(super) fn cut(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof { reset_error() } else { error }
}

pub(super) fn reset_error() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

pub(super) fn unexpected_eof() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}
