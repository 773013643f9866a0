//! Names of objects, labels and ports, as Kubernetes spells them.

use crate::reader::{JsonNode, quote, shared};
use std::sync::Arc;

/// Longest name of an object.
const MAX_NAME: usize = 253;
/// Longest label of DNS, namespace or label value.
const MAX_LABEL: usize = 63;

/// True if `text` is a DNS label: lower-case letters, digits and inner `-`, up to 63.
pub fn is_dns_label(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    text.len() <= MAX_LABEL
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// True if `text` is a sequence of DNS labels with dots, up to 253.
pub fn is_dns_name(text: &str) -> bool {
    text.len() <= MAX_NAME && text.split('.').all(is_dns_label)
}

/// A name of an object: lower-case letters, digits, `-` and `.`.
pub(crate) fn object_name(node: &JsonNode<'_>) -> Option<Arc<str>> {
    let text = node.text_up_to(MAX_NAME)?;
    if !is_dns_name(text) {
        node.error(format!(
            "{} is not a name: lower-case letters, digits, `-` and `.` are allowed",
            quote(text)
        ));
        return None;
    }
    Some(shared(text))
}

/// A namespace; blank is the same as absent (the namespace of the object that refers).
pub(crate) fn namespace(node: &JsonNode<'_>) -> Option<Option<Arc<str>>> {
    let text = node.text()?;
    if text.is_empty() {
        return Some(None);
    }
    if !is_dns_label(text) {
        node.error(format!(
            "{} is not a namespace: up to 63 lower-case letters, digits and `-` are allowed",
            quote(text)
        ));
        return None;
    }
    Some(Some(shared(text)))
}

/// True if `text` is a label value: up to 63 letters, digits, `-`, `_` and `.`, or empty.
pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_qualified(text)
}

/// True if `text` is a label key: `[prefix/]name`.
pub(crate) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_qualified(name),
        None => is_qualified(text),
    }
}

fn is_qualified(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= MAX_LABEL
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Longest name of a gRPC service or method.
const MAX_PROTOBUF_NAME: usize = 1024;

/// True if `text` is a name of Protocol Buffers: letters, digits and `_`, not beginning with a digit;
/// with `dotted`, several of them with dots between.
pub(crate) fn is_protobuf_name(text: &str, dotted: bool) -> bool {
    let word = |word: &str| {
        word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && word.bytes().next().is_some_and(|b| !b.is_ascii_digit())
    };
    text.len() <= MAX_PROTOBUF_NAME && if dotted { text.split('.').all(word) } else { word(text) }
}
