//! `portcullis grants` on a real API server: with all rights, and with those of one namespace.

use crate::cli::{Said, portcullis};
use policy_tests::cluster::Cluster;
use serde_json::{Value, json};

/// A Server and an authentication of one namespace, a route and a policy of another that name them,
/// and a grant for the route alone.
fn manifests(infra: &str, team: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: web, namespace: {infra}}}
spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: 8080, proxyProtocol: HTTP/1}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {{name: callers, namespace: {infra}}}
spec: {{identities: ['*']}}
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {{name: routes, namespace: {infra}}}
spec:
  from: [{{group: policy.linkerd.io, kind: HTTPRoute, namespace: {team}}}]
  to: [{{group: policy.linkerd.io, kind: Server, name: web}}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {{name: api, namespace: {team}}}
spec:
  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web, namespace: {infra}}}]
  rules: [{{matches: [{{path: {{value: /api}}}}]}}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: callers, namespace: {team}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: HTTPRoute, name: api}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: callers, namespace: {infra}}}
"
    )
}

async fn namespaces(cluster: &Cluster) -> (String, String) {
    let infra = cluster.namespace("infra").await.unwrap();
    let team = cluster.namespace("team").await.unwrap();
    cluster.apply(&manifests(&infra, &team)).await.unwrap();
    (infra, team)
}

fn entry(report: &Value) -> &Value {
    &report["grants"][0]["entries"][0]
}

#[tokio::test]
async fn the_grant_that_grants_prints_permits_the_reference() {
    let Some(cluster) = crate::shared().await else { return };
    let (infra, team) = namespaces(cluster).await;
    let grants = async |namespace: &str| -> Said {
        let arguments = ["grants", "-n", namespace, "-o", "json"];
        portcullis(cluster.kubeconfig(), &arguments).await
    };
    let said = grants(&infra).await;
    let report = said.json();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(entry(&report)["usage"], "used", "{report:#}");
    let user = &entry(&report)["references"][0]["object"];
    assert_eq!((&user["kind"], &user["namespace"]), (&json!("HTTPRoute"), &json!(team)));
    // The owner of each end sees the reference that lacks a grant.
    let lacking = &report["withoutGrant"][0];
    assert_eq!(lacking["followed"], "refused", "{report:#}");
    assert_eq!(grants(&team).await.json()["withoutGrant"][0], *lacking);

    let table = portcullis(cluster.kubeconfig(), &["grants", "-n", &team]).await.out;
    let (_, manifest) = table.split_once("---\n").unwrap_or_else(|| panic!("{table}"));
    cluster.apply(manifest).await.unwrap();
    let report = grants(&infra).await.json();
    assert_eq!(report["withoutGrant"], json!([]), "{report:#}");
    assert_eq!(report["grants"].as_array().unwrap().len(), 2, "{report:#}");
    let conditions = ["status", "-n", &team, "-o", "json", "authorizationpolicy/callers"];
    let status = portcullis(cluster.kubeconfig(), &conditions).await.json();
    let resolved = status["objects"][0]["conditions"].as_array().unwrap().iter();
    let resolved: Vec<&Value> = resolved.filter(|it| it["type"] == "ResolvedRefs").collect();
    assert!(resolved.iter().all(|it| it["status"] == "True"), "{status:#}");
}

#[tokio::test]
async fn without_rights_elsewhere_uses_and_grants_there_are_not_known() {
    let Some(cluster) = crate::shared().await else { return };
    let (infra, team) = namespaces(cluster).await;
    let mut roles = String::new();
    for namespace in [&infra, &team] {
        roles.push_str(&format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
             metadata: {{name: all, namespace: {namespace}}}\nrules:\n\
             - {{apiGroups: ['*'], resources: ['*'], verbs: [list, get]}}\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
             metadata: {{name: all, namespace: {namespace}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}}\n\
             subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: of-{namespace}}}]\n---\n"
        ));
    }
    cluster.apply(&roles).await.unwrap();
    let as_user = async |namespace: &str| {
        let user = cluster.kubeconfig_for(&format!("of-{namespace}"), &["system:authenticated"]);
        portcullis(&user.unwrap(), &["grants", "-n", namespace, "-o", "json"]).await
    };
    let said = as_user(&infra).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    let report = said.json();
    let reason = format!("httproutes.policy.linkerd.io of namespace {team} may not be listed");
    assert_eq!(entry(&report)["usage"], "notKnown", "{report:#}");
    assert_eq!(entry(&report)["reason"], json!(reason), "{report:#}");
    assert!(!report["gaps"].as_array().unwrap().is_empty(), "{report:#}");
    assert!(said.err.contains("is not known (docs/cli.md, Rights)"), "{}", said.err);

    let report = as_user(&team).await.json();
    assert_eq!(report["grants"], json!([]));
    let reason =
        format!("referencegrants.gateway.networking.k8s.io of namespace {infra} may not be listed");
    let references = report["withoutGrant"].as_array().unwrap();
    assert_eq!(references.len(), 2, "{report:#}");
    for reference in references {
        assert_eq!(reference["followed"], "notKnown", "{report:#}");
        assert_eq!(reference["reason"], json!(reason), "{report:#}");
        assert_eq!(reference["grant"]["metadata"]["namespace"], json!(infra), "{report:#}");
    }
    let nobody = cluster.kubeconfig_for("nobody-at-all", &["system:authenticated"]).unwrap();
    let said = portcullis(&nobody, &["grants", "-n", &infra]).await;
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("lets you list nothing that policy depends on"), "{}", said.err);
}
