//! Pods that should have a sidecar but have none: they were created before their namespace opted
//! in, or while the injector was unavailable.

use super::element::{containers, text, texts};
use super::left_alone::left_alone;
use super::opt_in::{NamespaceContext, OptIn, OptInDecision, decide, of_namespace};
use super::sidecar::{INIT, PROXY};
use super::skip_reason::{OTHER_MESHES, has_injected_pair};
use policy_crds::annotation::{PROXY_INJECTED, PROXY_LABEL};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The properties of a pod that determine whether a sidecar is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// True if it uses the network of its node.
    pub host_network: bool,
    /// True if it is running: a pod that has ended receives no traffic.
    pub running: bool,
    /// Its containers, if known.
    pub containers: Option<Vec<String>>,
}

/// The reason why a pod should have a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingSidecar {
    /// The pod opts in.
    ByPod,
    /// Its namespace opts in.
    ByNamespace,
    /// An annotation of the pod or its namespace is invalid.
    Unclear,
}

impl fmt::Display for MissingSidecar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByPod => {
                "its annotation asks for a sidecar and it has none: it was created while the \
                 injector was unavailable or not installed; delete it, or restart its workload"
            }
            Self::ByNamespace => {
                "its namespace asks for sidecars and it has none: it was created before that, or \
                 while the injector was unavailable; delete it, or restart its workload"
            }
            Self::Unclear => {
                "whether it is to have a sidecar cannot be read from its annotations and those of \
                 its namespace, and it has none; `enabled` and `disabled` are allowed"
            }
        })
    }
}

impl PodFacts {
    /// Reads the properties from the JSON of a Pod.
    pub fn of(pod: &Value) -> Self {
        let metadata = |field: &str| texts(pod.get("metadata").and_then(|m| m.get(field)));
        let status = pod.get("status");
        let phase = status.and_then(|status| text(status, "phase"));
        let ending = pod.get("metadata").and_then(|m| m.get("deletionTimestamp")).is_some();
        let host = pod.get("spec").and_then(|spec| spec.get("hostNetwork"));
        let names = containers(pod).filter_map(|(_, container)| text(container, "name"));
        // Two containers with our names that are not the injected ones protect nothing.
        let pair = has_injected_pair(pod);
        let counts = |name: &&str| pair || ![PROXY, INIT].contains(name);
        let names = names.filter(counts).map(str::to_owned);
        Self {
            labels: metadata("labels"),
            annotations: metadata("annotations"),
            host_network: host.and_then(Value::as_bool) == Some(true),
            running: phase == Some("Running") && !ending,
            containers: Some(names.collect()),
        }
    }

    /// True if the pod has our sidecar or one of another mesh.
    fn has_sidecar(&self) -> bool {
        let ours = self.labels.get(PROXY_LABEL).is_some_and(|value| value == PROXY_INJECTED);
        let known = match &self.containers {
            // Any client can write the label, and a sidecar without the init container protects
            // nothing.
            Some(names) => {
                let has = |name: &str| names.iter().any(|own| own == name);
                (has(PROXY) && has(INIT)) || OTHER_MESHES.into_iter().any(has)
            }
            None => ours,
        };
        let linkerd = self.labels.contains_key("linkerd.io/control-plane-ns");
        let istio = self.annotations.contains_key("sidecar.istio.io/status");
        known || linkerd || istio
    }
}

/// True if the API server does not send the pods of a namespace to the injector, whatever its
/// annotations. `control_plane` is the namespace of the control plane.
pub fn is_exempt(context: &NamespaceContext, control_plane: &str) -> bool {
    left_alone(context, control_plane).is_some()
}

/// Returns why a pod should have a sidecar that it lacks; `None` if it has one or should have none.
/// `control_plane` is the namespace of the control plane.
pub fn missing_sidecar(
    pod: &PodFacts,
    context: &NamespaceContext,
    control_plane: &str,
) -> Option<MissingSidecar> {
    let exempt = is_exempt(context, control_plane);
    let mirror = pod.annotations.contains_key("kubernetes.io/config.mirror");
    if exempt || mirror || pod.host_network || !pod.running || pod.has_sidecar() {
        return None;
    }
    match decide(&pod.annotations, context) {
        Ok(OptInDecision::Inject) => {}
        Ok(
            OptInDecision::DisabledByPod
            | OptInDecision::DisabledByNamespace(_)
            | OptInDecision::AsksLinkerd
            | OptInDecision::NotRequested,
        ) => return None,
        Err(_) => return Some(MissingSidecar::Unclear),
    }
    match context.answer("") {
        Ok(Some(OptIn::Enabled)) => Some(MissingSidecar::ByNamespace),
        Ok(Some(OptIn::Disabled) | None) | Err(_) => Some(MissingSidecar::ByPod),
    }
}

