//! Text of clients in logs and records: bounded, and without characters that could end a line or
//! forge another one.

use policy_core::target::canonical_path;
use std::fmt::Write;

/// Maximum length of paths and names, in bytes; longer ones are truncated.
pub const MAX_TEXT: usize = 256;
/// Maximum length of methods, in bytes; longer ones are truncated.
pub(super) const MAX_METHOD: usize = 32;

/// Returns a text of a client, visible and bounded.
pub fn visible_text(text: &str) -> String {
    plain(text, MAX_TEXT)
}

/// Returns a path without its query, visible and bounded.
pub fn visible_path(text: &str) -> String {
    path(text, false)
}

/// Returns a path without its query, in canonical form if `canonical`, visible and bounded. A path without
/// a canonical form stays as it was sent.
pub(super) fn path(path: &str, canonical: bool) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let form = if canonical { canonical_path(path).ok() } else { None };
    plain(form.as_deref().unwrap_or(path), MAX_TEXT)
}

/// Percent-encodes everything but visible ASCII, and truncates to `most` bytes.
pub(super) fn plain(text: &str, most: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(most));
    for byte in text.bytes() {
        let visible = matches!(byte, b' '..=b'~');
        let length = if visible { 1 } else { 3 };
        if plain.len().saturating_add(length) > most {
            plain.push_str("...");
            break;
        }
        if visible {
            plain.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(plain, "%{byte:02X}");
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_a_path_is_canonical_bounded_and_visible() {
        let logged = |text: &str| path(text, true);
        assert_eq!(logged("/%61?secret=1"), "/a");
        assert_eq!(logged("/a/../b"), "/a/../b", "has no canonical form");
        assert_eq!(logged("/a\n2026 INFO \u{1b}[1m\u{202e}"), "/a%0A2026 INFO %1B[1m%E2%80%AE");
        assert_eq!(path("/%61", false), "/%61");
        let long = logged(&format!("/{}", "x".repeat(100_000)));
        assert_eq!(long.len(), 259);
        assert!(long.ends_with("xxx..."));
        assert_eq!(plain(&"\u{e9}".repeat(100_000), 7), "%C3%A9...");
    }
}
