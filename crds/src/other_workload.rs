//! Workloads of kinds that are not read themselves: the pods of their templates take part in policy as
//! those of a Deployment do.

use crate::kind::Kind;
use crate::object::{Body, FieldError, Object, ObjectKey};
use crate::parse::parse_written;
use crate::pods::pods_of;
use crate::resource::Resource;
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;

/// The place of the pod template in its object, as a JSON pointer.
pub const TEMPLATE: &str = "/spec/template";

/// An object of a kind that is not read itself and has a pod template.
#[derive(Clone, Debug)]
pub struct OtherWorkload {
    /// Its API group; empty for Kubernetes' core.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The pods that it stands for.
    pub pods: Vec<Object>,
    /// The errors of its template, which then stands for no pods.
    pub errors: Vec<FieldError>,
}

/// `Rollout shop/web`, as keys of objects are written.
impl fmt::Display for OtherWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Returns the workload that `value`, of a manifest, is; `None` if its kind is read itself, or it has no pod template
/// with containers.
pub fn other_workload(value: &Value) -> Option<OtherWorkload> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let is_read = Kind::ALL.iter().any(|own| own.group() == group && own.as_str() == kind);
    if is_read || !has_containers(value.pointer(TEMPLATE)?) {
        return None;
    }
    let object = parse_written(&as_deployment(value)).ok()?;
    let errors = match &object.body {
        Body::Invalid(invalid) => invalid.errors.clone(),
        Body::Valid(_) => Vec::new(),
    };
    let owner: Arc<str> = format!("{}/{}", kind.to_ascii_lowercase(), object.meta.key.name).into();
    let pods = pods_of(&object).into_iter().map(|mut pod| {
        if let Body::Valid(Resource::Pod(pod)) = &mut pod.body {
            pod.owner = Some(Arc::clone(&owner));
        }
        pod
    });
    let pods = pods.collect();
    let ObjectKey { namespace, name, .. } = object.meta.key;
    let (group, kind) = (group.to_owned(), kind.to_owned());
    Some(OtherWorkload { group, kind, namespace, name, pods, errors })
}

/// True if a template has a list of containers that is not empty.
pub fn has_containers(template: &Value) -> bool {
    let is_container = |value: &Value| {
        let text = |name: &str| value.get(name).is_some_and(Value::is_string);
        text("name") || text("image")
    };
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    containers.is_some_and(|list| !list.is_empty() && list.iter().all(is_container))
}

/// Returns the Deployment with this name and template.
fn as_deployment(value: &Value) -> Value {
    let part = |pointer: &str| value.pointer(pointer).cloned();
    let replicas = part("/spec/replicas").filter(Value::is_u64);
    let spec: Map<String, Value> = [("template", part(TEMPLATE)), ("replicas", replicas)]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": part("/metadata").unwrap_or_default(),
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(api_version: &str, kind: &str, spec: &Value) -> Option<OtherWorkload> {
        other_workload(&json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": spec,
        }))
    }

    #[test]
    fn pods_of_a_template_belong_to_their_own_kind() {
        let template = json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]},
        });
        let spec = json!({"replicas": 2, "template": template});
        let found = of("argoproj.io/v1alpha1", "Rollout", &spec).unwrap();
        assert_eq!(found.to_string(), "Rollout shop/web");
        let owner = |pod: &Object| match &pod.body {
            Body::Valid(Resource::Pod(pod)) => pod.owner.clone(),
            Body::Valid(_) | Body::Invalid(_) => None,
        };
        let names: Vec<_> =
            found.pods.iter().map(|pod| (pod.meta.key.to_string(), owner(pod))).collect();
        let rollout = || Some(Arc::from("rollout/web"));
        assert_eq!(
            names,
            [("Pod shop/web-0".to_owned(), rollout()), ("Pod shop/web-1".to_owned(), rollout())]
        );
        assert!(of("apps/v1", "Deployment", &spec).is_none(), "it is read itself");
        // Without its labels no Server selects it.
        let mut misspelt = spec.clone();
        let labels = misspelt["template"]["metadata"].take();
        misspelt["template"]["metadata"] = json!({"lables": labels["labels"]});
        let found = of("argoproj.io/v1alpha1", "Rollout", &misspelt).unwrap();
        assert!(found.pods.is_empty());
        let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        let expected = "spec.template.metadata.lables: unknown field, did you mean `labels`?";
        assert_eq!(errors, [expected]);
        let none = json!({"template": {"spec": {"containers": []}}});
        assert!(of("example.com/v1", "Widget", &none).is_none());
        let no_pods = json!({"template": {"spec": {"containers": ["a"]}}});
        assert!(of("example.com/v1", "Widget", &no_pods).is_none());
    }
}
