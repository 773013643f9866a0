//! The server under test: answers that are encoded once and change by channels, served by the HTTP/2
//! stack and with the settings of the controller, on one thread as there.

use crate::codec::{PassThrough, Payload};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use policy_discovery::serve::ServeConfig;
use policy_proto::messages as m;
use policy_proto::messages::destination_request::Kind as Asked;
use policy_proto::messages::destination_response::Kind;
use prost::Message;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::StreamMap;
use tokio_stream::wrappers::WatchStream;
use tonic::server::{Grpc, ServerStreamingService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

/// Method with one stream per client and its lookups within.
pub(crate) const WATCH: &str = "/portcullis.policy.v1.DestinationDiscovery/Watch";

/// Method with one stream per name: a lookup, answered by a stream of its own.
pub(crate) const GET: &str = "/bench.Destination/Get";

/// Settings of a server: its answers, and what it keeps for a client that is slow to read.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Settings {
    /// Number of destinations, which clients share.
    #[arg(long, default_value_t = 1000)]
    pub(crate) answers: u16,
    /// Endpoints of each.
    #[arg(long, default_value_t = 10)]
    pub(crate) endpoints: u8,
    /// Most bytes that a stream has written and the connection has not sent.
    #[arg(long, default_value_t = 4096)]
    pub(crate) send_buffer: usize,
}

/// Senders of all answers, each encoded without the number of a lookup.
struct Answers(Vec<watch::Sender<Bytes>>);

type Outgoing = BoxStream<'static, Result<Payload, Status>>;

