//! Finds pods in manifests: Pods and the pod templates of workloads.

use super::element::{text, texts};
use super::opt_in::NamespaceContext;
use policy_crds::{Part, TEMPLATE, parts, template_place};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// A Pod or a pod template in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// JSON pointer to it.
    pub pointer: String,
    /// The end of the pointer: where the pod is in its object.
    pub place: &'static str,
    /// API group of the object; empty for Kubernetes' core.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object; empty if it has none.
    pub name: String,
    /// Namespace of the object; empty if it has none.
    pub namespace: String,
    /// True for a kind that is known to keep what is added to its template. A webhook of another may
    /// refuse init containers, and its schema may drop fields of them.
    pub is_known: bool,
}

/// `Rollout shop/web`; without a namespace `Rollout web`.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, namespace, .. } = self;
        match namespace.is_empty() {
            true => write!(f, "{kind} {name}"),
            false => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// Returns every pod and pod template of a document, also in lists.
pub fn templates(document: &Value) -> Vec<Template> {
    parts(document).iter().filter_map(of_part).collect()
}

/// Returns the path of the pod template in an object of a kind that is known to have one, and to leave
/// what is added to it as it is.
fn place(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "Pod") => Some(""),
        ("", "PodTemplate") => Some("/template"),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet")
        // Until Kubernetes 1.15; a later one serves them under `apps`.
        | ("extensions", "Deployment" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job")
        | ("argoproj.io", "Rollout")
        | ("apps.openshift.io", "DeploymentConfig")
        | ("apps.kruise.io", "CloneSet" | "DaemonSet" | "StatefulSet") => Some(TEMPLATE),
        ("batch", "CronJob") => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

fn of_part(part: &Part<'_>) -> Option<Template> {
    let value = &*part.value;
    let (api, kind) = (text(value, "apiVersion")?, text(value, "kind")?);
    let group = api.rsplit_once('/').map_or("", |(group, _)| group);
    let known = place(group, kind);
    let place = known.filter(|place| value.pointer(place).is_some());
    let place = if known.is_some() { place } else { template_place(value) }?;
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    let part_of = |name: &str| text(metadata, name).unwrap_or_default().to_owned();
    let name = match part_of("name") {
        // As every command calls it, where its kind is one that is read.
        name if name.is_empty() => policy_crds::parse(value)
            .map_or_else(|_| part_of("generateName"), |object| object.meta.key.name.to_string()),
        name => name,
    };
    Some(Template {
        pointer: format!("{}{place}", pointer(&part.path)),
        place,
        group: group.to_owned(),
        kind: kind.to_owned(),
        name,
        namespace: part_of("namespace"),
        is_known: known.is_some(),
    })
}

/// Returns the JSON pointer of a path such as `items[2].items[0]`.
fn pointer(path: &str) -> String {
    let steps = path.split(['.', '[', ']']).filter(|step| !step.is_empty());
    steps.map(|step| format!("/{step}")).collect()
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
            reads_linkerd: false,
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
            reads_linkerd: false,
        }
    }
}
