//! Under default-deny the kubelet's probes pass and nobody else gets in, from anywhere.

use super::away::controller_stays;
use super::clients::{Got, How, ask, ask_at, start_client, start_server};
use super::world::{identity, meshed_namespace, node};
use policy_tests::cluster::node::Place;

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

#[tokio::test]
async fn probes_pass_from_the_pods_node_alone_and_everybody_else_is_refused() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "deny", DENY).await;
    // It becomes Ready only if readiness, liveness and startup probes pass.
    let (pod, address) = start_server(node, &namespace, "server").await;
    let found = node.pod(&namespace, &pod).await.unwrap();
    assert_eq!(found["metadata"]["labels"]["portcullis.dev/proxy"], "injected");

    let client = start_client(node, &namespace, "client").await;
    let client = (namespace.as_str(), client.as_str());
    let server = identity(&namespace, "server");
    let refused = Got::Status(403);
    for path in ["/", "/ready", "/live"] {
        let url = format!("http://{address}:8080{path}");
        for how in [How::Plain, How::Meshed(&server), How::Direct(&server)] {
            assert_eq!(ask(node, client, how, &url).await, refused, "{how:?} {url}");
        }
        for place in [Place::Machine, Place::Second] {
            assert_eq!(ask_at(node, place, &[], &url).await, refused, "{place:?} {url}");
        }
        // The node is let through to what the pod declares as probes and to nothing else.
        let probe = if path == "/" { refused.clone() } else { Got::Status(200) };
        assert_eq!(ask_at(node, Place::Node, &[], &url).await, probe, "the node, {url}");
    }
    // So it is on the admin port, which says whether the sidecar is ready.
    let url = format!("http://{address}:4191/ready");
    assert_eq!(ask_at(node, Place::Node, &[], &url).await, Got::Status(200));
    for place in [Place::Machine, Place::Second] {
        assert_eq!(ask_at(node, place, &[], &url).await, refused, "{place:?} {url}");
    }
    assert_eq!(ask(node, client, How::Plain, &url).await, refused);
    node.remove_namespace(&namespace).await.unwrap();
}
