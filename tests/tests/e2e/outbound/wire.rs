//! What is on the wire between two pods: every byte of it is TLS.

use super::super::away::controller_stays;
use super::super::clients::Got;
use super::super::world::{eventually, node};
use super::frames::{Frames, Sent};
use super::{AUTHENTICATED, addresses_of, call, workload, workloads};
use std::collections::{BTreeMap, BTreeSet};

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
    let names = ["web", "opaque", "caller", "plain"];
    let mut pods = BTreeMap::new();
    for name in names {
        let first = url(name, "first");
        eventually(name, Got::Status(200), || call(node, &namespace, "caller", &first)).await;
        let addresses = addresses_of(node, &namespace, name).await;
        pods.extend(addresses.into_iter().map(|address| (address, name)));
    }

    let addresses: Vec<_> = pods.keys().copied().collect();
    let frames = Frames::start(node, &addresses).await;
    for name in ["web", "opaque", "plain"] {
        let url = url(name, "between-the-two-of-us");
        assert_eq!(call(node, &namespace, "caller", &url).await, Got::Status(200), "{name}");
    }
    let sent = frames.stop().await;
    let to_servers = sent.iter().filter(|stream| pods[&stream.to.ip()] != "caller");
    let reached: BTreeSet<_> = to_servers
        .map(|stream| {
            let said = stream.contains("between-the-two-of-us");
            (pods[&stream.to.ip()], stream.to.port(), stream.is_tls(), said)
        })
        .collect();
    // The capture sees what is not encrypted.
    let expected =
        [("web", 8080, true, false), ("opaque", 4143, true, false), ("plain", 8080, false, true)];
    assert_eq!(reached, BTreeSet::from(expected));
    // What they answer is no less secret.
    let answers = sent.iter().filter(|stream| pods[&stream.to.ip()] == "caller");
    let in_tls: Vec<_> = answers.map(Sent::is_tls).collect();
    assert_eq!(in_tls.iter().filter(|tls| **tls).count(), 2, "{in_tls:?}");
    assert_eq!(in_tls.len(), 3);
    node.remove_namespace(&namespace).await.unwrap();
}
