//! Filters of a rule. A request must never pass without the filters that its author wrote.
//!
//! A type of filter that the schema of the route does not have makes the route invalid. A type that
//! it has and that is not applied here leaves the route valid, because another controller may apply
//! it for other parents (Linkerd's admission accepts it too; docs/spec/controller.md 4). Its rule
//! then permits nothing here: the Gateway API demands an error for requests that a filter was not
//! applied to. The other rules count.

use super::dialect::Dialect;
use crate::parse::header::{changeable_header, header_value};
use crate::parse::{hostnames, path};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote, shared};
use crate::resource::UnsupportedFilter;
use http::{HeaderName, HeaderValue};
use policy_core::FilterKind;
use policy_core::filter::{HeaderChange, Redirect, RedirectPath};

/// The filters of a rule that are applied, in order.
type Filters = Vec<FilterKind>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    RequestHeaders,
    ResponseHeaders,
    Redirect,
    Mirror,
    Rewrite,
    Extension,
    Cors,
    ExternalAuth,
}

/// The type's name and the field of its content.
const TYPES: [(&str, &str, Type); 8] = [
    ("RequestHeaderModifier", "requestHeaderModifier", Type::RequestHeaders),
    ("ResponseHeaderModifier", "responseHeaderModifier", Type::ResponseHeaders),
    ("RequestRedirect", "requestRedirect", Type::Redirect),
    ("RequestMirror", "requestMirror", Type::Mirror),
    ("URLRewrite", "urlRewrite", Type::Rewrite),
    ("ExtensionRef", "extensionRef", Type::Extension),
    ("CORS", "cors", Type::Cors),
    ("ExternalAuth", "externalAuth", Type::ExternalAuth),
];

/// The statuses of a redirect (Gateway API, `HTTPRequestRedirectFilter`).
pub(super) const REDIRECT_STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// A filter that was read.
enum ReadFilter {
    Applied(FilterKind),
    Unsupported(UnsupportedFilter),
}

/// The types that are applied.
fn applied(dialect: Dialect) -> &'static [Type] {
    match dialect {
        Dialect::Policy { .. } => &[Type::RequestHeaders, Type::Redirect],
        Dialect::Gateway(_) => &[Type::RequestHeaders, Type::ResponseHeaders, Type::Redirect],
        Dialect::Grpc(_) => &[Type::RequestHeaders, Type::ResponseHeaders],
    }
}

/// The types that the schema has and that are not applied.
fn unsupported(dialect: Dialect) -> &'static [Type] {
    match dialect {
        Dialect::Policy { .. } => &[],
        Dialect::Gateway(_) => {
            &[Type::Mirror, Type::Rewrite, Type::Extension, Type::Cors, Type::ExternalAuth]
        }
        Dialect::Grpc(_) => &[Type::Mirror, Type::Extension],
    }
}

/// Reads the filters of a rule; absent and empty: nothing is done. Adds those that are not supported
/// to `unsupported_filters`.
pub(super) fn filters(
    rule: &Fields<'_>,
    dialect: Dialect,
    unsupported_filters: &mut Vec<UnsupportedFilter>,
) -> Option<Filters> {
    let Some(node) = rule.get("filters") else { return Some(Vec::new()) };
    let mut filters = Vec::new();
    node.clean(|node| {
        for node in node.list_up_to(16)? {
            let filter = match filter(&node, dialect) {
                None => continue,
                Some(ReadFilter::Unsupported(filter)) => {
                    unsupported_filters.push(filter);
                    continue;
                }
                Some(ReadFilter::Applied(filter)) => filter,
            };
            let redirects = |f: &FilterKind| matches!(f, FilterKind::Redirect(_));
            if redirects(&filter) && filters.iter().any(redirects) {
                node.error("a rule can redirect only once");
            }
            filters.push(filter);
        }
        Some(filters)
    })
}

/// True if a filter replaces the prefix that matched.
pub(super) fn prefix_replaced(filters: &Filters) -> bool {
    filters.iter().any(|filter| match filter {
        FilterKind::Redirect(redirect) => matches!(redirect.path, Some(RedirectPath::Prefix(_))),
        FilterKind::RequestHeaders(_)
        | FilterKind::ResponseHeaders(_)
        | FilterKind::Failure(_)
        | FilterKind::Timeout(_)
        | FilterKind::Timeouts(_)
        | FilterKind::Rewrite(_) => false,
    })
}

fn filter(node: &JsonNode<'_>, dialect: Dialect) -> Option<ReadFilter> {
    let fields = node.fields(AllowedFields::Any)?;
    let stated = fields.require("type")?;
    let (name, content, kind) = known_type(&stated, dialect)?;
    for (field, node) in fields.entries() {
        if field != "type" && field != content {
            node.error(format!("must be absent where `type` is `{name}`"));
        }
    }
    let content = fields.require(content)?;
    let filter = match kind {
        Type::RequestHeaders => header_change(&content).map(FilterKind::RequestHeaders),
        Type::ResponseHeaders => header_change(&content).map(FilterKind::ResponseHeaders),
        Type::Redirect => redirect(&content).map(FilterKind::Redirect),
        Type::Mirror | Type::Rewrite | Type::Extension | Type::Cors | Type::ExternalAuth => {
            // The rest of its content is for the controller that applies it.
            content.fields(AllowedFields::Any)?;
            let field = stated.path().to_owned();
            return Some(ReadFilter::Unsupported(UnsupportedFilter { field, name }));
        }
    };
    filter.map(ReadFilter::Applied)
}

