//! Bounds of answers.

/// Most endpoints in one message.
pub const MAX_ENDPOINTS: usize = 500;

/// Most endpoints of one destination that a client takes.
pub(super) const MAX_ENDPOINTS_IN_ALL: usize = 100_000;
