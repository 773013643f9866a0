//! A cluster whose only policy controller is ours, under Linkerd's names and with Linkerd's defaults.

use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use policy_testkit::wait_for;
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Most that a message may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time in which a message that is not due would have come.
const QUIET: Duration = Duration::from_millis(1500);

/// Linkerd's names and behaviour.
const FLAGS: [&str; 4] = [
    "--linkerd-compatible",
    "--control-plane-namespace=linkerd",
    "--controller-name=linkerd.io/policy-controller",
    "--admission-controller-disabled",
];

static WORLD: Mutex<Weak<World>> = Mutex::const_new(Weak::new());

/// The cluster and its controller, which last as long as one of the tests has them.
pub(super) struct World {
    // Before the cluster that it watches.
    controller: ControllerProcess,
    pub(super) cluster: Cluster,
}

/// The world; absent: the test is to return, it has been counted as skipped.
pub(super) async fn world() -> Option<Arc<World>> {
    let mut current = WORLD.lock().await;
    if let Some(world) = current.upgrade() {
        return Some(world);
    }
    let cluster = cluster_or_skip(Cluster::builder()).await?;
    cluster.install_crds().await.unwrap();
    let home = "apiVersion: v1\nkind: Namespace\nmetadata: {name: linkerd}\n";
    cluster.apply(home).await.unwrap();
    let started = ControllerProcess::builder(cluster.kubeconfig()).flags(FLAGS).start().await;
    let controller = started.unwrap();
    controller.wait_ready().await.unwrap();
    let world = Arc::new(World { controller, cluster });
    *current = Arc::downgrade(&world);
    Some(world)
}

impl World {
    /// A watch of a port, from the moment at which the controller knows the workload.
    pub(super) async fn watch(&self, workload: &str, port: u32) -> Watch {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.controller.grpc())).unwrap();
        let client = InboundServerPoliciesClient::new(endpoint.connect().await.unwrap());
        let stream = wait_for(workload, || async {
            let spec = PortSpec { workload: workload.to_owned(), port };
            client.clone().watch_port(spec).await.ok()
        });
        Watch(stream.await.into_inner())
    }
}

/// The policies of a port as a client receives them.
pub(super) struct Watch(Streaming<Server>);

impl Watch {
    /// The next message.
    pub(super) async fn next(&mut self) -> Server {
        let message = timeout(PATIENCE, self.0.message()).await.expect("no message comes");
        message.expect("the watch fails").expect("the watch ends")
    }

    /// No message comes.
    pub(super) async fn is_quiet(&mut self) {
        let message = timeout(QUIET, self.0.message()).await;
        assert!(message.is_err(), "a message that is not due: {message:#?}");
    }
}