/// Returns the label that a namespace should have by its annotations, if any. With an invalid
/// annotation the API server sends its pods, and their authors get the error.
pub(super) fn injection_label(
    annotations: &BTreeMap<String, String>,
    reads_linkerd: bool,
) -> Option<&'static str> {
    match of_namespace(annotations, &BTreeMap::new(), "", reads_linkerd) {
        Ok(Some(OptIn::Enabled)) | Err(_) => Some("enabled"),
        Ok(Some(OptIn::Disabled)) => Some("disabled"),
        Ok(None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn around(annotation: &str) -> NamespaceContext {
        let namespace = json!({"kind": "Namespace", "metadata": {
            "name": "shop", "annotations": {"portcullis.dev/inject": annotation},
        }});
        NamespaceContext::of(&namespace).unwrap()
    }

    fn pod(more: Value) -> PodFacts {
        let mut pod = json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "web"}]},
            "status": {"phase": "Running"},
        });
        for (pointer, value) in more.as_object().unwrap() {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        PodFacts::of(&pod)
    }

    #[test]
    fn a_running_pod_of_a_namespace_that_asks_lacks_a_sidecar_until_it_has_one() {
        let of = |more| missing_sidecar(&pod(more), &around("enabled"), "portcullis");
        assert_eq!(of(json!({})), Some(MissingSidecar::ByNamespace));
        let ours = json!([
            {"name": "portcullis-init",
             "args": ["redirect", "--inbound-port=4143", "--proxy-uid=2102"]},
            {"name": "portcullis-proxy", "args": ["run"], "ports": [{"containerPort": 4143}],
             "securityContext": {"runAsUser": 2102},
             "env": [{"name": "PORTCULLIS_WORKLOAD"}, {"name": "PORTCULLIS_POLICY_ADDR"}]},
        ]);
        assert_eq!(of(json!({"/spec/initContainers": ours})), None);
        let unguarded = json!([{"name": "portcullis-proxy"}]);
        assert_eq!(
            of(json!({"/spec/initContainers": unguarded})),
            Some(MissingSidecar::ByNamespace)
        );
        // The label alone is no sidecar.
        assert_eq!(
            of(json!({"/metadata/labels": {"portcullis.dev/proxy": "injected"}})),
            Some(MissingSidecar::ByNamespace)
        );
        for (pointer, value) in [
            ("/status/phase", json!("Succeeded")),
            ("/spec/hostNetwork", json!(true)),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("/metadata/annotations", json!({"portcullis.dev/inject": "disabled"})),
            ("/metadata/annotations", json!({"sidecar.istio.io/status": "{}"})),
            ("/metadata/labels", json!({"linkerd.io/control-plane-ns": "linkerd"})),
        ] {
            assert_eq!(of(json!({pointer: value})), None, "{pointer}");
        }
    }

    #[test]
    fn who_asks_is_told_and_what_cannot_be_read_is_no_consent() {
        let asks = json!({"/metadata/annotations": {"portcullis.dev/inject": "enabled"}});
        let reason =
            |context: &NamespaceContext| missing_sidecar(&pod(asks.clone()), context, "portcullis");
        assert_eq!(reason(&around("disabled")), Some(MissingSidecar::ByPod));
        assert_eq!(reason(&NamespaceContext::unknown("portcullis")), None);
        assert_eq!(reason(&NamespaceContext::unknown("kube-system")), None);
        let unclear = missing_sidecar(&pod(json!({})), &around("yes"), "portcullis");
        assert_eq!(unclear, Some(MissingSidecar::Unclear));
    }

    #[test]
    fn the_label_follows_the_annotation_and_asks_where_it_cannot_be_read() {
        let of = |value: &str| injection_label(&around(value).annotations, false);
        assert_eq!((of("enabled"), of("disabled")), (Some("enabled"), Some("disabled")));
        assert_eq!(
            (of("ingress"), injection_label(&BTreeMap::new(), false)),
            (Some("enabled"), None)
        );
    }
}
