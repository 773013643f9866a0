//! Why a source cannot work.

/// Why a source cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The directory cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// Its task failed: nothing changes any more.
    #[error("the source failed, what it last said stays in force")]
    Failed,
}
