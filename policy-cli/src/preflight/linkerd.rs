//! Linkerd in the same cluster, and CRDs that another release owns.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::metadata::{annotation, items, label, name, text};
use crate::diagnostics::result::{CheckResult, abbreviated};
use serde_json::Value;

/// Linkerd's injector.
pub(super) const INJECTOR: &str = "linkerd-proxy-injector-webhook-config";

/// Linkerd's policy validator.
pub(super) const VALIDATOR: &str = "linkerd-policy-validator-webhook-config";

/// Checks for Linkerd, and for other owners of the CRDs of its kinds.
pub(super) fn linkerd(
    webhooks: [&FetchResult<Option<Value>>; 2],
    definitions: &FetchResult<Vec<Value>>,
) -> Vec<CheckResult> {
    let check = Check::Linkerd;
    let mut findings = Vec::new();
    match webhooks {
        [Err(why), _] | [_, Err(why)] => findings.push(CheckResult::unknown(check, why)),
        [Ok(injector), Ok(validator)] => findings.extend(webhooks_of(injector, validator)),
    }
    match definitions {
        Err(why) => findings.push(CheckResult::unknown(check, why)),
        Ok(definitions) => findings.extend(foreign(definitions)),
    }
    if findings.is_empty() {
        findings.push(CheckResult::pass(check, "Linkerd is not in the cluster"));
    }
    findings
}

fn webhooks_of(injector: &Option<Value>, validator: &Option<Value>) -> Option<CheckResult> {
    let found = injector.as_ref().or(validator.as_ref())?;
    let home = text(found, "/webhooks/0/clientConfig/service/namespace");
    let both = injector.is_some() && validator.is_some();
    let what = if both { "injector and validator of policies" } else { name(found) };
    Some(CheckResult::warn(
        Check::Linkerd,
        format!("Linkerd is in the cluster, in namespace {home} ({what})"),
        "docs/beside-linkerd.md says how this controller decides for its proxies; in a namespace of \
         its own, give each namespace to one of the two injectors",
    ))
}

/// CRDs of policy.linkerd.io that another chart installed.
fn foreign(definitions: &[Value]) -> Option<CheckResult> {
    let theirs: Vec<&Value> =
        definitions.iter().filter(|definition| !is_ours(definition)).collect();
    let first = theirs.first()?;
    let owner = match annotation(first, "meta.helm.sh/release-name") {
        Some(release) => {
            let namespace =
                annotation(first, "meta.helm.sh/release-namespace").unwrap_or("default");
            format!("release {release} of namespace {namespace}")
        }
        None => "somebody else".to_owned(),
    };
    let versions = |definition: &Value| {
        let served = items(definition, "/spec/versions")
            .filter(|version| version.get("served").and_then(Value::as_bool) == Some(true));
        let names: Vec<&str> = served.map(|version| text(version, "/name")).collect();
        format!("{} ({})", name(definition), names.join(", "))
    };
    let names: Vec<String> = theirs.iter().map(|definition| versions(definition)).collect();
    Some(CheckResult::warn(
        Check::Linkerd,
        format!("{owner} installed definitions that the chart has, too: {}", abbreviated(&names)),
        "install with `--set crds.policy=false --set crds.workload=false`, or with \
         `--take-ownership` if nobody else needs them",
    ))
}

/// True if a CRD was installed by this project's chart.
pub(super) fn is_ours(definition: &Value) -> bool {
    label(definition, "app.kubernetes.io/part-of") == Some("portcullis")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use crate::diagnostics::result::tests::summaries;
    use serde_json::json;

    fn webhook(name: &str) -> FetchResult<Option<Value>> {
        let service = json!({"service": {"namespace": "linkerd"}});
        let webhooks = json!([{ "clientConfig": service }]);
        Ok(Some(json!({"metadata": {"name": name}, "webhooks": webhooks})))
    }

    #[test]
    fn linkerd_is_detected_by_its_webhooks_and_its_definitions() {
        let (none, nothing) = (Ok(None), Ok(Vec::new()));
        let findings = linkerd([&none, &none], &nothing);
        assert_eq!(summaries(&findings), [(CheckOutcome::Pass, "Linkerd is not in the cluster")]);

        let definition = |labels: Value| {
            json!({"metadata": {"name": "servers.policy.linkerd.io", "labels": labels,
                "annotations": {"meta.helm.sh/release-name": "linkerd-crds",
                    "meta.helm.sh/release-namespace": "linkerd"}},
                "spec": {"versions": [{"name": "v1beta3", "served": true}, {"name": "v1alpha1"}]}})
        };
        let theirs = Ok(vec![definition(json!({}))]);
        let findings = linkerd([&webhook(INJECTOR), &webhook(VALIDATOR)], &theirs);
        assert_eq!(
            summaries(&findings),
            [
                (
                    CheckOutcome::Warn,
                    "Linkerd is in the cluster, in namespace linkerd (injector and validator of \
                     policies)"
                ),
                (
                    CheckOutcome::Warn,
                    "release linkerd-crds of namespace linkerd installed definitions that the chart \
                     has, too: servers.policy.linkerd.io (v1beta3)"
                ),
            ]
        );
        let ours = Ok(vec![definition(json!({"app.kubernetes.io/part-of": "portcullis"}))]);
        assert_eq!(linkerd([&none, &none], &ours)[0].outcome, CheckOutcome::Pass);
        let unread: FetchResult<Option<Value>> = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(linkerd([&none, &unread], &ours)[0].outcome, CheckOutcome::Unknown);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(linkerd([&none, &none], &unread)[0].outcome, CheckOutcome::Unknown);
    }
}
