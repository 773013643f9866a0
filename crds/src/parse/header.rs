//! Header names and values in configuration.

use crate::reader::{JsonNode, quote};
use http::{HeaderName, HeaderValue};

/// Longest header name (Gateway API HTTPHeaderName).
const MAX_NAME: usize = 256;
/// Longest header value (Gateway API HTTPHeaderMatch).
pub(crate) const MAX_VALUE: usize = 4096;

/// Headers that frame or route the message itself: changing one would make the application read
/// another message than the one that was authorized.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A header name, in lower case.
pub(crate) fn header_name(node: &JsonNode<'_>) -> Option<HeaderName> {
    named_header(node, node.text_up_to(MAX_NAME)?)
}

/// The header of this name, in lower case. Errors are those of `node`, which has the name as its value
/// or as its key.
pub(crate) fn named_header(node: &JsonNode<'_>, text: &str) -> Option<HeaderName> {
    let name = HeaderName::from_bytes(text.as_bytes()).ok().filter(|_| text.len() <= MAX_NAME);
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

/// The name of a header that a filter may change.
pub(crate) fn changeable_header(node: &JsonNode<'_>) -> Option<HeaderName> {
    let name = header_name(node)?;
    if frames(&name) {
        node.error(format!("`{name}` belongs to the connection and cannot be changed"));
        return None;
    }
    Some(name)
}

/// True if the header frames or routes the message itself, or applications may take it for one that
/// does.
pub(crate) fn frames(name: &HeaderName) -> bool {
    FRAMING.contains(&&*as_read(name.as_str()))
}

/// The name, in lower case, that applications may read: those of CGI and WSGI take `_` for `-`.
pub(crate) fn as_read(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}
