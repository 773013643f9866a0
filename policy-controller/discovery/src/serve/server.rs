//! The policy server: its services, put together and listened for.

use super::applied::AckRegistry;
use super::authz::{Authorizer, AuthzConfig};
use super::config::ServeConfig;
use super::core::Core;
use super::denied::RefusalRegistry;
use super::listener::{BoundListener, Transport};
use super::metrics::ServeMetrics;
use super::reflection::{Reflection, ReflectionService};
use super::report::ReportConfig;
use super::session::reported;
use super::stale::StaleNotice;
use super::{compat, destination, forward, health, linkerd_discovery, listener, native, report};
use policy_engine::Destinations;
use policy_engine::handles::Policies;
use policy_proto::compat::EncodeOptions;
use policy_server::log::ClientLines;
use policy_server::{Allowance, TlsError, TlsFiles, TlsHandle};
use policy_tls::control::ControllerAddress;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

/// The policy server, before it listens.
#[derive(Debug)]
pub struct Server {
    core: Arc<Core>,
    options: EncodeOptions,
    guard: Option<policy_enforce::PolicyLayer>,
    report: ReportConfig,
    outbound: Option<forward::Forward>,
    destinations: Option<Destinations>,
    /// The DNS domain of the cluster, if Linkerd's clients are told of destinations.
    domain: Option<Arc<str>>,
}

impl Server {
    /// A server of `policies`, for callers over loopback alone. `options` say how policies are put
    /// into Linkerd's messages.
    pub fn new(policies: Policies, config: ServeConfig, options: EncodeOptions) -> Self {
        Self::with_access(policies, config, options, AuthzConfig::default(), None)
    }

    /// Creates a server that authorizes callers by `access`. Every stream ends once when `stale`
    /// reports that a watch of the source became stale.
    pub fn with_access(
        policies: Policies,
        config: ServeConfig,
        options: EncodeOptions,
        access: AuthzConfig,
        stale: Option<watch::Receiver<StaleNotice>>,
    ) -> Self {
        let streams = Allowance::new(config.max_streams_per_peer);
        let lookups = Allowance::new(config.max_lookups_per_peer);
        let metrics = ServeMetrics::default();
        let core = Core {
            policies,
            config,
            streams,
            lookups,
            reported: reported::room(),
            access: Authorizer::new(access, metrics.access.clone(), stale),
            metrics,
            lines: ClientLines::default(),
            applied: AckRegistry::default(),
            denied: RefusalRegistry::default(),
            lists: Core::lists_per_peer(),
            sessions: AtomicU64::new(0),
        };
        let report = ReportConfig { replica: "".into(), overviews: None };
        Self {
            core: Arc::new(core),
            options,
            guard: None,
            report,
            outbound: None,
            destinations: None,
            domain: None,
        }
    }

    /// Enforces the policies of `guard` on requests over TLS, before they reach the services.
    #[must_use]
    pub fn guarded_by(mut self, guard: policy_enforce::PolicyLayer) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Returns empty credentials, to be set later; handshakes fail until then.
    pub fn empty_tls(&self) -> TlsHandle {
        TlsHandle::empty(&self.core.metrics.access.tls)
    }

    /// Reads the credentials that a listener with TLS needs. [`TlsHandle::follow`] keeps them as the
    /// files are.
    ///
    /// # Errors
    /// [`TlsError`] names the file that is missing or unusable.
    pub async fn load_tls(&self, files: TlsFiles) -> Result<TlsHandle, TlsError> {
        TlsHandle::load(files, &self.core.metrics.access.tls).await
    }

    /// Forwards `OutboundPolicies` to Linkerd's controller at `to`, to which `tls` proves who we are.
    /// It is not served from here then: the routes of outbound connections are Linkerd's.
    #[must_use]
    pub fn with_outbound(mut self, to: ControllerAddress, tls: Option<TlsHandle>) -> Self {
        self.outbound = Some(forward::Forward::new(self.core.clone(), to, tls));
        self
    }

    /// Serves what addresses and ports lead to. Without this the services are unimplemented here.
    #[must_use]
    pub fn with_destinations(mut self, destinations: Destinations) -> Self {
        self.destinations = Some(destinations);
        self
    }

    /// Serves the same to clients of Linkerd's API, in a cluster whose DNS domain is `domain`:
    /// `Destination`, and `OutboundPolicies` unless that is forwarded.
    #[must_use]
    pub fn with_linkerd_discovery(mut self, domain: &str) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// Reports to other replicas and viewers as `report` configures.
    #[must_use]
    pub fn with_report(mut self, report: ReportConfig) -> Self {
        self.report = report;
        self
    }

    /// Returns the metrics, to be registered.
    pub fn metrics(&self) -> ServeMetrics {
        self.core.metrics.clone()
    }

    /// Returns the policies that its clients have in force.
    pub fn applied(&self) -> AckRegistry {
        self.core.applied.clone()
    }

    /// Serves in plaintext on `listener`, as [`Server::serve_on`] does.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        self.serve_on(vec![BoundListener { listener, transport: Transport::Plaintext }], shutdown)
            .await;
    }

    /// Serves on all of `listeners` until `shutdown` is cancelled; then ends every stream with OK,
    /// and returns when every connection has ended or the drain timeout has passed.
    pub async fn serve_on(self, listeners: Vec<BoundListener>, shutdown: CancellationToken) {
        let (core, guard) = (self.core.clone(), self.guard.clone());
        let routes = self.routes(&shutdown);
        listener::run(listeners, routes, core, guard, shutdown).await;
    }

    fn routes(self, shutdown: &CancellationToken) -> Routes {
        let core = &self.core;
        let health = health::Health::new(core.clone(), shutdown.clone());
        let mut services = Services::default();
        services.add(compat::Compat::new(core.clone(), self.options));
        services.add(native::Native::new(core.clone()));
        services.add(report::Report::service(core.clone(), self.report));
        services.add(health.into_service());
        let mut linkerd = None;
        if let Some(destinations) = self.destinations {
            linkerd = self.domain.map(|domain| {
                linkerd_discovery::Discovery::new(core.clone(), destinations.clone(), domain)
            });
            services.add(destination::Destination::new(core.clone(), destinations));
        }
        if let Some(discovery) = linkerd.clone() {
            services.add(linkerd_discovery::DestinationService::new(discovery));
        }
        // Linkerd's controller knows routes, retries and egress networks, which an answer of ours
        // would drop.
        match (self.outbound, linkerd) {
            (Some(forward), _) => services.add(forward),
            (None, Some(discovery)) => {
                services.add(linkerd_discovery::OutboundService::new(discovery));
            }
            (None, None) => {}
        }
        services.reflected(core.clone())
    }
}

/// The services that are served, with their names.
#[derive(Default)]
struct Services {
    routes: Routes,
    names: Vec<&'static str>,
}

impl Services {
    fn add<S>(&mut self, service: S)
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.names.push(S::NAME);
        self.routes = std::mem::take(&mut self.routes).add_service(service);
    }

    /// Adds reflection of all of them, and returns the routes.
    fn reflected(self, core: Arc<Core>) -> Routes {
        let reflection = Reflection::new(core, self.names);
        self.routes
            .add_service(ReflectionService::<false>(reflection.clone()))
            .add_service(ReflectionService::<true>(reflection))
            .prepare()
    }
}
