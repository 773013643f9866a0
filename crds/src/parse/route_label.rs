//! Labels of routes, and selectors over them.

use super::label::{OperatorName, operator};
use super::name::is_label_key;
use super::values::METHODS;
use crate::group_path::{GroupPath, is_parameter_name};
use crate::path::in_match_form;
use crate::reader::{AllowedFields, Fields, JsonNode, every, one_of, quote, shared};
use crate::route_selector::{
    IDEMPOTENT, LabelKey, METHOD, PARAMETER, PATH, RESERVED, RouteLabels, RouteSelector,
    SelectorExpression, VERSION,
};
use crate::selector::Operator;
use std::sync::Arc;

/// The most labels of a route, and of a selector.
pub(crate) const MAX_LABELS: usize = 32;
/// Longest value of a label.
pub(crate) const MAX_VALUE: usize = 256;
/// The most expressions of a selector, and values of an expression.
pub(crate) const MAX_EXPRESSIONS: usize = 16;
pub(crate) const MAX_VALUES: usize = 64;
/// Longest value in a selector: a path.
pub(crate) const MAX_SELECTED: usize = 1024;

/// The labels that an author writes. `None` if any of them is unreadable.
pub(crate) fn route_labels(node: &JsonNode<'_>) -> Option<RouteLabels> {
    node.clean(|node| {
        let fields = bounded(node)?;
        let label = |(name, node): (&str, JsonNode<'_>)| {
            if let Some(fault) = fault_of_own(name) {
                node.error(fault);
            }
            let value = plain(&node, MAX_VALUE)?;
            Some((shared(name), value))
        };
        Some(fields.entries().filter_map(label).collect())
    })
}

/// A selector; empty selects every route. `None` if any part of it is unreadable.
///
/// What no route can have is an error: a mistake in a negation would select every route.
pub(crate) fn route_selector(node: &JsonNode<'_>) -> Option<RouteSelector> {
    node.clean(|node| {
        let fields = node.fields(AllowedFields::Only(&["matchLabels", "matchExpressions"]))?;
        let mut expressions = Vec::new();
        if let Some(node) = fields.get("matchLabels") {
            let labels = bounded(&node)?;
            expressions.extend(labels.entries().filter_map(|(name, node)| label(name, &node)));
        }
        if let Some(node) = fields.get("matchExpressions") {
            let list = node.list_up_to(MAX_EXPRESSIONS)?;
            expressions.extend(list.iter().filter_map(expression));
        }
        Some(RouteSelector { expressions })
    })
}

/// A mapping with few enough names.
fn bounded<'a>(node: &JsonNode<'a>) -> Option<Fields<'a>> {
    let fields = node.fields(AllowedFields::Any)?;
    let count = fields.entries().count();
    if count > MAX_LABELS {
        node.error(format!("{count} labels, at most {MAX_LABELS} are allowed"));
        return None;
    }
    Some(fields)
}

/// The reason why an author cannot write a label of this name.
fn fault_of_own(name: &str) -> Option<String> {
    let LabelKey::Own(_) = LabelKey::of(name) else {
        return Some(format!("{} is automatic: every route has it by itself", quote(name)));
    };
    fault_of_name(name)
}

/// The reason why no route has a label of this name, automatic or not.
fn fault_of_name(name: &str) -> Option<String> {
    match LabelKey::of(name) {
        LabelKey::Method | LabelKey::Version | LabelKey::Path => None,
        LabelKey::Parameter(parameter) if is_parameter_name(&parameter) => None,
        LabelKey::Parameter(parameter) => {
            let rule = "a letter or `_`, then letters, digits, `_` and `-`";
            Some(format!("{} is not the name of a parameter: {rule}", quote(&parameter)))
        }
        LabelKey::Own(_) if !is_label_key(name) => {
            Some(format!("{} cannot be the name of a label", quote(name)))
        }
        LabelKey::Own(_) if name.starts_with(RESERVED) && name != IDEMPOTENT => {
            let parameter = format!("{PARAMETER}PARAMETER");
            let known = [METHOD, VERSION, PATH, IDEMPOTENT, parameter.as_str()];
            Some(format!(
                "{} is no label that has a meaning, expected {}",
                quote(name),
                one_of(&known)
            ))
        }
        LabelKey::Own(_) => None,
    }
}

/// An entry of `matchLabels`.
fn label(name: &str, node: &JsonNode<'_>) -> Option<SelectorExpression> {
    if let Some(fault) = fault_of_name(name) {
        node.error(fault);
        return None;
    }
    let key = LabelKey::of(name);
    let value = value(&key, node)?;
    Some(SelectorExpression { key, operator: Operator::In(vec![value]) })
}

fn expression(node: &JsonNode<'_>) -> Option<SelectorExpression> {
    let fields = node.fields(AllowedFields::Only(&["key", "operator", "values"]))?;
    let key = fields.require("key").and_then(|node| {
        let name = node.text()?;
        match fault_of_name(name) {
            Some(fault) => {
                node.error(fault);
                None
            }
            None => Some(LabelKey::of(name)),
        }
    });
    let named = fields.require("operator").and_then(|node| OperatorName::read(&node));
    let key = key?;
    let values = match fields.get("values") {
        Some(node) => {
            let list = node.list_up_to(MAX_VALUES)?;
            every(&list, |node| value(&key, node))
        }
        None => Some(Vec::new()),
    };
    let operator = operator(&fields, named?, values?)?;
    Some(SelectorExpression { key, operator })
}

/// A value that a label of this name can have, in the form in which it is compared.
fn value(key: &LabelKey, node: &JsonNode<'_>) -> Option<Arc<str>> {
    match key {
        LabelKey::Method => node.choice(&METHODS.map(|name| (name, name))).map(shared),
        LabelKey::Version => {
            let rule = "only `Exists` can be asked of it, which is true of every request";
            node.error(format!("`{VERSION}` has no value before there is a request: {rule}"));
            None
        }
        LabelKey::Path => {
            let text = node.text_up_to(MAX_SELECTED)?;
            reported(node, text, GroupPath::parse(text)).map(|path| shared(path.as_str()))
        }
        LabelKey::Parameter(_) => {
            let text = node.text_up_to(MAX_SELECTED)?;
            reported(node, text, segment(text)).map(|text| shared(&text))
        }
        LabelKey::Own(_) => plain(node, MAX_VALUE),
    }
}

/// The text of one segment of a path, in match form.
fn segment(text: &str) -> Result<String, String> {
    if text.contains('/') {
        return Err("has a `/`: a parameter stands for one segment of a path".to_owned());
    }
    let path = in_match_form(&format!("/{text}"))?;
    Ok(path.strip_prefix('/').unwrap_or(&path).to_owned())
}

fn reported<T>(node: &JsonNode<'_>, text: &str, read: Result<T, String>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}

/// Any text without control characters, which may be empty.
fn plain(node: &JsonNode<'_>, max: usize) -> Option<Arc<str>> {
    let text = node.text()?;
    if text.len() > max {
        node.error(format!("{} is longer than {max} bytes", quote(text)));
        return None;
    }
    if text.chars().any(char::is_control) {
        node.error(format!("{} has control characters, which no label has", quote(text)));
        return None;
    }
    Some(shared(text))
}
