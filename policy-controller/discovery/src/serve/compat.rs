//! `io.linkerd.proxy.inbound.InboundServerPolicies`: one stream per port, whole messages
//! (controller-semantics 3).

use crate::serve::access::Stand;
use crate::serve::applied::{Lacks, Watching};
use crate::serve::cache::Cache;
use crate::serve::caller::{Caller, Connected};
use crate::serve::codec::{PassThrough, Payload};
use crate::serve::core::Core;
use crate::serve::metrics::{Call, Method};
use crate::serve::refusal::refusal;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use policy_core::{Denied, Facts, NetworkSymbol, ServerPolicy, symbols};
use policy_engine::latest::Latest;
use policy_engine::publish::{LookupError, PortPolicy, PublishedWorkload};
use policy_proto::compat::{EncodeOptions, encode, server_ips};
use policy_proto::linkerd::inbound::inbound_server_policies_server::SERVICE_NAME;
use policy_proto::linkerd::inbound::{PortSpec, Server};
use policy_proto::workload::parse_workload;
use policy_proto::{Fallback, Part, Unsupported};
use policy_server::Held;
use prost::Message;
use std::convert::Infallible;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::{Code, Request, Response, Status};

/// Most bytes of a request, which names one port: whoever may call can make us hold as much for each
/// that it does not end.
const MAX_SPEC: usize = 4096;

/// What an encoding depends on beside the policy: what network symbols stand for, and how many bytes
/// the workload's own addresses take of the message's bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shape {
    symbols: Facts,
    /// Whether it is for pods of every node: nothing in the policy names the node.
    anywhere: bool,
    own: usize,
}

/// Whom the messages are for, in conditions of objects that ask for more.
const CLIENTS: &str = "clients of Linkerd's API";

/// What workloads of one shape share of a message.
#[derive(Debug)]
struct Shared {
    bytes: Bytes,
    /// What it does not say.
    lacks: Option<Arc<Lacks>>,
}

/// A message: the workload's own addresses, then what workloads of one shape share.
#[derive(Clone, Debug)]
struct Encoded {
    own: Bytes,
    shared: Arc<Shared>,
}

impl Encoded {
    fn payload(&self) -> Payload {
        Payload { own: self.own.clone(), shared: self.shared.bytes.clone() }
    }

    fn says(&self, other: &Encoded) -> bool {
        self.own == other.own && self.shared.bytes == other.shared.bytes
    }
}

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Compat {
    core: Arc<Core>,
    cache: Arc<Cache<Shape, Shared>>,
    options: EncodeOptions,
    /// Whether it was told what clients are not told.
    told: Arc<AtomicBool>,
}

impl Compat {
    /// The service over `core`.
    pub(crate) fn new(core: Arc<Core>, options: EncodeOptions) -> Self {
        Self { core, cache: Arc::default(), options, told: Arc::default() }
    }

    /// What is sent for `policy` to a client of a workload with `facts`.
    fn encoded(&self, policy: &Arc<ServerPolicy>, facts: &Facts) -> Encoded {
        let own = Server { server_ips: server_ips(facts), ..Server::default() }.encode_to_vec();
        let (shared, made) = self.shared(policy, facts, own.len());
        if made {
            self.core.metrics.encoded("compatible");
        } else {
            self.core.metrics.shared("compatible");
        }
        Encoded { own: own.into(), shared }
    }

    /// What workloads share that cannot be told apart in a message of `policy`, and whether it was
    /// made.
    fn shared(&self, policy: &Arc<ServerPolicy>, facts: &Facts, own: usize) -> (Arc<Shared>, bool) {
        let cluster = facts.cluster.clone();
        let symbols = Facts { cluster, ..Facts::default() };
        let anywhere = Shape { symbols, anywhere: true, own };
        if let Some(known) = self.cache.known(policy, anywhere.clone()) {
            return (known, false);
        }
        // Such a client does not look for its default gateways.
        let (cluster, node_local) = (facts.cluster.clone(), facts.node_local.clone());
        let symbols = Facts { cluster, node_local, ..Facts::default() };
        let here = Shape { symbols, anywhere: false, own };
        if let Some(known) = self.cache.known(policy, here.clone()) {
            return (known, false);
        }
        // The policy is gone through once for each encoding that is made, not for each that is sent.
        let shape = match symbols::names(policy, NetworkSymbol::NodeLocal) {
            true => {
                self.tell(&facts.pod_gateways);
                here
            }
            false => anywhere,
        };
        self.cache.get(policy, shape, |shape| self.encode(policy, shape))
    }

