//! The messages of conditions and Events.

use std::sync::Arc;

/// Maximum length of a message. The API server accepts 32 KiB.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Truncates a message that is too long.
pub(crate) fn bounded(message: &str) -> Arc<str> {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.into();
    }
    let end = message.floor_char_boundary(MAX_MESSAGE_BYTES.saturating_sub("…".len()));
    format!("{}…", message.get(..end).unwrap_or_default()).into()
}
