//! Replicas of the controller that cannot answer, one because its node has died, others because their
//! image is not there, while pods are asked for without a pause.

use super::asked::Pods;
use super::away::controller_alone;
use super::clients::{Got, ask_at, start_server};
use super::world::{CONTROL_PLANE, eventually, meshed_namespace, node};
use policy_testkit::long_or;
use policy_tests::chart::{Helm, folder, succeeded};
use policy_tests::cluster::node::{Node, Place, ready};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// A node that nothing is heard of, and the replica on it.
const LOST_NODE: &str = "node-lost";
const LOST: &str = "policy-controller-lost";

/// An address of the pods' network that nobody has.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 88, 250, 250);

/// Most that may pass until a node is marked which nothing is heard of, and its pods with it. Kubernetes
/// waits for 50 s in the long form, looks every 5 s, and then writes each pod.
const MARKED: Duration = Duration::from_secs(90);

/// kube-proxy follows the endpoints within this.
const FOLLOWED: Duration = Duration::from_secs(2);

/// New connections that are tried.
const CONNECTIONS: usize = 30;

/// Seconds for which pods are asked for once the node is marked. The long form goes beyond the five
/// minutes after which the pods of a lost node are evicted.
const AFTER: usize = 5;

const COMPONENT: &str = "app.kubernetes.io/component=policy-controller";

/// A node as its kubelet has described it, before that died.
fn lost_node() -> Value {
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": LOST_NODE, "labels": {"kubernetes.io/hostname": LOST_NODE}},
        "spec": {"unschedulable": true},
        "status": {
            "addresses": [{"type": "InternalIP", "address": NOBODY}],
            "conditions": [ready],
        },
    })
}

/// A replica there: the Services select it, and no ReplicaSet, which would end another one for it.
async fn lose_a_replica(node: &Node) {
    node.objects().post("/api/v1/nodes", &lost_node()).await.unwrap();
    let other = node.pods(CONTROL_PLANE, COMPONENT).await.unwrap().remove(0);
    let mut pod = node.pod(CONTROL_PLANE, &other).await.unwrap();
    let mut labels = pod["metadata"]["labels"].take();
    labels.as_object_mut().unwrap().remove("pod-template-hash");
    let container = &pod["spec"]["containers"][0];
    let (name, ports) = (&container["name"], &container["ports"]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": LOST, "labels": labels},
        "spec": {
            "nodeName": LOST_NODE,
            "automountServiceAccountToken": false,
            "containers": [{"name": name, "image": container["image"], "ports": ports}],
        },
    });
    let path = format!("/api/v1/namespaces/{CONTROL_PLANE}/pods");
    node.objects().post(&path, &pod).await.unwrap();
    let status = json!({"status": {
        "phase": "Running", "podIP": NOBODY, "podIPs": [{"ip": NOBODY}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let status = status.to_string();
    let patch = ["patch", "pod", LOST, "-n", CONTROL_PLANE, "--subresource=status", "-p", &status];
    node.kubectl().run(&patch).await.unwrap();
}

async fn clear_up(node: &Node) {
    let now = ["--force", "--grace-period=0"];
    for object in [["pod", LOST], ["node", LOST_NODE]] {
        let delete = ["delete", "-n", CONTROL_PLANE, "--ignore-not-found"];
        let all: Vec<&str> = delete.into_iter().chain(object).chain(now).collect();
        node.kubectl().run(&all).await.unwrap();
    }
}

/// True if a new connection to the webhooks' Service is answered. The API server reuses an idle
/// connection while it has one, so most pods are created wherever a new one would lead.
async fn answers(node: &Node, service: &str) -> bool {
    let limits = ["--connect-timeout", "2", "--max-time", "10"];
    let command: Vec<&str> =
        ["curl", "-ksS", "-o", "/dev/null", service].into_iter().chain(limits).collect();
    node.run_at(Place::Node, &command).await.unwrap().code == Some(0)
}

/// Number of [`CONNECTIONS`] that are not answered.
async fn unanswered(node: &Node, service: &str) -> usize {
    let mut unanswered = 0;
    for _ in 0..CONNECTIONS {
        unanswered += usize::from(!answers(node, service).await);
    }
    unanswered
}

/// The webhooks' Service, as an API server finds it.
async fn service(node: &Node) -> String {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "policy-admission", "namespace": CONTROL_PLANE},
    });
    let found = node.objects().get(&service).await.unwrap().unwrap();
    format!("https://{}/", found["spec"]["clusterIP"].as_str().unwrap())
}

