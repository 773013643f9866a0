//! Checks that Pod Security allows the capabilities that redirect traffic to the sidecar.

use super::check::Check;
use super::fetch::FetchResult;
use super::installed_injector::InstalledInjector;
use super::metadata::name;
use super::result::CheckResult;
use policy_webhooks::injector::{
    ENFORCE_LABEL, INJECT_LABEL, LINKERD_INJECT, NamespaceContext, pod_security_refusal,
};
use serde_json::Value;

/// Checks the namespaces that ask `injector` for sidecars, and those that are `named`.
pub(crate) fn pod_security(
    namespaces: &FetchResult<Vec<Value>>,
    named: &[String],
    injector: InstalledInjector<'_>,
) -> Vec<CheckResult> {
    let check = Check::PodSecurity;
    let namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(why) => return vec![CheckResult::unknown(check, why)],
    };
    let is_named = |namespace: &Value| named.iter().any(|n| n == name(namespace));
    let (excluded, selected): (Vec<&Value>, Vec<&Value>) = namespaces
        .iter()
        .filter(|namespace| injector.is_asked_by(namespace) || is_named(namespace))
        .partition(|namespace| injector.leaves_alone(namespace));
    let mut findings: Vec<CheckResult> =
        selected.iter().filter_map(|it| denied_by_level(it)).collect();
    findings.extend(excluded.into_iter().filter(|it| is_named(it)).map(|namespace| {
        CheckResult::warn(
            check,
            format!("namespace {} gets no sidecars: the injector leaves it alone", name(namespace)),
            "choose a namespace that is neither kube-system nor the control plane's, or take the \
             label config.linkerd.io/admission-webhooks=disabled from it",
        )
    }));
    let is_there = |wanted: &&String| namespaces.iter().any(|n| name(n) == wanted.as_str());
    findings.extend(named.iter().filter(|wanted| !is_there(wanted)).map(|wanted| {
        CheckResult::warn(
            check,
            format!("namespace {wanted} does not exist"),
            format!("`kubectl create namespace {wanted}`"),
        )
    }));
    if findings.is_empty() {
        let message = match selected.as_slice() {
            [] => "no namespace asks for sidecars".to_owned(),
            [one] => format!("namespace {} lets its pods have sidecars", name(one)),
            many => format!("{} namespaces let their pods have sidecars", many.len()),
        };
        findings.push(CheckResult::pass(check, message));
    }
    findings
}

/// True if a namespace had sidecars by `linkerd.io/inject` alone, which asks Linkerd's injector: the label
/// that was written for it is what asks for them now.
pub(crate) fn asked_by_linkerds_annotation(namespace: &Value, control_plane: &str) -> bool {
    let injector = InstalledInjector { home: control_plane, reads_linkerd: false };
    let Some(around) = injector.context(namespace) else { return false };
    let has_own = around.annotations.contains_key(INJECT_LABEL);
    let asks = around.annotations.get(LINKERD_INJECT).is_some_and(|answer| answer == "enabled");
    asks && !has_own && injector.is_asked_by(namespace)
}

fn denied_by_level(namespace: &Value) -> Option<CheckResult> {
    let refusal = pod_security_refusal(&NamespaceContext::of(namespace)?)?;
    let namespace = name(namespace);
    Some(CheckResult::fail(
        Check::PodSecurity,
        refusal.message,
        format!("`kubectl label namespace {namespace} {ENFORCE_LABEL}=privileged --overwrite`"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use crate::diagnostics::result::tests::summaries;
    use serde_json::json;

    fn namespace(name: &str, inject: &str, level: &str) -> Value {
        json!({"kind": "Namespace", "metadata": {"name": name,
            "annotations": {"portcullis.dev/inject": inject}, "labels": {ENFORCE_LABEL: level}}})
    }

    fn check(all: &FetchResult<Vec<Value>>, named: &[&str]) -> Vec<CheckResult> {
        let named: Vec<String> = named.iter().map(ToString::to_string).collect();
        let injector = InstalledInjector { home: "mesh", reads_linkerd: false };
        pod_security(all, &named, injector)
    }

    #[test]
    fn namespaces_that_refuse_injected_pods_are_named() {
        let all = Ok(vec![
            namespace("shop", "enabled", "restricted"),
            namespace("bank", "enabled", "privileged"),
            namespace("silent", "disabled", "baseline"),
        ]);
        let findings = check(&all, &[]);
        let [(CheckOutcome::Fail, message)] = summaries(&findings)[..] else {
            panic!("{findings:?}")
        };
        assert!(message.starts_with("namespace shop enforces Pod Security `restricted`"));
        let findings = check(&all, &["silent", "gone"]);
        let outcomes: Vec<_> =
            summaries(&findings).into_iter().map(|(outcome, _)| outcome).collect();
        assert_eq!(outcomes, [CheckOutcome::Fail, CheckOutcome::Fail, CheckOutcome::Warn]);
        let none = Ok(vec![namespace("bank", "enabled", "privileged")]);
        let findings = check(&none, &[]);
        let expected = [(CheckOutcome::Pass, "namespace bank lets its pods have sidecars")];
        assert_eq!(summaries(&findings), expected);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(check(&unread, &[])[0].outcome, CheckOutcome::Unknown);
    }

    #[test]
    fn namespaces_that_the_injector_leaves_alone_refuse_nothing_of_it() {
        let mut out = namespace("out", "enabled", "restricted");
        out["metadata"]["labels"]["config.linkerd.io/admission-webhooks"] = json!("disabled");
        let system = namespace("kube-system", "enabled", "restricted");
        let all = Ok(vec![out, system, namespace("mesh", "enabled", "restricted")]);
        let expected = [(CheckOutcome::Pass, "no namespace asks for sidecars")];
        assert_eq!(summaries(&check(&all, &[])), expected);
        let named = check(&all, &["out"]);
        let expected = "namespace out gets no sidecars: the injector leaves it alone";
        assert_eq!(summaries(&named), [(CheckOutcome::Warn, expected)]);
    }
}
