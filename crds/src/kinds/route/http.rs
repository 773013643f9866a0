//! Matches of an HTTPRoute.

use super::values::{headers, pattern, query};
use crate::parse::path::path;
use crate::reader::{AllowedFields, Fields, JsonNode};
use http::Method;
use policy_core::{PathPattern, RequestMatch};

pub(super) fn request_match(node: &JsonNode<'_>) -> Option<RequestMatch> {
    let fields = node.fields(AllowedFields::Only(&["path", "method", "headers", "queryParams"]))?;
    let path = path_match(&fields);
    let method = method(&fields);
    let headers = headers(&fields);
    let query = query(&fields);
    Some(RequestMatch::new(path?, method?, headers?, query?))
}

#[derive(Clone, Copy)]
enum PathType {
    Exact,
    Prefix,
    Regex,
}

fn path_match(fields: &Fields<'_>) -> Option<PathPattern> {
    let Some(node) = fields.get("path") else { return Some(PathPattern::prefix("/")) };
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
        (PathType::Exact, Some(node)) => path(&node).map(|path| PathPattern::exact(&path)),
        (PathType::Prefix, Some(node)) => path(&node).map(|path| PathPattern::prefix(&path)),
        (PathType::Regex, Some(node)) => pattern(&node).map(PathPattern::Regex),
        (PathType::Exact, None) => Some(PathPattern::exact("/")),
        (PathType::Prefix, None) => Some(PathPattern::prefix("/")),
        (PathType::Regex, None) => {
            fields.error_at("value", "is required with `RegularExpression`");
            None
        }
    }
}

/// Absent: any method.
fn method(fields: &Fields<'_>) -> Option<Option<Method>> {
    const METHODS: [&str; 9] =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    let Some(node) = fields.get("method") else { return Some(None) };
    let name = node.choice(&METHODS.map(|name| (name, name)))?;
    Method::from_bytes(name.as_bytes()).ok().map(Some)
}
