//! What no message may exceed, whatever is configured.

/// The most fields of a head.
///
/// A header map panics where it would have to grow beyond 32,768 places. It grows when three quarters of
/// them are taken; and when names that were chosen for their hashes collide, already when a fifth is:
/// so never with fewer than 6,554 names. The difference is for fields that are added on the way.
pub const MOST_FIELDS: usize = 4096;
