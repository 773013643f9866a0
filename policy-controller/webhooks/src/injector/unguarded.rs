//! Pods and ports that no sidecar guards, whatever policy says of them. Every command takes its answer
//! from here, so that none of them shows a port as protected that anybody can reach.

use super::container::skipped_ports;
use super::dry_run::settings;
use super::effective_config::EffectiveConfig;
use super::element::texts;
use super::left_alone::left_alone;
use super::opt_in::{NamespaceContext, OptInDecision, decide};
use super::ports::{PortList, without_tcp};
use super::skip_reason::{ISTIO_PROXY, SkipReason, reason};
use serde_json::Value;
use std::collections::BTreeSet;

/// The parts of a pod that no sidecar guards.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unguarded {
    /// The reason why the pod gets no sidecar at all.
    pub pod: Option<String>,
    /// Ports that are left out of the redirection to its sidecar.
    skipped: PortList,
    /// Ports that the pod declares for UDP or SCTP and not for TCP.
    datagrams: BTreeSet<u16>,
}

/// Label of the control plane's pods. They have no sidecar, and enforce the policy of their ports
/// themselves.
pub(super) const COMPONENT: &str = "portcullis.dev/component";

/// The reason why connections to a skipped port reach the application as they are.
const SKIPPED: &str =
    "connections to it go around the sidecar, because skip-inbound-ports names it";

/// The reason why nothing that is sent to a port passes the sidecar, which TCP alone does.
const DATAGRAMS: &str =
    "the pod does not declare it for TCP, and UDP and SCTP go around the sidecar";

impl Unguarded {
    /// Returns why no policy holds on a port; `None` if a sidecar may guard it.
    pub fn port(&self, port: u16) -> Option<&str> {
        let skipped = self.skipped.contains(port).then_some(SKIPPED);
        let datagrams = self.datagrams.contains(&port).then_some(DATAGRAMS);
        self.pod.as_deref().or(skipped).or(datagrams)
    }

    /// True if a sidecar may guard every port.
    pub fn is_nothing(&self) -> bool {
        self.pod.is_none() && self.skipped.is_empty() && self.datagrams.is_empty()
    }
}

/// Returns what of `pod`, the JSON of a Pod or of a pod template, no sidecar guards. A pod that merely
/// does not ask for a sidecar may get one by other means, such as the annotation of a Namespace that
/// is not known. `control_plane`: the namespace of the injector itself.
pub fn unguarded(pod: &Value, context: &NamespaceContext, control_plane: &str) -> Unguarded {
    let (found, datagrams) = (reason(pod), without_tcp(pod));
    if let Some(SkipReason::AlreadyInjected { .. }) = found {
        return Unguarded { pod: None, skipped: skipped_ports(pod), datagrams };
    }
    if texts(pod.pointer("/metadata/labels")).contains_key(COMPONENT) {
        return Unguarded::default();
    }
    let annotations = texts(pod.pointer("/metadata/annotations"));
    let (none, settings) = (PortList::default(), settings());
    let decision = decide(&annotations, context).ok();
    if let Some(why) = without_sidecar(found, (context, control_plane), decision) {
        return Unguarded { pod: Some(why), skipped: none, datagrams };
    }
    let config =
        EffectiveConfig::of(pod, &annotations, context, &settings.defaults, settings.hindrance());
    Unguarded { pod: None, skipped: config.map_or(none, |config| config.skipped), datagrams }
}

