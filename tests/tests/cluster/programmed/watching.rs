//! One watch of the native API.

use policy_core::ServerPolicy;
use policy_core::feature::Feature;
use policy_proto::messages::policy_discovery_client::PolicyDiscoveryClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::messages::{
    Ack, Hello, PortRevision, PortUpdate, Revision, WatchRequest, WatchResponse, Workload,
};
use policy_proto::native::{PortState, encode_features};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// One watch.
pub(crate) struct Watch {
    requests: mpsc::Sender<WatchRequest>,
    pub(crate) stream: Streaming<WatchResponse>,
}

impl Watch {
    /// Opens one, stating what is applied already.
    pub(crate) async fn open(
        workload: &str,
        controller: SocketAddr,
        applied: &BTreeMap<u32, Revision>,
    ) -> Option<Self> {
        Self::open_with(workload, controller, applied, None).await
    }

    /// The same, stating what workload is applied, too.
    pub(crate) async fn open_with(
        workload: &str,
        controller: SocketAddr,
        applied: &BTreeMap<u32, Revision>,
        workload_revision: Option<&Revision>,
    ) -> Option<Self> {
        let address = format!("http://{controller}");
        let channel = Endpoint::from_shared(address).ok()?.connect().await.ok()?;
        let mut client = PolicyDiscoveryClient::new(channel);
        let revision = |(port, revision): (&u32, &Revision)| PortRevision {
            port: *port,
            revision: Some(revision.clone()),
        };
        let hello = Hello {
            workload: workload.into(),
            features: encode_features(&Feature::ALL.into_iter().collect()),
            applied: applied.iter().map(revision).collect(),
            client: "test".into(),
            workload_revision: workload_revision.cloned(),
        };
        let (requests, receiver) = mpsc::channel(16);
        requests.send(WatchRequest { kind: Some(Kind::Hello(hello)) }).await.ok()?;
        let stream = client.watch(ReceiverStream::new(receiver)).await.ok()?.into_inner();
        Some(Self { requests, stream })
    }

    /// Says that an update is in force.
    pub(crate) async fn acknowledge(&self, update: &PortUpdate) {
        let ack = Ack { port: update.port, revision: update.revision.clone() };
        _ = self.requests.send(WatchRequest { kind: Some(Kind::Ack(ack)) }).await;
    }

    /// The next workload; nothing within the time.
    pub(crate) async fn workload(&mut self, within: Duration) -> Option<Workload> {
        tokio::time::timeout(within, async {
            loop {
                let message = self.stream.message().await.unwrap().expect("the stream goes on");
                if let Some(Answer::Workload(workload)) = message.kind {
                    return workload;
                }
            }
        })
        .await
        .ok()
    }

    /// The next policy of the port, acknowledged; nothing within the time.
    pub(crate) async fn next(
        &mut self,
        number: u32,
        state: &mut PortState,
        within: Duration,
    ) -> Option<(Revision, Arc<ServerPolicy>)> {
        tokio::time::timeout(within, async {
            loop {
                let message = self.stream.message().await.unwrap().expect("the stream goes on");
                let Some(Answer::Port(update)) = message.kind else { continue };
                self.acknowledge(&update).await;
                if update.port == number {
                    let policy = state.apply(&update).unwrap();
                    return (update.revision.unwrap(), policy);
                }
            }
        })
        .await
        .ok()
    }
}
