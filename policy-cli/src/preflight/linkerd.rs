//! Linkerd in the same cluster, and CRDs that another release owns.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::metadata::{annotation, items, label, name, namespace, text};
use crate::diagnostics::result::{CheckResult, abbreviated};
use crate::diagnostics::security::asked_by_linkerds_annotation;
use crate::version::pod_version::of_sidecar;
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

/// True if the installed controller has the flag by which `linkerd.io/inject` asks its injector.
pub(super) fn reads_linkerd(controller: &Value) -> bool {
    items(controller, "/spec/template/spec/containers")
        .flat_map(|container| items(container, "/args"))
        .any(|argument| argument.as_str() == Some("--injector-linkerd-inject"))
}

/// Checks what the upgrade of an installed controller would take sidecars from, because it leaves
/// `linkerd.io/inject` to Linkerd's injector.
pub(super) fn upgraded(
    installed: &FetchResult<Option<Value>>,
    namespaces: &FetchResult<Vec<Value>>,
    pods: &FetchResult<Vec<Value>>,
    control_plane: &str,
) -> Vec<CheckResult> {
    let controller = match installed {
        Err(why) => return vec![CheckResult::unknown(Check::Linkerd, why)],
        Ok(None) => return Vec::new(),
        Ok(Some(controller)) => controller,
    };
    if reads_linkerd(controller) {
        return Vec::new();
    }
    match (namespaces, pods) {
        (Err(why), _) | (_, Err(why)) => vec![CheckResult::unknown(Check::Linkerd, why)],
        (Ok(known), Ok(pods)) => {
            let found = asked_by_linkerds(namespaces, control_plane).into_iter();
            found.chain(pods_that_asked(known, pods, control_plane)).collect()
        }
    }
}

/// Checks for pods with a sidecar that asked by `linkerd.io/inject` themselves, in a namespace that does
/// not ask: made anew, they have none.
fn pods_that_asked(
    namespaces: &[Value],
    pods: &[Value],
    control_plane: &str,
) -> Option<CheckResult> {
    let asks = |pod: &&Value| {
        of_sidecar(pod).is_some()
            && annotation(pod, "linkerd.io/inject") == Some("enabled")
            && annotation(pod, "portcullis.dev/inject").is_none()
    };
    let injector = InstalledInjector { home: control_plane, reads_linkerd: false };
    let is_asked_for = |pod: &&Value| {
        let mut named = namespaces.iter().filter(|it| name(it) == namespace(pod));
        named.any(|it| injector.is_asked_by(it))
    };
    let lose = pods.iter().filter(asks).filter(|pod| !is_asked_for(pod));
    let names: Vec<String> = lose.map(|pod| format!("{}/{}", namespace(pod), name(pod))).collect();
    if names.is_empty() {
        return None;
    }
    Some(CheckResult::fail(
        Check::Linkerd,
        format!(
            "{} pods asked for their sidecar by `linkerd.io/inject`, which asks Linkerd's injector alone \
             now, and have none when they are made anew: {}",
            names.len(),
            abbreviated(&names)
        ),
        "write `portcullis.dev/inject: enabled` into the template of their workloads, or \
         `--set injector.linkerdInject=true`",
    ))
}

