//! `portcullis why` and `portcullis tap` on a cluster of which only a part may be listed, and about
//! workloads that are not there.

use super::{Said, namespace, portcullis};
use policy_tests::cluster::Cluster;
use serde_json::json;
use std::path::PathBuf;

/// A user who may list these resources of a namespace, each with its group.
async fn user(cluster: &Cluster, ns: &str, resources: &[(&str, &str)]) -> PathBuf {
    let rules: String = resources
        .iter()
        .map(|(group, resource)| {
            format!("- {{apiGroups: [\"{group}\"], resources: [{resource}], verbs: [list]}}\n")
        })
        .collect();
    let role = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
         metadata: {{name: half, namespace: {ns}}}\nrules:\n{rules}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
         metadata: {{name: half, namespace: {ns}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: half}}\n\
         subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: half-{ns}}}]\n"
    );
    cluster.apply(&role).await.unwrap();
    cluster.kubeconfig_for(&format!("half-{ns}"), &["system:authenticated"]).unwrap()
}

/// The answer about a request of `front` to a workload.
async fn asked(kubeconfig: &std::path::Path, ns: &str, to: &str, more: &[&str]) -> Said {
    let from = format!("sa/{ns}/front");
    let arguments = ["why", "-n", ns, "--from", &from, "--to", to, "--objects-only", "GET", "/"];
    portcullis(kubeconfig, &[&arguments[..], more].concat()).await
}

#[tokio::test]
async fn what_depends_on_kinds_that_may_not_be_listed_is_not_known() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = namespace(cluster).await;
    let whole = asked(cluster.kubeconfig(), &ns, "pod/web-0:8080", &["-o", "json"]).await.json();
    assert_eq!(whole["answers"][0]["verdict"], json!("allow"), "{whole:#}");

    let half = [("", "pods"), ("policy.linkerd.io", "authorizationpolicies")];
    let half = user(cluster, &ns, &half).await;
    let said = asked(&half, &ns, "pod/web-0:8080", &["-o", "json"]).await;
    let answer = &said.json()["answers"][0];
    assert_eq!(answer["verdict"], json!("notKnown"), "{}", said.out);
    let not_known = answer["notKnown"].to_string();
    for resource in ["servers.policy.linkerd.io", "networkpolicies.networking.k8s.io"] {
        assert!(not_known.contains(resource), "{resource}: {not_known}");
    }
    assert!(!not_known.contains("\"pods of namespace"), "{not_known}");
    assert_eq!(answer["leastChange"]["proposals"], json!([]), "{}", said.out);
    let said = asked(&half, &ns, "pod/web-0:8080", &[]).await;
    let first = said.out.lines().next().unwrap_or_default();
    assert!(first.starts_with("not known"), "{}{}", said.out, said.err);
}

#[tokio::test]
async fn workloads_that_are_not_there_are_told_with_the_nearest_name_unless_they_may_be() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = namespace(cluster).await;
    let named = format!("{ns}/web-9:8080");
    for to in ["pod/web-9:8080", "web-9:8080", &named] {
        let said = asked(cluster.kubeconfig(), &ns, to, &[]).await;
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{}", said.err);
        assert!(said.err.contains("is it web-0?"), "{to}: {}", said.err);
    }
    let tap = ["tap", "-n", &ns, "pod/web-9"];
    let said = portcullis(cluster.kubeconfig(), &tap).await;
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{}", said.err);
    assert!(said.err.contains("there is no Pod web-9"), "{}", said.err);

    // Who may list no pods hears neither that it is absent nor a name.
    let blind = user(cluster, &ns, &[("policy.linkerd.io", "servers")]).await;
    for to in ["pod/web-9:8080", "web-9:8080"] {
        let said = asked(&blind, &ns, to, &[]).await;
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{}", said.err);
        assert!(said.err.contains("is not known, because pods"), "{to}: {}", said.err);
        assert!(!said.err.contains("is it "), "{to}: {}", said.err);
    }
    let said = portcullis(&blind, &tap).await;
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{}", said.err);
    assert!(said.err.contains("pods"), "{}", said.err);
}