    /// Logs once that there are addresses of which a client of this API cannot tell whose they are.
    fn tell(&self, pod_gateways: &[IpAddr]) {
        if !pod_gateways.is_empty() && !self.told.swap(true, Ordering::Relaxed) {
            tracing::info!(
                addresses = ?pod_gateways,
                "Linkerd's proxies are not told that the first addresses of pod networks are their node's: \
                 where the kubelet probes from them, --pod-gateways=of-node is needed"
            );
        }
    }

    fn encode(&self, policy: &ServerPolicy, shape: &Shape) -> Shared {
        let encoded = encode(policy, &shape.symbols, &self.options);
        self.core.metrics.replaced("compatible", &policy.owner, &encoded.unsupported);
        let bytes = encoded.server.encode_to_vec();
        let (size, limit) =
            (bytes.len().saturating_add(shape.own), self.core.config.max_policy_bytes);
        if size <= limit {
            let lacks = Lacks::of(CLIENTS, policy, &encoded.unsupported);
            return Shared { bytes: bytes.into(), lacks };
        }
        // A client could not read it; what it cannot read it must not guess.
        self.core.metrics.too_large("compatible");
        let owner = &policy.owner;
        tracing::warn!(
            ?owner,
            size,
            limit,
            "policy is too large for the client and sent as a denial"
        );
        let denial = Core::denial(policy, Denied::ProxyUnsupported);
        let bytes = encode(&denial, &shape.symbols, &self.options).server.encode_to_vec().into();
        let message =
            format!("{size} bytes, of {limit} that a message may have: the port is denied");
        let replaced = Unsupported { part: Part::Port, fallback: Fallback::Denied, message };
        Shared { bytes, lacks: Lacks::of(CLIENTS, policy, &[replaced]) }
    }

    async fn get_port(self, request: Request<PortSpec>) -> Result<Response<Payload>, Status> {
        let mut call = self.core.metrics.call(Method::GET_PORT);
        call.received();
        let found = self.lookup(&request).await;
        let result = found.and_then(|Found { state, port, stand }| {
            // In this order, as where it is watched.
            let policy = port.current().policy.clone();
            let state = state.current();
            stand.holds(&state)?;
            Ok(Response::new(self.encoded(&policy, &state.facts).payload()))
        });
        call.end(result.as_ref().map_or_else(Status::code, |_| Code::Ok));
        result
    }

    async fn watch_port(
        self,
        request: Request<PortSpec>,
    ) -> Result<Response<impl Stream<Item = Result<Payload, Status>> + Send + use<>>, Status> {
        let mut call = self.core.metrics.call(Method::WATCH_PORT);
        call.received();
        let opened = self.open(&request, &mut call).await;
        let (held, ending, Found { state, port, stand }) = opened?;
        // The stream's future holds what is given to it more than once; of a box that is a pointer.
        let watch = Box::new(PortWatch {
            service: self,
            state,
            port,
            stand,
            ending,
            call,
            sent: None,
            watching: None,
            ended: false,
            _held: held,
        });
        Ok(Response::new(stream::unfold(watch, PortWatch::next)))
    }

    /// Everything that can refuse a watch.
    async fn open(
        &self,
        request: &Request<PortSpec>,
        call: &mut Call,
    ) -> Result<(Held, CancellationToken, Found), Status> {
        let open = async {
            let Connected { peer, ending, .. } = Core::connected(request.extensions())?;
            let held = self.core.take_stream(&peer)?;
            Ok((held, ending, self.lookup(request).await?))
        };
        open.await.inspect_err(|status: &Status| call.end(status.code()))
    }

