//! Clients: one stream per pod, many streams on each plaintext connection. Raw HTTP/2, so that the
//! measuring process takes as little of the machine as it can.

use crate::fixture::{self, ADMIN, PORT};
use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use h2::SendStream;
use h2::client::SendRequest;
use policy_bench::grpc::{framed, next};
use policy_core::feature::Feature;
use policy_proto::linkerd::inbound::PortSpec;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::messages::{
    Ack, Hello, PortRevision, PortUpdate, Revision, WatchRequest, WatchResponse,
};
use policy_proto::native::encode_features;
use prost::Message;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Streams of one connection.
const PER_CONNECTION: usize = 100;

/// API of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Api {
    /// `InboundServerPolicies.WatchPort`, whole messages.
    Compatible,
    /// `PolicyDiscovery.Watch`, changes by key, every one acknowledged.
    Native,
}

impl Api {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Native => "native",
        }
    }

    /// The ports that a watcher is told about.
    pub(crate) fn ports(self) -> &'static [u16] {
        match self {
            Self::Compatible => &[PORT],
            Self::Native => &[PORT, ADMIN],
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Compatible => "/io.linkerd.proxy.inbound.InboundServerPolicies/WatchPort",
            Self::Native => "/portcullis.policy.v1.PolicyDiscovery/Watch",
        }
    }
}

/// A policy that a watcher was sent, and acknowledged where that can be.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) pod: usize,
    pub(crate) port: u16,
    pub(crate) at: Instant,
    /// The message.
    pub(crate) message: Bytes,
}

/// Report of a watcher.
pub(crate) type Report = anyhow::Result<Update>;

/// Revisions that each pod has in force, port by port.
pub(crate) type Applied = Arc<Mutex<Vec<BTreeMap<u32, Option<Revision>>>>>;

/// Open streams. Dropping it closes them.
pub(crate) struct Watchers {
    pub(crate) updates: mpsc::UnboundedReceiver<Report>,
    applied: Applied,
    _stop: DropGuard,
}

/// One watch.
pub(crate) struct Watch {
    pub(crate) api: Api,
    pub(crate) pod: usize,
    pub(crate) applied: Applied,
    pub(crate) reports: mpsc::UnboundedSender<Report>,
}

impl Watchers {
    /// Opens a stream for each of the first `pods` pods, which have `applied` in force.
    pub(crate) async fn open(
        api: Api,
        addr: SocketAddr,
        pods: usize,
        applied: Option<Applied>,
    ) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let (reports, updates) = mpsc::unbounded_channel();
        let none = || Arc::new(Mutex::new(vec![BTreeMap::new(); pods]));
        let applied = applied.unwrap_or_else(none);
        let connections = pods.div_ceil(PER_CONNECTION);
        for first in 0..connections {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            let (requests, connection) = h2::client::handshake(stream).await?;
            tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
                // What ends a connection ends its streams, which tell.
                _ = connection.await;
            }));
            for pod in (first..pods).step_by(connections) {
                let (requests, reports) = (requests.clone(), reports.clone());
                let watch = Watch { api, pod, applied: applied.clone(), reports };
                tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
                    let Err(error) = watch.follow(requests).await;
                    _ = watch.reports.send(Err(error.context(format!("watch of pod {pod}"))));
                }));
            }
        }
        Ok(Self { updates, applied, _stop: stop.drop_guard() })
    }

    /// Closes every stream; what the pods had in force stays known.
    pub(crate) fn close(self) -> Applied {
        self.applied
    }
}

impl Watch {
    /// Follows the pod until something goes wrong, which is all that ends it.
    pub(crate) async fn follow(
        &self,
        requests: SendRequest<Bytes>,
    ) -> anyhow::Result<std::convert::Infallible> {
        let request = http::Request::post(format!("http://controller{}", self.api.path()))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let mut requests = requests.ready().await?;
        let (response, mut sending) = requests.send_request(request, false)?;
        sending.send_data(self.first(), self.api == Api::Compatible)?;
        let response = response.await?;
        let status = response.status();
        if let Some(code) = response.headers().get("grpc-status") {
            bail!("refused with {code:?}: {:?}", response.headers().get("grpc-message"));
        }
        let mut body = response.into_body();
        let mut buffer = BytesMut::new();
        loop {
            let Some(message) = next(&mut body, &mut buffer).await? else {
                bail!("ended with {status}, trailers {:?}", body.trailers().await?);
            };
            let port = match self.api {
                Api::Compatible => Some(PORT),
                Api::Native => self.acknowledge(&message, &mut sending)?,
            };
            let (pod, at) = (self.pod, Instant::now());
            if let Some(port) = port {
                _ = self.reports.send(Ok(Update { pod, port, at, message }));
            }
        }
    }

    /// First message of the client.
    fn first(&self) -> Bytes {
        let workload = fixture::token(self.pod);
        match self.api {
            Api::Compatible => framed(&PortSpec { workload, port: PORT.into() }),
            Api::Native => {
                let applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
                let applied = applied.get(self.pod).into_iter().flatten();
                let applied = applied.map(|(port, revision)| PortRevision {
                    port: *port,
                    revision: revision.clone(),
                });
                framed(&request_of(Kind::Hello(Hello {
                    workload,
                    features: encode_features(&Feature::ALL.into_iter().collect()),
                    applied: applied.collect(),
                    client: "bench".to_owned(),
                    workload_revision: None,
                })))
            }
        }
    }

    /// Acknowledges a port's update, and says which port it is about.
    fn acknowledge(
        &self,
        message: &Bytes,
        sending: &mut SendStream<Bytes>,
    ) -> anyhow::Result<Option<u16>> {
        match WatchResponse::decode(message.clone())?.kind.context("a response without kind")? {
            Answer::Workload(_) => Ok(None),
            Answer::Port(PortUpdate { port, revision, .. }) => {
                let ack = framed(&request_of(Kind::Ack(Ack { port, revision: revision.clone() })));
                sending.send_data(ack, false)?;
                let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
                applied.get_mut(self.pod).context("the pod")?.insert(port, revision);
                Ok(Some(u16::try_from(port)?))
            }
        }
    }
}

fn request_of(kind: Kind) -> WatchRequest {
    WatchRequest { kind: Some(kind) }
}
