//! Servers that speak first, without any annotation.

use super::super::away::controller_stays;
use super::super::world::{eventually, node};
use super::{AUTHENTICATED, workloads};
use policy_tests::cluster::node::{Node, TOOLS};

/// A server that greets, as MySQL does, and a Service of it.
fn greeter(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: greeter, namespace: {namespace}}}
spec: {{selector: {{app: greeter}}, ports: [{{port: 3306}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: greeter, namespace: {namespace}, labels: {{app: greeter}}}}
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

/// A pod that can wait for a greeting.
fn listener(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: listener, namespace: {namespace}}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{{name: app, image: {TOOLS}, command: [sleep, '1000000']}}]
"
    )
}

/// What the greeter sends within two seconds to a caller that says nothing and keeps its side open.
async fn greeting(node: &Node, namespace: &str, url: &str) -> String {
    let silent = format!("sleep 4 | curl -s -N {url} > /tmp/heard 2>&1 & sleep 2; cat /tmp/heard");
    let command = ["sh", "-c", &silent];
    node.kubectl().exec(namespace, "listener", "app", &command).await.unwrap().stdout
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_at_once() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = workloads(node, "greets", AUTHENTICATED, &[]).await;
    node.apply(&greeter(&namespace)).await.unwrap();
    node.apply(&listener(&namespace)).await.unwrap();
    for name in ["greeter", "listener"] {
        node.wait_ready(&namespace, name).await.unwrap();
    }
    let url = format!("telnet://greeter.{namespace}:3306");
    // Detection alone would take ten seconds.
    let heard = async || greeting(node, &namespace, &url).await;
    eventually("greeting", "5.7.0-greeting\n".to_owned(), heard).await;
    node.remove_namespace(&namespace).await.unwrap();
}
