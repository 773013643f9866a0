//! Shutdown of a connection.

/// Kind of a connection's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// After the open requests are complete.
    Graceful,
    /// Immediately.
    Immediate,
}
