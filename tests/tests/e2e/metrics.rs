//! Readers of a sidecar's `/metrics` under default-deny.

use super::away::controller_stays;
use super::clients::{Got, How, Visitor, ask, ask_at, ask_in, start_client, start_server};
use super::world::{identity, meshed_namespace, node};
use policy_tests::cluster::node::{Node, Place};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// A port-forward to the admin port of a pod; ends when it is dropped.
struct Forward {
    process: Child,
    /// Kept open: the program says something of each connection.
    _output: BufReader<ChildStdout>,
    port: u16,
}

impl Forward {
    fn to(node: &Node, namespace: &str, pod: &str) -> Self {
        let arguments = ["port-forward", "-n", namespace, &format!("pod/{pod}"), ":4191"];
        let mut command = node.kubectl().command(&arguments);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        // Forwarding from 127.0.0.1:40123 -> 4191
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        let port = port.and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port: {line}"));
        Self { process, _output: output, port }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[tokio::test]
async fn under_default_deny_the_mesh_the_node_and_the_pod_itself_read_metrics_and_nobody_else() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "metrics", DENY).await;
    let neighbour = start_client(node, &namespace, "neighbour").await;
    let (pod, address) = start_server(node, &namespace, "server").await;
    let url = format!("http://{address}:4191/metrics");
    let server = identity(&namespace, "server");
    let neighbour = (namespace.as_str(), neighbour.as_str());
    let (read, refused) = (Got::Status(200), Got::Status(403));

    // An identity of the mesh, of whatever namespace, and from wherever it comes.
    assert_eq!(ask(node, neighbour, How::Meshed(&server), &url).await, read);
    let stranger = Visitor::new(&identity("elsewhere", "stranger"));
    assert_eq!(stranger.ask(node, How::Meshed(&server), &url).await, read);
    // Which says nothing of the application's ports.
    let page = format!("http://{address}:8080/page");
    assert_eq!(ask(node, neighbour, How::Meshed(&server), &page).await, refused);
    // The node.
    assert_eq!(ask_at(node, Place::Node, &[], &url).await, read);
    // The pod itself, and a user who may forward its ports.
    let own = (namespace.as_str(), pod.as_str(), "server");
    let local = "http://127.0.0.1:4191/metrics";
    assert_eq!(ask_in(node, own, &[], local).await, read);
    let page_in_a_browser = ["-H", "origin: http://localhost:4191"];
    assert_eq!(ask_in(node, own, &page_in_a_browser, local).await, refused);
    let forward = Forward::to(node, &namespace, &pod);
    let forwarded = format!("http://127.0.0.1:{}/metrics", forward.port);
    assert_eq!(ask_at(node, Place::Machine, &[], &forwarded).await, read);

    assert_eq!(ask(node, neighbour, How::Plain, &url).await, refused, "a pod without an identity");
    // The pod to itself, by its own address.
    assert_eq!(ask_in(node, own, &[], &url).await, refused, "the pod by its address");
    for place in [Place::Machine, Place::Second] {
        assert_eq!(ask_at(node, place, &[], &url).await, refused, "{place:?}");
    }
    drop(forward);
    node.remove_namespace(&namespace).await.unwrap();
}
