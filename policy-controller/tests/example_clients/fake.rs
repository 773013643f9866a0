//! A server of discovery that says what a test tells it to.

use policy_core::{Facts, Revision};
use policy_proto::messages::policy_discovery_server::{PolicyDiscovery, PolicyDiscoveryServer};
use policy_proto::messages::watch_request::Kind as Say;
use policy_proto::messages::watch_response::Kind as Hear;
use policy_proto::messages::{self as m, WatchRequest, WatchResponse};
use policy_proto::native::{encode_facts, encode_revision};
use policy_testkit::soon;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// A server that hands each stream to the test.
pub(crate) struct Fake(mpsc::UnboundedSender<Stream>);

pub(crate) struct Stream {
    said: Streaming<WatchRequest>,
    pub(crate) say: mpsc::Sender<Result<WatchResponse, Status>>,
}

#[tonic::async_trait]
impl PolicyDiscovery for Fake {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (say, stream) = mpsc::channel(8);
        self.0.send(Stream { said: request.into_inner(), say }).unwrap();
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

impl Stream {
    pub(crate) async fn next(&mut self) -> Say {
        soon(self.said.message()).await.unwrap().unwrap().kind.unwrap()
    }

    pub(crate) async fn hello(&mut self) -> m::Hello {
        let said = self.next().await;
        let Say::Hello(hello) = said else { panic!("not Hello: {said:?}") };
        hello
    }

    /// Sends a message, and returns the path of the field that the client refuses in it.
    pub(crate) async fn refused(&mut self, kind: Hear) -> (u32, String) {
        self.send(kind).await;
        match self.next().await {
            Say::Nack(nack) => (nack.port, nack.field_path),
            other => panic!("not refused: {other:?}"),
        }
    }

    pub(crate) async fn send(&self, kind: Hear) {
        self.say.send(Ok(WatchResponse { kind: Some(kind) })).await.unwrap();
    }
}

/// Starts such a server. Each stream that is opened comes out of the channel.
pub(crate) async fn serve() -> (SocketAddr, mpsc::UnboundedReceiver<Stream>) {
    let (opened, streams) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder();
    let router = { server }.add_service(PolicyDiscoveryServer::new(Fake(opened)));
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, streams)
}

pub(crate) fn workload() -> m::Workload {
    m::Workload {
        name: "shop/web".to_owned(),
        facts: Some(encode_facts(&Facts::default())),
        declared_ports: vec![8080],
        undeclared: m::Undeclared::Default.into(),
        revision: Some(encode_revision(&Revision::default())),
        takes_refusals: false,
    }
}
