//! A client of the native API that checks the updates it receives.

use crate::testing::{Harness, PATIENCE, QUIET, soon};
use policy_core::feature::Feature;
use policy_proto::messages::policy_discovery_client::PolicyDiscoveryClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::messages::{Ack, Hello, PortUpdate, WatchRequest, WatchResponse, Workload};
use policy_proto::native::encode_features;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// A client of one watch.
pub struct Client {
    /// The sending half of the requests.
    pub requests: mpsc::Sender<WatchRequest>,
    /// The responses of the server.
    pub responses: Streaming<WatchResponse>,
}

/// The first message of a client that has all features.
pub fn hello(workload: &str) -> Hello {
    Hello {
        workload: workload.into(),
        features: encode_features(&Feature::ALL.into_iter().collect()),
        applied: Vec::new(),
        client: "test".into(),
        workload_revision: None,
    }
}

impl Client {
    /// A watch that begins with `hello`.
    pub async fn open(harness: &Harness, hello: Hello) -> Self {
        Self::raw(harness, vec![Kind::Hello(hello)]).await.unwrap()
    }

    /// A watch that begins with these messages.
    pub async fn raw(harness: &Harness, first: Vec<Kind>) -> Result<Self, Status> {
        Self::over(harness.channel().await, first).await
    }

    /// The same over this connection.
    pub async fn over(channel: Channel, first: Vec<Kind>) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(64);
        for kind in first {
            requests.send(WatchRequest { kind: Some(kind) }).await.unwrap();
        }
        let mut client = PolicyDiscoveryClient::new(channel);
        let responses = client.watch(ReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { requests, responses })
    }

    /// Sends a message.
    pub async fn send(&self, kind: Kind) {
        self.requests.send(WatchRequest { kind: Some(kind) }).await.unwrap();
    }

    /// The next message; none: the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Answer>, Status> {
        let message = soon(self.responses.message()).await?;
        Ok(message.map(|response| response.kind.expect("a kind")))
    }

    /// The next message, which is the workload.
    pub async fn workload(&mut self) -> Workload {
        match self.next().await.unwrap() {
            Some(Answer::Workload(workload)) => workload,
            other => panic!("expected the workload, got {other:?}"),
        }
    }

    /// The next message, which is a port.
    pub async fn port(&mut self) -> PortUpdate {
        match self.next().await.unwrap() {
            Some(Answer::Port(update)) => update,
            other => panic!("expected a port, got {other:?}"),
        }
    }

    /// Acknowledges an update.
    pub async fn ack(&self, update: &PortUpdate) {
        let revision = update.revision.clone();
        self.send(Kind::Ack(Ack { port: update.port, revision })).await;
    }

    /// Nothing comes.
    pub async fn quiet(&mut self) {
        let silence = tokio::time::timeout(QUIET, self.responses.message()).await;
        assert!(silence.is_err(), "unexpected: {silence:?}");
    }

    /// The status that the stream ends with.
    pub async fn end(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

/// The status of a watch that is refused.
pub async fn refusal(harness: &Harness, first: Vec<Kind>) -> (Code, String) {
    let status = match Client::raw(harness, first).await {
        Ok(mut client) => client.end().await,
        Err(status) => status,
    };
    (status.code(), status.message().to_owned())
}

/// Waits until `condition` holds.
pub async fn until(condition: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("the condition never held");
}
