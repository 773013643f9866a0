//! Mesh-only, and lists of ports that are left alone.

use super::super::away::controller_stays;
use super::super::clients::Got;
use super::super::world::{eventually, node};
use super::{AUTHENTICATED, call, workload, workloads};

#[tokio::test]
async fn mesh_only_refuses_plaintext_inside_the_cluster_and_no_pod_loosens_it() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let outside = "portcullis.dev/inject: disabled";
    let only = "portcullis.dev/outbound: mesh-only";
    let namespace =
        workloads(node, "only", only, &[("web", ""), ("caller", ""), ("plain", outside)]).await;
    let [web, inside] = ["web", "plain"].map(|name| format!("http://{name}.{namespace}/page"));
    eventually("meshed", Got::Status(200), || call(node, &namespace, "caller", &web)).await;
    assert_eq!(call(node, &namespace, "caller", &inside).await, Got::Nothing);
    assert_eq!(call(node, &namespace, "plain", &inside).await, Got::Status(200));
    for loose in ["portcullis.dev/outbound: enabled", "portcullis.dev/skip-outbound-ports: '80'"] {
        let refused = node.apply(&workload(&namespace, "loose", loose)).await;
        let refused = format!("{:#}", refused.unwrap_err());
        assert!(refused.contains("mesh-only"), "{loose}: {refused}");
    }
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn ports_that_are_left_alone_are_called_without_an_identity() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let skips = "config.linkerd.io/skip-outbound-ports: '80'";
    let names = [("web", ""), ("caller", ""), ("skips", skips)];
    let namespace = workloads(node, "skips", AUTHENTICATED, &names).await;
    let url = format!("http://web.{namespace}/page");
    eventually("meshed", Got::Status(200), || call(node, &namespace, "caller", &url)).await;
    assert_eq!(call(node, &namespace, "skips", &url).await, Got::Status(403));
    node.remove_namespace(&namespace).await.unwrap();
}
