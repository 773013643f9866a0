//! A replica that starts after the definition of a kind that was in use has been deleted.

use super::manifests::shop;
use policy_proto::linkerd::inbound::PortSpec;
use policy_proto::linkerd::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use policy_testkit::{free_port, wait_for};
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tonic::Code;
use tonic::transport::Endpoint;

/// It answers UNAVAILABLE, and no policy without the objects that it never saw, until the definition is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_without_a_definition_in_use_answers_unavailable() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let objects = cluster.objects();
    let home = cluster.namespace("home").await.unwrap();
    let namespace = cluster.namespace("shop").await.unwrap();
    objects.apply_with_status(&shop(&namespace)).await.unwrap();
    let first = start(&cluster, &home).await;
    first.0.wait_ready().await.unwrap();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "portcullis-policy-controller", "namespace": home}});
    wait_for("the Lease records the kinds in use", async || {
        let found = objects.get(&lease).await.unwrap()?;
        let recorded = found["metadata"]["annotations"]["portcullis.dev/kinds-in-use"].as_str()?;
        recorded.contains("servers.policy.linkerd.io").then_some(())
    })
    .await;
    assert_eq!(answer(first.1, &namespace).await, Ok(()));
    drop(first);

    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "servers.policy.linkerd.io"}});
    let installed = objects.get(&definition).await.unwrap().unwrap();
    objects.delete(&definition.to_string()).await.unwrap();
    while objects.get(&definition).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (second, address) = start(&cluster, &home).await;
    wait_for("it listens", async || {
        Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.ok()
    })
    .await;
    for _ in 0..30 {
        assert_eq!(answer(address, &namespace).await, Err(Code::Unavailable));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let mut again = definition.clone();
    again["spec"] = installed["spec"].clone();
    objects.install_one(&again).await.unwrap();
    second.wait_ready().await.unwrap();
    assert_eq!(answer(address, &namespace).await, Ok(()));
}

async fn start(cluster: &Cluster, home: &str) -> (ControllerProcess, SocketAddr) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let controller = ControllerProcess::builder(cluster.kubeconfig()).flags([
        format!("--grpc-addr={address}"),
        format!("--control-plane-namespace={home}"),
        "--lease-duration=5".to_owned(),
    ]);
    (controller.start().await.unwrap(), address)
}

/// Asks for the policy of the port of `web`.
async fn answer(controller: SocketAddr, namespace: &str) -> Result<(), Code> {
    let endpoint = Endpoint::from_shared(format!("http://{controller}")).unwrap();
    let mut client = InboundServerPoliciesClient::new(endpoint.connect().await.unwrap());
    let spec = PortSpec { workload: format!("{namespace}:web"), port: 8080 };
    match client.get_port(spec).await {
        Ok(_) => Ok(()),
        Err(status) => Err(status.code()),
    }
}
