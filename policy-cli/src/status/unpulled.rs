//! Pods that do not start, because their node cannot pull an image of the sidecar.

use crate::diagnostics::metadata::{items, text};
use policy_crds::annotation::INIT_CONTAINER;
use policy_webhooks::injector::SIDECAR;
use serde::Serialize;
use serde_json::Value;

/// A pod that waits for an image of the sidecar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct UnpulledPod {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// Reason, as the kubelet names it.
    pub(crate) reason: String,
}

/// The kubelet's reasons.
const PULL_FAILURES: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// Returns those among `pods` that are pending because an image of an injected container cannot be pulled.
pub(crate) fn unpulled_pods(pods: &[Value]) -> Vec<UnpulledPod> {
    let pending = pods.iter().filter(|pod| text(pod, "/status/phase") == "Pending");
    let mut found: Vec<UnpulledPod> = pending
        .filter_map(|pod| {
            let owned = |pointer: &str| text(pod, pointer).to_owned();
            let (namespace, name) = (owned("/metadata/namespace"), owned("/metadata/name"));
            Some(UnpulledPod { namespace, name, reason: pull_failure(pod)?.to_owned() })
        })
        .collect();
    found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    found
}

/// The reason why the image of an injected container cannot be pulled.
fn pull_failure(pod: &Value) -> Option<&str> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let all = lists.into_iter().flat_map(|list| items(pod, list));
    let mut ours = all.filter(|state| [SIDECAR, INIT_CONTAINER].contains(&text(state, "/name")));
    ours.find_map(|state| {
        let reason = text(state, "/state/waiting/reason");
        PULL_FAILURES.contains(&reason).then_some(reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_that_wait_for_an_image_of_the_sidecar_are_named_with_the_reason() {
        let pod = |name: &str, container: &str, reason: &str| {
            json!({
                "metadata": {"namespace": "shop", "name": name},
                "status": {"phase": "Pending", "initContainerStatuses": [
                    {"name": container, "state": {"waiting": {"reason": reason}}},
                ]},
            })
        };
        let pods = [
            pod("web", SIDECAR, "ImagePullBackOff"),
            pod("db", INIT_CONTAINER, "ErrImagePull"),
            pod("own", "wait-for-db", "ImagePullBackOff"),
            pod("soon", SIDECAR, "PodInitializing"),
        ];
        let unpulled = |name: &str, reason: &str| UnpulledPod {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        let expected = [unpulled("db", "ErrImagePull"), unpulled("web", "ImagePullBackOff")];
        assert_eq!(unpulled_pods(&pods), expected);
    }
}
