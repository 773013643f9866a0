//! What is on the wire between two pods: every byte of it is TLS.

use super::super::away::controller_stays;
use super::super::clients::Got;
use super::super::world::{eventually, node};
use super::frames::Frames;
use super::{AUTHENTICATED, address_of, call, workload, workloads};

#[tokio::test]
async fn what_pods_of_the_mesh_say_to_each_other_is_on_no_wire() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let outside = "portcullis.dev/inject: disabled";
    let names = [("web", ""), ("caller", ""), ("plain", outside)];
    let namespace = workloads(node, "wire", AUTHENTICATED, &names).await;
    // An opaque port is reached at the sidecar's own. Of probes it admits none.
    let opaque = workload(&namespace, "opaque", "config.linkerd.io/opaque-ports: '8080'");
    let (opaque, _) = opaque.rsplit_once("    readinessProbe").unwrap();
    node.apply(opaque).await.unwrap();
    node.wait_ready(&namespace, "opaque").await.unwrap();
    let url = |name: &str, word: &str| format!("http://{name}.{namespace}/{word}");
    let mut addresses = Vec::new();
    for name in ["web", "opaque", "caller", "plain"] {
        let first = url(name, "first");
        eventually(name, Got::Status(200), || call(node, &namespace, "caller", &first)).await;
        addresses.push(address_of(node, &namespace, name).await);
    }
    let [web, opaque, _, plain] = &addresses[..] else { panic!("{addresses:?}") };

    let frames = Frames::start(node, &addresses).await;
    for name in ["web", "opaque", "plain"] {
        let url = url(name, "between-the-two-of-us");
        assert_eq!(call(node, &namespace, "caller", &url).await, Got::Status(200), "{name}");
    }
    let sent = frames.stop().await;
    let mut reached = Vec::new();
    for stream in &sent {
        let to = stream.to.to_string();
        // The capture sees what is not encrypted.
        if stream.contains("between-the-two-of-us") {
            assert_eq!(to, format!("{plain}:8080"), "in plaintext");
        } else if stream.is_tls() {
            reached.push(to);
        }
    }
    let is = |to: &String| reached.contains(to);
    assert!(is(&format!("{web}:8080")) && is(&format!("{opaque}:4143")), "{reached:?}");
    // Both directions of two connections in TLS and of one in plaintext.
    assert_eq!((reached.len(), sent.len()), (4, 6), "{sent:?}");
    node.remove_namespace(&namespace).await.unwrap();
}
