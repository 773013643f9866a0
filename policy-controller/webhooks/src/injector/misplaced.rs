//! Annotations where nothing reads them: of a workload instead of its pods, or as labels.

use super::element::{text, texts};
use super::names::{WRITTEN, is_about_injection};
use super::opt_in::StringMap;
use super::unguarded::COMPONENT;
use policy_crds::annotation::PROXY_LABEL;
use policy_crds::{FieldError, annotation};
use serde_json::Value;

/// Returns a remark for every annotation about injection or policy that has no effect where it stands.
/// `object` is a Pod or another object with a pod template at `pointer`.
///
/// An opt-out that is not read is a Job that never ends, and a `deny` that is not read is an open port.
pub fn misplaced(object: &Value, pointer: &str) -> Vec<FieldError> {
    let path = pointer.trim_start_matches('/').replace('/', ".");
    let dot = if path.is_empty() { "" } else { "." };
    let wanted = format!("{path}{dot}metadata.annotations");
    let mut found = Vec::new();
    for place in ["", "/spec/jobTemplate"] {
        if place == pointer {
            continue;
        }
        let prefix = match place {
            "" => String::new(),
            place => format!("{}.", place.trim_start_matches('/').replace('/', ".")),
        };
        let annotations = object.pointer(&format!("{place}/metadata/annotations"));
        for name in about_injection(&texts(annotations)) {
            let field = format!("{prefix}{}", annotation::field(&name));
            let message = format!(
                "has no effect here: it is read from the pod template; write it in {wanted}"
            );
            found.push(FieldError { field, message });
        }
    }
    let labels = object.pointer(&format!("{pointer}/metadata/labels"));
    for name in about_injection(&texts(labels)) {
        let field = format!("{path}{dot}metadata.labels[\"{name}\"]");
        let message = format!("has no effect as a label of a pod; write it in {wanted}");
        found.push(FieldError { field, message });
    }
    found
}

/// Kinds that people annotate and that have no pods of their own.
const WITHOUT_PODS: [(&str, &str); 3] =
    [("", "Service"), ("", "ServiceAccount"), ("networking.k8s.io", "Ingress")];

/// Returns the annotations about injection or policy of an object without pods, each with a remark: they are
/// read from pods and Namespaces.
pub fn without_pods(object: &Value) -> Vec<(String, FieldError)> {
    let part = |name: &str| text(object, name).unwrap_or_default();
    let group = part("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    let kind = part("kind");
    if !WITHOUT_PODS.contains(&(group, kind)) {
        return Vec::new();
    }
    let names = about_injection(&texts(object.pointer("/metadata/annotations")));
    let remark = |name: String| {
        let message = match (kind, name.as_str()) {
            ("Service", annotation::OPAQUE_PORTS) => {
                "no sidecar of this mesh reads it on a Service; Linkerd's proxies do".to_owned()
            }
            (kind, _) => format!(
                "has no effect on a {kind}: it is read from pods, their templates and Namespaces"
            ),
        };
        let field = annotation::field(&name);
        (name, FieldError { field, message })
    };
    names.into_iter().map(remark).collect()
}

/// The names that are about injection or policy, without those that the injector itself writes.
fn about_injection(texts: &StringMap) -> Vec<String> {
    let names = texts.keys().filter(|name| is_about_injection(name));
    names
        .filter(|name| ![PROXY_LABEL, COMPONENT].contains(&name.as_str()))
        .filter(|name| !WRITTEN.contains(&name.as_str()))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(object: &Value, pointer: &str) -> Vec<String> {
        misplaced(object, pointer).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_annotation_of_an_object_without_pods_is_reported_with_where_it_is_read() {
        let service = |api: &str, kind: &str| {
            let annotations = json!({"config.linkerd.io/opaque-ports": "25", "a.b/c": "d"});
            let object = json!({"apiVersion": api, "kind": kind,
                "metadata": {"annotations": annotations}});
            without_pods(&object).iter().map(|(_, error)| error.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            service("v1", "Service"),
            [
                "metadata.annotations[\"config.linkerd.io/opaque-ports\"]: no sidecar of this mesh reads it on a \
              Service; Linkerd's proxies do"
            ]
        );
        assert_eq!(
            service("v1", "ServiceAccount"),
            ["metadata.annotations[\"config.linkerd.io/opaque-ports\"]: has no effect on a \
              ServiceAccount: it is read from pods, their templates and Namespaces"]
        );
        for (api, kind) in [("v1", "Namespace"), ("serving.knative.dev/v1", "Service")] {
            assert_eq!(service(api, kind), Vec::<String>::new(), "{api} {kind}");
        }
    }

    #[test]
    fn an_annotation_beside_the_pod_template_is_told_where_it_belongs() {
        let annotations = json!({"linkerd.io/inject": "disabled", "example.com/team": "a"});
        let cron_job = json!({
            "metadata": {"annotations": annotations},
            "spec": {"jobTemplate": {
                "metadata": {"annotations": annotations},
                "spec": {"template": {"metadata": {
                    "annotations": annotations,
                    "labels": {"portcullis.dev/inject": "enabled", "portcullis.dev/proxy": "injected"},
                }}},
            }},
        });
        let wanted = "spec.jobTemplate.spec.template.metadata.annotations";
        let here = "has no effect here: it is read from the pod template; write it in";
        assert_eq!(
            of(&cron_job, "/spec/jobTemplate/spec/template"),
            [
                format!("metadata.annotations[\"linkerd.io/inject\"]: {here} {wanted}"),
                format!(
                    "spec.jobTemplate.metadata.annotations[\"linkerd.io/inject\"]: {here} {wanted}"
                ),
                format!(
                    "spec.jobTemplate.spec.template.metadata.labels[\"portcullis.dev/inject\"]: has \
                     no effect as a label of a pod; write it in {wanted}"
                ),
            ]
        );
        let pod = json!({"metadata": {"annotations": annotations}});
        assert_eq!(of(&pod, ""), Vec::<String>::new());
    }
}