    async fn lookup(&self, request: &Request<PortSpec>) -> Result<Found, Status> {
        let (caller, spec) = (Caller::of(request.extensions()), request.get_ref());
        self.core.access.admit(&caller)?;
        let key = parse_workload(&spec.workload)
            .map_err(|error| Status::invalid_argument(format!("Invalid workload: {error}")))?;
        let port = u16::try_from(spec.port).ok().and_then(NonZeroU16::new).ok_or_else(|| {
            let port = spec.port;
            Status::invalid_argument(format!("Invalid port: `{port}` is not from 1 to 65535"))
        })?;
        let policies = &self.core.policies;
        let (state, stand) = self.core.access.open(policies, &caller, &key).await?;
        let policy = policies.port(&key, port).await.map_err(|error| refusal(&key, port, error))?;
        // Its channel closes when a workload goes. The policy may be that of the next one of its name,
        // which may be another's.
        if state.is_closed() {
            return Err(refusal(&key, port, LookupError::NotFound));
        }
        Ok(Found { state, port: policy, stand })
    }
}

/// What was asked for, and what the caller stands on.
struct Found {
    state: Latest<Arc<PublishedWorkload>>,
    port: Latest<Arc<PortPolicy>>,
    stand: Stand,
}

/// One open `WatchPort`.
struct PortWatch {
    service: Compat,
    state: Latest<Arc<PublishedWorkload>>,
    port: Latest<Arc<PortPolicy>>,
    stand: Stand,
    ending: CancellationToken,
    call: Call,
    sent: Option<Encoded>,
    /// Tells status what the client is not sent.
    watching: Option<Watching>,
    /// Whether the stream has said why it ends.
    ended: bool,
    _held: Held,
}

impl PortWatch {
    /// The next message; `None` ends the stream with OK.
    async fn next(mut self: Box<Self>) -> Option<(Result<Payload, Status>, Box<Self>)> {
        loop {
            if self.ended {
                return None;
            }
            if self.sent.is_some() {
                match self.changed().await {
                    Ok(true) => {}
                    Ok(false) => {
                        self.call.end(Code::Ok);
                        return None;
                    }
                    Err(status) => return Some(self.end(status)),
                }
            }
            // In this order: a workload's state is published before its policies, so that none is
            // sent to whom it is not for any more.
            let policy = self.port.read().policy.clone();
            let state = self.state.read();
            if let Err(status) = self.stand.holds(&state) {
                return Some(self.end(status));
            }
            let facts = &state.facts;
            let encoded = self.service.encoded(&policy, facts);
            // Who only looks enforces nothing.
            let lacks = encoded.shared.lacks.as_ref().filter(|_| self.stand.is_own());
            Watching::replace(&mut self.watching, &self.service.core.applied, lacks);
            // A change that the message does not show is not sent: proxies start rate limits anew
            // on each.
            if self.sent.as_ref().is_some_and(|sent| sent.says(&encoded)) {
                self.sent = Some(encoded);
                continue;
            }
            let payload = encoded.payload();
            self.sent = Some(encoded);
            self.call.sent();
            return Some((Ok(payload), self));
        }
    }

    /// Waits for a change; false: the workload is gone or the connection is to end.
    async fn changed(&mut self) -> Result<bool, Status> {
        tokio::select! {
            // What ends the stream goes before what it would send.
            biased;
            () = self.ending.cancelled() => Ok(false),
            status = self.stand.lost() => Err(status),
            there = self.state.changed() => Ok(there),
            there = self.port.changed() => Ok(there),
        }
    }

    fn end(mut self: Box<Self>, status: Status) -> (Result<Payload, Status>, Box<Self>) {
        self.call.end(status.code());
        self.ended = true;
        (Err(status), self)
    }
}

impl tonic::server::NamedService for Compat {
    const NAME: &'static str = SERVICE_NAME;
}

impl tower::Service<http::Request<Body>> for Compat {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        let mut grpc = tonic::server::Grpc::new(PassThrough::<PortSpec>::new())
            .max_decoding_message_size(service.core.config.max_request_bytes.min(MAX_SPEC));
        Box::pin(async move {
            let method = request.uri().path().strip_prefix('/').and_then(|path| {
                path.strip_prefix(SERVICE_NAME).and_then(|path| path.strip_prefix('/'))
            });
            Ok(match method {
                Some("GetPort") => {
                    let handler = tower::service_fn(move |r| service.clone().get_port(r));
                    grpc.unary(handler, request).await
                }
                Some("WatchPort") => {
                    let handler = tower::service_fn(move |r| service.clone().watch_port(r));
                    grpc.server_streaming(handler, request).await
                }
                Some(_) | None => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}