/// True if the webhooks' Service leads to an address.
async fn leads_to(node: &Node, address: &str) -> bool {
    let label = "kubernetes.io/service-name=policy-admission";
    let list = ["get", "endpointslices", "-n", CONTROL_PLANE, "-l", label, "-ojson"];
    let list: Value = serde_json::from_str(&node.kubectl().run(&list).await.unwrap()).unwrap();
    let slices = list["items"].as_array().unwrap().iter();
    let mut endpoints = slices.flat_map(|slice| slice["endpoints"].as_array()).flatten();
    endpoints.any(|endpoint| {
        endpoint["addresses"][0] == address && endpoint["conditions"]["ready"] == true
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn once_the_node_of_a_lost_replica_is_marked_every_pod_is_made() {
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let namespace = meshed_namespace(node, "lost", DENY).await;
    let address = NOBODY.to_string();
    let (pods, service) = (Pods::ask(node, &namespace), service(node).await);
    assert_eq!(pods.refused_since(Instant::now()).await, [""; 0], "before");

    let begun = Instant::now();
    lose_a_replica(node).await;
    let marked = |pod: &Value| !pod.is_null() && !ready(pod);
    eventually("the Service leads there", true, || leads_to(node, &address)).await;
    // Had nobody been sent there, nothing would follow from what comes later.
    eventually("a connection gets there", false, || answers(node, &service)).await;
    let marked = node.wait_pod(CONTROL_PLANE, LOST, "marked", marked);
    timeout(MARKED.saturating_sub(begun.elapsed()), marked).await.expect("not marked").unwrap();
    eventually("the Service leads there", false, || leads_to(node, &address)).await;
    sleep(FOLLOWED).await;

    let since = Instant::now();
    let unanswered = unanswered(node, &service).await;
    let (_, server) = start_server(node, &namespace, "server").await;
    let url = format!("http://{server}:8080/");
    assert_eq!(ask_at(node, Place::Machine, &[], &url).await, Got::Status(403));
    sleep(Duration::from_secs(long_or("LOST", AFTER) as u64)).await;
    let refused = pods.refused_since(since).await;
    clear_up(node).await;
    assert_eq!((unanswered, refused), (0, Vec::new()), "once the node is marked");
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_to_images_that_are_not_there_keeps_no_pod_from_starting() {
    let Some(node) = node().await else { return };
    let Some(helm) = Helm::or_skip(CONTROL_PLANE) else { return };
    let helm = helm.on(node.kubeconfig());
    let _alone = controller_alone().await;
    let namespace = meshed_namespace(node, "upgrade", DENY).await;
    let pods = Pods::ask(node, &namespace);
    let begun = Instant::now();
    let chart = folder().display().to_string();
    let upgrade = ["upgrade", "portcullis", &chart, "--reuse-values", "--set=images.tag=no-such"];
    succeeded(&helm.call(&upgrade).unwrap()).unwrap();
    let without_image = async || {
        let mut found = Vec::new();
        for pod in node.pods(CONTROL_PLANE, COMPONENT).await.unwrap() {
            found.push(node.pod(CONTROL_PLANE, &pod).await.unwrap());
        }
        let waits = |pod: &&Value| {
            let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
            waiting == "ErrImagePull" || waiting == "ImagePullBackOff"
        };
        found.iter().filter(waits).count()
    };
    eventually("a replica without an image", 1, without_image).await;
    let (_, server) = start_server(node, &namespace, "server").await;
    let url = format!("http://{server}:8080/");
    assert_eq!(ask_at(node, Place::Machine, &[], &url).await, Got::Status(403));
    let unanswered = unanswered(node, &service(node).await).await;
    let refused = pods.refused_since(begun).await;
    succeeded(&helm.call(&["rollback", "portcullis"]).unwrap()).unwrap();
    for deployment in ["deployment/portcullis-issuer", "deployment/policy-controller"] {
        node.wait_rolled_out(CONTROL_PLANE, deployment).await.unwrap();
    }
    assert_eq!((unanswered, refused), (0, Vec::new()), "while a replica has no image");
    assert_eq!(pods.refused_since(begun).await, [""; 0], "and afterwards");
    node.remove_namespace(&namespace).await.unwrap();
}
