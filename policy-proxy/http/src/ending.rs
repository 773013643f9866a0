//! How a connection is told to end.

/// How a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After what is open.
    Gracefully,
    /// At once.
    Now,
}
