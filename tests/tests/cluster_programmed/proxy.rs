//! A client of the native API that does what it is told to.

use policy_core::ServerPolicy;
use policy_core::feature::Feature;
use policy_proto::messages::policy_discovery_client::PolicyDiscoveryClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::messages::{
    Ack, Hello, PortRevision, PortUpdate, Revision, WatchRequest, WatchResponse,
};
use policy_proto::native::{PortState, encode_features};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Reads and acknowledges for as long as it lives, and connects again when its stream ends.
pub(crate) struct Proxy {
    paused: watch::Sender<bool>,
    controllers: watch::Sender<Vec<SocketAddr>>,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    /// The proxy of a pod. It tries the controllers in turn.
    pub(crate) fn of(workload: &str, controllers: &[SocketAddr]) -> Self {
        let (paused, pausing) = watch::channel(false);
        let (controllers, known) = watch::channel(controllers.to_vec());
        let task = tokio::spawn(run(workload.to_owned(), known, pausing));
        Self { paused, controllers, _task: AbortOnDropHandle::new(task) }
    }

    /// As if its network were gone: it hears nothing and says nothing.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Goes to these from the next connection on.
    pub(crate) fn knows(&self, controllers: &[SocketAddr]) {
        self.controllers.send_replace(controllers.to_vec());
    }
}

async fn run(
    workload: String,
    controllers: watch::Receiver<Vec<SocketAddr>>,
    mut paused: watch::Receiver<bool>,
) {
    let mut applied = BTreeMap::new();
    for turn in 0.. {
        let controllers = controllers.borrow().clone();
        let controller = controllers[turn % controllers.len()];
        if let Some(mut watching) = Watch::open(&workload, controller, &applied).await {
            loop {
                if paused.wait_for(|paused| !*paused).await.is_err() {
                    return;
                }
                let message = tokio::select! {
                    message = watching.stream.message() => message,
                    changed = paused.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                };
                let Ok(Some(WatchResponse { kind: Some(kind) })) = message else { break };
                if let Answer::Port(update) = kind {
                    applied.insert(update.port, update.revision.clone().unwrap());
                    watching.acknowledge(&update).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// One watch.
pub(crate) struct Watch {
    requests: mpsc::Sender<WatchRequest>,
    stream: Streaming<WatchResponse>,
}

impl Watch {
    /// Opens one, stating what is applied already.
    pub(crate) async fn open(
        workload: &str,
        controller: SocketAddr,
        applied: &BTreeMap<u32, Revision>,
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
        };
        let (requests, receiver) = mpsc::channel(16);
        requests.send(WatchRequest { kind: Some(Kind::Hello(hello)) }).await.ok()?;
        let stream = client.watch(ReceiverStream::new(receiver)).await.ok()?.into_inner();
        Some(Self { requests, stream })
    }

    async fn acknowledge(&self, update: &PortUpdate) {
        let ack = Ack { port: update.port, revision: update.revision.clone() };
        _ = self.requests.send(WatchRequest { kind: Some(Kind::Ack(ack)) }).await;
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
