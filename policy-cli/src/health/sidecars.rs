//! Pods that lack a sidecar, and sidecars that are not ready.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::metadata::{items, text};
use crate::diagnostics::result::{CheckResult, abbreviated};
use crate::status::sidecars::uninjected_pods;
use crate::version::pod_version::of_sidecar;
use crate::version::report::name;
use policy_webhooks::injector::SIDECAR;
use serde_json::Value;

/// Pods that should have a sidecar and have none. `home` is the control plane's namespace.
pub(super) fn missing(
    namespaces: &FetchResult<Vec<Value>>,
    pods: &FetchResult<Vec<Value>>,
    home: &str,
) -> CheckResult {
    let check = Check::Missing;
    let (namespaces, pods) = match (namespaces, pods) {
        (Ok(namespaces), Ok(pods)) => (namespaces, pods),
        (Err(why), _) | (_, Err(why)) => return CheckResult::unknown(check, why),
    };
    let uninjected = uninjected_pods(namespaces, pods, home);
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

/// Sidecars of running pods that are not ready.
pub(super) fn not_ready(pods: &FetchResult<Vec<Value>>) -> CheckResult {
    let check = Check::NotReady;
    let pods = match pods {
        Ok(pods) => pods,
        Err(why) => return CheckResult::unknown(check, why),
    };
    let running = pods.iter().filter(|pod| {
        let ending = pod.pointer("/metadata/deletionTimestamp").is_some();
        text(pod, "/status/phase") == "Running" && !ending && of_sidecar(pod).is_some()
    });
    let (unready, ready): (Vec<&Value>, Vec<&Value>) = running.partition(|pod| is_unready(pod));
    if unready.is_empty() {
        return CheckResult::pass(check, format!("{} sidecars run and are ready", ready.len()));
    }
    let names: Vec<String> = unready.iter().map(|pod| name(pod)).collect();
    CheckResult::warn(
        check,
        format!("{} sidecars are not ready: {}", names.len(), abbreviated(&names)),
        format!("`kubectl logs POD -c {SIDECAR}` and its `/ready` say what it waits for"),
    )
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
    use serde_json::json;

    #[test]
    fn sidecars_that_are_not_ready_are_named() {
        let of = |ready: bool| {
            let mut pod = injected("shop", "web", "proxy:1");
            pod["status"]["initContainerStatuses"] = json!([{"name": SIDECAR, "ready": ready}]);
            not_ready(&Ok(vec![pod]))
        };
        assert_eq!(of(true), CheckResult::pass(Check::NotReady, "1 sidecars run and are ready"));
        assert_eq!(of(false).message, "1 sidecars are not ready: shop/web");
        assert_eq!(of(false).outcome, CheckOutcome::Warn);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(not_ready(&unread).outcome, CheckOutcome::Unknown);
    }

    #[test]
    fn pods_without_a_sidecar_are_named() {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "shop",
            "annotations": {"portcullis.dev/inject": "enabled"}}});
        let plain = json!({"metadata": {"namespace": "shop", "name": "plain"},
            "spec": {"containers": [{"name": "web"}]}, "status": {"phase": "Running"}});
        let of = |pods: Vec<Value>| missing(&Ok(vec![namespace.clone()]), &Ok(pods), "mesh");
        assert_eq!(of(vec![injected("shop", "web", "proxy:1")]).outcome, CheckOutcome::Pass);
        let uninjected = of(vec![plain]);
        assert_eq!(uninjected.outcome, CheckOutcome::Warn);
        assert!(uninjected.message.ends_with(": shop/plain"), "{}", uninjected.message);
    }
}
