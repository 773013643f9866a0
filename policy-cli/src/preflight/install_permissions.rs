//! Checks that the caller may install what the chart renders.

use crate::diagnostics::access_review::{Permission, from_rules};
use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::result::{CheckResult, abbreviated};
use policy_kube::rbac;

/// Verbs that Helm needs on each object over the life of a release.
const VERBS: [&str; 4] = ["create", "delete", "get", "patch"];

/// A kind that the chart renders with its default values.
struct ChartResource {
    group: &'static str,
    #[cfg(test)]
    kind: &'static str,
    resource: &'static str,
    namespaced: bool,
}

/// Declares the rendered kinds: those of the whole cluster, and those of the control plane's
/// namespace.
macro_rules! chart_resources {
    ($($group:literal $kind:literal $resource:literal $namespaced:literal,)*) => {
        const CHART_RESOURCES: &[ChartResource] = &[$(ChartResource {
            group: $group,
            #[cfg(test)]
            kind: $kind,
            resource: $resource,
            namespaced: $namespaced,
        },)*];
    };
}

chart_resources! {
    "" "Secret" "secrets" true,
    "" "Service" "services" true,
    "" "ServiceAccount" "serviceaccounts" true,
    "apps" "Deployment" "deployments" true,
    "networking.k8s.io" "NetworkPolicy" "networkpolicies" true,
    "policy" "PodDisruptionBudget" "poddisruptionbudgets" true,
    "rbac.authorization.k8s.io" "Role" "roles" true,
    "rbac.authorization.k8s.io" "RoleBinding" "rolebindings" true,
    "rbac.authorization.k8s.io" "ClusterRole" "clusterroles" false,
    "rbac.authorization.k8s.io" "ClusterRoleBinding" "clusterrolebindings" false,
    "apiextensions.k8s.io" "CustomResourceDefinition" "customresourcedefinitions" false,
    "admissionregistration.k8s.io" "ValidatingWebhookConfiguration"
        "validatingwebhookconfigurations" false,
    "admissionregistration.k8s.io" "MutatingWebhookConfiguration"
        "mutatingwebhookconfigurations" false,
}

/// Permissions that Helm needs to install into a namespace.
pub(super) fn create_permissions(namespace: &str) -> Vec<Permission> {
    let of = |chart_resources: &ChartResource| {
        VERBS.map(|verb| Permission {
            group: chart_resources.group.to_owned(),
            resource: chart_resources.resource.to_owned(),
            verb: verb.to_owned(),
            name: None,
            namespace: chart_resources.namespaced.then(|| namespace.to_owned()),
        })
    };
    CHART_RESOURCES.iter().flat_map(of).collect()
}

/// Permissions that Helm needs for itself: on the Secrets of its releases, on the objects that
/// `--wait` observes, and on the namespace if it is `absent` (`--create-namespace`).
pub(super) fn helm_permissions(namespace: &str, absent: bool) -> Vec<Permission> {
    let of = |(group, resource, verb): (&str, &str, &str), namespace: Option<&str>| Permission {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
        name: None,
        namespace: namespace.map(str::to_owned),
    };
    let within = [
        ("", "secrets", "list"),
        ("", "secrets", "update"),
        ("", "pods", "get"),
        ("", "pods", "list"),
        ("apps", "replicasets", "get"),
        ("apps", "replicasets", "list"),
    ];
    let mut rights: Vec<Permission> =
        within.into_iter().map(|right| of(right, Some(namespace))).collect();
    rights.extend(absent.then(|| of(("", "namespaces", "create"), None)));
    rights
}

/// Permissions that allow granting permissions that the caller does not have.
pub(super) fn escalate_permissions(namespace: &str) -> Vec<Permission> {
    let of = |resource: &str, namespace: Option<&str>| Permission {
        group: "rbac.authorization.k8s.io".to_owned(),
        resource: resource.to_owned(),
        verb: "escalate".to_owned(),
        name: None,
        namespace: namespace.map(str::to_owned),
    };
    vec![of("clusterroles", None), of("roles", Some(namespace))]
}

