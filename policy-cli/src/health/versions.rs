//! Checks that the control plane has one version, which is this program's.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::{FetchError, FetchResult};
use crate::diagnostics::result::{CheckOutcome, CheckResult, abbreviated};
use crate::version::report::{CLIENT, controller_version, of_component, of_sidecars, shown};
use crate::version::skew::Skew;
use serde_json::Value;

/// Checks the control plane's versions.
pub(super) fn versions(
    pods: &FetchResult<Vec<Value>>,
    issuers: &FetchResult<Vec<Value>>,
) -> CheckResult {
    let check = Check::Versions;
    let (pods, issuers) = match (pods, issuers) {
        (Ok(pods), Ok(issuers)) => (pods, issuers),
        (Err(why), _) | (_, Err(why)) => return CheckResult::unknown(check, why),
    };
    let running =
        [of_component("controller", pods, None), of_component("issuer", issuers, None)].concat();
    let mut found: Vec<String> = running
        .iter()
        .map(|one| one.version.clone().unwrap_or_else(|| "not known".to_owned()))
        .collect();
    found.sort();
    found.dedup();
    match found.as_slice() {
        [] => CheckResult::fail(check, "nothing of the control plane runs", "install it"),
        [one] if one == CLIENT => CheckResult::pass(check, format!("everything is version {one}")),
        [one] => CheckResult::warn(
            check,
            format!("the control plane is version {one}, and this program is {CLIENT}"),
            "use the command line of the control plane's version",
        ),
        several => CheckResult::warn(
            check,
            format!("the control plane has several versions: {}", abbreviated(several)),
            "wait until the upgrade is through, or see why it does not go on: `kubectl rollout status`",
        ),
    }
}

/// Checks the sidecars' versions against the controller's.
pub(super) fn of_all_sidecars(
    pods: &FetchResult<Vec<Value>>,
    controller_pods: &FetchResult<Vec<Value>>,
) -> Vec<CheckResult> {
    let check = Check::SidecarVersions;
    let (pods, controller_pods) = match (pods, controller_pods) {
        (Ok(pods), Ok(controller_pods)) => (pods, controller_pods),
        (Err(why), _) | (_, Err(why)) => return vec![CheckResult::unknown(check, why)],
    };
    let controller = controller_version(controller_pods);
    let running = of_sidecars(pods, controller.as_deref());
    let mut findings = Vec::new();
    for one in &running {
        let version = one.version.as_deref().unwrap_or("an unknown version");
        let pods = shown(&one.some, one.pods);
        let message = format!("{} sidecars are {version}, {}: {pods}", one.pods, one.skew.words());
        match one.skew {
            Skew::Unknown if one.version.is_none() => {
                let words = format!("the version of {} sidecars: {pods}", one.pods);
                findings.push(CheckResult::unknown(check, &FetchError::Failed(words)));
            }
            Skew::Same | Skew::Unknown => {}
            Skew::Older => findings.push(CheckResult::warn(
                check,
                message,
                "recreate their pods: `kubectl rollout restart`",
            )),
            Skew::Newer | Skew::Other => findings.push(CheckResult::warn(
                check,
                message,
                "controllers are upgraded first: upgrade the control plane",
            )),
        }
    }
    let known = running.iter().filter(|one| one.version.is_some());
    let known: usize = known.map(|one| one.pods).sum();
    let warned = findings.iter().any(|finding| finding.outcome == CheckOutcome::Warn);
    if known > 0 && !warned {
        let message = match &controller {
            Some(version) => format!("{known} sidecars are of the controller's version, {version}"),
            None => format!("{known} sidecars run"),
        };
        findings.push(CheckResult::pass(check, message));
    }
    if findings.is_empty() {
        findings.push(CheckResult::pass(check, "no pod has a sidecar"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::result::tests::summaries;
    use crate::version::pod_version::tests::injected;
    use serde_json::json;

    fn pod(version: &str) -> Value {
        json!({"spec": {"containers": [{"image": format!("c:{version}")}]}})
    }

    #[test]
    fn the_control_plane_has_one_version() {
        let pods = |all: &[&str]| Ok(all.iter().map(|version| pod(version)).collect());
        let of = |all: &[&str], issuers: &[&str]| versions(&pods(all), &pods(issuers)).outcome;
        assert_eq!(of(&[CLIENT], &[CLIENT]), CheckOutcome::Pass);
        assert_eq!(of(&["9.9.9"], &["9.9.9"]), CheckOutcome::Warn);
        assert_eq!(of(&[CLIENT, "9.9.9"], &[]), CheckOutcome::Warn);
        assert_eq!(of(&[], &[]), CheckOutcome::Fail);
    }

    #[test]
    fn sidecars_of_another_version_are_reported() {
        let controllers = Ok(vec![pod("0.2.0")]);
        let of = |image: &str| {
            let pods = Ok(vec![injected("shop", "web", image)]);
            of_all_sidecars(&pods, &controllers)
        };
        let older = of("proxy:0.1.0");
        assert_eq!(older[0].outcome, CheckOutcome::Warn);
        let expected = "1 sidecars are 0.1.0, older than the controller: shop/web";
        assert_eq!(older[0].message, expected);
        assert_eq!(of("proxy:0.3.0")[0].outcome, CheckOutcome::Warn);
        assert_eq!(of("proxy:0.2.0")[0].outcome, CheckOutcome::Pass);
        let known = injected("shop", "web", "proxy:0.2.0");
        let mut unknown = injected("shop", "api", "proxy@sha256:0123");
        unknown["metadata"]["annotations"] = serde_json::json!({});
        let both = of_all_sidecars(&Ok(vec![known, unknown.clone()]), &controllers);
        let pass = (CheckOutcome::Pass, "1 sidecars are of the controller's version, 0.2.0");
        let not_known = (CheckOutcome::Unknown, "not known: the version of 1 sidecars: shop/api");
        assert_eq!(summaries(&both), [not_known, pass]);
        let alone = of_all_sidecars(&Ok(vec![unknown]), &controllers);
        assert_eq!(summaries(&alone), [not_known]);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(of_all_sidecars(&unread, &controllers)[0].outcome, CheckOutcome::Unknown);
    }
}
