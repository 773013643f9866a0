//! Whether Pod Security lets the pods of a namespace have what redirects to their sidecar.

use super::check::Check;
use super::finding::Finding;
use super::metadata::{label, name};
use super::read::Read;
use policy_webhooks::injector::{INJECT_LABEL, NamespaceContext, is_exempt};
use serde_json::Value;

/// The level that pods of a namespace are held to.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// The levels that forbid NET_ADMIN and NET_RAW.
const NARROW: [&str; 2] = ["baseline", "restricted"];

/// Looks at the namespaces that ask for sidecars of this injector, as `asks` says, and at those that are
/// `named`. `home` is the control plane's namespace.
pub(crate) fn pod_security(
    namespaces: &Read<Vec<Value>>,
    named: &[String],
    home: &str,
    asks: impl Fn(&Value) -> bool,
) -> Vec<Finding> {
    let check = Check::PodSecurity;
    let namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(why) => return vec![Finding::unknown(check, why)],
    };
    let is_named = |namespace: &Value| named.iter().any(|n| n == name(namespace));
    let (alone, meant): (Vec<&Value>, Vec<&Value>) = namespaces
        .iter()
        .filter(|namespace| asks(namespace) || is_named(namespace))
        .partition(|namespace| leaves_alone(namespace, home));
    let mut findings: Vec<Finding> = meant.iter().filter_map(|it| refuses(it)).collect();
    findings.extend(alone.into_iter().filter(|it| is_named(it)).map(|namespace| {
        Finding::warn(
            check,
            format!("namespace {} gets no sidecars: the injector leaves it alone", name(namespace)),
            "choose a namespace that is neither kube-system nor the control plane's, or take the \
             label config.linkerd.io/admission-webhooks=disabled from it",
        )
    }));
    let is_there = |wanted: &&String| namespaces.iter().any(|n| name(n) == wanted.as_str());
    findings.extend(named.iter().filter(|wanted| !is_there(wanted)).map(|wanted| {
        Finding::warn(
            check,
            format!("namespace {wanted} does not exist"),
            format!("`kubectl create namespace {wanted}`"),
        )
    }));
    if findings.is_empty() {
        let message = match meant.as_slice() {
            [] => "no namespace asks for sidecars".to_owned(),
            [one] => format!("namespace {} lets its pods have sidecars", name(one)),
            many => format!("{} namespaces let their pods have sidecars", many.len()),
        };
        findings.push(Finding::pass(check, message));
    }
    findings
}

/// Whether the injector leaves the pods of a namespace alone. `home` is the control plane's.
pub(crate) fn leaves_alone(namespace: &Value, home: &str) -> bool {
    NamespaceContext::of(namespace).is_none_or(|around| is_exempt(&around, home))
}

/// Whether a namespace asks for sidecars and may get them. `home` is the control plane's.
pub(crate) fn asks(namespace: &Value, home: &str) -> bool {
    let asks = NamespaceContext::of(namespace).is_some_and(|around| around.is_enabled());
    asks && !leaves_alone(namespace, home)
}

/// Whether a namespace asks so by this project's annotation or label: where Linkerd's injector is, too,
/// Linkerd's annotation asks for Linkerd's proxy.
pub(crate) fn asks_by_own_name(namespace: &Value, home: &str) -> bool {
    let Some(mut around) = NamespaceContext::of(namespace) else { return false };
    around.annotations.retain(|name, _| name == INJECT_LABEL);
    around.is_enabled() && !leaves_alone(namespace, home)
}

fn refuses(namespace: &Value) -> Option<Finding> {
    let level = label(namespace, ENFORCE).filter(|level| NARROW.contains(level))?;
    let namespace = name(namespace);
    Some(Finding::fail(
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
    use crate::checkup::finding::Outcome;
    use crate::checkup::finding::tests::told;
    use crate::checkup::read::Unread;
    use serde_json::json;

    fn namespace(name: &str, inject: &str, level: &str) -> Value {
        json!({"kind": "Namespace", "metadata": {"name": name,
            "annotations": {"portcullis.dev/inject": inject}, "labels": {ENFORCE: level}}})
    }

    fn looked_at(all: &Read<Vec<Value>>, named: &[&str]) -> Vec<Finding> {
        let named: Vec<String> = named.iter().map(ToString::to_string).collect();
        pod_security(all, &named, "mesh", |namespace| asks(namespace, "mesh"))
    }

    #[test]
    fn namespaces_that_refuse_injected_pods_are_named() {
        let all = Ok(vec![
            namespace("shop", "enabled", "restricted"),
            namespace("bank", "enabled", "privileged"),
            namespace("silent", "disabled", "baseline"),
        ]);
        let findings = looked_at(&all, &[]);
        let [(Outcome::Fail, message)] = told(&findings)[..] else { panic!("{findings:?}") };
        assert!(message.starts_with("namespace shop enforces Pod Security `restricted`"));
        let findings = looked_at(&all, &["silent", "gone"]);
        let outcomes: Vec<_> = told(&findings).into_iter().map(|(outcome, _)| outcome).collect();
        assert_eq!(outcomes, [Outcome::Fail, Outcome::Fail, Outcome::Warn]);
        let none = Ok(vec![namespace("bank", "enabled", "privileged")]);
        let findings = looked_at(&none, &[]);
        let expected = [(Outcome::Pass, "namespace bank lets its pods have sidecars")];
        assert_eq!(told(&findings), expected);
        let unread = Err(Unread::Failed("no".to_owned()));
        assert_eq!(looked_at(&unread, &[])[0].outcome, Outcome::Unknown);
    }

    #[test]
    fn namespaces_that_the_injector_leaves_alone_refuse_nothing_of_it() {
        let mut out = namespace("out", "enabled", "restricted");
        out["metadata"]["labels"]["config.linkerd.io/admission-webhooks"] = json!("disabled");
        let system = namespace("kube-system", "enabled", "restricted");
        let all = Ok(vec![out, system, namespace("mesh", "enabled", "restricted")]);
        let expected = [(Outcome::Pass, "no namespace asks for sidecars")];
        assert_eq!(told(&looked_at(&all, &[])), expected);
        let named = looked_at(&all, &["out"]);
        let expected = "namespace out gets no sidecars: the injector leaves it alone";
        assert_eq!(told(&named), [(Outcome::Warn, expected)]);
    }

    #[test]
    fn beside_linkerds_injector_its_annotation_asks_for_its_proxy() {
        let of = |annotations: Value, labels: Value| {
            let metadata = json!({"name": "shop", "annotations": annotations, "labels": labels});
            let namespace = json!({"kind": "Namespace", "metadata": metadata});
            (asks(&namespace, "mesh"), asks_by_own_name(&namespace, "mesh"))
        };
        let (theirs, ours) =
            (json!({"linkerd.io/inject": "enabled"}), json!({"portcullis.dev/inject": "enabled"}));
        assert_eq!(of(theirs, json!({})), (true, false));
        assert_eq!(of(ours.clone(), json!({})), (true, true));
        assert_eq!(of(json!({}), ours), (true, true));
        assert_eq!(of(json!({}), json!({})), (false, false));
    }
}
