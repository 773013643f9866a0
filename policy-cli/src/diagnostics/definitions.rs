//! Checks that the CRDs of policies are served, in a version that is read.

use super::check::Check;
use super::fetch::{FetchResult, get};
use super::release::Release;
use super::result::{CheckResult, abbreviated};
use crate::cluster::Cluster;
use futures_util::future::join_all;
use policy_crds::Kind;
use serde_json::Value;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The group of Gateway API.
const GATEWAY: &str = "gateway.networking.k8s.io";

/// The group of Linkerd's policies.
const POLICY: &str = "policy.linkerd.io";
/// The group of this project, whose definitions the chart always installs.
const OWN: &str = "portcullis.dev";

/// Hint for missing CRDs of Gateway API.
pub(crate) const GATEWAY_HINT: &str = "install the standard channel of Gateway API whenever you need \
                                       HTTPRoutes and GRPCRoutes of its group; nothing has to be \
                                       restarted";

/// A kind, and the version in which it is served; `None`: it is not.
pub(crate) type ServedKind = (Kind, Option<&'static str>);

/// CRDs that the chart would install and that exist already.
pub(crate) async fn installed(cluster: &Cluster) -> FetchResult<Vec<Value>> {
    let ours = Kind::watched().filter(|kind| kind.spec().is_defined_here());
    let names = ours.map(|kind| format!("{}.{}", kind.plural(), kind.group()));
    let reads = names.map(|name| async move { get(&cluster.client, DEFINITIONS, &name).await });
    let found: FetchResult<Vec<Option<Value>>> = join_all(reads).await.into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

/// Checks that the CRDs of the chart are served.
pub(crate) fn definitions(served: &[ServedKind], release: Release<'_>) -> Vec<CheckResult> {
    let check = Check::Definitions;
    let ours = served.iter().filter(|(kind, _)| kind.spec().is_defined_here());
    let (there, missing): (Vec<&ServedKind>, Vec<&ServedKind>) =
        ours.partition(|(_, version)| version.is_some());
    let (policy, others): (Vec<&ServedKind>, Vec<&ServedKind>) =
        missing.into_iter().partition(|(kind, _)| kind.group() == POLICY);
    let (own, others): (Vec<&ServedKind>, Vec<&ServedKind>) =
        others.into_iter().partition(|(kind, _)| kind.group() == OWN);
    let mut findings = Vec::new();
    if !own.is_empty() {
        findings.push(CheckResult::warn(
            check,
            format!("not served: {}", abbreviated(&names(&own))),
            format!(
                "`{} --set crds.portcullis=true` installs them; only delegation and ownership of hosts \
                 need them",
                release.upgrade()
            ),
        ));
    }
    if !policy.is_empty() {
        findings.push(CheckResult::fail(
            check,
            format!("not served: {}", abbreviated(&names(&policy))),
            format!(
                "where the release has them, `helm get manifest {} --namespace {} | kubectl apply \
                 --server-side --force-conflicts -f -`, twice, brings them back, and `{} --set \
                 crds.policy=true` installs them where it has not; where others installed the \
                 definitions, theirs lack a version that is read here",
                release.name,
                release.namespace,
                release.upgrade()
            ),
        ));
    }
    if !others.is_empty() {
        findings.push(CheckResult::warn(
            check,
            format!("not served: {}", abbreviated(&names(&others))),
            format!(
                "`{} --set crds.workload=true` installs them; only workloads outside of the cluster need \
                 them",
                release.upgrade()
            ),
        ));
    }
    if findings.is_empty() {
        findings.push(CheckResult::pass(
            check,
            format!("{} kinds of policies are served", there.len()),
        ));
    }
    findings
}

/// Checks that the CRDs of Gateway API are served.
pub(crate) fn gateway_api(served: &[ServedKind]) -> CheckResult {
    let check = Check::GatewayApi;
    let theirs = served.iter().filter(|(kind, _)| kind.group() == GATEWAY);
    let (there, missing): (Vec<&ServedKind>, Vec<&ServedKind>) =
        theirs.partition(|(_, version)| version.is_some());
    if !missing.is_empty() {
        let message = format!("not served: {}", abbreviated(&names(&missing)));
        return CheckResult::warn(check, message, GATEWAY_HINT);
    }
    let there: Vec<String> = there
        .iter()
        .map(|(kind, version)| format!("{} {}", kind.as_str(), version.unwrap_or_default()))
        .collect();
    CheckResult::pass(check, format!("Gateway API is served: {}", there.join(", ")))
}

fn names(kinds: &[&ServedKind]) -> Vec<String> {
    kinds.iter().map(|(kind, _)| format!("{}.{}", kind.plural(), kind.group())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::result::CheckOutcome;
    use crate::diagnostics::result::tests::summaries;

    const RELEASE: Release<'static> = Release { name: "mesh", namespace: "guard" };

    fn served(without: &[Kind]) -> Vec<ServedKind> {
        let all = Kind::watched().filter(|kind| !kind.group().is_empty());
        let version = |kind: Kind| kind.versions().first().copied();
        all.map(|kind| (kind, version(kind).filter(|_| !without.contains(&kind)))).collect()
    }

    #[test]
    fn kinds_that_are_missing_are_named_by_what_depends_on_them() {
        let outcomes = |without: &[Kind]| {
            let findings = definitions(&served(without), RELEASE);
            summaries(&findings).into_iter().map(|(outcome, _)| outcome).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&[]), [CheckOutcome::Pass]);
        assert_eq!(outcomes(&[Kind::Server]), [CheckOutcome::Fail]);
        assert_eq!(outcomes(&[Kind::ExternalWorkload]), [CheckOutcome::Warn]);
        assert_eq!(outcomes(&[Kind::GrpcRoute]), [CheckOutcome::Pass]);
        let message = &definitions(&served(&[Kind::Server]), RELEASE)[0].message;
        assert_eq!(message, "not served: servers.policy.linkerd.io");
    }

    #[test]
    fn gateway_api_may_be_missing() {
        assert_eq!(gateway_api(&served(&[])).outcome, CheckOutcome::Pass);
        let missing = gateway_api(&served(&[Kind::GrpcRoute]));
        assert_eq!(missing.outcome, CheckOutcome::Warn);
        assert_eq!(missing.message, "not served: grpcroutes.gateway.networking.k8s.io");
        assert_eq!(gateway_api(&served(&[Kind::Server])).outcome, CheckOutcome::Pass);
    }
}
