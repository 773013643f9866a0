//! Checks that the replicas of the control plane are ready.

use crate::cluster::controller::is_ready;
use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::metadata::{items, name, text};
use crate::diagnostics::result::{CheckResult, abbreviated};
use serde_json::Value;

/// Checks that as many pods of a component are ready as its Deployment requests.
pub(super) fn ready(
    check: Check,
    deployment: &str,
    deployments: &FetchResult<Vec<Value>>,
    pods: &FetchResult<Vec<Value>>,
) -> CheckResult {
    let pods = match pods {
        Ok(pods) => pods,
        Err(why) => return CheckResult::unknown(check, why),
    };
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let found =
        deployments.as_ref().ok().and_then(|all| all.iter().find(|d| name(d) == deployment));
    let wanted = found.and_then(|found| found.pointer("/spec/replicas")?.as_u64());
    let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
    if pods.is_empty() {
        let message = format!("Deployment {deployment} has no pods");
        let hint = "install it, or name its place with --controller-namespace; `kubectl describe \
                    replicaset` says why no pod is made";
        return CheckResult::fail(check, message, hint);
    }
    let unready: Vec<String> =
        pods.iter().filter(|pod| !is_ready(pod)).map(describe_unready).collect();
    let of = wanted.unwrap_or(pods.len());
    let message = format!("{ready} of {of} replicas of {deployment} are ready");
    let hint = "`kubectl describe pod` and the pod's log say what it waits for";
    match (ready, ready >= of) {
        (0, _) => CheckResult::fail(check, format!("{message}: {}", abbreviated(&unready)), hint),
        (_, false) => {
            let unready = if unready.is_empty() {
                String::new()
            } else {
                format!(": {}", abbreviated(&unready))
            };
            CheckResult::warn(check, format!("{message}{unready}"), hint)
        }
        (_, true) => CheckResult::pass(check, message),
    }
}

/// Name of an unready pod, with the waiting reason of its first container.
fn describe_unready(pod: &Value) -> String {
    let states = items(pod, "/status/containerStatuses");
    let mut waiting = states.map(|state| text(state, "/state/waiting/reason"));
    let reason = waiting.find(|reason| !reason.is_empty()).unwrap_or_default();
    if reason.is_empty() { name(pod).to_owned() } else { format!("{} ({reason})", name(pod)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    fn pod(name: &str, ready: &str) -> Value {
        json!({"metadata": {"name": name}, "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}})
    }

    fn of(replicas: u64, pods: Vec<Value>) -> CheckResult {
        let deployment = json!({"metadata": {"name": "c"}, "spec": {"replicas": replicas}});
        ready(Check::Controller, "c", &Ok(vec![deployment]), &Ok(pods))
    }

    #[test]
    fn replicas_that_are_missing_warn_and_none_fails() {
        let finding = of(2, vec![pod("a", "True"), pod("b", "True")]);
        assert_eq!(finding, CheckResult::pass(Check::Controller, "2 of 2 replicas of c are ready"));
        let finding = of(2, vec![pod("a", "True"), pod("b", "False")]);
        assert_eq!(finding.outcome, CheckOutcome::Warn);
        assert_eq!(finding.message, "1 of 2 replicas of c are ready: b (ImagePullBackOff)");
        assert_eq!(of(2, vec![pod("a", "True")]).outcome, CheckOutcome::Warn);
        assert_eq!(of(1, vec![pod("a", "False")]).outcome, CheckOutcome::Fail);
        assert_eq!(of(1, vec![]).outcome, CheckOutcome::Fail);
        let unread = Err(FetchError::Failed("no".to_owned()));
        let finding = ready(Check::Controller, "c", &Ok(vec![]), &unread);
        assert_eq!(finding.outcome, CheckOutcome::Unknown);
    }
}
