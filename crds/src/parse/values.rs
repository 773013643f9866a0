//! Parts of matches: headers and query parameters as `{type, name, value}`, and methods.

use super::header::{header_name, header_value};
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use http::Method;
use http::header::HOST;
use policy_core::host::canonical_host;
use policy_core::{HeaderMatch, Pattern, QueryMatch, ValueMatch};

/// The end of an error about a value that no canonical host has.
const CANONICAL_HOST: &str = "the header `host` is compared with the canonical host, in lower case and \
                              without a port; name hosts in `hostnames`";

/// The `headers` that can be read, and whether these are all. Absent and empty require nothing.
pub(crate) fn readable_headers(fields: &Fields<'_>) -> (Vec<HeaderMatch>, bool) {
    list(
        fields,
        "headers",
        |fields| {
            let name = fields.require("name").and_then(|node| header_name(&node));
            let value = value(fields, |node| {
                Some(ValueMatch::Exact(header_value(node)?.as_bytes().into()))
            });
            let (name, value) = (name?, value?);
            let value = if name == HOST { host_value(fields, value)? } else { value };
            Some(HeaderMatch { name, value })
        },
        |a, b| a.name == b.name,
    )
}

/// The `queryParams` that can be read, and whether these are all. Absent and empty require nothing.
pub(crate) fn readable_query(fields: &Fields<'_>) -> (Vec<QueryMatch>, bool) {
    list(
        fields,
        "queryParams",
        |fields| {
            let name = fields.require("name").and_then(|node| node.text_up_to(256)).map(shared);
            let value = value(fields, |node| {
                Some(ValueMatch::Exact(node.text_up_to(1024)?.as_bytes().into()))
            });
            Some(QueryMatch { name: name?, value: value? })
        },
        |a, b| a.name == b.name,
    )
}

/// The elements that can be read, and whether these are all. Of a name that appears twice, no element
/// counts as read, because either may be mistaken.
fn list<T>(
    fields: &Fields<'_>,
    name: &str,
    read: impl Fn(&Fields<'_>) -> Option<T>,
    same: impl Fn(&T, &T) -> bool,
) -> (Vec<T>, bool) {
    let Some(node) = fields.get(name) else { return (Vec::new(), true) };
    node.examined(|node| {
        let mut found: Vec<(T, bool)> = Vec::new();
        for node in node.list_up_to(16).unwrap_or_default() {
            let item = node.clean(|node| {
                let fields = node.fields(AllowedFields::Only(&["type", "name", "value"]))?;
                Some((read(&fields)?, fields))
            });
            let Some((item, fields)) = item else { continue };
            let mut is_repeated = false;
            for (_, repeated) in found.iter_mut().filter(|(other, _)| same(other, &item)) {
                *repeated = true;
                is_repeated = true;
            }
            if is_repeated {
                // The Gateway API would only look at the first: the condition would be lost.
                fields.error_at("name", "appears twice in one match, every name may only once");
            }
            found.push((item, is_repeated));
        }
        found.into_iter().filter(|(_, repeated)| !repeated).map(|(item, _)| item).collect()
    })
}

fn value(
    fields: &Fields<'_>,
    exact: impl Fn(&JsonNode<'_>) -> Option<ValueMatch>,
) -> Option<ValueMatch> {
    let regex = match fields.get("type") {
        Some(node) => node.choice(&[("Exact", false), ("RegularExpression", true)])?,
        None => false,
    };
    let node = fields.require("value")?;
    if regex { pattern(&node).map(ValueMatch::Regex) } else { exact(&node) }
}

/// A value of the header `host`, which some canonical host must have: a match that never holds protects
/// nothing.
fn host_value(fields: &Fields<'_>, value: ValueMatch) -> Option<ValueMatch> {
    let (host, text) = match value {
        ValueMatch::Exact(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let host = canonical_host(&text).is_ok().then_some(ValueMatch::Exact(bytes));
            (host, text)
        }
        ValueMatch::Regex(pattern) => {
            (pattern.over_hosts().map(ValueMatch::Regex), pattern.source().to_owned())
        }
    };
    if host.is_none() {
        let message = format!("{} matches no host: {CANONICAL_HOST}", quote(&text));
        fields.error_at("value", message);
    }
    host
}

/// A regular expression over the match form of a path. One that no path matches is an error, because a
/// match that never holds protects nothing.
pub(crate) fn path_pattern(node: &JsonNode<'_>) -> Option<Pattern> {
    let pattern = pattern(node)?;
    let counted = pattern.compiled_bytes();
    match pattern.check_path() {
        Ok(()) => {
            let more = pattern.compiled_bytes().saturating_sub(counted);
            node.count_compiled(more).then_some(pattern)
        }
        Err(error) => {
            node.error(format!("{}: {error}", quote(pattern.source())));
            None
        }
    }
}

/// A regular expression over the whole of a text.
pub(crate) fn pattern(node: &JsonNode<'_>) -> Option<Pattern> {
    let text = node.text()?;
    if text.is_empty() {
        node.error("must not be empty");
        return None;
    }
    if !node.count_expression() {
        return None;
    }
    match Pattern::parse(text) {
        Ok(pattern) => node.count_compiled(pattern.compiled_bytes()).then_some(pattern),
        Err(error) => {
            node.error(format!("{}: {error}", quote(text)));
            None
        }
    }
}

/// The methods that a match may name (Gateway API HTTPMethod).
pub const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// A method.
pub(crate) fn method(node: &JsonNode<'_>) -> Option<Method> {
    let name = node.choice(&METHODS.map(|name| (name, name)))?;
    Method::from_bytes(name.as_bytes()).ok()
}
