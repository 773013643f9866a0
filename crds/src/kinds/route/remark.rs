//! Remarks on valid routes whose meaning may surprise their author.

use crate::object::FieldError;
use crate::resource::{ParentRef, Resource};
use http::header::HOST;
use policy_core::host::canonical_host;
use policy_core::matching::Segment;
use policy_core::{PathPattern, ValueMatch, match_form};

/// The remark on a route that matches nothing. It binds its Servers nonetheless.
const NO_RULES: &str = "has no rule: the route matches nothing, and its Servers answer 404 to every \
                        request that no other route matches; `- {}` matches everything";

/// The remark on a match on `host` that holds for no request.
const NEVER_A_HOST: &str = "matches nothing: the header `host` is compared with the canonical host, in \
                            lower case and without a port; name hosts in `hostnames`";

pub(crate) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::Route(route) = resource else { return Vec::new() };
    let mut remarks = Vec::new();
    if route.parents.is_empty() {
        remarks
            .push(FieldError::new("spec.parentRefs", "names no parent: the route has no effect"));
    }
    if route.parents.iter().any(ParentRef::is_server) {
        let denying = route.unsupported.iter();
        remarks.extend(denying.map(|filter| FieldError::new(&*filter.field, filter.to_string())));
        if route.rules.is_empty() {
            remarks.push(FieldError::new("spec.rules", NO_RULES));
        }
    }
    for (i, rule) in route.rules.iter().enumerate() {
        for (j, request) in rule.matches.iter().enumerate() {
            let field = || format!("spec.rules[{i}].matches[{j}].path.value");
            if has_star(&request.path) {
                let message = "`*` is an ordinary character here, not a wildcard";
                remarks.push(FieldError::new(field(), message));
            }
            if let Some((written, form)) = never_written(&request.path) {
                let message = format!(
                    "has `{written}`, which the paths that expressions are matched on write as `{form}`"
                );
                remarks.push(FieldError::new(field(), message));
            }
            if let Some((written, encoded)) = never_plain(&request.path) {
                let message = format!(
                    "has `{written}`, which is always percent-encoded in the paths that expressions \
                     are matched on; write `{encoded}`"
                );
                remarks.push(FieldError::new(field(), message));
            }
            for (k, header) in request.headers().iter().enumerate() {
                if header.name == HOST && is_never_a_host(&header.value) {
                    let field = format!("spec.rules[{i}].matches[{j}].headers[{k}].value");
                    remarks.push(FieldError::new(field, NEVER_A_HOST));
                }
            }
        }
    }
    remarks
}

/// True if no canonical host has such a value: hosts are compared in lower case and without a port.
fn is_never_a_host(value: &ValueMatch) -> bool {
    match value {
        ValueMatch::Exact(bytes) => {
            !std::str::from_utf8(bytes).is_ok_and(|text| canonical_host(text).is_ok())
        }
        ValueMatch::Regex(pattern) => {
            let source = without_escapes(pattern.source());
            // With these, some part may be left out or stand for others.
            let plain = !source.contains(['[', '(', '|', '?', '*', '{']);
            plain && source.bytes().any(|byte| byte == b':' || byte.is_ascii_uppercase())
        }
    }
}

/// An expression without its escapes, such as `\.` and `\D`.
fn without_escapes(source: &str) -> String {
    let mut rest = source.chars();
    let mut plain = String::new();
    while let Some(character) = rest.next() {
        match character {
            '\\' => _ = rest.next(),
            other => plain.push(other),
        }
    }
    plain
}

/// A percent-encoding in a regular expression that never occurs in the match form of a path, and
/// its replacement (see [`policy_core::match_form`]).
fn never_written(path: &PathPattern) -> Option<(&str, String)> {
    let PathPattern::Regex(pattern) = path else { return None };
    let source = pattern.source();
    source.match_indices('%').find_map(|(at, _)| {
        let written = source.get(at..at.saturating_add(3))?;
        let is_encoding = written.bytes().skip(1).all(|digit| digit.is_ascii_hexdigit());
        let form = match_form(written);
        (is_encoding && form != written).then(|| (written, form.into_owned()))
    })
}

/// A character, written as itself in a regular expression, that never occurs in the match form of a
/// path (see [`policy_core::match_form`]).
fn never_plain(path: &PathPattern) -> Option<(&'static str, &'static str)> {
    let PathPattern::Regex(pattern) = path else { return None };
    let source = pattern.source();
    NEVER_PLAIN.into_iter().find(|(written, _)| source.contains(written))
}

/// Characters that have no meaning in a regular expression as written here, and their encoding.
const NEVER_PLAIN: [(&str, &str); 9] = [
    (" ", "%20"),
    ("\"", "%22"),
    ("`", "%60"),
    ("\\[", "%5B"),
    ("\\]", "%5D"),
    ("\\^", "%5E"),
    ("\\{", "%7B"),
    ("\\|", "%7C"),
    ("\\}", "%7D"),
];

fn has_star(path: &PathPattern) -> bool {
    match path {
        PathPattern::Segments { segments, .. } => segments.iter().any(|segment| match segment {
            Segment::Literal(text) => text.contains('*'),
            Segment::Parameter(_) => false,
        }),
        PathPattern::Regex(_) => false,
    }
}
