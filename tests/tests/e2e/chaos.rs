//! Dependencies of the sidecars die, hang or cannot be reached while requests come without a pause:
//! every response stays as before.

use super::away::{controller_alone, scale};
use super::clients::{CLI, come_from, start_server};
use super::flip::{Load, grant, grants, in_force, only};
use super::world::{CONTROL_PLANE, eventually, meshed_namespace, node};
use policy_tests::cluster::node::{Node, Place, ready};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::time::Instant;

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// Address of the client that is admitted.
const ALLOWED: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 8, 1));

/// Address of the client that is denied.
const DENIED: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 8, 2));

/// Components of the control plane, each with a container of that name and two pods.
pub(crate) const CONTROLLER: &str = "policy-controller";
pub(crate) const ISSUER: &str = "issuer";

/// A server under load from one client that is admitted and one that is not.
struct Trial {
    node: &'static Node,
    namespace: String,
    /// The server's address.
    address: IpAddr,
    allowed: Load,
    denied: Load,
    begun: Instant,
}

impl Trial {
    async fn start(node: &'static Node, prefix: &str) -> Self {
        let namespace = meshed_namespace(node, prefix, DENY).await;
        for address in [ALLOWED, DENIED] {
            come_from(node, address).await;
        }
        node.apply(&grants(&namespace, ("allowed", ALLOWED), ("denied", DENIED))).await.unwrap();
        // Both grants are the first one's.
        node.apply(&grant(&namespace, "denied", "allowed")).await.unwrap();
        let (_, address) = start_server(node, &namespace, "server").await;
        in_force(node, &namespace, "allowed").await;
        in_force(node, &namespace, "denied").await;
        let address = address.parse().unwrap();
        let to = SocketAddr::new(address, 8080);
        let begun = Instant::now();
        let (allowed, denied) = (Load::start(ALLOWED, to), Load::start(DENIED, to));
        let trial = Self { node, namespace, address, allowed, denied, begun };
        trial.goes_on().await;
        trial
    }

    /// Requests that begin from now on are answered as they should be.
    async fn goes_on(&self) {
        let since = Instant::now();
        only(&self.allowed.since(since).await, 200);
        only(&self.denied.since(since).await, 403);
    }

    /// A change of policy arrives, and what it changes back too.
    async fn policy_arrives(&self) {
        self.node.apply(&grant(&self.namespace, "denied", "denied")).await.unwrap();
        in_force(self.node, &self.namespace, "denied").await;
        only(&self.denied.since(Instant::now()).await, 200);
        self.node.apply(&grant(&self.namespace, "denied", "allowed")).await.unwrap();
        in_force(self.node, &self.namespace, "denied").await;
        only(&self.denied.since(Instant::now()).await, 403);
    }

    /// No answer since the beginning was a wrong one; then a change of policy arrives.
    async fn ends(self) {
        only(&self.allowed.since(self.begun).await, 200);
        only(&self.denied.since(self.begun).await, 403);
        self.policy_arrives().await;
        only(&self.allowed.since(self.begun).await, 200);
        self.node.remove_namespace(&self.namespace).await.unwrap();
    }
}

async fn pods(node: &Node, component: &str) -> Vec<String> {
    let selector = format!("app.kubernetes.io/component={component}");
    node.pods(CONTROL_PLANE, &selector).await.unwrap()
}

async fn signal(node: &Node, component: &str, signal: &str) {
    for pod in pods(node, component).await {
        node.signal_container(CONTROL_PLANE, &pod, component, signal).await.unwrap();
    }
}

fn restarts(pod: &Value) -> u64 {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    statuses.filter_map(|status| status["restartCount"].as_u64()).sum()
}

/// Kills every pod of it, and comes back once each has been started again and is ready.
async fn kill_all(trial: &Trial, component: &str) {
    let node = trial.node;
    let mut before = Vec::new();
    for pod in pods(node, component).await {
        let found = node.pod(CONTROL_PLANE, &pod).await.unwrap();
        before.push((pod, restarts(&found)));
    }
    assert_eq!(before.len(), 2, "{before:?}");
    signal(node, component, "SIGKILL").await;
    trial.goes_on().await;
    for (pod, before) in before {
        let again = |pod: &Value| restarts(pod) > before && ready(pod);
        node.wait_pod(CONTROL_PLANE, &pod, "ready again", again).await.unwrap();
    }
    trial.goes_on().await;
}

#[tokio::test]
async fn nobody_notices_that_all_controllers_and_issuers_are_killed() {
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let trial = Trial::start(node, "chaos-killed").await;
    kill_all(&trial, CONTROLLER).await;
    kill_all(&trial, ISSUER).await;
    trial.ends().await;
}

#[tokio::test]
async fn nobody_notices_that_all_controllers_hang_and_go_on() {
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let trial = Trial::start(node, "chaos-frozen").await;
    signal(node, CONTROLLER, "SIGSTOP").await;
    trial.goes_on().await;
    for pod in pods(node, CONTROLLER).await {
        // On a slow machine the kubelet has ended it: then there is nothing to be thawed.
        _ = node.signal_container(CONTROL_PLANE, &pod, CONTROLLER, "SIGCONT").await;
    }
    trial.goes_on().await;
    node.wait_rolled_out(CONTROL_PLANE, "deployment/policy-controller").await.unwrap();
    trial.ends().await;
}

