//! Serves policies over gRPC: Linkerd's `InboundServerPolicies` and our `PolicyDiscovery`, beside
//! `grpc.health.v1`. The contract for clients is `docs/watch-api.md`.
//!
//! ```text
//! listener ──▶ one task per connection (age, keep-alive, drain)
//!                ├─ compat: one stream per port, whole messages
//!                ├─ native: one stream per workload, changes by key, ACK and NACK ──▶ applied
//!                └─ health
//! ```
//! Streams read the newest value from watch channels when their client can take it, so a slow
//! client skips states and holds up nobody. Encodings are shared (see `cache`).
//!
//! **Invariants.** Sees [`Policies`] and nothing behind it. Never answers from a guess: what is not
//! known yet is `UNAVAILABLE`. Every stream ends with OK when its connection is to end.

mod access;
mod access_metrics;
mod applied;
mod cache;
mod caller;
mod codec;
mod compat;
mod config;
mod encodings;
mod forward;
mod health;
mod identify;
mod listener;
mod metrics;
mod native;
mod peer;
mod report;
pub(crate) mod session;
mod slot;
mod stale;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod token;

pub use access::AccessConfig;
pub use applied::{Applied, AppliedPort, Counts, Feed, InForce, PortAt, Refused};
pub use caller::{Authenticated, Caller, ReviewError, Reviewer, Subject, Viewer};
pub use config::ServeConfig;
pub(crate) use listener::after_accept_error;
pub use listener::{Listening, Transport};
pub use metrics::ServeMetrics;
pub(crate) use peer::{Allowance, Held, Peer};
pub use report::ReportConfig;
pub use stale::Stale;
pub use tls::{TlsError, TlsFiles, TlsHandle};

use access::Access;
use peer::Connected;
use policy_core::{Denied, Owner, Protocol, ServerPolicy, Unmatched};
use policy_engine::publish::{LookupError, Policies, WorkloadKey};
use policy_proto::compat::EncodeOptions;
use policy_proxy::control::ControllerAddress;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::service::Routes;

/// The policy server, before it listens.
#[derive(Debug)]
pub struct Server {
    core: Arc<Core>,
    options: EncodeOptions,
    guard: Option<policy_proxy::PolicyLayer>,
    report: ReportConfig,
    outbound: Option<forward::Forward>,
}

impl Server {
    /// A server of `policies`, for callers over loopback alone. `options` say how policies are put
    /// into Linkerd's messages.
    pub fn new(policies: Policies, config: ServeConfig, options: EncodeOptions) -> Self {
        Self::with_access(policies, config, options, AccessConfig::default(), None)
    }

    /// The same, for whom `access` names. Every stream ends once when `stale` says that a watch of
    /// the source became stale.
    pub fn with_access(
        policies: Policies,
        config: ServeConfig,
        options: EncodeOptions,
        access: AccessConfig,
        stale: Option<watch::Receiver<Stale>>,
    ) -> Self {
        let streams = Allowance::new(config.max_streams_per_peer);
        let metrics = ServeMetrics::default();
        let core = Core {
            policies,
            config,
            streams,
            access: Access::new(access, metrics.access.clone(), stale),
            metrics,
            applied: Applied::default(),
            sessions: AtomicU64::new(0),
        };
        let report = ReportConfig { replica: "".into(), overviews: None };
        Self { core: Arc::new(core), options, guard: None, report, outbound: None }
    }

    /// Lets requests over TLS through only as far as `guard` does, which is asked first.
    #[must_use]
    pub fn guarded_by(mut self, guard: policy_proxy::PolicyLayer) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Credentials that somebody gives and renews; handshakes fail until there are any.
    pub(crate) fn tls_to_be_given(&self) -> TlsHandle {
        TlsHandle::empty(&self.core.metrics.access)
    }

    /// Reads the credentials that a listener with TLS needs. [`TlsHandle::follow`] keeps them as the
    /// files are.
    ///
    /// # Errors
    /// [`TlsError`] names the file that is missing or unusable.
    pub async fn load_tls(&self, files: TlsFiles) -> Result<TlsHandle, TlsError> {
        TlsHandle::load(files, &self.core.metrics.access).await
    }

