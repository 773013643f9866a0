//! A policy controller that says exactly what it is told to: one port, one policy, and changes of one
//! route of it. Speaks the native service to one proxy over loopback.

use policy_proto::messages as m;
use policy_proto::messages::policy_discovery_server::{PolicyDiscovery, PolicyDiscoveryServer};
use policy_proto::messages::watch_request::Kind as Heard;
use policy_proto::messages::watch_response::Kind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Answer of the proxy, with its time of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// In force: the content of the revision.
    Ack(u64),
    /// Anything that must not be.
    Other(String),
}

type Outbound = mpsc::Sender<Result<m::WatchResponse, Status>>;

/// The service. Serves one stream at a time; a new one takes the place of the old.
#[derive(Clone)]
pub(crate) struct Controller {
    first: Arc<Vec<m::WatchResponse>>,
    stream: Arc<Mutex<Option<Outbound>>>,
    answers: mpsc::UnboundedSender<(Instant, Said)>,
}

impl Controller {
    /// A controller of a workload whose one port has the policy `full`. What the proxy says comes out
    /// of the receiver.
    pub(crate) fn new(full: m::PortUpdate) -> (Self, mpsc::UnboundedReceiver<(Instant, Said)>) {
        let workload = m::Workload {
            name: "bench/web".to_owned(),
            facts: Some(m::Facts::default()),
            declared_ports: vec![full.port],
            undeclared: m::Undeclared::Default.into(),
            revision: None,
            takes_refusals: false,
        };
        let first = [Kind::Workload(workload), Kind::Port(full)];
        let first = first.map(|kind| m::WatchResponse { kind: Some(kind) }).to_vec();
        let (answers, received) = mpsc::unbounded_channel();
        (Self { first: Arc::new(first), stream: Arc::default(), answers }, received)
    }

    /// Serves on a free port of loopback until the runtime ends; the address.
    pub(crate) async fn serve(&self) -> anyhow::Result<SocketAddr> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service = PolicyDiscoveryServer::new(self.clone()).max_encoding_message_size(64 << 20);
        let serve = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(async move {
            if let Err(error) = serve.await {
                eprintln!("controller: {error}");
            }
        });
        Ok(address)
    }

    /// Sends an update on the open stream.
    pub(crate) async fn send(&self, update: m::PortUpdate) -> anyhow::Result<()> {
        let stream = self.stream.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.clone();
        let stream = stream.ok_or_else(|| anyhow::anyhow!("the proxy has no stream open"))?;
        Ok(stream.send(Ok(m::WatchResponse { kind: Some(Kind::Port(update)) })).await?)
    }
}

#[tonic::async_trait]
impl PolicyDiscovery for Controller {
    type WatchStream = ReceiverStream<Result<m::WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<m::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut inbound = request.into_inner();
        let (outbound, messages) = mpsc::channel(4);
        if let Ok(mut stream) = self.stream.lock() {
            *stream = Some(outbound.clone());
        }
        let this = self.clone();
        tokio::spawn(async move {
            for message in this.first.iter().cloned() {
                if outbound.send(Ok(message)).await.is_err() {
                    return;
                }
            }
            while let Ok(Some(message)) = inbound.message().await {
                let said = match message.kind {
                    Some(Heard::Ack(ack)) => Said::Ack(ack.revision.map_or(0, |own| own.content)),
                    Some(
                        Heard::Hello(_)
                        | Heard::Subscribe(_)
                        | Heard::Unsubscribe(_)
                        | Heard::Refusals(_),
                    ) => continue,
                    Some(other @ (Heard::Nack(_) | Heard::Resync(_))) => {
                        Said::Other(format!("{other:?}"))
                    }
                    None => Said::Other("nothing".to_owned()),
                };
                let _ = this.answers.send((Instant::now(), said));
            }
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
