//! Errors of running expectations.

use std::path::PathBuf;

/// Error of running expectations.
#[derive(Debug, thiserror::Error)]
pub enum ExpectError {
    /// The file cannot be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
    /// The file does not match the format of [`Expectations`].
    #[error("{}: {message}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, column and problem.
        message: String,
    },
    /// A request that cannot be sent.
    #[error("`{name}`: {message}")]
    InvalidRequest {
        /// Its name.
        name: String,
        /// The problem.
        message: String,
    },
    /// The settings or manifests are invalid, or the local mesh does not start.
    #[error("{0}")]
    Setup(String),
}
