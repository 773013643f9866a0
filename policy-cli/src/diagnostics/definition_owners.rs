//! Definitions that a Helm release would delete with all their objects.
//!
//! `helm uninstall` deletes the objects of a release's stored manifest, although another owns them by now, unless
//! that manifest says `helm.sh/resource-policy: keep`. Linkerd's does not.

use super::check::Check;
use super::fetch::{FetchError, FetchResult};
use super::metadata::{annotation, label, name, text};
use super::result::{CheckResult, abbreviated};
use crate::cluster::api_error::{is_not_found, message};
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;
use std::collections::BTreeSet;

/// The release by which Linkerd's documentation installs the definitions.
const LINKERD_RELEASE: &str = "linkerd-crds";

/// Path of all Secrets, among them those in which Helm keeps its releases.
const SECRETS: &str = "/api/v1/secrets";

/// The Secrets of Helm's releases of Linkerd's definitions, without their content.
pub(crate) async fn linkerd_releases(client: &Client) -> FetchResult<Vec<Value>> {
    let params = ListParams::default().labels(&format!("owner=helm,name={LINKERD_RELEASE}"));
    let listed = async {
        let request = Request::new(SECRETS).list_metadata(&params);
        client.request::<Value>(request.map_err(kube::Error::BuildRequest)?).await
    };
    match listed.await {
        Ok(mut list) => match list.get_mut("items").map(Value::take) {
            Some(Value::Array(found)) => Ok(found),
            _ => Ok(Vec::new()),
        },
        Err(error) if is_not_found(&error) => Ok(Vec::new()),
        // No right is proposed: one to list Secrets would cover every private key of the cluster.
        Err(error) => Err(FetchError::Failed(message(&error))),
    }
}

/// Warns if the removal of a release would delete definitions in use: those that this project's chart
/// took over from Linkerd's release, which still has them in its manifest.
pub(crate) fn definition_owners(
    definitions: &FetchResult<Vec<Value>>,
    releases: &FetchResult<Vec<Value>>,
) -> CheckResult {
    let check = Check::DefinitionOwners;
    let taken: Vec<String> = match definitions {
        Err(why) => return CheckResult::unknown(check, why),
        Ok(definitions) => definitions.iter().filter(|found| is_ours(found)).map(named).collect(),
    };
    if taken.is_empty() {
        return CheckResult::pass(check, "no definition was taken over");
    }
    let places: BTreeSet<&str> = match releases {
        Err(why) => return CheckResult::unknown(check, why),
        Ok(releases) => releases.iter().map(|it| text(it, "/metadata/namespace")).collect(),
    };
    let Some(place) = places.first() else {
        return CheckResult::pass(check, "no other release would delete the definitions");
    };
    CheckResult::warn(
        check,
        format!(
            "Helm's release {LINKERD_RELEASE} of namespace {place} still has definitions that this \
             chart owns: `helm uninstall {LINKERD_RELEASE}` would delete them with all policies: {}",
            abbreviated(&taken)
        ),
        format!(
            "make Helm forget that release without deleting anything: `kubectl --namespace {place} \
             delete secret --selector owner=helm,name={LINKERD_RELEASE}`"
        ),
    )
}

/// True if this project's chart owns a definition of `policy.linkerd.io` or `workload.linkerd.io`.
fn is_ours(definition: &Value) -> bool {
    let is_linkerds = name(definition).ends_with(".linkerd.io");
    let owner = annotation(definition, "meta.helm.sh/release-name");
    is_linkerds
        && label(definition, "app.kubernetes.io/part-of") == Some("portcullis")
        && owner != Some(LINKERD_RELEASE)
}

fn named(definition: &Value) -> String {
    name(definition).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    fn definition(part_of: &str) -> Value {
        json!({"metadata": {"name": "servers.policy.linkerd.io",
            "labels": {"app.kubernetes.io/part-of": part_of},
            "annotations": {"meta.helm.sh/release-name": "portcullis"}}})
    }

    #[test]
    fn a_release_that_would_delete_definitions_that_were_taken_over_is_named() {
        let release = json!({"metadata": {"namespace": "linkerd",
            "name": "sh.helm.release.v1.linkerd-crds.v1"}});
        let outcome = |definitions: &[Value], releases: &[Value]| {
            definition_owners(&Ok(definitions.to_vec()), &Ok(releases.to_vec()))
        };
        let (ours, theirs) = (definition("portcullis"), definition("Linkerd"));
        let found = outcome(std::slice::from_ref(&ours), std::slice::from_ref(&release));
        assert_eq!(
            (found.outcome, &*found.message, found.hint.as_deref()),
            (
                CheckOutcome::Warn,
                "Helm's release linkerd-crds of namespace linkerd still has definitions that this \
                 chart owns: `helm uninstall linkerd-crds` would delete them with all policies: \
                 servers.policy.linkerd.io",
                Some(
                    "make Helm forget that release without deleting anything: `kubectl --namespace \
                     linkerd delete secret --selector owner=helm,name=linkerd-crds`"
                )
            )
        );
        for (definitions, releases) in
            [(vec![ours.clone()], vec![]), (vec![theirs], vec![release]), (vec![], vec![])]
        {
            assert_eq!(outcome(&definitions, &releases).outcome, CheckOutcome::Pass);
        }
        let why = FetchError::Failed("no".to_owned());
        let unread = definition_owners(&Ok(vec![ours]), &Err(why));
        assert_eq!(unread.outcome, CheckOutcome::Unknown);
    }
}
