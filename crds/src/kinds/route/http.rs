//! Matches of an HTTPRoute.

use crate::parse::path::path;
use crate::parse::values::{self, path_pattern, readable_headers, readable_query};
use crate::reader::{AllowedFields, JsonNode};
use policy_core::{PathPattern, RequestMatch, WrittenMatch};

/// The match.
///
/// # Errors
/// The conditions that can be read, if some cannot.
pub(super) fn request_match(node: &JsonNode<'_>) -> Result<RequestMatch, RequestMatch> {
    let known = AllowedFields::Only(&["path", "method", "headers", "queryParams"]);
    let (request, whole) = node.examined(|node| {
        let Some(fields) = node.fields(known) else { return RequestMatch::everything() };
        let path = match fields.get("path") {
            Some(node) => node.clean(path_match),
            None => Some((PathPattern::prefix("/"), None)),
        };
        let method = fields.get("method").and_then(|node| values::method(&node));
        let (headers, _) = readable_headers(&fields);
        let (query, _) = readable_query(&fields);
        let (path, written) = path.unwrap_or((PathPattern::prefix("/"), None));
        let request = RequestMatch::new(path, method, headers, query);
        match written {
            Some(text) => request.with_written(WrittenMatch::Path(text.into())),
            None => request,
        }
    });
    if whole { Ok(request) } else { Err(request) }
}

#[derive(Clone, Copy)]
enum PathType {
    Exact,
    Prefix,
    Regex,
}

/// The pattern, and its text if the pattern has another one: hex digits in upper case, no slash at the
/// end of a prefix.
fn path_match<'a>(node: &JsonNode<'a>) -> Option<(PathPattern, Option<&'a str>)> {
    let fields = node.fields(AllowedFields::Only(&["type", "value"]))?;
    let kind = match fields.get("type") {
        Some(node) => node.choice(&[
            ("Exact", PathType::Exact),
            ("PathPrefix", PathType::Prefix),
            ("RegularExpression", PathType::Regex),
        ]),
        None => Some(PathType::Prefix),
    };
    let value = fields.get("value");
    match (kind?, value) {
        (PathType::Exact, Some(node)) => {
            let (path, text) = (path(&node)?, node.text()?);
            Some((PathPattern::exact(&path), (path != text).then_some(text)))
        }
        (PathType::Prefix, Some(node)) => {
            let (path, text) = (path(&node)?, node.text()?);
            let trimmed = text.len() > 1 && text.ends_with('/');
            Some((PathPattern::prefix(&path), (trimmed || path != text).then_some(text)))
        }
        (PathType::Regex, Some(node)) => {
            path_pattern(&node).map(|pattern| (PathPattern::Regex(pattern), None))
        }
        (PathType::Exact, None) => Some((PathPattern::exact("/"), None)),
        (PathType::Prefix, None) => Some((PathPattern::prefix("/"), None)),
        (PathType::Regex, None) => {
            fields.error_at("value", "is required with `RegularExpression`");
            None
        }
    }
}
