//! Pods that could not be created in namespaces with injection, according to the Events of their
//! owners.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::metadata::text;
use crate::diagnostics::result::CheckResult;
use serde_json::Value;
use std::collections::BTreeMap;

/// Owner of a pod that could not be created: namespace, kind and name.
type Owner<'a> = (&'a str, &'a str, &'a str);

/// Finds `FailedCreate` Events that no `SuccessfulCreate` of the same owner followed, in namespaces
/// that ask `injector`.
pub(super) fn failed_create(
    failed: &FetchResult<Vec<Value>>,
    created: &FetchResult<Vec<Value>>,
    namespaces: &FetchResult<Vec<Value>>,
    injector: InstalledInjector<'_>,
) -> Vec<CheckResult> {
    let check = Check::Refused;
    let (failed, created, namespaces) = match (failed, created, namespaces) {
        (Ok(failed), Ok(created), Ok(namespaces)) => (failed, created, namespaces),
        (Err(why), _, _) | (_, Err(why), _) | (_, _, Err(why)) => {
            return vec![CheckResult::unknown(check, why)];
        }
    };
    let is_asking = |event: &Value| {
        let wanted = text(event, "/involvedObject/namespace");
        namespaces.iter().any(|namespace| {
            text(namespace, "/metadata/name") == wanted && injector.is_asked_by(namespace)
        })
    };
    let succeeded = newest(created.iter());
    let failed = newest(failed.iter().filter(|event| is_asking(event)));
    let still = failed.into_iter().filter(|(owner, event)| {
        succeeded.get(owner).is_none_or(|created| time(created) < time(event))
    });
    let mut findings: Vec<CheckResult> = still.map(|(owner, event)| of(owner, event)).collect();
    if findings.is_empty() {
        findings.push(CheckResult::pass(check, "no pod was refused in namespaces with injection"));
    }
    findings
}

fn of((namespace, kind, name): Owner<'_>, event: &Value) -> CheckResult {
    let words = text(event, "/message");
    let message = format!("{kind} {namespace}/{name} cannot create its pods: {words}");
    let check = Check::Refused;
    if words.contains("violates PodSecurity") {
        let hint = format!(
            "injected pods need NET_ADMIN and NET_RAW: `kubectl label namespace {namespace} \
             pod-security.kubernetes.io/enforce=privileged --overwrite`"
        );
        return CheckResult::fail(check, message, hint);
    }
    if words.contains("portcullis.dev") {
        return CheckResult::fail(check, message, "the injector rejected it, or was unavailable");
    }
    CheckResult::warn(check, message, "the message is the API server's: a quota or another webhook")
}

/// Returns the newest Event about each owner.
fn newest<'a>(events: impl Iterator<Item = &'a Value>) -> BTreeMap<Owner<'a>, &'a Value> {
    let mut all: BTreeMap<Owner<'a>, &'a Value> = BTreeMap::new();
    for event in events {
        let of = |field: &str| text(event, &format!("/involvedObject/{field}"));
        let known = all.entry((of("namespace"), of("kind"), of("name"))).or_insert(event);
        if time(known) < time(event) {
            *known = event;
        }
    }
    all
}

/// Time of an Event's last occurrence. RFC 3339 in UTC sorts as text in order of time.
fn time(event: &Value) -> &str {
    let places =
        ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let times = places.into_iter().map(|place| text(event, place)).find(|times| !times.is_empty());
    times.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injector(home: &str) -> InstalledInjector<'_> {
        InstalledInjector { home, reads_linkerd: false }
    }

    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    fn event(name: &str, at: &str, message: &str) -> Value {
        json!({"involvedObject": {"namespace": "shop", "kind": "ReplicaSet", "name": name},
               "lastTimestamp": format!("2026-01-01T{at}:00Z"), "message": message})
    }

    #[test]
    fn pods_that_are_refused_until_now_are_reported() {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "shop",
            "annotations": {"portcullis.dev/inject": "enabled"}}});
        let namespaces = Ok(vec![namespace]);
        let of = |failed: Vec<Value>, created: Vec<Value>| {
            let all = failed_create(&Ok(failed), &Ok(created), &namespaces, injector("mesh"));
            all.into_iter().map(|finding| finding.outcome).collect::<Vec<_>>()
        };
        let secured = "pods \"web-\" is forbidden: violates PodSecurity \"baseline:latest\"";
        assert_eq!(of(vec![], vec![]), [CheckOutcome::Pass]);
        assert_eq!(of(vec![event("web", "10:00", secured)], vec![]), [CheckOutcome::Fail]);
        assert_eq!(of(vec![event("web", "10:00", "exceeded quota")], vec![]), [CheckOutcome::Warn]);
        let mended = vec![event("web", "10:01", "Created pod: web-1")];
        assert_eq!(of(vec![event("web", "10:00", secured)], mended.clone()), [CheckOutcome::Pass]);
        assert_eq!(of(vec![event("web", "10:02", secured)], mended.clone()), [CheckOutcome::Fail]);
        assert_eq!(of(vec![event("other", "10:00", secured)], mended), [CheckOutcome::Fail]);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(
            failed_create(&unread, &Ok(vec![]), &namespaces, injector("mesh"))[0].outcome,
            CheckOutcome::Unknown
        );
    }

    #[test]
    fn other_namespaces_are_nobodys_concern_here() {
        let failed = Ok(vec![event("web", "10:00", "violates PodSecurity")]);
        let of = |annotations: Value, labels: Value, home: &str| {
            let metadata = json!({"name": "shop", "annotations": annotations, "labels": labels});
            let namespaces = Ok(vec![json!({"kind": "Namespace", "metadata": metadata})]);
            failed_create(&failed, &Ok(vec![]), &namespaces, injector(home))[0].outcome
        };
        let requests_injection = json!({"portcullis.dev/inject": "enabled"});
        let out = json!({"config.linkerd.io/admission-webhooks": "disabled"});
        assert_eq!(of(json!({}), json!({}), "mesh"), CheckOutcome::Pass);
        assert_eq!(of(requests_injection.clone(), out, "mesh"), CheckOutcome::Pass);
        assert_eq!(of(requests_injection.clone(), json!({}), "shop"), CheckOutcome::Pass);
        assert_eq!(of(requests_injection, json!({}), "mesh"), CheckOutcome::Fail);
    }
}
