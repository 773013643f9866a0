//! `io.linkerd.proxy.inbound.InboundServerPolicies`: one stream per port, whole messages
//! (docs/spec/controller.md 3).

use crate::serve::applied::{OmissionGuard, Omissions, TooLarge};
use crate::serve::authz::WatchGrant;
use crate::serve::cache::Cache;
use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::codec::{self, Payload};
use crate::serve::core::Core;
use crate::serve::metrics::{Call, Method};
use crate::serve::refusal::refusal;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use policy_core::{Denied, Facts, NetworkSymbol, ServerPolicy, symbols};
use policy_engine::contributions::{Excess, fitted, owners_part};
use policy_engine::latest::Latest;
use policy_engine::publish::{LookupError, PortPolicy, PublishedWorkload};
use policy_proto::compat::{EncodeOptions, MAX_TREE_MATCHES, encode, server_ips, tree_matches};
use policy_proto::linkerd::inbound::inbound_server_policies_server::SERVICE_NAME;
use policy_proto::linkerd::inbound::{PortSpec, Server};
use policy_proto::workload::parse_workload;
use policy_server::AllowancePermit;
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

/// Most bytes of a request, which names one port: a caller could otherwise make us buffer as much
/// for each request that it does not end.
const MAX_SPEC: usize = 4096;

/// The inputs of an encoding beside the policy: the networks of its symbols, and the bytes that the
/// workload's own addresses take of the message's bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CacheKey {
    symbols: Facts,
    /// True if it is for pods of every node: nothing in the policy names the node.
    anywhere: bool,
    own: usize,
}

/// Description of the clients, for conditions of objects that they are not sent.
const CLIENTS: &str = "clients of Linkerd's API";

/// The part of a message that workloads of one shape share.
#[derive(Debug)]
struct SharedPart {
    bytes: Bytes,
    /// Parts of the policy that it leaves out.
    omissions: Option<Arc<Omissions>>,
}

/// A message: the workload's own addresses, then the part that workloads of one shape share.
#[derive(Clone, Debug)]
struct Encoded {
    own: Bytes,
    shared: Arc<SharedPart>,
}

impl Encoded {
    fn payload(&self) -> Payload {
        Payload { own: self.own.clone(), shared: self.shared.bytes.clone() }
    }

    fn is_same_message(&self, other: &Encoded) -> bool {
        self.own == other.own && self.shared.bytes == other.shared.bytes
    }
}

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Compat {
    core: Arc<Core>,
    cache: Arc<Cache<ServerPolicy, CacheKey, SharedPart>>,
    options: EncodeOptions,
    /// True once the log line about pod gateways was written.
    gateways_logged: Arc<AtomicBool>,
}

impl Compat {
    /// The service over `core`.
    pub(crate) fn new(core: Arc<Core>, options: EncodeOptions) -> Self {
        Self { core, cache: Arc::default(), options, gateways_logged: Arc::default() }
    }

    /// Returns the message for `policy` to a client of a workload with `facts`.
    fn encoded(&self, policy: &Arc<ServerPolicy>, facts: &Facts) -> Encoded {
        let own = Server { server_ips: server_ips(facts, &self.options), ..Server::default() }
            .encode_to_vec();
        let (shared, made) = self.shared(policy, facts, own.len());
        if made {
            self.core.metrics.encoded("compatible");
        } else {
            self.core.metrics.shared("compatible");
        }
        Encoded { own: own.into(), shared }
    }

    /// Returns the part of the message that is equal for similar workloads, and true if it was
    /// encoded now.
    fn shared(
        &self,
        policy: &Arc<ServerPolicy>,
        facts: &Facts,
        own: usize,
    ) -> (Arc<SharedPart>, bool) {
        let cluster = facts.cluster.clone();
        let symbols = Facts { cluster, ..Facts::default() };
        let anywhere = CacheKey { symbols, anywhere: true, own };
        if let Some(known) = self.cache.known(policy, anywhere.clone()) {
            return (known, false);
        }
        // Such a client does not look for its default gateways.
        let (cluster, node_local) = (facts.cluster.clone(), facts.node_local.clone());
        let symbols = Facts { cluster, node_local, ..Facts::default() };
        let here = CacheKey { symbols, anywhere: false, own };
        if let Some(known) = self.cache.known(policy, here.clone()) {
            return (known, false);
        }
        // The policy is gone through once for each encoding that is made, not for each that is sent.
        let shape = match symbols::names(policy, NetworkSymbol::NodeLocal) {
            true => {
                self.log_pod_gateways(&facts.pod_gateways);
                here
            }
            false => anywhere,
        };
        self.cache.get(policy, shape, |shape| self.encode(policy, shape))
    }

