//! Times as they are written.

use std::time::SystemTime;

/// The time in writing; the latest there is for what is later.
pub(super) fn timestamp(at: SystemTime) -> jiff::Timestamp {
    jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::MAX)
}
