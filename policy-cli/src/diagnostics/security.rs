//! Checks that Pod Security allows the capabilities that redirect traffic to the sidecar.

use super::check::Check;
use super::fetch::FetchResult;
use super::metadata::{label, name};
use super::result::CheckResult;
use policy_webhooks::injector::{INJECT_LABEL, NamespaceContext, is_exempt};
use serde_json::Value;

/// Label with the enforced Pod Security level.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Levels that forbid NET_ADMIN and NET_RAW.
const RESTRICTING_LEVELS: [&str; 2] = ["baseline", "restricted"];

/// Checks the namespaces that request sidecars of this injector, according to `requests_injection`,
/// and those that are `named`. `control_plane` is the control plane's namespace.
pub(crate) fn pod_security(
    namespaces: &FetchResult<Vec<Value>>,
    named: &[String],
    control_plane: &str,
    requests_injection: impl Fn(&Value) -> bool,
) -> Vec<CheckResult> {
    let check = Check::PodSecurity;
    let namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(why) => return vec![CheckResult::unknown(check, why)],
    };
    let is_named = |namespace: &Value| named.iter().any(|n| n == name(namespace));
    let (excluded, selected): (Vec<&Value>, Vec<&Value>) = namespaces
        .iter()
        .filter(|namespace| requests_injection(namespace) || is_named(namespace))
        .partition(|namespace| is_excluded(namespace, control_plane));
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

/// True if the injector ignores the pods of a namespace. `control_plane` is the control plane's.
pub(crate) fn is_excluded(namespace: &Value, control_plane: &str) -> bool {
    NamespaceContext::of(namespace).is_none_or(|around| is_exempt(&around, control_plane))
}

/// True if a namespace requests sidecars and may get them. `control_plane` is the control plane's.
pub(crate) fn requests_injection(namespace: &Value, control_plane: &str) -> bool {
    let requests_injection =
        NamespaceContext::of(namespace).is_some_and(|around| around.is_enabled());
    requests_injection && !is_excluded(namespace, control_plane)
}

/// True if a namespace requests sidecars by this project's annotation or label. Beside Linkerd's
/// injector, Linkerd's annotation requests Linkerd's proxy.
pub(crate) fn requests_injection_here(namespace: &Value, control_plane: &str) -> bool {
    let Some(mut around) = NamespaceContext::of(namespace) else { return false };
    around.annotations.retain(|name, _| name == INJECT_LABEL);
    around.is_enabled() && !is_excluded(namespace, control_plane)
}

fn denied_by_level(namespace: &Value) -> Option<CheckResult> {
    let level = label(namespace, ENFORCE).filter(|level| RESTRICTING_LEVELS.contains(level))?;
    let namespace = name(namespace);
    Some(CheckResult::fail(
        Check::PodSecurity,
        format!(
            "namespace {namespace} enforces Pod Security `{level}`, which refuses every injected \
             pod: its init container needs NET_ADMIN and NET_RAW"
        ),
        format!("`kubectl label namespace {namespace} {ENFORCE}=privileged --overwrite`"),
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
            "annotations": {"portcullis.dev/inject": inject}, "labels": {ENFORCE: level}}})
    }

    fn check(all: &FetchResult<Vec<Value>>, named: &[&str]) -> Vec<CheckResult> {
        let named: Vec<String> = named.iter().map(ToString::to_string).collect();
        pod_security(all, &named, "mesh", |namespace| requests_injection(namespace, "mesh"))
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

    #[test]
    fn beside_linkerds_injector_its_annotation_asks_for_its_proxy() {
        let of = |annotations: Value, labels: Value| {
            let metadata = json!({"name": "shop", "annotations": annotations, "labels": labels});
            let namespace = json!({"kind": "Namespace", "metadata": metadata});
            (requests_injection(&namespace, "mesh"), requests_injection_here(&namespace, "mesh"))
        };
        let (theirs, ours) =
            (json!({"linkerd.io/inject": "enabled"}), json!({"portcullis.dev/inject": "enabled"}));
        assert_eq!(of(theirs, json!({})), (true, false));
        assert_eq!(of(ours.clone(), json!({})), (true, true));
        assert_eq!(of(json!({}), ours), (true, true));
        assert_eq!(of(json!({}), json!({})), (false, false));
    }
}