    /// Logs once that there are addresses whose owner a client of this API cannot determine.
    fn log_pod_gateways(&self, pod_gateways: &[IpAddr]) {
        if !pod_gateways.is_empty() && !self.gateways_logged.swap(true, Ordering::Relaxed) {
            tracing::info!(
                addresses = ?pod_gateways,
                "Linkerd's proxies cannot tell that the first addresses of pod networks are their node's: if \
                 the kubelet probes from them, set --pod-gateways=of-node"
            );
        }
    }

    fn encode(&self, policy: &ServerPolicy, shape: &CacheKey) -> SharedPart {
        let limit = self.core.config.max_policy_bytes;
        let (part, matches) = self.measured(policy, shape);
        let size = part.bytes.len().saturating_add(shape.own);
        if size <= limit && matches <= MAX_TREE_MATCHES {
            return part;
        }
        self.core.metrics.too_large("compatible");
        // Trees of the owner alone that are too large are denied where they are encoded.
        let most = MAX_TREE_MATCHES.max(tree_matches(&owners_part(policy)));
        let less = fitted(policy, Excess::Bytes(size.saturating_sub(limit)), |less| {
            let (part, matches) = self.measured(less, shape);
            let fits = part.bytes.len().saturating_add(shape.own) <= limit;
            (fits && matches <= most).then_some(part)
        });
        let too_large = if size > limit {
            TooLarge { size, limit, of: "a message may have" }
        } else {
            let of = "matches of trees a message may have";
            TooLarge { size: matches, limit: MAX_TREE_MATCHES, of }
        };
        if let Some((part, lacking)) = less {
            too_large.log(policy, &lacking);
            let omissions = Omissions::lacking(CLIENTS, policy, &too_large, &lacking);
            let omissions = Omissions::both(omissions, part.omissions.clone());
            return SharedPart { omissions, ..part };
        }
        if size <= limit {
            // The trees alone are too large for it, and denied.
            return part;
        }
        // A client could not read it, and must not fall back to a guess.
        too_large.log(policy, &[]);
        let denial = Core::denial(policy, Denied::ProxyUnsupported);
        let bytes = encode(&denial, &shape.symbols, &self.options).server.encode_to_vec().into();
        SharedPart { bytes, omissions: Omissions::of(CLIENTS, policy, &[too_large.denial()]) }
    }

    /// The encoding of a policy, and the number of matches of its trees.
    fn measured(&self, policy: &ServerPolicy, shape: &CacheKey) -> (SharedPart, usize) {
        let encoded = encode(policy, &shape.symbols, &self.options);
        self.core.metrics.replaced("compatible", &policy.owner, &encoded.unsupported);
        let omissions = Omissions::of(CLIENTS, policy, &encoded.unsupported);
        let bytes = encoded.server.encode_to_vec().into();
        (SharedPart { bytes, omissions }, tree_matches(policy))
    }

