//! Every kind of workload gets the sidecar, and those that end do end.

use super::away::controller_stays;
use super::clients::CLI;
use super::world::{meshed_namespace, node};
use policy_tests::cluster::node::TOOLS;

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