fn known_type(node: &JsonNode<'_>, dialect: Dialect) -> Option<(&'static str, &'static str, Type)> {
    let text = node.text()?;
    let stated = TYPES.iter().copied().find(|(name, _, _)| *name == text);
    let found = stated.filter(|(_, _, kind)| {
        applied(dialect).contains(kind) || unsupported(dialect).contains(kind)
    });
    if found.is_none() {
        let allowed = TYPES.iter().filter(|(_, _, kind)| applied(dialect).contains(kind));
        let names: Vec<&str> = allowed.map(|(name, _, _)| *name).collect();
        let known = stated.is_some();
        let what = if known { "is not supported here" } else { "is not a type of filter" };
        node.error(format!("{} {what}, expected {}", quote(text), one_of(&names)));
    }
    found
}

fn header_change(node: &JsonNode<'_>) -> Option<HeaderChange> {
    node.clean(|node| {
        let fields = node.fields(AllowedFields::Only(&["set", "add", "remove"]))?;
        let (set, add) = (pairs(&fields, "set"), pairs(&fields, "add"));
        let remove = match fields.get("remove") {
            Some(node) => node.list_up_to(16)?.iter().filter_map(changeable_header).collect(),
            None => Vec::new(),
        };
        Some(HeaderChange { add: add?, set: set?, remove })
    })
}

fn pairs(fields: &Fields<'_>, name: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let Some(node) = fields.get(name) else { return Some(Vec::new()) };
    let mut pairs: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for node in node.list_up_to(16)? {
        let Some(fields) = node.fields(AllowedFields::Only(&["name", "value"])) else { continue };
        let name = fields.require("name").and_then(|node| changeable_header(&node));
        let value = fields.require("value").and_then(|node| header_value(&node));
        let (Some(name), Some(value)) = (name, value) else { continue };
        if pairs.iter().any(|(other, _)| *other == name) {
            fields.error_at("name", "appears twice in one list, every name may only once");
        }
        pairs.push((name, value));
    }
    Some(pairs)
}

fn redirect(node: &JsonNode<'_>) -> Option<Redirect> {
    node.clean(|node| {
        let names = &["scheme", "hostname", "path", "port", "statusCode"];
        let fields = node.fields(AllowedFields::Only(names))?;
        let scheme =
            fields.get("scheme").and_then(|n| n.choice(&[("http", "http"), ("https", "https")]));
        let host = fields.get("hostname").and_then(|node| redirect_host(&node));
        let port = fields.get("port").and_then(|node| node.integer(1, 65535));
        let status = match fields.get("statusCode") {
            Some(node) => status(&node)?,
            None => 302,
        };
        let path = match fields.get("path") {
            Some(node) => Some(redirect_path(&node)?),
            None => None,
        };
        Some(Redirect {
            scheme: scheme.map(shared),
            host: host.map(shared),
            port: port.and_then(|port| u16::try_from(port).ok()),
            path,
            status,
        })
    })
}

fn status(node: &JsonNode<'_>) -> Option<u16> {
    let stated = node.value().as_u64();
    let status = REDIRECT_STATUSES.into_iter().find(|status| stated == Some(u64::from(*status)));
    if status.is_none() {
        let found = quote(&node.value().to_string());
        node.error(format!("expected one of 301, 302, 303, 307, 308, found {found}"));
    }
    status
}

fn redirect_host<'a>(node: &JsonNode<'a>) -> Option<&'a str> {
    let text = node.text_up_to(253)?;
    let reason = match hostnames::check(text) {
        Ok(()) if !text.starts_with("*.") => return Some(text),
        Ok(()) => "has a wildcard, a redirect needs one host",
        Err(reason) => reason,
    };
    node.error(format!("{} {reason}", quote(text)));
    None
}

fn redirect_path(node: &JsonNode<'_>) -> Option<RedirectPath> {
    let fields =
        node.fields(AllowedFields::Only(&["type", "replaceFullPath", "replacePrefixMatch"]))?;
    const FULL: &str = "replaceFullPath";
    const PREFIX: &str = "replacePrefixMatch";
    let wanted = fields
        .require("type")?
        .choice(&[("ReplaceFullPath", FULL), ("ReplacePrefixMatch", PREFIX)])?;
    let other = if wanted == FULL { PREFIX } else { FULL };
    if fields.get(other).is_some() {
        fields.error_at(other, format!("must be absent beside `{wanted}`"));
    }
    let node = fields.require(wanted)?;
    // What replaces a prefix may be empty: the prefix is taken away.
    let text = node.text()?;
    if wanted == PREFIX && text.is_empty() {
        return Some(RedirectPath::Prefix(shared("")));
    }
    let path = shared(&path::path(&node)?);
    Some(if wanted == FULL { RedirectPath::Full(path) } else { RedirectPath::Prefix(path) })
}
