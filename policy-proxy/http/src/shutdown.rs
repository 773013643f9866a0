//! How a connection is told to end.

/// How a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// After what is open.
    Graceful,
    /// At once.
    Immediate,
}
