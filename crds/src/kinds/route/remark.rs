//! Remarks on valid routes whose meaning may surprise their author.

use crate::object::FieldError;
use crate::resource::{ParentRef, Resource};
use policy_core::matching::Segment;
use policy_core::{PathPattern, Pattern};

/// The remark on a route that matches nothing. It binds its Servers nonetheless.
const NO_RULES: &str = "has no rule: the route matches nothing, and its Servers answer 404 to every \
                        request that no other route matches; `- {}` matches everything";

pub(crate) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::Route(route) = resource else { return Vec::new() };
    let mut remarks = Vec::new();
    if route.parents.is_empty() {
        remarks
            .push(FieldError::new("spec.parentRefs", "names no parent: the route has no effect"));
    }
    if route.parents.iter().any(ParentRef::is_server) {
        let denying = route.unsupported();
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
            if let Some(message) = surprise(&request.path) {
                remarks.push(FieldError::new(field(), message));
            }
            if let Some(form) = form_of(&request.path) {
                let message =
                    format!("is matched as `{form}`, because paths are compared percent-encoded");
                remarks.push(FieldError::new(field(), message));
            }
        }
    }
    remarks
}

/// The difference between a path and paths of other projects that look like it.
fn surprise(path: &PathPattern) -> Option<String> {
    match path {
        PathPattern::Segments { segments, .. } => {
            segments.iter().find_map(|segment| match segment {
                Segment::Literal(text) if is_template(text) => {
                    Some(format!("`{text}` is an ordinary segment here, not a parameter"))
                }
                Segment::Literal(_) | Segment::Parameter(_) => None,
            })
        }
        PathPattern::Regex(pattern) => {
            let source = pattern.source();
            if source.ends_with("/*") {
                return Some("`/*` repeats the `/`: `/.*` stands for every path below".to_owned());
            }
            let is_plain = !source.contains(|c: char| "\\.*+?()[]{}|^$".contains(c));
            is_plain.then(|| {
                "matches this path alone: an expression is about the whole path".to_owned()
            })
        }
    }
}

/// True for a segment such as `:id` or `{id}`, which stands for any text elsewhere.
fn is_template(text: &str) -> bool {
    let name = text.strip_prefix(':');
    let quoted = text.strip_prefix('{').or_else(|| text.strip_prefix("%7B"));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())) || quoted.is_some()
}

/// The text of a regular expression over match forms, where that is another one.
fn form_of(path: &PathPattern) -> Option<&str> {
    let PathPattern::Regex(pattern) = path else { return None };
    pattern.in_match_form().ok().flatten().map(Pattern::source)
}

fn has_star(path: &PathPattern) -> bool {
    match path {
        PathPattern::Segments { segments, .. } => segments.iter().any(|segment| match segment {
            Segment::Literal(text) => text.contains('*'),
            Segment::Parameter(_) => false,
        }),
        PathPattern::Regex(_) => false,
    }
}
