//! Every kind of workload gets the sidecar, and those that end do end.

use super::away::controller_stays;
use super::clients::CLI;
use super::world::{eventually, meshed_namespace, node};
use policy_tests::cluster::node::{Node, TOOLS};

/// One workload of each kind that makes pods, in the shape that all share.
fn workload(namespace: &str, version: &str, kind: &str, more: &str) -> String {
    let name = kind.to_lowercase();
    format!(
        "
apiVersion: {version}
kind: {kind}
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  {more}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{{name: app, image: {CLI}, args: [echo, --listen, '0.0.0.0:8080']}}]
"
    )
}

#[tokio::test]
async fn every_kind_of_workload_is_injected_and_runs() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "kinds", "").await;
    let kinds = [("Deployment", ""), ("StatefulSet", "serviceName: none"), ("DaemonSet", "")];
    for (kind, more) in kinds {
        node.apply(&workload(&namespace, "apps/v1", kind, more)).await.unwrap();
    }
    for (kind, _) in kinds {
        let name = kind.to_lowercase();
        node.wait_rolled_out(&namespace, &format!("{name}/{name}")).await.unwrap();
        let selector = format!("app={name},portcullis.dev/proxy=injected");
        let pods = node.pods(&namespace, &selector).await.unwrap();
        assert_eq!(pods.len(), 1, "{kind}");
    }
    node.remove_namespace(&namespace).await.unwrap();
}

/// Until there is one injected pod with the label, and it is ready.
async fn one_runs(node: &Node, namespace: &str, app: &str) {
    let selector = format!("app={app},portcullis.dev/proxy=injected");
    let made = async || node.pods(namespace, &selector).await.unwrap().len();
    eventually(app, 1, made).await;
    for pod in node.pods(namespace, &selector).await.unwrap() {
        node.wait_ready(namespace, &pod).await.unwrap();
    }
}

#[tokio::test]
async fn replica_sets_and_replication_controllers_of_their_own_are_injected_and_run() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "replicas", "").await;
    let old = workload(&namespace, "v1", "ReplicationController", "")
        .replace("selector: {matchLabels: {app: replicationcontroller}}", "replicas: 1");
    let new = workload(&namespace, "apps/v1", "ReplicaSet", "");
    node.apply(&format!("{old}---\n{new}")).await.unwrap();
    one_runs(node, &namespace, "replicationcontroller").await;
    one_runs(node, &namespace, "replicaset").await;
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_cron_job_with_a_sidecar_completes() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "cron", "").await;
    let cron = format!(
        "
apiVersion: batch/v1
kind: CronJob
metadata: {{name: cron, namespace: {namespace}}}
spec:
  schedule: '* * * * *'
  jobTemplate:
    spec:
      template:
        metadata: {{labels: {{app: cron}}}}
        spec:
          restartPolicy: Never
          containers: [{{name: work, image: {TOOLS}, command: [sh, -c, 'echo done']}}]
"
    );
    node.apply(&cron).await.unwrap();
    // Its minute may have just begun.
    let wait = ["wait", "-n", &namespace, "cronjob/cron", "--timeout=180s"];
    let succeeded = "--for=jsonpath={.status.lastSuccessfulTime}";
    let wait: Vec<_> = wait.into_iter().chain([succeeded]).collect();
    if let Err(error) = node.kubectl().run(&wait).await {
        panic!("{error:#}\n{}", node.report_all(&namespace).await);
    }
    let pods = node.pods(&namespace, "app=cron,portcullis.dev/proxy=injected").await.unwrap();
    assert!(!pods.is_empty(), "injected");
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_job_with_a_sidecar_completes() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "jobs", "").await;
    let job = format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: work, namespace: {namespace}}}
spec:
  template:
    metadata: {{labels: {{app: work}}}}
    spec:
      restartPolicy: Never
      containers: [{{name: work, image: {TOOLS}, command: [sh, -c, 'echo done']}}]
"
    );
    node.apply(&job).await.unwrap();
    let wait = ["wait", "-n", &namespace, "job/work", "--for=condition=Complete", "--timeout=120s"];
    if let Err(error) = node.kubectl().run(&wait).await {
        panic!("{error:#}\n{}", node.report_all(&namespace).await);
    }
    let pods = node.pods(&namespace, "app=work,portcullis.dev/proxy=injected").await.unwrap();
    assert_eq!(pods.len(), 1);
    node.remove_namespace(&namespace).await.unwrap();
}
