//! Outbound policy of Linkerd's kinds, which has no effect on proxies that ask our controller for it.

use crate::cluster::Cluster;
use crate::cluster::list::{ApiResources, path};
use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::{FetchError, FetchResult, list};
use crate::diagnostics::metadata::{items, name, namespace};
use crate::diagnostics::outbound_policy::{CONSEQUENCE, KINDS, OutboundPolicy};
use crate::diagnostics::result::{CheckResult, abbreviated};
use policy_kube::source::object_of;
use serde_json::Value;
use std::collections::BTreeSet;

/// Kinds of routes that Linkerd's controller reads and ours does not, with their versions.
const UNREAD: [(&str, &str, &[&str]); 2] = [
    ("TLSRoute", "tlsroutes", &["v1", "v1alpha3", "v1alpha2"]),
    ("TCPRoute", "tcproutes", &["v1", "v1alpha2"]),
];

/// Lists the objects of the cluster that state outbound policy, each as `Kind namespace/name`.
pub(super) async fn stated(
    cluster: &Cluster,
    served: &ApiResources,
) -> Vec<FetchResult<BTreeSet<String>>> {
    let mut all = Vec::new();
    for kind in KINDS {
        let Some(version) = served.version(kind) else { continue };
        let found = list(&cluster.client, &path(kind, version, None)).await;
        let states = |value: &Value| {
            let object = object_of(kind, version, value.clone());
            object.as_ref().and_then(OutboundPolicy::of).is_some()
        };
        all.push(found.map(|found| names(kind.as_str(), &found, states)));
    }
    for (kind, plural, versions) in UNREAD {
        for version in versions {
            let path = format!("/apis/gateway.networking.k8s.io/{version}/{plural}");
            let found = list(&cluster.client, &path).await;
            let states = |value: &Value| OutboundPolicy::of_unread_route(value).is_some();
            all.push(found.map(|found| names(kind, &found, states)));
        }
    }
    all
}

fn names(kind: &str, found: &[Value], states: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let stating = found.iter().filter(|value| states(value));
    stating.map(|value| format!("{kind} {}/{}", namespace(value), name(value))).collect()
}

/// True if a Deployment runs the controller beside Linkerd, where outbound policy stays Linkerd's.
pub(super) fn forwards(deployment: &Value) -> bool {
    let mut containers = items(deployment, "/spec/template/spec/containers");
    let is_flag =
        |word: &Value| word.as_str().is_some_and(|word| word.starts_with("--linkerd-policy-addr"));
    containers.any(|container| items(container, "/args").any(is_flag))
}

/// Checks the objects that state outbound policy.
pub(super) fn outbound_policy(stated: Vec<FetchResult<BTreeSet<String>>>) -> Vec<CheckResult> {
    let check = Check::OutboundPolicy;
    let (mut names, mut unread) = (BTreeSet::new(), None::<FetchError>);
    for found in stated {
        match found {
            Ok(found) => names.extend(found),
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    let mut results = Vec::new();
    if !names.is_empty() {
        let names: Vec<String> = names.into_iter().collect();
        results.push(CheckResult::warn(
            check,
            format!("outbound policy will have no effect: {}; {CONSEQUENCE}", abbreviated(&names)),
            "to keep Linkerd's outbound policy, install beside Linkerd with besideLinkerd.enabled=true \
             (docs/beside-linkerd.md)",
        ));
    }
    if let Some(error) = &unread {
        results.push(CheckResult::unknown(check, error));
    }
    if results.is_empty() {
        results.push(CheckResult::pass(check, "no object states outbound policy"));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    #[test]
    fn a_controller_that_forwards_leaves_outbound_policy_to_linkerd() {
        let deployment = |flag: &str| {
            let container = json!({"args": ["run", flag]});
            json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}, container]}}}})
        };
        assert!(forwards(&deployment("--linkerd-policy-addr=linkerd-policy.linkerd.svc:8090")));
        assert!(!forwards(&deployment("--beside-linkerd")) && !forwards(&Value::Null));
    }

    #[test]
    fn objects_that_state_outbound_policy_are_named_in_one_line() {
        let named = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
        let unread = || Err(FetchError::Failed("no".to_owned()));
        let outcomes = |all: Vec<FetchResult<BTreeSet<String>>>| {
            outbound_policy(all).into_iter().map(|result| result.outcome).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(vec![named(&[])]), [CheckOutcome::Pass]);
        assert_eq!(outcomes(vec![named(&[]), unread(), unread()]), [CheckOutcome::Unknown]);
        let both = [CheckOutcome::Warn, CheckOutcome::Unknown];
        assert_eq!(outcomes(vec![unread(), named(&["Service a/b"])]), both);
        let all = outbound_policy(vec![
            named(&["TLSRoute shop/r"]),
            named(&["Service shop/web"]),
            named(&["TLSRoute shop/r"]),
        ]);
        let expected = format!(
            "outbound policy will have no effect: Service shop/web, TLSRoute shop/r; {CONSEQUENCE}"
        );
        assert_eq!(all[0].message, expected);
    }
}
