//! Finds pods in manifests: Pods and the pod templates of workloads.

use super::element::{text, texts};
use super::opt_in::NamespaceContext;
use serde_json::Value;
use std::collections::BTreeMap;

/// A Pod or a pod template in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// JSON pointer to it.
    pub pointer: String,
    /// The end of the pointer: where the pod is in its object.
    pub place: &'static str,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object; empty if it has none.
    pub name: String,
    /// Namespace of the object; empty if it has none.
    pub namespace: String,
}

/// Returns every pod and pod template of a document, also in lists.
pub fn templates(document: &Value) -> Vec<Template> {
    let mut found = Vec::new();
    walk(document, "", 0, &mut found);
    found
}

/// Returns the path of the pod template in an object of a kind.
fn place(api: &str, kind: &str) -> Option<&'static str> {
    let group = api.rsplit_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        ("", "Pod") => Some(""),
        ("", "PodTemplate") => Some("/template"),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet")
        | ("batch", "Job") => Some("/spec/template"),
        ("batch", "CronJob") => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

fn walk(value: &Value, pointer: &str, depth: u8, found: &mut Vec<Template>) {
    let (api, kind) = (text(value, "apiVersion"), text(value, "kind"));
    let (Some(api), Some(kind)) = (api, kind) else { return };
    // A list of lists is possible, but deeper nesting is not meant.
    if kind == "List" && depth < 4 {
        let items = value.get("items").and_then(Value::as_array).into_iter().flatten();
        for (at, item) in items.enumerate() {
            walk(item, &format!("{pointer}/items/{at}"), depth.saturating_add(1), found);
        }
        return;
    }
    let Some(place) = place(api, kind).filter(|place| value.pointer(place).is_some()) else {
        return;
    };
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    let part = |name: &str| text(metadata, name).unwrap_or_default().to_owned();
    let name = match part("name") {
        name if name.is_empty() => part("generateName"),
        name => name,
    };
    found.push(Template {
        pointer: format!("{pointer}{place}"),
        place,
        kind: kind.to_owned(),
        name,
        namespace: part("namespace"),
    });
}

impl NamespaceContext {
    /// Reads the JSON of a Namespace; `None` if it is another kind. Items of a list have no kind.
    pub fn of(namespace: &Value) -> Option<Self> {
        let is = text(namespace, "kind").is_none_or(|kind| kind == "Namespace");
        let metadata = namespace.get("metadata").filter(|_| is)?;
        Some(Self {
            namespace: text(metadata, "name")?.to_owned(),
            annotations: texts(metadata.get("annotations")),
            labels: texts(metadata.get("labels")),
            default_enabled: false,
            is_assumed: false,
        })
    }

    /// Returns a namespace of which only the name is known.
    pub fn unknown(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            default_enabled: false,
            is_assumed: false,
        }
    }
}
