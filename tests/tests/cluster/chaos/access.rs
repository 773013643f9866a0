//! The binary, as a user who loses a right and gets it back.

use super::live::PATIENCE;
use super::manifests::shop;
use policy_kube::rbac;
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const USER: &str = "policy-controller";

/// The right to read what is watched, save the kinds of a group.
fn rights(without: Option<&str>) -> String {
    let mut rules = rbac::cluster_rules();
    rules.extend(rbac::namespace_rules());
    rules.extend(rbac::control_plane_rules());
    rules.retain(|rule| {
        rule.api_groups.as_ref().is_none_or(|groups| {
            without.is_none_or(|without| !groups.iter().any(|group| group == without))
        })
    });
    let role = rbac::yaml(&rbac::cluster_role(USER, rules)).unwrap();
    format!(
        "{role}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: \
         {{name: {USER}}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: \
         {USER}}}\nsubjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {USER}}}]\n"
    )
}

/// Waits until `/ready` answers so.
async fn until(controller: &ControllerProcess, status: u16, says: &str, within: Duration) {
    let deadline = Instant::now() + within;
    loop {
        let (answered, body) = controller.ready().await;
        if answered == status && body.contains(says) {
            return;
        }
        let late = Instant::now() > deadline;
        assert!(!late, "wanted {status} {says}, is {answered} {body}\n{}", controller.logs());
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_taken_away_is_named_by_ready_and_what_was_in_force_is_served() {
    let Some(mut cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let namespace = cluster.namespace("shop").await.unwrap();
    cluster.objects().apply_with_status(&shop(&namespace)).await.unwrap();
    let group = "policy.linkerd.io";
    cluster.apply(&rights(Some(group))).await.unwrap();
    let kubeconfig = cluster.kubeconfig_for(USER, &["system:authenticated"]).unwrap();
    // The shortest there is, so that a watch that cannot be renewed counts as late soon.
    let flags = ["--watch-freshness", "61"];
    let controller = ControllerProcess::start(&kubeconfig, &flags).await.unwrap();
    until(&controller, 500, "may not list and watch servers", PATIENCE).await;
    cluster.apply(&rights(None)).await.unwrap();
    until(&controller, 200, "", PATIENCE).await;
    let path = format!("/debug/policy?workload={namespace}/web&port=8080");
    let (status, served) = controller.get(&path).await.unwrap();
    assert_eq!(status, 200, "{served}");
    assert!(served.contains("clients"), "{served}");

    // A watch that runs is not asked for its rights again; one that begins anew is.
    cluster.apply(&rights(Some(group))).await.unwrap();
    cluster.kill_api_server();
    cluster.start_api_server().await.unwrap();
    until(&controller, 500, group, Duration::from_secs(120)).await;
    // The versions that were read move on with the kinds that may still be read.
    let policy = |text: &str| text.split_once("\"policy\": {").unwrap().1.to_owned();
    let (status, meanwhile) = controller.get(&path).await.unwrap();
    assert_eq!((status, policy(&meanwhile)), (200, policy(&served)));
    cluster.apply(&rights(None)).await.unwrap();
    until(&controller, 200, "", PATIENCE).await;
    let (_, after) = controller.get(&path).await.unwrap();
    assert_eq!(policy(&after), policy(&served));
}
