//! Pods that lack a sidecar, and sidecars that are not ready.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::metadata::{items, text};
use crate::diagnostics::result::{CheckResult, abbreviated};
use crate::status::sidecars::uninjected_pods;
use crate::status::unpulled::unpulled_pods;
use crate::version::pod_version::of_sidecar;
use crate::version::report::name;
use policy_webhooks::injector::SIDECAR;
use serde_json::Value;

/// Pods that should have a sidecar and have none.
pub(super) fn missing(
    namespaces: &FetchResult<Vec<Value>>,
    pods: &FetchResult<Vec<Value>>,
    injector: InstalledInjector<'_>,
) -> CheckResult {
    let check = Check::Missing;
    let (namespaces, pods) = match (namespaces, pods) {
        (Ok(namespaces), Ok(pods)) => (namespaces, pods),
        (Err(why), _) | (_, Err(why)) => return CheckResult::unknown(check, why),
    };
    let uninjected = uninjected_pods(namespaces, pods, injector);
    let names: Vec<String> =
        uninjected.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    if names.is_empty() {
        return CheckResult::pass(check, "every pod that ought to have a sidecar has one");
    }
    CheckResult::warn(
        check,
        format!(
            "{} pods lack their sidecar, and no policy protects them: {}",
            names.len(),
            abbreviated(&names)
        ),
        "recreate them: `kubectl rollout restart`; `portcullis status` says why each ought to have one",
    )
}

/// Sidecars of running pods that are not ready, and of pods whose node cannot pull an image of ours.
pub(super) fn not_ready(pods: &FetchResult<Vec<Value>>) -> Vec<CheckResult> {
    let check = Check::NotReady;
    let pods = match pods {
        Ok(pods) => pods,
        Err(why) => return vec![CheckResult::unknown(check, why)],
    };
    let running = pods.iter().filter(|pod| {
        let ending = pod.pointer("/metadata/deletionTimestamp").is_some();
        text(pod, "/status/phase") == "Running" && !ending && of_sidecar(pod).is_some()
    });
    let (unready, ready): (Vec<&Value>, Vec<&Value>) = running.partition(|pod| is_unready(pod));
    let unpulled: Vec<String> = unpulled_pods(pods)
        .into_iter()
        .map(|pod| format!("{}/{} ({})", pod.namespace, pod.name, pod.reason))
        .collect();
    let mut found = Vec::new();
    if !unpulled.is_empty() {
        found.push(CheckResult::warn(
            check,
            format!(
                "{} pods do not start, because their node cannot pull an image of the sidecar: {}",
                unpulled.len(),
                abbreviated(&unpulled)
            ),
            "`kubectl describe pod` has the registry's words; pull secrets belong to the pod's \
             ServiceAccount (docs/injection.md, Private registries)",
        ));
    }
    if !unready.is_empty() {
        let names: Vec<String> = unready.iter().map(|pod| name(pod)).collect();
        found.push(CheckResult::warn(
            check,
            format!("{} sidecars are not ready: {}", names.len(), abbreviated(&names)),
            format!("`kubectl logs POD -c {SIDECAR}` and its `/ready` say what it waits for"),
        ));
    }
    if found.is_empty() {
        found.push(CheckResult::pass(check, format!("{} sidecars run and are ready", ready.len())));
    }
    found
}

/// True if the kubelet reports the sidecar as not ready.
fn is_unready(pod: &Value) -> bool {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let mut all = lists.into_iter().flat_map(|list| items(pod, list));
    let state = all.find(|state| text(state, "/name") == SIDECAR);
    state.and_then(|state| state.get("ready")?.as_bool()) == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use crate::version::pod_version::tests::injected;
    use policy_crds::annotation::INIT_CONTAINER;
    use serde_json::json;

    #[test]
    fn sidecars_that_are_not_ready_are_named() {
        let of = |ready: bool| {
            let mut pod = injected("shop", "web", "proxy:1");
            pod["status"]["initContainerStatuses"] = json!([{"name": SIDECAR, "ready": ready}]);
            not_ready(&Ok(vec![pod])).remove(0)
        };
        assert_eq!(of(true), CheckResult::pass(Check::NotReady, "1 sidecars run and are ready"));
        assert_eq!(of(false).message, "1 sidecars are not ready: shop/web");
        assert_eq!(of(false).outcome, CheckOutcome::Warn);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(not_ready(&unread)[0].outcome, CheckOutcome::Unknown);
    }

    #[test]
    fn a_sidecar_whose_image_cannot_be_pulled_is_named_with_the_reason() {
        let of = |container: &str, reason: &str| {
            let mut pod = injected("shop", "web", "proxy:1");
            let waiting = json!({"waiting": {"reason": reason}});
            pod["status"] = json!({"phase": "Pending",
                "initContainerStatuses": [{"name": container, "ready": false, "state": waiting}]});
            let mut unready = injected("shop", "other", "proxy:1");
            unready["status"]["initContainerStatuses"] = json!([{"name": SIDECAR, "ready": false}]);
            not_ready(&Ok(vec![pod, unready]))
        };
        for container in [SIDECAR, INIT_CONTAINER] {
            let found = of(container, "ImagePullBackOff");
            assert_eq!(
                found.iter().map(|found| &*found.message).collect::<Vec<_>>(),
                [
                    "1 pods do not start, because their node cannot pull an image of the sidecar: \
                     shop/web (ImagePullBackOff)",
                    "1 sidecars are not ready: shop/other"
                ]
            );
        }
        for others in [of("wait-for-db", "ImagePullBackOff"), of(SIDECAR, "PodInitializing")] {
            assert_eq!(others.len(), 1);
        }
    }

    #[test]
    fn pods_without_a_sidecar_are_named() {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "shop",
            "annotations": {"portcullis.dev/inject": "enabled"}}});
        let plain = json!({"metadata": {"namespace": "shop", "name": "plain"},
            "spec": {"containers": [{"name": "web"}]}, "status": {"phase": "Running"}});
        let of = |pods: Vec<Value>| {
            let injector = InstalledInjector { home: "mesh", reads_linkerd: false };
            missing(&Ok(vec![namespace.clone()]), &Ok(pods), injector)
        };
        assert_eq!(of(vec![injected("shop", "web", "proxy:1")]).outcome, CheckOutcome::Pass);
        let uninjected = of(vec![plain]);
        assert_eq!(uninjected.outcome, CheckOutcome::Warn);
        assert!(uninjected.message.ends_with(": shop/plain"), "{}", uninjected.message);
    }
}