    async fn get_port(self, request: Request<PortSpec>) -> Result<Response<Payload>, Status> {
        let mut call = self.core.metrics.call(Method::GET_PORT);
        call.received();
        let found = self.lookup(&request).await;
        let result = found.and_then(|PortLookup { state, port, grant }| {
            // In this order, as where it is watched.
            let policy = port.current().policy.clone();
            let state = state.current();
            grant.check(&state)?;
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
        let (held, ending, PortLookup { state, port, grant }) = opened?;
        // The stream's future stores its state more than once; a box is only a pointer.
        let watch = Box::new(PortWatch {
            service: self,
            state,
            port,
            grant,
            ending,
            call,
            sent: None,
            omission_guard: None,
            ended: false,
            _held: held,
        });
        Ok(Response::new(stream::unfold(watch, PortWatch::next)))
    }

    /// Performs every check that can reject a watch.
    async fn open(
        &self,
        request: &Request<PortSpec>,
        call: &mut Call,
    ) -> Result<(AllowancePermit, CancellationToken, PortLookup), Status> {
        let open = async {
            let ConnectionInfo { peer, ending, .. } = Core::connected(request.extensions())?;
            let held = self.core.take_stream(&peer)?;
            Ok((held, ending, self.lookup(request).await?))
        };
        open.await.inspect_err(|status: &Status| call.end(status.code()))
    }

    async fn lookup(&self, request: &Request<PortSpec>) -> Result<PortLookup, Status> {
        let (caller, spec) = (Caller::of(request.extensions()), request.get_ref());
        self.core.access.admit(&caller)?;
        let key = parse_workload(&spec.workload).map_err(|error| {
            Status::invalid_argument(format!("Invalid workload: {error}"))
                .because(StatusReason::InvalidRequest)
        })?;
        let port = u16::try_from(spec.port).ok().and_then(NonZeroU16::new).ok_or_else(|| {
            let port = spec.port;
            Status::invalid_argument(format!("Invalid port: `{port}` is not from 1 to 65535"))
                .because(StatusReason::InvalidRequest)
        })?;
        let policies = &self.core.policies;
        let (state, grant) = self.core.access.open(policies, &caller, &key).await?;
        let policy = policies.port(&key, port).await.map_err(|error| refusal(&key, port, error))?;
        // Its channel closes when a workload goes. The policy may be that of the next one of its name,
        // which may be another's.
        if state.is_closed() {
            return Err(refusal(&key, port, LookupError::NotFound));
        }
        Ok(PortLookup { state, port: policy, grant })
    }
}

/// The result of a lookup, and the caller's authorization.
struct PortLookup {
    state: Latest<Arc<PublishedWorkload>>,
    port: Latest<Arc<PortPolicy>>,
    grant: WatchGrant,
}

/// An open `WatchPort` stream.
struct PortWatch {
    service: Compat,
    state: Latest<Arc<PublishedWorkload>>,
    port: Latest<Arc<PortPolicy>>,
    grant: WatchGrant,
    ending: CancellationToken,
    call: Call,
    sent: Option<Encoded>,
    /// Reports to status the parts of the policy that the client is not sent.
    omission_guard: Option<OmissionGuard>,
    /// True once the stream has sent its final status.
    ended: bool,
    _held: AllowancePermit,
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
            // In this order: a workload's state is published before its policies, so that a policy is
            // never sent to a client that it is no longer for.
            let policy = self.port.read().policy.clone();
            let state = self.state.read();
            if let Err(status) = self.grant.check(&state) {
                return Some(self.end(status));
            }
            let facts = &state.facts;
            let encoded = self.service.encoded(&policy, facts);
            // A viewer enforces nothing.
            let omissions = encoded.shared.omissions.as_ref().filter(|_| self.grant.is_own());
            OmissionGuard::replace(&mut self.omission_guard, &self.service.core.applied, omissions);
            // A change that the message does not show is not sent: proxies start rate limits anew
            // on each.
            if self.sent.as_ref().is_some_and(|sent| sent.is_same_message(&encoded)) {
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
            // The end of the stream goes before further messages.
            biased;
            () = self.ending.cancelled() => Ok(false),
            status = self.grant.revoked() => Err(status),
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
        let most = service.core.config.max_request_bytes.min(MAX_SPEC);
        Box::pin(async move {
            let method = request.uri().path().strip_prefix('/').and_then(|path| {
                path.strip_prefix(SERVICE_NAME).and_then(|path| path.strip_prefix('/'))
            });
            Ok(match method {
                Some("GetPort") => codec::unary(request, most, |spec| service.get_port(spec)).await,
                Some("WatchPort") => {
                    codec::server_streaming(request, most, |spec| service.watch_port(spec)).await
                }
                Some(_) | None => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}
