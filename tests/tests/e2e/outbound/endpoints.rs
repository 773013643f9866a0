//! Endpoints of a Service: which one, and none.

use super::super::away::controller_stays;
use super::super::clients::CLI;
use super::super::world::{eventually, node};
use super::{AUTHENTICATED, workloads};
use policy_tests::cluster::node::Node;
use std::collections::BTreeSet;

/// Requests by which an endpoint is known to be kept. Two endpoints that are chosen by chance would
/// both answer some of them, but for one time in half a million.
const REQUESTS: usize = 20;

/// Two pods that say who they are, a Service of them, another one that keeps to an endpoint, and one
/// without a pod.
fn replicas(namespace: &str) -> String {
    let service = |name: &str, more: &str| {
        format!(
            "
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{selector: {{group: {group}}}, ports: [{{port: 80, targetPort: 8080}}]{more}}}",
            group = if name == "nobody" { "nobody" } else { "replicas" },
        )
    };
    let pod = |name: &str, group: &str| {
        format!(
            "
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{group: {group}}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: {CLI}
    args: [echo, --listen, '0.0.0.0:8080', --name, {name}]
    ports: [{{containerPort: 8080}}]
    readinessProbe: {{httpGet: {{path: /ready, port: 8080}}, periodSeconds: 1}}"
        )
    };
    let affinity = ", sessionAffinity: ClientIP";
    [
        service("any", ""),
        service("kept", affinity),
        service("nobody", ""),
        pod("one", "replicas"),
        pod("two", "replicas"),
    ]
    .concat()
}

/// Answer to a request from the pod `caller`, and the program's exit code.
async fn answer(node: &Node, namespace: &str, service: &str) -> (Option<i32>, String) {
    let url = format!("http://{service}.{namespace}/page");
    let command = ["/usr/bin/portcullis", "request", "--timeout", "20", &url];
    let ended = node.kubectl().exec(namespace, "caller", "app", &command).await.unwrap();
    (ended.code, ended.stdout + &ended.stderr)
}

/// The name of the pod that answers, if one does.
async fn who(node: &Node, namespace: &str, service: &str) -> Option<&'static str> {
    let (_, text) = answer(node, namespace, service).await;
    ["one", "two"].into_iter().find(|name| text.contains(&format!("\"name\": \"{name}\"")))
}

#[tokio::test]
async fn a_service_with_affinity_keeps_to_an_endpoint_and_one_without_endpoints_refuses_at_once() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = workloads(node, "endpoints", AUTHENTICATED, &[("caller", "")]).await;
    node.apply(&replicas(&namespace)).await.unwrap();
    for pod in ["one", "two"] {
        node.wait_ready(&namespace, pod).await.unwrap();
    }
    eventually("both are there", true, async || {
        let mut found = BTreeSet::new();
        for _ in 0..REQUESTS {
            found.extend(who(node, &namespace, "any").await);
        }
        found.len() == 2
    })
    .await;
    let kept = who(node, &namespace, "kept").await;
    assert!(kept.is_some(), "{:?}", answer(node, &namespace, "kept").await);
    for _ in 0..REQUESTS {
        assert_eq!(who(node, &namespace, "kept").await, kept);
    }

    let (code, text) = answer(node, &namespace, "nobody").await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("reset"), "{text}");
    // Once there is one, it is called.
    let label = ["label", "pod", "-n", &namespace, "one", "group=nobody", "--overwrite"];
    node.kubectl().run(&label).await.unwrap();
    eventually("an endpoint", Some("one"), || who(node, &namespace, "nobody")).await;
    // The one that was kept to is gone or stays; whoever is left answers.
    eventually("the other", Some("two"), || who(node, &namespace, "kept")).await;
    node.remove_namespace(&namespace).await.unwrap();
}
