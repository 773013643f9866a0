//! The controller or the sidecar is away: nothing opens.

use super::clients::{Got, How, ask, ask_at, server, start_client, start_server};
use super::world::{CONTROL_PLANE, eventually, meshed_namespace, node};
use policy_tests::cluster::node::{Node, Place, ready};
use serde_json::Value;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// Held for writing by tests that take the controller away from all others.
static CONTROLLER: RwLock<()> = RwLock::const_new(());

/// The controller stays while this is held.
pub(crate) async fn controller_stays() -> RwLockReadGuard<'static, ()> {
    CONTROLLER.read().await
}

/// The controller is nobody else's while this is held.
pub(crate) async fn controller_alone() -> RwLockWriteGuard<'static, ()> {
    CONTROLLER.write().await
}

/// Scales the controller.
pub(crate) async fn scale(node: &Node, replicas: u8) {
    let replicas = format!("--replicas={replicas}");
    let name = "deployment/policy-controller";
    node.kubectl().run(&["scale", "-n", CONTROL_PLANE, name, &replicas]).await.unwrap();
}

/// True if the sidecar runs, which is as far as a pod without the controller gets.
fn sidecar_runs(pod: &Value) -> bool {
    let statuses = pod["status"]["initContainerStatuses"].as_array();
    statuses
        .into_iter()
        .flatten()
        .any(|status| status["name"] == "portcullis-proxy" && !status["state"]["running"].is_null())
}

#[tokio::test]
async fn a_pod_that_starts_while_the_controller_is_away_stays_closed_and_unready_until_it_returns()
{
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let namespace = meshed_namespace(node, "away", DENY).await;
    let client = start_client(node, &namespace, "client").await;
    // Injected while the controller is there, started when it is not.
    let gated = server(&namespace, "server").replace(
        "      terminationGracePeriodSeconds: 3",
        "      schedulingGates: [{name: tests/controller-is-away}]\n      \
         terminationGracePeriodSeconds: 3",
    );
    node.apply(&gated).await.unwrap();
    let name = async || node.pods(&namespace, "app=server").await.unwrap();
    eventually("the pod is made", 1, async || name().await.len()).await;
    let pod = name().await.remove(0);
    scale(node, 0).await;
    let selector = "app.kubernetes.io/component=policy-controller";
    let left = async || node.pods(CONTROL_PLANE, selector).await.unwrap().len();
    eventually("the controller is away", 0, left).await;
    let patch = r#"{"spec":{"schedulingGates":null}}"#;
    let ungate = ["patch", "pod", "-n", &namespace, &pod, "--type=merge", "-p", patch];
    node.kubectl().run(&ungate).await.unwrap();

    let found = node.wait_pod(&namespace, &pod, "running its sidecar", sidecar_runs).await.unwrap();
    let address = found["status"]["podIP"].as_str().unwrap().to_owned();
    let url = format!("http://{address}:8080/");
    // Requests are held until a policy comes, so each takes its time.
    for _ in 0..2 {
        let seen = ask(node, (&namespace, &client), How::Plain, &url).await;
        assert_ne!(seen, Got::Status(200), "open without the controller");
        assert!(!ready(&node.pod(&namespace, &pod).await.unwrap()), "ready without the controller");
    }

    scale(node, 2).await;
    node.wait_rolled_out(CONTROL_PLANE, "deployment/policy-controller").await.unwrap();
    node.wait_ready(&namespace, &pod).await.unwrap();
    assert_eq!(ask(node, (&namespace, &client), How::Plain, &url).await, Got::Status(403));
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_killed_sidecar_comes_back_and_the_pod_is_never_open_in_between() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "killed", DENY).await;
    let (pod, address) = start_server(node, &namespace, "server").await;
    let restarts = |pod: &Value| {
        let statuses = pod["status"]["initContainerStatuses"].as_array().into_iter().flatten();
        statuses
            .filter(|status| status["name"] == "portcullis-proxy")
            .filter_map(|status| status["restartCount"].as_u64())
            .sum::<u64>()
    };
    assert_eq!(restarts(&node.pod(&namespace, &pod).await.unwrap()), 0);
    node.kill_container(&namespace, &pod, "portcullis-proxy").await.unwrap();
    let url = format!("http://{address}:8080/");
    let back = async {
        let again = |pod: &Value| restarts(pod) > 0 && ready(pod);
        node.wait_pod(&namespace, &pod, "ready again", again).await.unwrap();
    };
    let asking = async {
        loop {
            // From outside the cluster: closed is a reset, or a refusal once the sidecar is back.
            let seen = ask_at(node, Place::Machine, &[], &url).await;
            assert_ne!(seen, Got::Status(200), "open while the sidecar was away");
        }
    };
    tokio::select! { () = back => {}, () = asking => {} }
    assert_eq!(ask_at(node, Place::Machine, &[], &url).await, Got::Status(403));
    node.remove_namespace(&namespace).await.unwrap();
}
