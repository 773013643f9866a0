//! Label selectors.

use super::name::{is_label_key, is_label_value};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote, shared};
use crate::selector::{Expression, LabelSelector, Operator};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A label selector as it was read.
pub(crate) struct SelectorReading {
    /// The conditions that could be read, which bound what an invalid object claims. `None`: it is no
    /// mapping.
    pub(crate) readable: Option<LabelSelector>,
    /// All of it; `None` if any part is unreadable.
    pub(crate) whole: Option<LabelSelector>,
}

/// A label selector; empty selects everything. `None` if any part of it is unreadable.
pub(crate) fn selector(node: &JsonNode<'_>) -> Option<LabelSelector> {
    read_selector(node).whole
}

/// A label selector, with the part of it that can be read.
///
/// Labels that no object can have are errors: a selector that selects nothing by mistake would
/// leave workloads unprotected.
pub(crate) fn read_selector(node: &JsonNode<'_>) -> SelectorReading {
    let mut readable = None;
    let whole = node.clean(|node| {
        readable = conditions(node);
        readable.clone()
    });
    SelectorReading { readable, whole }
}

fn conditions(node: &JsonNode<'_>) -> Option<LabelSelector> {
    let fields = node.fields(AllowedFields::Only(&["matchLabels", "matchExpressions"]))?;
    let match_labels = fields.get("matchLabels").map_or_else(BTreeMap::new, |n| labels(&n));
    let match_expressions = match fields.get("matchExpressions").and_then(|node| node.list()) {
        Some(list) => list.iter().filter_map(expression).collect(),
        None => Vec::new(),
    };
    Some(LabelSelector { match_labels, match_expressions })
}

/// A mapping of names of labels to their values: those that labels can have.
pub(crate) fn labels(node: &JsonNode<'_>) -> BTreeMap<Arc<str>, Arc<str>> {
    let Some(fields) = node.fields(AllowedFields::Any) else { return BTreeMap::new() };
    let pair = |(key, node): (&str, JsonNode<'_>)| {
        let value = node.text()?;
        let (named, valued) = (is_key(&node, key), is_value(&node, value));
        (named && valued).then(|| (shared(key), shared(value)))
    };
    fields.entries().filter_map(pair).collect()
}

/// Returns true if a label can have this name; an error of `node` if none can.
fn is_key(node: &JsonNode<'_>, key: &str) -> bool {
    let is_key = is_label_key(key);
    if !is_key {
        node.error(format!("{} cannot be the name of a label", quote(key)));
    }
    is_key
}

/// Returns true if a label can have this value; an error of `node` if none can.
fn is_value(node: &JsonNode<'_>, value: &str) -> bool {
    let is_value = is_label_value(value);
    if !is_value {
        node.error(format!("{} cannot be the value of a label", quote(value)));
    }
    is_value
}

/// The name of an operator.
#[derive(Clone, Copy)]
pub(crate) enum OperatorName {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl OperatorName {
    /// Reads it.
    pub(crate) fn read(node: &JsonNode<'_>) -> Option<Self> {
        node.choice(&[
            ("In", Self::In),
            ("NotIn", Self::NotIn),
            ("Exists", Self::Exists),
            ("DoesNotExist", Self::DoesNotExist),
        ])
    }
}

/// The operator with its values, errors of which are those of the field `values`.
pub(crate) fn operator(
    fields: &Fields<'_>,
    named: OperatorName,
    values: Vec<Arc<str>>,
) -> Option<Operator> {
    match named {
        OperatorName::In => Some(Operator::In(some_values(fields, values)?)),
        OperatorName::NotIn => Some(Operator::NotIn(some_values(fields, values)?)),
        OperatorName::Exists => no_values(fields, &values, Operator::Exists),
        OperatorName::DoesNotExist => no_values(fields, &values, Operator::DoesNotExist),
    }
}

fn expression(node: &JsonNode<'_>) -> Option<Expression> {
    let fields = node.fields(AllowedFields::Only(&["key", "operator", "values"]))?;
    let key = fields.require("key").and_then(|node| {
        let key = node.text()?;
        is_key(&node, key).then(|| shared(key))
    });
    let named = fields.require("operator").and_then(|node| OperatorName::read(&node));
    let values = values(&fields);
    let operator = operator(&fields, named?, values?)?;
    Some(Expression { key: key?, operator })
}

fn values(fields: &Fields<'_>) -> Option<Vec<Arc<str>>> {
    let Some(node) = fields.get("values") else { return Some(Vec::new()) };
    let value = |node: JsonNode<'_>| {
        let value = node.text()?;
        is_value(&node, value).then(|| shared(value))
    };
    let values: Vec<Option<Arc<str>>> = node.list()?.into_iter().map(value).collect();
    values.into_iter().collect()
}

fn some_values(fields: &Fields<'_>, values: Vec<Arc<str>>) -> Option<Vec<Arc<str>>> {
    if values.is_empty() {
        fields.error_at(
            "values",
            format!("at least one is required with {}", one_of(&["In", "NotIn"])),
        );
        return None;
    }
    Some(values)
}

fn no_values(fields: &Fields<'_>, values: &[Arc<str>], operator: Operator) -> Option<Operator> {
    if !values.is_empty() {
        fields.error_at(
            "values",
            format!("must be absent with {}", one_of(&["Exists", "DoesNotExist"])),
        );
        return None;
    }
    Some(operator)
}
