//! Pods that could not be created in namespaces with injection, as their owners' Events say.

use crate::checkup::check::Check;
use crate::checkup::finding::Finding;
use crate::checkup::metadata::text;
use crate::checkup::read::Read;
use crate::checkup::security::asks;
use serde_json::Value;
use std::collections::BTreeMap;

/// Who could not create a pod: namespace, kind and name.
type Owner<'a> = (&'a str, &'a str, &'a str);

/// Looks at Events `FailedCreate` after which no pod was created for the same owner. `home` is the
/// control plane's namespace.
pub(super) fn refused(
    failed: &Read<Vec<Value>>,
    created: &Read<Vec<Value>>,
    namespaces: &Read<Vec<Value>>,
    home: &str,
) -> Vec<Finding> {
    let check = Check::Refused;
    let (failed, created, namespaces) = match (failed, created, namespaces) {
        (Ok(failed), Ok(created), Ok(namespaces)) => (failed, created, namespaces),
        (Err(why), _, _) | (_, Err(why), _) | (_, _, Err(why)) => {
            return vec![Finding::unknown(check, why)];
        }
    };
    let is_asking = |event: &Value| {
        let wanted = text(event, "/involvedObject/namespace");
        namespaces
            .iter()
            .any(|namespace| text(namespace, "/metadata/name") == wanted && asks(namespace, home))
    };
    let succeeded = newest(created.iter());
    let failed = newest(failed.iter().filter(|event| is_asking(event)));
    let still = failed.into_iter().filter(|(owner, event)| {
        succeeded.get(owner).is_none_or(|created| time(created) < time(event))
    });
    let mut findings: Vec<Finding> = still.map(|(owner, event)| of(owner, event)).collect();
    if findings.is_empty() {
        findings.push(Finding::pass(check, "no pod was refused where sidecars are asked for"));
    }
    findings
}

fn of((namespace, kind, name): Owner<'_>, event: &Value) -> Finding {
    let words = text(event, "/message");
    let message = format!("{kind} {namespace}/{name} cannot create its pods: {words}");
    let check = Check::Refused;
    if words.contains("violates PodSecurity") {
        let mend = format!(
            "injected pods need NET_ADMIN and NET_RAW: `kubectl label namespace {namespace} \
             pod-security.kubernetes.io/enforce=privileged --overwrite`"
        );
        return Finding::fail(check, message, mend);
    }
    if words.contains("portcullis.dev") {
        return Finding::fail(
            check,
            message,
            "the injector refused it, or was not there to be asked",
        );
    }
    Finding::warn(check, message, "the message is the API server's: a quota or another webhook")
}

/// The newest Event about each owner.
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

/// When an Event happened last. RFC 3339 in UTC: texts are in order as the times are.
fn time(event: &Value) -> &str {
    let places =
        ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let told = places.into_iter().map(|place| text(event, place)).find(|told| !told.is_empty());
    told.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::finding::Outcome;
    use crate::checkup::read::Unread;
    use serde_json::json;

    fn event(name: &str, at: &str, message: &str) -> Value {
        json!({"involvedObject": {"namespace": "shop", "kind": "ReplicaSet", "name": name},
               "lastTimestamp": format!("2026-01-01T{at}:00Z"), "message": message})
    }

    #[test]
    fn pods_that_are_refused_until_now_are_told() {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "shop",
            "annotations": {"portcullis.dev/inject": "enabled"}}});
        let namespaces = Ok(vec![namespace]);
        let of = |failed: Vec<Value>, created: Vec<Value>| {
            let all = refused(&Ok(failed), &Ok(created), &namespaces, "mesh");
            all.into_iter().map(|finding| finding.outcome).collect::<Vec<_>>()
        };
        let secured = "pods \"web-\" is forbidden: violates PodSecurity \"baseline:latest\"";
        assert_eq!(of(vec![], vec![]), [Outcome::Pass]);
        assert_eq!(of(vec![event("web", "10:00", secured)], vec![]), [Outcome::Fail]);
        assert_eq!(of(vec![event("web", "10:00", "exceeded quota")], vec![]), [Outcome::Warn]);
        let mended = vec![event("web", "10:01", "Created pod: web-1")];
        assert_eq!(of(vec![event("web", "10:00", secured)], mended.clone()), [Outcome::Pass]);
        assert_eq!(of(vec![event("web", "10:02", secured)], mended.clone()), [Outcome::Fail]);
        assert_eq!(of(vec![event("other", "10:00", secured)], mended), [Outcome::Fail]);
        let unread = Err(Unread::Failed("no".to_owned()));
        assert_eq!(refused(&unread, &Ok(vec![]), &namespaces, "mesh")[0].outcome, Outcome::Unknown);
    }

    #[test]
    fn other_namespaces_are_nobodys_concern_here() {
        let failed = Ok(vec![event("web", "10:00", "violates PodSecurity")]);
        let of = |annotations: Value, labels: Value, home: &str| {
            let metadata = json!({"name": "shop", "annotations": annotations, "labels": labels});
            let namespaces = Ok(vec![json!({"kind": "Namespace", "metadata": metadata})]);
            refused(&failed, &Ok(vec![]), &namespaces, home)[0].outcome
        };
        let asks = json!({"portcullis.dev/inject": "enabled"});
        let out = json!({"config.linkerd.io/admission-webhooks": "disabled"});
        assert_eq!(of(json!({}), json!({}), "mesh"), Outcome::Pass);
        assert_eq!(of(asks.clone(), out, "mesh"), Outcome::Pass);
        assert_eq!(of(asks.clone(), json!({}), "shop"), Outcome::Pass);
        assert_eq!(of(asks, json!({}), "mesh"), Outcome::Fail);
    }
}
