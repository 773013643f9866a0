//! Bounds of the interim responses to one request (RFC 9110 section 15.2).

use http::HeaderMap;

/// Returns the number of bytes of the names and values of a head.
pub(crate) fn head_size(headers: &HeaderMap) -> usize {
    let sizes = headers.iter().map(|(name, value)| name.as_str().len().saturating_add(value.len()));
    sizes.fold(0, usize::saturating_add)
}

/// The interim responses to one request, of either version.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InterimResponses {
    count: u16,
    bytes: usize,
}

impl InterimResponses {
    /// Counts one whose head has so many bytes; returns false beyond the bounds.
    pub(crate) fn admits(&mut self, bytes: usize) -> bool {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        !self.are_exceeded()
    }

    /// Returns true if there was one that was not admitted.
    pub(crate) fn are_exceeded(self) -> bool {
        self.count > MAX_COUNT || self.bytes > MAX_BYTES
    }

    /// Returns true if there was none.
    pub(crate) fn is_empty(self) -> bool {
        self.count == 0
    }
}

/// Maximum number. A task that takes an hour may send one each twenty seconds.
const MAX_COUNT: u16 = 256;
/// Maximum number of bytes of their heads, because a client that reads nothing keeps them here.
const MAX_BYTES: usize = 64 * 1024;
