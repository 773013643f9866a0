//! Label selectors of Kubernetes in other formats.

use crate::file::SourceNode;
use crate::mesh::is_generated;
use policy_crds::{Expression, LabelSelector, Operator, quote};
use std::sync::Arc;

/// A selector, or the reason why it cannot be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadSelector {
    /// The selector.
    Selector(LabelSelector),
    /// The reason.
    Unsayable(String),
}

/// The values that a selector asks of one label, where it asks for nothing else.
pub(crate) fn named_namespaces(selector: &LabelSelector, label: &str) -> Option<Vec<String>> {
    let LabelSelector { match_labels, match_expressions } = selector;
    match (match_labels.iter().next(), match_expressions.as_slice()) {
        (Some((key, value)), []) if match_labels.len() == 1 && **key == *label => {
            Some(vec![value.to_string()])
        }
        (None, [Expression { key, operator: Operator::In(values) }]) if **key == *label => {
            Some(values.iter().map(ToString::to_string).collect())
        }
        _ => None,
    }
}

/// Reads a selector with `matchLabels` and `matchExpressions`.
///
/// # Errors
/// It has another form.
pub(crate) fn label_selector(node: &SourceNode<'_>) -> Result<ReadSelector, String> {
    node.entries()?;
    if let Some((_, message)) = node.unknown(&["matchLabels", "matchExpressions"]) {
        return Ok(ReadSelector::Unsayable(message));
    }
    let mut selector = LabelSelector::default();
    if let Some(labels) = node.get("matchLabels") {
        for (key, value) in labels.entries()? {
            selector.match_labels.insert(Arc::from(key), Arc::from(value.text()?));
        }
    }
    for node in node.list_of("matchExpressions")? {
        let values: Vec<Arc<str>> = node.texts_of("values")?.into_iter().map(Arc::from).collect();
        let operator = node.require("operator")?;
        let operator = match (operator.text()?, values.is_empty()) {
            ("In", false) => Operator::In(values),
            ("NotIn", false) => Operator::NotIn(values),
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::DoesNotExist,
            _ => {
                let allowed =
                    "`In` and `NotIn` with values, `Exists` and `DoesNotExist` without are allowed";
                return Err(operator.error(allowed));
            }
        };
        let key = Arc::from(node.text_of("key")?);
        selector.match_expressions.push(Expression { key, operator });
    }
    let expressions = selector.match_expressions.iter().map(|it| &it.key);
    let generated = selector.match_labels.keys().chain(expressions).find(|key| is_generated(key));
    if let Some(key) = generated {
        let reason = format!("the label {} is given to pods by a controller", quote(key));
        return Ok(ReadSelector::Unsayable(reason));
    }
    Ok(ReadSelector::Selector(selector))
}