/// Checks for namespaces that asked by `linkerd.io/inject` alone before an upgrade to a version that leaves
/// this annotation to Linkerd's injector. Their label keeps their sidecars, until somebody takes it away
/// who does not know what it is for.
fn asked_by_linkerds(
    namespaces: &FetchResult<Vec<Value>>,
    control_plane: &str,
) -> Option<CheckResult> {
    let known = namespaces.as_deref().unwrap_or_default().iter();
    let asked = known.filter(|it| asked_by_linkerds_annotation(it, control_plane));
    let names: Vec<String> = asked.map(|it| name(it).to_owned()).collect();
    let first = names.first()?;
    Some(CheckResult::fail(
        Check::Linkerd,
        format!(
            "sidecars were asked for by `linkerd.io/inject` alone, which asks Linkerd's injector alone \
             now, in {}: only the label that was written for it keeps them",
            names.join(", ")
        ),
        format!(
            "`kubectl annotate namespace {first} portcullis.dev/inject=enabled` where sidecars are meant, \
             `kubectl label namespace {first} portcullis.dev/inject-` where Linkerd's proxies are; or \
             `--set injector.linkerdInject=true`"
        ),
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
        "install with `--set crds.policy=false --set crds.workload=false`; removing that release \
         later deletes every policy with the definitions, unless they are handed over first \
         (docs/install.md, section 3)",
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
    use crate::version::pod_version::tests::injected;
    use serde_json::json;

    fn webhook(name: &str) -> FetchResult<Option<Value>> {
        let service = json!({"service": {"namespace": "linkerd"}});
        let webhooks = json!([{ "clientConfig": service }]);
        Ok(Some(json!({"metadata": {"name": name}, "webhooks": webhooks})))
    }

    #[test]
    fn an_upgrade_stops_at_pods_that_asked_by_linkerds_annotation_themselves() {
        let namespace = |asks: bool| {
            let annotations =
                if asks { json!({"portcullis.dev/inject": "enabled"}) } else { json!({}) };
            json!({"kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}})
        };
        let pod = |annotations: Value| {
            let mut pod = injected("shop", "web", "proxy:1");
            pod["metadata"]["annotations"] = annotations;
            pod
        };
        let theirs = json!({"linkerd.io/inject": "enabled"});
        let both = json!({"linkerd.io/inject": "enabled", "portcullis.dev/inject": "enabled"});
        let of = |asks: bool, annotations: &Value| {
            pods_that_asked(&[namespace(asks)], &[pod(annotations.clone())], "portcullis")
        };
        let found = of(false, &theirs).unwrap();
        assert_eq!(
            (found.outcome, &*found.message),
            (
                CheckOutcome::Fail,
                "1 pods asked for their sidecar by `linkerd.io/inject`, which asks Linkerd's injector \
                 alone now, and have none when they are made anew: shop/web"
            )
        );
        assert_eq!(
            [of(true, &theirs), of(false, &both), of(false, &json!({}))],
            [None, None, None]
        );
        let (unread, none) = (Err(FetchError::Failed("no".to_owned())), Ok(Vec::new()));
        let controller = Ok(Some(json!({})));
        let outcomes = [
            upgraded(&controller, &unread, &none, "mesh"),
            upgraded(&controller, &none, &unread, "mesh"),
            upgraded(&Err(FetchError::Failed("no".to_owned())), &none, &none, "mesh"),
        ];
        for found in outcomes {
            assert_eq!(found[0].outcome, CheckOutcome::Unknown);
        }
    }

    #[test]
    fn an_upgrade_stops_at_namespaces_that_asked_by_linkerds_annotation_alone() {
        let namespace = |name: &str, annotations: Value, labels: Value| {
            json!({"kind": "Namespace", "metadata": {"name": name, "annotations": annotations,
                "labels": labels}})
        };
        let (theirs, ours) =
            (json!({"linkerd.io/inject": "enabled"}), json!({"portcullis.dev/inject": "enabled"}));
        let both = json!({"linkerd.io/inject": "enabled", "portcullis.dev/inject": "enabled"});
        let of = |namespaces: Vec<Value>| asked_by_linkerds(&Ok(namespaces), "portcullis");
        let quiet = vec![
            namespace("linkerds", theirs.clone(), json!({})),
            namespace("ours", ours.clone(), ours.clone()),
            namespace("both", both, ours.clone()),
            namespace("by-hand", json!({}), ours.clone()),
            namespace("portcullis", theirs.clone(), ours.clone()),
        ];
        assert_eq!(of(quiet.clone()), None);
        let asked = ["shop", "cart"].map(|name| namespace(name, theirs.clone(), ours.clone()));
        let found = of(quiet.into_iter().chain(asked).collect()).unwrap();
        assert_eq!(found.outcome, CheckOutcome::Fail);
        assert!(
            found
                .message
                .ends_with("in shop, cart: only the label that was written for it keeps them")
        );
        let controller =
            |args: Value| json!({"spec": {"template": {"spec": {"containers": [{"args": args}]}}}});
        assert!(reads_linkerd(&controller(json!(["--injector", "--injector-linkerd-inject"]))));
        assert!(!reads_linkerd(&controller(json!(["--injector"]))));
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
