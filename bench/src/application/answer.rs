//! Response to requests that ask for no length.

/// An answer without a body that was asked for.
pub(crate) const SMALL: &[u8] = b"ok\n";