/// Every permission that the chart's roles grant. Without `escalate`, RBAC lets a user grant only
/// permissions that this user has.
pub(super) fn granted_permissions(namespace: &str) -> Vec<Permission> {
    let (cluster, home) = rbac::provisioning_rules();
    let everywhere = [
        rbac::cluster_rules(),
        rbac::discovery_rules(),
        cluster,
        rbac::injector_rules(true),
        rbac::issuer_cluster_rules(),
        rbac::viewing_rules(),
        rbac::writing_rules(),
    ];
    let home = [
        rbac::control_plane_rules(),
        home,
        rbac::issuer_control_plane_rules(),
        rbac::issuer_provisioning_rules(),
    ];
    let mut rights = from_rules(&everywhere.concat(), None);
    rights.extend(from_rules(&home.concat(), Some(namespace)));
    rights
}

/// Reports the missing permissions.
pub(super) fn rights(missing: &FetchResult<Vec<Permission>>) -> CheckResult {
    let check = Check::InstallRights;
    let missing = match missing {
        Ok(missing) => missing,
        Err(why) => return CheckResult::unknown(check, why),
    };
    if missing.is_empty() {
        return CheckResult::pass(check, "you may install what the chart renders");
    }
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    CheckResult::fail(
        check,
        format!("you lack permissions for the installation: {}", abbreviated(&names)),
        "install as somebody who is bound to the ClusterRole cluster-admin, or ask for these rights",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn everything_that_the_chart_renders_is_checked() {
        let golden = "../tests/tests/chart/golden/default.yaml";
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
        let text = std::fs::read_to_string(golden).unwrap();
        let objects = policy_crds::document::read(&text);
        let kinds = objects.iter().filter_map(|object| {
            let value = object.value.as_ref().ok()?;
            let version = value.get("apiVersion")?.as_str()?;
            let group = version.rsplit_once('/').map_or("", |(group, _)| group);
            Some((group.to_owned(), value.get("kind")?.as_str()?.to_owned()))
        });
        let chart_resources: BTreeSet<_> = kinds.collect();
        let known = CHART_RESOURCES
            .iter()
            .map(|of| (of.group.to_owned(), of.kind.to_owned()))
            .collect::<BTreeSet<_>>();
        assert_eq!(chart_resources, known);
    }

    #[test]
    fn what_helm_does_for_itself_is_checked() {
        let of = |absent| {
            let mut all = create_permissions("mesh");
            all.extend(helm_permissions("mesh", absent));
            all.iter().map(ToString::to_string).collect::<BTreeSet<_>>()
        };
        let there = of(false);
        for verb in ["create", "get", "list", "update", "delete"] {
            assert!(there.contains(&format!("{verb} secrets in namespace mesh")), "{verb}");
        }
        for resource in ["pods", "replicasets.apps"] {
            for verb in ["get", "list"] {
                let right = format!("{verb} {resource} in namespace mesh");
                assert!(there.contains(&right), "{right}");
            }
        }
        let more: Vec<String> = of(true).difference(&there).cloned().collect();
        assert_eq!(more, ["create namespaces"]);
    }

    #[test]
    fn rights_that_are_lacking_are_named() {
        assert_eq!(rights(&Ok(Vec::new())).outcome, CheckOutcome::Pass);
        let missing = rights(&Ok(escalate_permissions("mesh")));
        assert_eq!(missing.outcome, CheckOutcome::Fail);
        assert_eq!(
            missing.message,
            "you lack permissions for the installation: escalate clusterroles.rbac.authorization.k8s.io, \
             escalate roles.rbac.authorization.k8s.io in namespace mesh"
        );
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(rights(&unread).outcome, CheckOutcome::Unknown);
    }
}
