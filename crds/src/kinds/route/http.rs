//! Matches of an HTTPRoute.

use crate::parse::path::path;
use crate::parse::values::{self, headers, pattern, query};
use crate::reader::{AllowedFields, Fields, JsonNode};
use http::Method;
use policy_core::{PathPattern, RequestMatch, WrittenMatch};

pub(super) fn request_match(node: &JsonNode<'_>) -> Option<RequestMatch> {
    let fields = node.fields(AllowedFields::Only(&["path", "method", "headers", "queryParams"]))?;
    let path = path_match(&fields);
    let method = method(&fields);
    let headers = headers(&fields);
    let query = query(&fields);
    let (path, written) = path?;
    let request = RequestMatch::new(path, method?, headers?, query?);
    Some(match written {
        Some(text) => request.with_written(WrittenMatch::Path(text.into())),
        None => request,
    })
}

#[derive(Clone, Copy)]
enum PathType {
    Exact,
    Prefix,
    Regex,
}

/// The pattern, and its text if the pattern has another one: hex digits in upper case, no slash at the
/// end of a prefix.
fn path_match<'a>(fields: &Fields<'a>) -> Option<(PathPattern, Option<&'a str>)> {
    let Some(node) = fields.get("path") else { return Some((PathPattern::prefix("/"), None)) };
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
            pattern(&node).map(|pattern| (PathPattern::Regex(pattern), None))
        }
        (PathType::Exact, None) => Some((PathPattern::exact("/"), None)),
        (PathType::Prefix, None) => Some((PathPattern::prefix("/"), None)),
        (PathType::Regex, None) => {
            fields.error_at("value", "is required with `RegularExpression`");
            None
        }
    }
}

/// Absent: any method.
fn method(fields: &Fields<'_>) -> Option<Option<Method>> {
    let Some(node) = fields.get("method") else { return Some(None) };
    values::method(&node).map(Some)
}
