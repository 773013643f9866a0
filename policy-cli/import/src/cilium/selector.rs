//! Selectors of endpoints, whose labels may say where they come from.

use crate::file::SourceNode;
use crate::label_selector::{ReadSelector, label_selector};
use policy_crds::{LabelSelector, Operator, quote};
use std::sync::Arc;

const NAMESPACE: &str = "io.kubernetes.pod.namespace";
const ACCOUNT: &str = "io.cilium.k8s.policy.serviceaccount";

/// Endpoints: pods of a namespace, or of all, with these labels and this ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CiliumSelector {
    /// The namespaces; absent: each.
    pub(super) namespaces: Option<Vec<String>>,
    /// The labels.
    pub(super) labels: LabelSelector,
    /// The ServiceAccount; absent: any.
    pub(super) account: Option<String>,
}

/// Reads a selector; or says why it cannot be said. `own` is the namespace that it is about by default.
///
/// # Errors
/// It has another form.
pub(super) fn selector(
    node: &SourceNode<'_>,
    own: Option<&str>,
) -> Result<Result<CiliumSelector, String>, String> {
    node.entries()?;
    let read = match label_selector(node)? {
        ReadSelector::Selector(selector) => selector,
        ReadSelector::Unsayable(reason) => return Ok(Err(reason)),
    };
    let mut found = CiliumSelector {
        namespaces: own.map(|own| vec![own.to_owned()]),
        labels: LabelSelector::default(),
        account: None,
    };
    let names_namespace =
        read.match_labels.keys().any(|key| plain(key).is_ok_and(|it| &*it == NAMESPACE));
    for (key, value) in read.match_labels {
        let value_text = value.to_string();
        match plain(&key) {
            Ok(key) if &*key == NAMESPACE => found.namespaces = Some(vec![value_text]),
            Ok(key) if &*key == ACCOUNT => found.account = Some(value_text),
            Ok(key) if is_special(&key) => return Ok(Err(unsayable(&key))),
            Ok(key) => {
                // Two sources of one key may both be meant.
                if found.labels.match_labels.insert(key.clone(), value).is_some() {
                    return Ok(Err(unsayable(&key)));
                }
            }
            Err(reason) => return Ok(Err(reason)),
        }
    }
    let mut named_before = names_namespace;
    for mut expression in read.match_expressions {
        match plain(&expression.key) {
            Ok(key) if &*key == NAMESPACE => {
                match namespaces(&expression.operator) {
                    Some(of_it) if !named_before => found.namespaces = of_it,
                    Some(_) | None => return Ok(Err(unsayable(&key))),
                }
                named_before = true;
                continue;
            }
            Ok(key) if is_special(&key) => return Ok(Err(unsayable(&key))),
            Ok(key) => expression.key = key,
            Err(reason) => return Ok(Err(reason)),
        }
        found.labels.match_expressions.push(expression);
    }
    Ok(Ok(found))
}

/// The namespaces of a condition on the label with their name: some, or each. `None`: it cannot be said.
fn namespaces(operator: &Operator) -> Option<Option<Vec<String>>> {
    match operator {
        Operator::In(values) => Some(Some(values.iter().map(ToString::to_string).collect())),
        Operator::Exists => Some(None),
        Operator::NotIn(_) | Operator::DoesNotExist => None,
    }
}

/// True if a label is none of a pod but one that Cilium adds.
fn is_special(key: &str) -> bool {
    key.starts_with("io.cilium.") || key == NAMESPACE
}

fn unsayable(key: &str) -> String {
    format!("the label {} is not known", quote(key))
}

/// A key without the source `k8s`, or `any`.
fn plain(key: &str) -> Result<Arc<str>, String> {
    match key.split_once([':', '.']) {
        Some(("k8s" | "any", rest)) if key.get(3..4) == Some(":") => Ok(Arc::from(rest)),
        Some((_, _)) if key.contains(':') => Err(unsayable(key)),
        Some(_) | None => Ok(Arc::from(key)),
    }
}
