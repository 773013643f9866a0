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

/// The places in objects of kinds that are not read themselves, the usual one first: KEDA's ScaledJob has its own,
/// and what makes Jobs on a schedule has a CronJob's.
const PLACES: [&str; 3] =
    [TEMPLATE, "/spec/jobTargetRef/template", "/spec/jobTemplate/spec/template"];

/// Returns the place of the pod template, with containers, in an object of a kind that is not read itself.
pub fn template_place(value: &Value) -> Option<&'static str> {
    PLACES.into_iter().find(|place| value.pointer(place).is_some_and(has_containers))
}

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
    if is_read {
        return None;
    }
    let place = template_place(value)?;
    let object = parse_written(&as_deployment(value, place)).ok()?;
    let errors = match &object.body {
        Body::Invalid(invalid) => {
            invalid.errors.iter().map(|error| at_place(error, place)).collect()
        }
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
fn has_containers(template: &Value) -> bool {
    let is_container = |value: &Value| {
        let text = |name: &str| value.get(name).is_some_and(Value::is_string);
        text("name") || text("image")
    };
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    containers.is_some_and(|list| !list.is_empty() && list.iter().all(is_container))
}

/// Returns an error of the Deployment as one of the object with its template at `place`.
fn at_place(error: &FieldError, place: &str) -> FieldError {
    let path = |place: &str| place.trim_start_matches('/').replace('/', ".");
    let field = match error.field.strip_prefix(&path(TEMPLATE)) {
        Some(rest) => format!("{}{rest}", path(place)),
        None => error.field.clone(),
    };
    FieldError { field, message: error.message.clone() }
}

fn is_knative(api_version: &str) -> bool {
    api_version.starts_with("serving.knative.dev/")
}

/// Adds the container that Knative adds to each pod, and to which all requests go: its ports are those of
/// Knative's `queue.go`.
fn with_queue_proxy(mut template: Value) -> Value {
    let containers = template.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    let Some(containers) = containers else { return template };
    let is_http2 = containers
        .iter()
        .any(|container| container.pointer("/ports/0/name").is_some_and(|name| name == "h2c"));
    let serving = if is_http2 { 8013 } else { 8012 };
    let ports = [
        ("queue-port", serving),
        ("http-queueadm", 8022),
        ("http-autometric", 9090),
        ("http-usermetric", 9091),
    ];
    let ports = ports.map(|(name, port)| json!({"name": name, "containerPort": port}));
    containers.push(json!({"name": "queue-proxy", "image": "queue-proxy", "ports": ports}));
    template
}

/// Returns the Deployment with this name and template.
fn as_deployment(value: &Value, place: &str) -> Value {
    let part = |pointer: &str| value.pointer(pointer).cloned();
    let mut template = part(place);
    if part("/apiVersion").is_some_and(|api| api.as_str().is_some_and(is_knative)) {
        template = template.map(with_queue_proxy);
    }
    let replicas = part("/spec/replicas").filter(Value::is_u64);
    let spec: Map<String, Value> = [("template", template), ("replicas", replicas)]
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
    fn a_template_is_found_where_a_scaled_job_and_a_schedule_have_it() {
        let template = json!({"metadata": {"lables": {"app": "web"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]}});
        for (spec, path) in [
            (json!({"jobTargetRef": {"template": template}}), "spec.jobTargetRef.template"),
            (
                json!({"jobTemplate": {"spec": {"template": template}}}),
                "spec.jobTemplate.spec.template",
            ),
        ] {
            let found = of("keda.sh/v1alpha1", "ScaledJob", &spec).unwrap();
            let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            let expected = format!("{path}.metadata.lables: unknown field, did you mean `labels`?");
            assert_eq!(errors, [expected]);
        }
        assert!(of("keda.sh/v1alpha1", "ScaledObject", &json!({"scaleTargetRef": {}})).is_none());
    }

    #[test]
    fn pods_of_knative_have_the_port_to_which_requests_go() {
        for (name, expected) in [("http1", 8012), ("h2c", 8013)] {
            let ports = json!([{"name": name, "containerPort": 8080}]);
            let template = json!({"spec": {"containers": [{"image": "a", "ports": ports}]}});
            let spec = json!({"template": template});
            let found = of("serving.knative.dev/v1", "Service", &spec).unwrap();
            let Body::Valid(Resource::Pod(pod)) = &found.pods.first().unwrap().body else {
                panic!("{found:?}")
            };
            let shown = format!("{:?}", pod.ports);
            assert!(shown.contains(&expected.to_string()), "{shown}");
        }
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
