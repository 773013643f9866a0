//! Assembles the parts: telemetry, identity, store, discover, sidecar, admin.
//!
//! The thread that calls [`run`] becomes the control thread: it receives policy, serves the admin
//! port and handles signals. The sidecar's workers have threads of their own.

use crate::admin::{Admin, AdminConfig, explainer};
use crate::config::Config;
use crate::descriptors;
use crate::discover;
use crate::discover::DiscoverConfig;
use crate::live_logs::LiveLogs;
use crate::sidecar::{Sidecar, SidecarConfig, StartError, available};
use crate::tap::{Recorders, Tap};
use policy_core::evaluator::BuildError;
use policy_enforce::record::{AccessLog, Recorder};
use policy_enforce::store::PolicyStore;
use policy_enforce::telemetry::Telemetry;
use policy_tls::identity::{
    IdentityConfig, IdentityHandle, IdentityMetrics, IdentitySource, SourceError,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Error of starting or running the proxy.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The identity's source is invalid.
    #[error(transparent)]
    Identity(#[from] SourceError),
    /// The policy of `--pending-policy=default` cannot be built.
    #[error("default policy: {0}")]
    Policy(#[from] BuildError),
    /// The sidecar cannot listen.
    #[error(transparent)]
    Sidecar(#[from] StartError),
    /// The admin port cannot be listened on.
    #[error("cannot listen on admin address `{address}`: {error}")]
    Admin {
        /// As configured.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The control thread's runtime or signal handlers cannot be created.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// A second signal came while draining.
    #[error("stopped by a second signal")]
    Aborted,
}

/// Runs the proxy until SIGTERM, SIGINT or `/shutdown`, drains it, and returns.
///
/// # Errors
/// [`RunError`]: it did not start, or was stopped before it had drained.
pub fn run(config: Config) -> Result<(), RunError> {
    policy_server::forbid_core_dumps();
    descriptors::raise_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(control(config));
    runtime.shutdown_background();
    outcome
}

async fn control(config: Config) -> Result<(), RunError> {
    let mut stop = Stop::new()?;
    let telemetry = Telemetry::with_retain_idle(config.sidecar.workers.get(), config.retain_idle);
    let telemetry = Arc::new(telemetry);
    let own = telemetry.identity.clone();
    let store = PolicyStore::new(config.store, telemetry)?;
    let source = identity_source(config.identity, own).await?;
    let identity = source.as_ref().map_or_else(IdentityHandle::empty, IdentitySource::identity);
    let status = source.as_ref().map(IdentitySource::status);
    let drain = CancellationToken::new();
    let address = available(config.admin.listen);
    let listener =
        TcpListener::bind(address).await.map_err(|error| RunError::Admin { address, error })?;
    let notices = Some(Arc::clone(&config.sidecar.notices));
    let decisions = config.sidecar.notices.decisions().cloned();
    let log_filter = config.admin.log_filter.clone();
    let capture = config.sidecar.capture.clone();
    let workload = Arc::clone(&config.sidecar.workload);
    let tap = Arc::new(Tap::default());
    let own = AdminConfig { workload, notices, tap: Some(Arc::clone(&tap)), ..config.admin };
    let admin = Admin::new(own, store.clone(), identity.clone(), status, drain.clone());
    let access_log = AccessLog::switched(config.access_log, Box::new(io::stderr()));
    let access_log = Arc::new(access_log);
    let recorder: Arc<dyn Recorder> = Arc::new(Recorders(vec![access_log.clone(), tap]));
    explain_decisions(&config.sidecar, &store);
    let sidecar = SidecarConfig { admin: Some(admin.clone()), ..config.sidecar };
    let destinations = sidecar.demand();
    let mut sidecar = Sidecar::start(sidecar, store.clone(), identity.clone(), Some(recorder))?;
    tracing::info!(listening = ?sidecar.addresses(), admin = %address, "policy-proxy started");
    tokio::spawn(admin.serve(listener));
    if let Some(capture) = capture {
        tokio::spawn(capture.run());
    }
    if let Some(source) = source {
        tokio::spawn(source.run());
    }
    // The stream stays open while draining: a revocation must reach open connections, and the
    // application goes on calling others.
    let discovery = CancellationToken::new();
    let logs = log_filter.map(|filter| Arc::new(LiveLogs::new(filter, access_log)));
    let follow = DiscoverConfig { logs, destinations, decisions, ..config.discover };
    tokio::spawn(discover::run(follow, store, identity, discovery.clone()));
    tokio::select! {
        () = stop.requested() => {}
        () = drain.cancelled() => {}
    }
    drain.cancel();
    tracing::info!("draining");
    sidecar.drain();
    let outcome = tokio::select! {
        () = sidecar.ended() => Ok(()),
        () = stop.requested() => Err(RunError::Aborted),
    };
    sidecar.stop();
    discovery.cancel();
    outcome
}

/// Opens the source of the identity, if one is configured.
async fn identity_source(
    config: Option<IdentityConfig>,
    metrics: IdentityMetrics,
) -> Result<Option<IdentitySource>, SourceError> {
    match config {
        Some(config) => IdentitySource::open(config, metrics).await.map(Some),
        None => {
            tracing::warn!("no identity configured: connections are served in plaintext only");
            Ok(None)
        }
    }
}

/// Explains what is recorded, on the control thread.
fn explain_decisions(sidecar: &SidecarConfig, store: &PolicyStore) {
    if let Some(decisions) = sidecar.notices.decisions() {
        tokio::spawn(explainer::run(store.clone(), Arc::clone(decisions)));
    }
}

/// The signals that end the proxy.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
