//! Objects that a controller has not read yet open nothing.

use policy_proto::linkerd::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use policy_proto::linkerd::inbound::{PortSpec, Server};
use policy_testkit::free_port;
use policy_tests::cluster::ControllerProcess;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

const PATIENCE: Duration = Duration::from_secs(60);

/// Policy of a port as a client of Linkerd's API receives it; none while there is no such workload.
async fn told(
    client: &mut InboundServerPoliciesClient<Channel>,
    workload: &str,
    port: u32,
) -> Option<Server> {
    let spec = PortSpec { workload: workload.to_owned(), port };
    match client.get_port(spec).await {
        Ok(answer) => Some(answer.into_inner()),
        Err(status) if status.code() == Code::NotFound => None,
        Err(status) => panic!("{status:?}"),
    }
}

/// A namespace that is asked for every ten seconds is made and says `deny`; its pod is watched, and
/// seen at once.
#[tokio::test]
async fn pods_of_a_namespace_that_was_not_read_yet_are_closed() {
    let Some(cluster) = crate::shared().await else { return };
    let home = cluster.namespace("unread").await.unwrap();
    let late = format!("{home}-late");
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, free_port().unwrap()).into();
    let started = ControllerProcess::builder(cluster.kubeconfig())
        .flags([
            format!("--watch-namespace={late}"),
            format!("--control-plane-namespace={home}"),
            format!("--grpc-addr={address}"),
            "--default-policy=all-unauthenticated".to_owned(),
            "--admission-controller-disabled".to_owned(),
        ])
        .start();
    let controller = started.await.unwrap();
    controller.wait_ready().await.unwrap();
    let namespace = |annotations: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\n\
             metadata: {{name: {late}, annotations: {{{annotations}}}}}\n"
        )
    };
    cluster
        .apply(&namespace(
            "portcullis.dev/undeclared-ports: deny, \
                              config.linkerd.io/default-inbound-policy: deny",
        ))
        .await
        .unwrap();
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: {late}}}\n\
         spec: {{containers: [{{name: app, image: app, ports: [{{containerPort: 8080}}]}}]}}\n"
    );
    cluster.apply(&pod).await.unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = InboundServerPoliciesClient::new(endpoint.connect().await.unwrap());
    let workload = format!("{late}:web");
    let deadline = Instant::now() + PATIENCE;
    // Longer than it takes until the namespace has been read.
    let mut answers = 0;
    while answers < 60 {
        for port in [8080, 9999] {
            if let Some(server) = told(&mut client, &workload, port).await {
                assert!(server.authorizations.is_empty(), "{port}, answer {answers}: {server:?}");
                answers += 1;
            }
        }
        assert!(Instant::now() < deadline, "the pod is not known after {answers} answers");
        sleep(Duration::from_millis(50)).await;
    }
    // Once it has been read, it decides.
    cluster
        .apply(&namespace("config.linkerd.io/default-inbound-policy: all-unauthenticated"))
        .await
        .unwrap();
    while told(&mut client, &workload, 8080).await.is_none_or(|s| s.authorizations.is_empty()) {
        assert!(Instant::now() < deadline + PATIENCE, "the namespace is never read");
        sleep(Duration::from_millis(100)).await;
    }
}
