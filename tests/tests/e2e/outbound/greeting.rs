//! Servers that speak first, without any annotation.

use super::super::away::controller_stays;
use super::super::world::{PATIENCE, node};
use super::{AUTHENTICATED, workloads};
use policy_tests::cluster::node::{Node, TOOLS};
use tokio::time::{Duration, Instant, sleep};

/// A server that greets, as MySQL does, and a Service of it.
fn greeter(namespace: &str, annotations: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: greeter, namespace: {namespace}}}
spec: {{selector: {{app: greeter}}, ports: [{{port: 3306}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: greeter, namespace: {namespace}, labels: {{app: greeter}}, annotations: {{{annotations}}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: {TOOLS}
    command: [nc, -ll, -p, '3306', -e, sh, -c, 'echo 5.7.0-greeting; cat']
    ports: [{{containerPort: 3306}}]
"
    )
}

/// The first line that the greeter sends to a caller that says nothing, and how long it took there.
async fn greeting(node: &Node, namespace: &str, url: &str) -> (String, Duration) {
    let begun = Instant::now();
    let command = ["/usr/bin/portcullis", "request", "--timeout", "5", url];
    let ended = node.kubectl().exec(namespace, "caller", "app", &command).await.unwrap();
    (format!("{}{}", ended.stdout, ended.stderr), begun.elapsed())
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_at_once() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = workloads(node, "greets", AUTHENTICATED, &[("caller", "")]).await;
    node.apply(&greeter(&namespace, "")).await.unwrap();
    node.wait_ready(&namespace, "greeter").await.unwrap();
    let url = format!("tcp://greeter.{namespace}:3306");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (heard, took) = greeting(node, &namespace, &url).await;
        // Detection alone would take ten seconds.
        if heard.contains("5.7.0-greeting") && took < Duration::from_secs(5) {
            break;
        }
        assert!(Instant::now() < deadline, "{took:?}: {heard}");
        sleep(Duration::from_millis(200)).await;
    }
    node.remove_namespace(&namespace).await.unwrap();
}