/// Drops what the pod and the controllers send each other, or no longer.
async fn cut_off(node: &Node, pod: IpAddr, cut: bool) {
    let pod = pod.to_string();
    let action = if cut { "-I" } else { "-D" };
    for (direction, port) in [("-s", "--dport"), ("-d", "--sport")] {
        let rule = ["-w", action, "FORWARD", direction, &pod, "-p", "tcp", port, "8090"];
        let command: Vec<_> = ["iptables"].into_iter().chain(rule).chain(["-j", "DROP"]).collect();
        node.run_at(Place::Node, &command).await.unwrap().output().unwrap();
    }
}

#[tokio::test]
async fn a_sidecar_that_cannot_reach_the_controllers_keeps_its_policy_and_gets_the_new_one_later() {
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let trial = Trial::start(node, "chaos-cut").await;
    cut_off(node, trial.address, true).await;
    // Does not arrive; what the sidecar has goes on.
    node.apply(&grant(&trial.namespace, "denied", "denied")).await.unwrap();
    trial.goes_on().await;
    cut_off(node, trial.address, false).await;
    in_force(node, &trial.namespace, "denied").await;
    only(&trial.denied.since(Instant::now()).await, 200);
    only(&trial.allowed.since(trial.begun).await, 200);
    node.apply(&grant(&trial.namespace, "denied", "allowed")).await.unwrap();
    in_force(node, &trial.namespace, "denied").await;
    only(&trial.denied.since(Instant::now()).await, 403);
    node.remove_namespace(&trial.namespace).await.unwrap();
}

pub(crate) async fn scale_issuer(node: &Node, replicas: u8) {
    let replicas = format!("--replicas={replicas}");
    let name = "deployment/portcullis-issuer";
    node.kubectl().run(&["scale", "-n", CONTROL_PLANE, name, &replicas]).await.unwrap();
}

/// Until all its pods are gone, not only on their way.
pub(crate) async fn nothing_left(node: &Node, component: &str) {
    let selector = format!("app.kubernetes.io/component={component}");
    let list = ["get", "pods", "-n", CONTROL_PLANE, "-l", &selector, "-oname"];
    let left = async || node.kubectl().run(&list).await.unwrap();
    eventually(component, String::new(), left).await;
}

#[tokio::test]
async fn controllers_and_issuers_that_start_from_nothing_in_either_order_become_ready() {
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let trial = Trial::start(node, "chaos-nothing").await;
    for issuer_first in [true, false] {
        scale(node, 0).await;
        scale_issuer(node, 0).await;
        nothing_left(node, CONTROLLER).await;
        nothing_left(node, ISSUER).await;
        trial.goes_on().await;
        let first = if issuer_first {
            scale_issuer(node, 2).await;
            ISSUER
        } else {
            scale(node, 2).await;
            CONTROLLER
        };
        // Without the issuer a controller runs, answers its webhooks and serves no policy.
        eventually(first, 2, async || pods(node, first).await.len()).await;
        for pod in pods(node, first).await {
            let runs =
                |pod: &Value| !pod["status"]["containerStatuses"][0]["state"]["running"].is_null();
            node.wait_pod(CONTROL_PLANE, &pod, "running", runs).await.unwrap();
        }
        if issuer_first {
            scale(node, 2).await;
        } else {
            scale_issuer(node, 2).await;
        }
        for deployment in ["portcullis-issuer", "policy-controller"] {
            let deployment = format!("deployment/{deployment}");
            node.wait_rolled_out(CONTROL_PLANE, &deployment).await.unwrap();
        }
    }
    trial.ends().await;
}

/// A pod that asks for nothing.
fn pod(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: alone, namespace: {namespace}}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{{name: app, image: {CLI}, args: [echo, --listen, '0.0.0.0:8080']}}]
"
    )
}

#[tokio::test]
async fn without_an_injector_pods_of_meshed_namespaces_wait_for_it_and_others_run() {
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let meshed = meshed_namespace(node, "chaos-meshed", DENY).await;
    let other = node.namespace("chaos-other").await.unwrap();
    scale(node, 0).await;
    nothing_left(node, CONTROLLER).await;
    let error = node.apply(&pod(&meshed)).await.expect_err("a pod without an injector");
    let text = format!("{error:#}");
    assert!(text.contains("failed calling webhook"), "{text}");

    node.apply(&pod(&other)).await.unwrap();
    let found = node.wait_ready(&other, "alone").await.unwrap();
    assert!(found["spec"]["initContainers"].is_null(), "{found}");
    assert!(node.pod(&meshed, "alone").await.unwrap().is_null());

    scale(node, 2).await;
    node.wait_rolled_out(CONTROL_PLANE, "deployment/policy-controller").await.unwrap();
    let made = async || node.apply(&pod(&meshed)).await.is_ok();
    eventually("the pod is made", true, made).await;
    let found = node.wait_ready(&meshed, "alone").await.unwrap();
    assert_eq!(found["metadata"]["labels"]["portcullis.dev/proxy"], "injected");
    for namespace in [&meshed, &other] {
        node.remove_namespace(namespace).await.unwrap();
    }
}