    /// Forwards `OutboundPolicies` to Linkerd's controller at `to`, to which `tls` proves who we are.
    /// Without this the service is unimplemented here.
    #[must_use]
    pub fn forwarding_outbound(mut self, to: ControllerAddress, tls: Option<TlsHandle>) -> Self {
        self.outbound = Some(forward::Forward::new(self.core.clone(), to, tls));
        self
    }

    /// Tells other replicas and viewers what `report` says.
    #[must_use]
    pub fn reporting(mut self, report: ReportConfig) -> Self {
        self.report = report;
        self
    }

    /// Its metrics, to be registered.
    pub fn metrics(&self) -> ServeMetrics {
        self.core.metrics.clone()
    }

    /// What its clients have in force.
    pub fn applied(&self) -> Applied {
        self.core.applied.clone()
    }

    /// Serves in plaintext on `listener`, as [`Server::serve_on`] does.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        self.serve_on(vec![Listening { listener, transport: Transport::Plaintext }], shutdown)
            .await;
    }

    /// Serves on all of `listeners` until `shutdown` is cancelled; then ends every stream with OK,
    /// and returns when every connection has ended or the drain timeout has passed.
    pub async fn serve_on(self, listeners: Vec<Listening>, shutdown: CancellationToken) {
        let health = health::Health::new(self.core.clone(), shutdown.clone());
        let mut routes = Routes::new(compat::Compat::new(self.core.clone(), self.options))
            .add_service(native::Native::new(self.core.clone()))
            .add_service(report::Report::service(self.core.clone(), self.report))
            .add_service(health.into_service());
        if let Some(outbound) = self.outbound {
            routes = routes.add_service(outbound);
        }
        let routes = routes.prepare();
        listener::run(listeners, routes, self.core, self.guard, shutdown).await;
    }
}

/// What both services share.
#[derive(Debug)]
pub(crate) struct Core {
    policies: Policies,
    config: ServeConfig,
    streams: Allowance,
    access: Access,
    metrics: ServeMetrics,
    applied: Applied,
    /// Numbers of native streams.
    sessions: AtomicU64,
}

impl Core {
    /// The connection a request came on.
    fn connected(extensions: &http::Extensions) -> Result<Connected, Status> {
        let connected = extensions.get::<Connected>().cloned();
        connected.ok_or_else(|| Status::internal("the connection is not known"))
    }

    /// Room for one more watch of `peer`.
    fn take_stream(&self, peer: &Peer) -> Result<Held, Status> {
        self.streams.take(peer).ok_or_else(|| {
            self.metrics.refused_stream();
            let limit = self.streams.limit();
            let who = match &peer.identity {
                Some(identity) => format!("identity `{identity}` at this address"),
                None => "this address".to_owned(),
            };
            Status::resource_exhausted(format!("{who} has {limit} open watches, the most allowed"))
        })
    }

    /// `policy` with everything refused for `reason`.
    fn denial(policy: &ServerPolicy, reason: Denied) -> ServerPolicy {
        ServerPolicy {
            protocol: policy.protocol,
            paths: policy.paths,
            informational_headers: policy.informational_headers,
            ..Self::denied(policy.owner.clone(), reason)
        }
    }

    /// A policy that refuses everything for `reason`.
    fn denied(owner: Owner, reason: Denied) -> ServerPolicy {
        let mut policy = ServerPolicy::without_grants(owner, Protocol::Opaque);
        policy.deny = Some(reason);
        policy.routes.otherwise = Unmatched::Deny(reason);
        policy
    }
}

/// What a client is told of a failed lookup. Never a code that Linkerd's proxies take as final.
fn refusal(key: &WorkloadKey, port: NonZeroU16, error: LookupError) -> Status {
    match error {
        LookupError::NotFound => Status::not_found(format!("unknown server: no workload `{key}`")),
        LookupError::NotSynced => Status::unavailable("objects have not been listed yet"),
        LookupError::TooManyPorts => Status::resource_exhausted(format!(
            "too many ports of `{key}` are watched that it does not declare; port {port} is refused"
        )),
        LookupError::Stopped => Status::unavailable("the controller is shutting down"),
    }
}