/// Returns the reason why a pod has no sidecar: what it is, its namespace, or its author's wish.
fn without_sidecar(
    found: Option<SkipReason>,
    (context, control_plane): (&NamespaceContext, &str),
    decision: Option<OptInDecision>,
) -> Option<String> {
    match found {
        Some(reason @ (SkipReason::HostNetwork | SkipReason::Windows | SkipReason::Static)) => {
            return Some(reason.to_string());
        }
        // Its proxy asks nobody here for a policy.
        Some(reason @ SkipReason::OtherMesh(ISTIO_PROXY)) => return Some(reason.to_string()),
        // Linkerd's proxy may ask for the policy.
        Some(_) => return None,
        None => {}
    }
    if let Some(why) = left_alone(context, control_plane) {
        return Some(why);
    }
    let wish = decision?.skip_reason()?;
    let opts_out = matches!(wish, SkipReason::DisabledByPod | SkipReason::DisabledByNamespace(_));
    opts_out.then(|| wish.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: Value, annotations: Value) -> Value {
        let mut pod = json!({"metadata": {"annotations": annotations}, "spec": spec});
        pod["spec"]["containers"] = json!([
            {"name": "a", "image": "a", "ports": [{"containerPort": 9104, "name": "metrics"}]},
        ]);
        pod
    }

    fn of(spec: Value, annotations: Value, namespace: &str) -> Option<String> {
        let context = NamespaceContext::unknown(namespace);
        let found = unguarded(&pod(spec, annotations), &context, "mesh");
        found.port(9104).map(str::to_owned)
    }

    #[test]
    fn a_port_that_anybody_reaches_is_never_taken_for_guarded() {
        let none = || json!({});
        let windows = "the pod's os is windows, the sidecar runs on Linux".to_owned();
        let skip = json!({"config.linkerd.io/skip-inbound-ports": "9000-9200"});
        let host = SkipReason::HostNetwork.to_string();
        assert_eq!(of(json!({"hostNetwork": true}), none(), "shop"), Some(host));
        assert_eq!(of(json!({"os": {"name": "windows"}}), none(), "shop"), Some(windows.clone()));
        let selected = json!({"nodeSelector": {"kubernetes.io/os": "windows"}});
        assert_eq!(of(selected, none(), "shop"), Some(windows));
        assert_eq!(of(none(), skip, "shop"), Some(SKIPPED.to_owned()));
        let system = "the injector leaves namespace kube-system alone".to_owned();
        assert_eq!(of(none(), none(), "kube-system"), Some(system));
        let own = "the injector leaves namespace mesh alone".to_owned();
        assert_eq!(of(none(), none(), "mesh"), Some(own));
        assert_eq!(of(none(), none(), "portcullis"), None, "the control plane is elsewhere");
        let other = |name: &str| {
            let mut pod = pod(none(), none());
            pod["spec"]["initContainers"] = json!([{"name": name, "image": "a"}]);
            let context = NamespaceContext::unknown("shop");
            unguarded(&pod, &context, "mesh").port(9104).map(str::to_owned)
        };
        let istio = "the pod has the sidecar of another mesh, container `istio-proxy`".to_owned();
        assert_eq!(other("istio-proxy"), Some(istio));
        assert_eq!(other("linkerd-proxy"), None, "it may ask for the policy");
        let disabled = json!({"linkerd.io/inject": "disabled"});
        assert_eq!(of(none(), disabled, "shop"), Some(SkipReason::DisabledByPod.to_string()));
        assert_eq!(of(none(), none(), "shop"), None);
    }

    /// A Server of a port for UDP was shown as one that holds.
    #[test]
    fn a_port_of_another_protocol_than_tcp_alone_is_not_guarded() {
        let port =
            |number: u16, protocol: &str| json!({"containerPort": number, "protocol": protocol});
        let pod = json!({"spec": {"containers": [
            {"name": "a", "ports": [port(53, "UDP"), port(5353, "UDP"), {"containerPort": 80}]},
            {"name": "b", "ports": [port(53, "TCP"), port(3868, "SCTP")]},
        ]}});
        let found = unguarded(&pod, &NamespaceContext::unknown("shop"), "mesh");
        let of = |number| found.port(number);
        assert_eq!([53, 80, 5353, 3868].map(of), [None, None, Some(DATAGRAMS), Some(DATAGRAMS)]);
    }
}
