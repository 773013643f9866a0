//! The handling of request targets that two parsers could read differently.

/// The handling of ambiguous targets on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathHandling {
    /// One canonical form; ambiguous targets are refused with 400.
    Canonical,
    /// Paths are matched and forwarded as received (opt-out by annotation).
    Raw,
}
