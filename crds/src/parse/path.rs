//! Paths in configuration.

use crate::path::canonical;
use crate::reader::{JsonNode, quote};

/// A path in the canonical form of requests: begins with `/`, percent-encoding only where needed,
/// hex digits in upper case.
pub(crate) fn path(node: &JsonNode<'_>) -> Option<String> {
    let text = node.text()?;
    match canonical(text) {
        Ok(path) => Some(path),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}
