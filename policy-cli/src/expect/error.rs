//! Why expectations cannot be run.

use std::path::PathBuf;

/// Why expectations cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ExpectError {
    /// The file cannot be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file is not as [`Expectations`] wants it.
    #[error("{}: {message}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, column and what is wrong there.
        message: String,
    },
    /// A request that cannot be asked.
    #[error("`{name}`: {message}")]
    InvalidRequest {
        /// Its name.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// The settings or manifests do not make a world to ask in.
    #[error("{0}")]
    Setup(String),
}