/// Serves until it is killed.
pub(crate) async fn run(listen: SocketAddr, settings: Settings) -> anyhow::Result<()> {
    let all = (0..settings.answers).map(|number| answer(number, settings.endpoints));
    let answers = Arc::new(Answers(all.map(watch::Sender::new).collect()));
    let listener = TcpListener::bind(listen).await?;
    let builder = builder(settings.send_buffer);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (builder, answers) = (builder.clone(), Arc::clone(&answers));
        tokio::spawn(async move {
            let service = hyper::service::service_fn(|request| {
                let answers = Arc::clone(&answers);
                async move { Ok::<_, Infallible>(respond(answers, request).await) }
            });
            // A client that goes away is no matter of the server's.
            _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The settings of the controller's own listener, but for the buffer.
fn builder(send_buffer: usize) -> hyper::server::conn::http2::Builder<TokioExecutor> {
    let config = ServeConfig::default();
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(config.window_bytes)
        .initial_connection_window_size(config.window_bytes)
        .max_concurrent_streams(config.max_concurrent_streams)
        .max_send_buf_size(send_buffer)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout);
    builder
}

async fn respond(
    answers: Arc<Answers>,
    request: http::Request<Incoming>,
) -> http::Response<tonic::body::Body> {
    match request.uri().path() {
        GET => {
            let mut grpc = Grpc::new(PassThrough::<m::Lookup>::new());
            grpc.server_streaming(PerName(answers), request).await
        }
        WATCH => {
            let mut grpc = Grpc::new(PassThrough::<m::DestinationRequest>::new());
            grpc.streaming(PerClient(answers), request).await
        }
        _ => Status::unimplemented("no such method").into_http(),
    }
}

/// One stream for each lookup.
struct PerName(Arc<Answers>);

impl ServerStreamingService<m::Lookup> for PerName {
    type Response = Payload;
    type ResponseStream = Outgoing;
    type Future = BoxFuture<'static, Result<Response<Outgoing>, Status>>;

    fn call(&mut self, request: Request<m::Lookup>) -> Self::Future {
        let lookup = request.into_inner();
        let found = self.0.find(&lookup);
        Box::pin(async move {
            let own = number_of(lookup.id);
            let payload = move |shared| Ok(Payload { shared, own: own.clone() });
            Ok(Response::new(found?.map(payload).boxed()))
        })
    }
}

/// One stream for all lookups of a client.
struct PerClient(Arc<Answers>);

impl StreamingService<m::DestinationRequest> for PerClient {
    type Response = Payload;
    type ResponseStream = Outgoing;
    type Future = BoxFuture<'static, Result<Response<Outgoing>, Status>>;

    fn call(&mut self, request: Request<Streaming<m::DestinationRequest>>) -> Self::Future {
        let session = Session {
            answers: Arc::clone(&self.0),
            requests: request.into_inner(),
            lookups: StreamMap::new(),
            ended: VecDeque::new(),
        };
        Box::pin(async move { Ok(Response::new(session.boxed())) })
    }
}

/// A client's stream: what it asks and what it is answered.
struct Session {
    answers: Arc<Answers>,
    requests: Streaming<m::DestinationRequest>,
    lookups: StreamMap<u32, WatchStream<Bytes>>,
    /// Lookups whose end is to be told.
    ended: VecDeque<u32>,
}

impl Session {
    fn apply(&mut self, request: m::DestinationRequest) -> Result<(), Status> {
        match request.kind {
            Some(Asked::Lookup(lookup)) => {
                let answer = self.answers.find(&lookup)?;
                if self.lookups.insert(lookup.id, answer).is_some() {
                    return Err(Status::invalid_argument("a number that is in use"));
                }
            }
            Some(Asked::Release(release)) => {
                self.lookups.remove(&release.id);
                self.ended.push_back(release.id);
            }
            Some(Asked::Begin(_)) => {}
            None => return Err(Status::invalid_argument("a request without a kind")),
        }
        Ok(())
    }
}

impl Stream for Session {
    type Item = Result<Payload, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while let Poll::Ready(request) = self.requests.poll_next_unpin(cx) {
            match request {
                Some(Ok(request)) => {
                    if let Err(status) = self.apply(request) {
                        return Poll::Ready(Some(Err(status)));
                    }
                }
                Some(Err(_)) | None => return Poll::Ready(None),
            }
        }
        if let Some(id) = self.ended.pop_front() {
            let kind = Some(Kind::Released(m::Released {}));
            let shared = m::DestinationResponse { id: 0, kind }.encode_to_vec().into();
            return Poll::Ready(Some(Ok(Payload { shared, own: number_of(id) })));
        }
        match self.lookups.poll_next_unpin(cx) {
            Poll::Ready(Some((id, shared))) => {
                Poll::Ready(Some(Ok(Payload { shared, own: number_of(id) })))
            }
            // Without lookups it waits for requests.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Answers {
    /// Answers to a lookup: those of the address 10.96.a.b are numbered a * 256 + b.
    fn find(&self, lookup: &m::Lookup) -> Result<WatchStream<Bytes>, Status> {
        let [10, 96, high, low] = *lookup.address.as_slice() else {
            return Err(Status::invalid_argument("an address that nobody has"));
        };
        let number = usize::from(u16::from_be_bytes([high, low]));
        let answer = self.0.get(number).ok_or_else(|| Status::not_found("no such destination"))?;
        Ok(WatchStream::new(answer.subscribe()))
    }
}

/// The number of a lookup, as it follows a shared answer.
fn number_of(id: u32) -> Bytes {
    m::DestinationResponse { id, kind: None }.encode_to_vec().into()
}

/// The answer of a Service, encoded without the number of a lookup.
fn answer(number: u16, endpoints: u8) -> Bytes {
    let [high, low] = number.to_be_bytes();
    let namespace = format!("team-{}", number % 50);
    let identity =
        format!("app-{number}.{namespace}.serviceaccount.identity.linkerd.cluster.local");
    let endpoint = |at| m::Endpoint {
        address: Some(m::EndpointAddress { address: vec![10, high, low, at], port: 8080 }),
        owner: format!("deployment/app-{number}"),
        namespace: namespace.clone(),
        mesh: Some(m::endpoint::Mesh::Meshed(m::Meshed {
            identity: identity.clone(),
            server_name: identity.clone(),
            inbound_port: 4143,
            opaque: false,
        })),
    };
    let endpoints = (1..=endpoints).map(endpoint).collect();
    let service = m::Service {
        namespace: namespace.clone(),
        name: format!("app-{number}"),
        port: 80,
        affinity: None,
    };
    let found = m::Found {
        endpoints: Some(m::Endpoints { endpoints, more: false }),
        kind: Some(m::found::Kind::Service(service)),
    };
    m::DestinationResponse { id: 0, kind: Some(Kind::Found(found)) }.encode_to_vec().into()
}
