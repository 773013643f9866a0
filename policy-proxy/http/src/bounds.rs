//! Limits that hold for every message, independent of the configuration.

/// Maximum number of header fields in a head.
///
/// A `HeaderMap` panics if it would have to grow beyond 32,768 slots. It grows when three quarters
/// of the slots are taken; if names were chosen to collide, it grows when a fifth is taken. A map
/// with fewer than 6,554 names is therefore always safe. The margin is for fields that the proxy
/// adds.
pub const MAX_FIELDS: usize = 4096;
