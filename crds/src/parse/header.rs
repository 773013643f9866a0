//! Header names and values in configuration.

use crate::reader::{JsonNode, quote};
use http::{HeaderName, HeaderValue};

/// Longest header name (Gateway API HTTPHeaderName).
const MAX_NAME: usize = 256;
/// Longest header value (Gateway API HTTPHeaderMatch).
pub(crate) const MAX_VALUE: usize = 4096;

/// A header name, in lower case.
pub(crate) fn header_name(node: &JsonNode<'_>) -> Option<HeaderName> {
    let text = node.text_up_to(MAX_NAME)?;
    let name = HeaderName::from_bytes(text.as_bytes()).ok();
    if name.is_none() {
        node.error(format!("{} is not a header name", quote(text)));
    }
    name
}

/// A header value: visible ASCII and inner spaces.
pub(crate) fn header_value(node: &JsonNode<'_>) -> Option<HeaderValue> {
    let text = node.text_up_to(MAX_VALUE)?;
    if text.trim() != text {
        node.error(format!("{} begins or ends with a space, which requests lose", quote(text)));
        return None;
    }
    let value = HeaderValue::from_str(text).ok().filter(|_| text.is_ascii());
    if value.is_none() {
        node.error(format!("{} has characters that no header value may have", quote(text)));
    }
    value
}
