//! Remarks on valid routes whose meaning may surprise their author.

use crate::object::FieldError;
use crate::resource::Resource;
use policy_core::matching::Segment;
use policy_core::{PathPattern, match_form};

pub(crate) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::Route(route) = resource else { return Vec::new() };
    let mut remarks = Vec::new();
    if route.parents.is_empty() {
        remarks
            .push(FieldError::new("spec.parentRefs", "names no parent: the route has no effect"));
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
        }
    }
    remarks
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
