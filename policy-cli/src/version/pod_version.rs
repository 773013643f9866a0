//! Version of a pod, read from its images, labels and annotations.

use super::image::tag;
use policy_webhooks::injector::{PodFacts, SIDECAR, VERSION_ANNOTATION};
use serde_json::Value;

/// Label in which Helm and others record a version.
const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// Version of a control plane pod: the tag of its first container's image, or else its label;
/// `None` if both are missing.
pub(crate) fn of_control_plane(pod: &Value) -> Option<String> {
    let image = pod.pointer("/spec/containers/0/image").and_then(Value::as_str);
    let label = metadata(pod, "labels", VERSION_LABEL);
    image.and_then(tag).or(label).map(str::to_owned)
}

/// Version of a pod's sidecar, if it has one: the tag of its image, or else the injector's
/// annotation. The inner option is empty if both are missing.
#[allow(clippy::option_option, reason = "a pod without a sidecar is not one of unknown version")]
pub(crate) fn of_sidecar(pod: &Value) -> Option<Option<String>> {
    let containers = PodFacts::of(pod).containers?;
    if !containers.iter().any(|name| name == SIDECAR) {
        return None;
    }
    let image = sidecar(pod).and_then(|container| container.get("image")?.as_str());
    let written = metadata(pod, "annotations", VERSION_ANNOTATION);
    Some(image.and_then(tag).or(written).map(str::to_owned))
}

/// The sidecar container of a pod.
fn sidecar(pod: &Value) -> Option<&Value> {
    let lists = ["initContainers", "containers"].map(|list| pod.get("spec")?.get(list)?.as_array());
    let mut all = lists.into_iter().flatten().flatten();
    all.find(|container| container.get("name").and_then(Value::as_str) == Some(SIDECAR))
}

fn metadata<'a>(pod: &'a Value, list: &str, key: &str) -> Option<&'a str> {
    pod.get("metadata")?.get(list)?.get(key)?.as_str()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A pod with a sidecar as the injector adds it.
    pub(crate) fn injected(namespace: &str, name: &str, image: &str) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": name,
                "annotations": {VERSION_ANNOTATION: "0.0.7"}},
            "spec": {
                "initContainers": [
                    {"name": "portcullis-init",
                     "args": ["redirect", "--inbound-port=4143", "--proxy-uid=2102"]},
                    {"name": SIDECAR, "image": image, "args": ["run"],
                     "ports": [{"containerPort": 4143}], "securityContext": {"runAsUser": 2102},
                     "env": [{"name": "PORTCULLIS_WORKLOAD"}, {"name": "PORTCULLIS_POLICY_ADDR"}]},
                ],
                "containers": [{"name": "web", "image": "web:9"}],
            },
            "status": {"phase": "Running"},
        })
    }

    #[test]
    fn the_image_decides_and_the_annotation_where_it_has_no_tag() {
        let version = |image: &str| of_sidecar(&injected("shop", "web", image));
        assert_eq!(version("registry/proxy:0.1.0"), Some(Some("0.1.0".to_owned())));
        assert_eq!(version("registry/proxy@sha256:00"), Some(Some("0.0.7".to_owned())));
        let mut plain = injected("shop", "web", "proxy:0.1.0");
        plain["spec"]["initContainers"] = json!([]);
        assert_eq!(of_sidecar(&plain), None);
    }

    #[test]
    fn a_control_plane_without_a_tag_goes_by_its_label() {
        let pod = |image: &str| {
            json!({"metadata": {"labels": {VERSION_LABEL: "0.1.0"}},
                   "spec": {"containers": [{"image": image}]}})
        };
        assert_eq!(of_control_plane(&pod("a:0.2.0")).as_deref(), Some("0.2.0"));
        assert_eq!(of_control_plane(&pod("a@sha256:00")).as_deref(), Some("0.1.0"));
        assert_eq!(of_control_plane(&json!({})), None);
    }
}
