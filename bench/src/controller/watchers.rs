//! Clients: one stream per pod, many streams on each plaintext connection. Raw HTTP/2, so that the
//! measuring process takes as little of the machine as it can.

use crate::fixture::{self, PORT};
use anyhow::{Context, bail};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use policy_core::feature::Feature;
use policy_proto::linkerd::inbound::PortSpec;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::messages::{Ack, Hello, PortUpdate, WatchRequest, WatchResponse};
use policy_proto::native::encode_features;
use prost::Message;
use std::net::SocketAddr;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Streams of one connection.
const PER_CONNECTION: usize = 100;

/// Which API.
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

    fn path(self) -> &'static str {
        match self {
            Self::Compatible => "/io.linkerd.proxy.inbound.InboundServerPolicies/WatchPort",
            Self::Native => "/portcullis.policy.v1.PolicyDiscovery/Watch",
        }
    }
}

/// A policy that a watcher was sent for [`PORT`].
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) pod: usize,
    pub(crate) at: Instant,
    /// The message.
    pub(crate) message: Bytes,
}

/// What watchers report.
pub(crate) type Report = anyhow::Result<Update>;

/// Open streams. Dropping it closes them.
pub(crate) struct Watchers {
    pub(crate) updates: mpsc::UnboundedReceiver<Report>,
    _stop: DropGuard,
}

impl Watchers {
    /// Opens a stream for each of the first `pods` pods.
    pub(crate) async fn open(api: Api, addr: SocketAddr, pods: usize) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let (reports, updates) = mpsc::unbounded_channel();
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
                tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
                    let Err(error) = watch(api, requests, pod, &reports).await;
                    _ = reports.send(Err(error.context(format!("watch of pod {pod}"))));
                }));
            }
        }
        Ok(Self { updates, _stop: stop.drop_guard() })
    }
}

/// Follows one pod until something goes wrong, which is all that ends it.
async fn watch(
    api: Api,
    requests: SendRequest<Bytes>,
    pod: usize,
    reports: &mpsc::UnboundedSender<Report>,
) -> anyhow::Result<std::convert::Infallible> {
    let request = http::Request::post(format!("http://controller{}", api.path()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let mut requests = requests.ready().await?;
    let (response, mut sending) = requests.send_request(request, false)?;
    let first = match api {
        Api::Compatible => framed(&PortSpec { workload: fixture::token(pod), port: PORT.into() }),
        Api::Native => framed(&request_of(Kind::Hello(Hello {
            workload: fixture::token(pod),
            features: encode_features(&Feature::ALL.into_iter().collect()),
            applied: Vec::new(),
            client: "bench".to_owned(),
        }))),
    };
    sending.send_data(first, api == Api::Compatible)?;
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
        let at = Instant::now();
        let ours = match api {
            Api::Compatible => true,
            Api::Native => acknowledge(&message, &mut sending)?,
        };
        if ours {
            _ = reports.send(Ok(Update { pod, at, message }));
        }
    }
}

/// Acknowledges a port's update; true if the port is [`PORT`].
fn acknowledge(message: &Bytes, sending: &mut SendStream<Bytes>) -> anyhow::Result<bool> {
    match WatchResponse::decode(message.clone())?.kind.context("a response without kind")? {
        Answer::Workload(_) => Ok(false),
        Answer::Port(PortUpdate { port, revision, .. }) => {
            let ack = framed(&request_of(Kind::Ack(Ack { port, revision })));
            sending.send_data(ack, false)?;
            Ok(port == u32::from(PORT))
        }
    }
}

fn request_of(kind: Kind) -> WatchRequest {
    WatchRequest { kind: Some(kind) }
}

/// A gRPC message: not compressed, its length, itself.
fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(message.encoded_len() + 5);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    bytes.put_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// The next whole gRPC message.
async fn next(body: &mut RecvStream, buffer: &mut BytesMut) -> anyhow::Result<Option<Bytes>> {
    loop {
        if let Some(head) = buffer.first_chunk::<5>() {
            let [_, a, b, c, d] = *head;
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d]))?;
            if buffer.len() >= length + 5 {
                buffer.advance(5);
                return Ok(Some(buffer.split_to(length).freeze()));
            }
        }
        let Some(data) = body.data().await else { return Ok(None) };
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        buffer.extend_from_slice(&data);
    }
}
