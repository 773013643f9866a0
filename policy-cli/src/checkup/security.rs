//! Whether Pod Security lets the pods of a namespace have what redirects to their sidecar.

use super::check::Check;
use super::finding::Finding;
use super::metadata::{label, name};
use super::read::Read;
use policy_webhooks::injector::Surroundings;
use serde_json::Value;

/// The level that pods of a namespace are held to.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// The levels that forbid NET_ADMIN and NET_RAW.
const NARROW: [&str; 2] = ["baseline", "restricted"];

/// Looks at the namespaces that ask for sidecars, and at those that are `named`.
pub(crate) fn pod_security(namespaces: &Read<Vec<Value>>, named: &[String]) -> Vec<Finding> {
    let check = Check::PodSecurity;
    let namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(why) => return vec![Finding::unknown(check, why)],
    };
    let meant: Vec<&Value> = namespaces
        .iter()
        .filter(|namespace| asks(namespace) || named.iter().any(|n| n == name(namespace)))
        .collect();
    let mut findings: Vec<Finding> = meant.iter().filter_map(|it| refuses(it)).collect();
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

/// Whether a namespace asks for sidecars.
pub(crate) fn asks(namespace: &Value) -> bool {
    Surroundings::of(namespace).is_some_and(|around| around.asks())
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

    #[test]
    fn namespaces_that_refuse_injected_pods_are_named() {
        let all = Ok(vec![
            namespace("shop", "enabled", "restricted"),
            namespace("bank", "enabled", "privileged"),
            namespace("silent", "disabled", "baseline"),
        ]);
        let findings = pod_security(&all, &[]);
        let [(Outcome::Fail, message)] = told(&findings)[..] else { panic!("{findings:?}") };
        assert!(message.starts_with("namespace shop enforces Pod Security `restricted`"));
        let findings = pod_security(&all, &["silent".to_owned(), "gone".to_owned()]);
        let outcomes: Vec<_> = told(&findings).into_iter().map(|(outcome, _)| outcome).collect();
        assert_eq!(outcomes, [Outcome::Fail, Outcome::Fail, Outcome::Warn]);
        let none = Ok(vec![namespace("bank", "enabled", "privileged")]);
        let findings = pod_security(&none, &[]);
        let expected = [(Outcome::Pass, "namespace bank lets its pods have sidecars")];
        assert_eq!(told(&findings), expected);
        let unread = Err(Unread::Failed("no".to_owned()));
        assert_eq!(pod_security(&unread, &[])[0].outcome, Outcome::Unknown);
    }
}
