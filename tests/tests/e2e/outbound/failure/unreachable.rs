//! An endpoint's node is away: no packet comes from it any more, and the cluster has not noticed yet.

use super::super::super::away::controller_stays;
use super::super::super::clients::server;
use super::super::super::world::{eventually, meshed_namespace, node};
use super::super::AUTHENTICATED;
use super::caller::{cluster_address, only};
use super::{Caller, Calls};
use policy_tests::cluster::node::{Node, Place};
use serde_json::json;

/// Most of the time, in seconds, that a connection takes which is not sent to an endpoint that is away.
const PROMPT: f64 = 2.0;

/// Two pods with a Service, ready.
async fn start_replicas(node: &Node, namespace: &str) {
    let service = format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: {namespace}}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]}}
---"
    );
    node.apply(&(service + &server(namespace, "web"))).await.unwrap();
    let scale = ["scale", "-n", namespace, "deployment/web", "--replicas=2"];
    node.kubectl().run(&scale).await.unwrap();
    node.wait_rolled_out(namespace, "deployment/web").await.unwrap();
}

/// Drops what the pod and other pods send each other. The kubelet still reaches it: the cluster goes
/// on to call it ready, as it does with the pods of a node that has just died.
async fn lose(node: &Node, pod: &str) {
    for direction in ["-s", "-d"] {
        let rule = ["iptables", "-w", "-I", "FORWARD", direction, pod, "-j", "DROP"];
        node.run_at(Place::Node, &rule).await.unwrap().output().unwrap();
    }
}

/// Addresses of the two pods.
async fn addresses(node: &Node, namespace: &str) -> [String; 2] {
    let mut found = Vec::new();
    for pod in node.pods(namespace, "app=web").await.unwrap() {
        let pod = node.pod(namespace, &pod).await.unwrap();
        found.push(pod["status"]["podIP"].as_str().unwrap().to_owned());
    }
    found.try_into().unwrap()
}

/// Attempts of a sidecar that failed for this reason.
async fn failed_attempts(node: &Node, address: &str, reason: &str) -> u64 {
    let url = format!("http://{address}:4191/metrics");
    let ask = ["curl", "-sS", "--max-time", "10", &url];
    let metrics = node.run_at(Place::Node, &ask).await.unwrap().output().unwrap();
    let reason = format!("reason=\"{reason}\"");
    let is_meant =
        |line: &&str| line.starts_with("outbound_tcp_attempts_failed") && line.contains(&reason);
    let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
    metrics.lines().filter(is_meant).filter_map(value).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_node_of_an_endpoint_another_carries_and_nothing_without_the_own_sidecar() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "lost", AUTHENTICATED).await;
    start_replicas(node, &namespace).await;
    let [stays, goes] = addresses(node, &namespace).await;
    let web = format!("http://{}/page", cluster_address(node, &namespace, "web").await);
    let [staying, going] = [&stays, &goes].map(|pod| format!("http://{pod}:8080/lines"));
    let new = [("web", web.as_str())];
    let open = [("staying", staying.as_str()), ("going", going.as_str())];
    let calls = Calls { new: &new, open: &open };
    let caller = Caller::make(node, &namespace, "caller", &calls, &json!({})).await;
    caller.wait_ready().await;
    caller.goes_on("web").await;
    for name in ["staying", "going"] {
        caller.reads_on(name).await;
    }
    let own = node.pod(&namespace, "caller").await.unwrap();
    let own = own["status"]["podIP"].as_str().unwrap();
    assert_eq!(failed_attempts(node, own, "connect").await, 0, "before");

    lose(node, &goes).await;
    let calls = Calls { new: &new, open: &[] };
    let newcomer = Caller::make(node, &namespace, "newcomer", &calls, &json!({})).await;
    let tried = async || failed_attempts(node, own, "connect").await > 0;
    let carried = async {
        eventually("the endpoint is tried", true, tried).await;
        newcomer.wait_ready().await;
        tokio::join!(caller.goes_on("web"), newcomer.goes_on("web"));
    };
    // The application is told, within a minute.
    let ended = eventually("it has ended", true, async || caller.has_ended("going").await);
    tokio::join!(carried, ended);
    caller.reads_on("staying").await;
    for caller in [&caller, &newcomer] {
        only("web", &caller.statuses("web").await, &["200"]);
        let times = caller.times("web").await;
        let slow = times.iter().filter(|took| **took > PROMPT).count();
        assert!(slow * 4 < times.len(), "{slow} of {} were slow", times.len());
    }

    // Without its own sidecar a pod reaches nobody: nothing goes around it.
    node.kill_container(&namespace, "newcomer", "portcullis-proxy").await.unwrap();
    for status in ["000", "200"] {
        newcomer.comes_to("web", status).await;
    }
    only("web", &newcomer.statuses("web").await, &["200", "000"]);
    node.remove_namespace(&namespace).await.unwrap();
}
