//! HTTPRouteGroup of SMI, v1alpha1 to v1alpha4. `pathRegex` matches whole paths: SMI says no more than that it
//! matches from the beginning, and this is the narrower reading.

use super::smi_fields::holder;
use crate::parse::header::named_header;
use crate::parse::input::Input;
use crate::parse::values::{METHODS, path_pattern, pattern};
use crate::path::canonical;
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::resource::{Resource, SmiMatch, SmiRouteGroup};
use http::Method;
use http::header::HOST;
use policy_core::{HeaderMatch, PathPattern, RequestMatch, ValueMatch};
use std::sync::Arc;

/// The most matches of a group.
const MAX_MATCHES: usize = 256;
/// The most headers of a match.
const MAX_HEADERS: usize = 16;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let node = holder(input, &["matches"])?.require("matches")?;
    let list = node.list_up_to(MAX_MATCHES)?;
    let mut matches: Vec<SmiMatch> = Vec::new();
    for node in &list {
        let Some(found) = named_match(node) else { continue };
        if !found.name.is_empty() && matches.iter().any(|other| other.name == found.name) {
            node.error(format!("the name {} is taken", quote(&found.name)));
        }
        matches.push(found);
    }
    Some(Resource::SmiRouteGroup(SmiRouteGroup { matches }))
}

fn named_match(node: &JsonNode<'_>) -> Option<SmiMatch> {
    node.clean(|node| {
        let known = AllowedFields::Only(&["name", "methods", "pathRegex", "headers"]);
        let fields = node.fields(known)?;
        let name = match fields.get("name") {
            Some(node) => node.text()?,
            None => "",
        };
        let path = match fields.get("pathRegex") {
            Some(node) => path(&node)?,
            None => PathPattern::prefix("/"),
        };
        let headers = headers(&fields)?;
        let request = |method: &Option<Method>| {
            Arc::new(RequestMatch::new(path.clone(), method.clone(), headers.clone(), Vec::new()))
        };
        let requests = methods(&fields)?.iter().map(request).collect();
        Some(SmiMatch { name: shared(name), requests })
    })
}

/// The paths that an expression matches as a whole. One without special characters is a path, which every
/// proxy can compare.
fn path(node: &JsonNode<'_>) -> Option<PathPattern> {
    let text = node.text()?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'~');
    if text == ".*" {
        Some(PathPattern::prefix("/"))
    } else if text.bytes().all(is_plain) && canonical(text).is_ok_and(|path| path == text) {
        Some(PathPattern::exact(text))
    } else {
        path_pattern(node).map(PathPattern::Regex)
    }
}

/// The methods; `None` stands for any.
fn methods(fields: &Fields<'_>) -> Option<Vec<Option<Method>>> {
    let Some(node) = fields.get("methods") else { return Some(vec![None]) };
    let named = METHODS.map(|name| (name, Some(name)));
    let allowed: Vec<_> = named.into_iter().chain([("*", None)]).collect();
    let mut methods = node.list_of(|node| {
        let name = node.choice(&allowed)?;
        Some(name.and_then(|name| Method::from_bytes(name.as_bytes()).ok()))
    })?;
    if methods.is_empty() || methods.contains(&None) {
        return Some(vec![None]);
    }
    methods.sort_unstable_by(|a, b| by_name(a).cmp(&by_name(b)));
    methods.dedup();
    Some(methods)
}

fn by_name(method: &Option<Method>) -> Option<&str> {
    method.as_ref().map(Method::as_str)
}

/// The conditions on headers: a mapping, or a list of mappings in v1alpha2 and v1alpha3.
fn headers(fields: &Fields<'_>) -> Option<Vec<HeaderMatch>> {
    let Some(node) = fields.get("headers") else { return Some(Vec::new()) };
    let maps = match node.value().is_array() {
        true => node.list_up_to(MAX_HEADERS)?,
        false => vec![node.clone()],
    };
    let mut found: Vec<HeaderMatch> = Vec::new();
    for map in &maps {
        for (name, value) in map.fields(AllowedFields::Any)?.entries() {
            let header = header(name, &value)?;
            if found.iter().any(|other| other.name == header.name) {
                value.error(format!("the header `{}` has two conditions", header.name));
            }
            found.push(header);
        }
    }
    if found.len() > MAX_HEADERS {
        node.error(format!("{} headers, at most {MAX_HEADERS} are allowed", found.len()));
        return None;
    }
    Some(found)
}

fn header(name: &str, value: &JsonNode<'_>) -> Option<HeaderMatch> {
    let name = named_header(value, name)?;
    let pattern = pattern(value)?;
    if name != HOST {
        return Some(HeaderMatch { name, value: ValueMatch::Regex(pattern) });
    }
    let over_hosts = pattern.over_hosts();
    if over_hosts.is_none() {
        value.error(format!(
            "{} matches no host: the header `host` is compared with the canonical host, in lower case and \
             without a port",
            quote(pattern.source())
        ));
    }
    Some(HeaderMatch { name, value: ValueMatch::Regex(over_hosts?) })
}
