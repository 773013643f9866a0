//! Starts a whole controller: source, index, gRPC server; in a process of its own ([`run`]) or
//! inside another ([`start_embedded`]).
//!
//! The process has two threads that matter. One owns the index, so that compiling holds up no
//! stream; the other serves. A source other than a directory is one more arm of [`run`].

mod embedded;
mod freshness;
mod index;
mod serving;
mod side;
mod signals;

pub use embedded::{Embedded, start_embedded};

use crate::access::{KeyError, ServeAuth};
use crate::admin::{self, Admin, Readiness, Requirement};
use crate::admission::{Admission, AdmissionError};
use crate::args::{ArgsError, Cli, ClusterSettings, Command, LogFormat, Settings, SourceSettings};
use crate::cluster::ClusterError;
use crate::config::ControllerConfig;
use crate::guard::{Guard, GuardedPorts, LocalPolicyError};
use crate::process_metrics::ProcessMetrics;
use crate::serve::{Stale, TlsError};
use crate::source::SourceError;
use crate::source::directory::{Diagnostic, DirectorySource};
use crate::source::kubernetes::{KubernetesSource, Scope};
use clap::Parser;
use index::Index;
use policy_proto::compat::EncodeOptions;
use prometheus_client::registry::Registry;
use serving::{Opened, Serving};
use side::Side;
use signals::Signals;
use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Why a controller cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A flag makes no sense.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The filter of log lines cannot be read.
    #[error("--log-level: `{filter}`: {reason}")]
    LogLevel {
        /// What was written.
        filter: String,
        /// What is wrong.
        reason: String,
    },
    /// A port cannot be listened on, or the system lacks something else.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is no cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The admission webhook cannot be served.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The credentials of the gRPC port cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The local policy cannot be used.
    #[error(transparent)]
    LocalPolicy(#[from] LocalPolicyError),
    /// The keys of viewers' tokens cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Objects cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The thread that owns the index is gone.
    #[error("the index ended unexpectedly")]
    IndexEnded,
}

/// The program: reads the command line, runs, and says how it ended.
pub fn main() -> ExitCode {
    let Cli { command: Command::Run(args) } = Cli::parse();
    let ended = Settings::try_from(*args).map_err(RunError::from).and_then(|settings| {
        init_logging(&settings.log_level, settings.log_format)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(run(settings))
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a controller until it is told to stop by SIGTERM or SIGINT; a second one aborts.
///
/// # Errors
/// If it cannot listen, or objects cannot be read at all.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let mut signals = Signals::new()?;
    let readiness = Readiness::default();
    let listed = readiness.require("objects have not been listed completely");
    let serving = readiness.require("the gRPC port is not open");
    let admin_listener = admin::bind("/live, /ready and /metrics", settings.admin).await?;
    let admin_address = admin_listener.local_addr()?;
    let mut admin = Admin::new(readiness.clone(), Registry::default());
    if settings.guard.is_some() {
        admin = admin.to_be_guarded();
    }
    admin.register(|registry| ProcessMetrics.register(registry));
    let stop_admin = CancellationToken::new();
    let admin_task = tokio::spawn(admin.clone().run(admin_listener, stop_admin.clone()));

    let cluster = match &settings.source {
        SourceSettings::Cluster(cluster) => Some(cluster.clone()),
        SourceSettings::Directory(_) => None,
    };
    let side = match &cluster {
        Some(cluster) => Some(Side::new(cluster).await?),
        None => None,
    };
    state_losses(&readiness, cluster.as_deref(), &settings.auth);
    let (stale, stale_receiver) = watch::channel(Stale::default());
    let watching = Watching {
        readiness: readiness.clone(),
        admin: admin.clone(),
        stale,
        warn: side.as_ref().map(|side| Box::new(side.warn_stale()) as Warn),
    };
    let mut index = tokio::select! {
        index = open(settings.source, settings.controller.clone(), watching) => index?,
        () = signals.next() => return Ok(()),
    };
    admin.show(index.handles.policies.clone());
    admin.register(|registry| index.handles.metrics.register(registry));

    let Settings { controller, serve, auth, replicas, guard, .. } = settings;
    let parts = Serving { controller: controller.clone(), serve, auth, replicas };
    let client = side.as_ref().map(|side| side.client.clone());
    let opened = parts.open(&mut index.handles, stale_receiver, client.clone(), &admin).await?;
    let Opened { mut server, listeners, counting, tls } = opened;
    let grpc = listeners.first().map(|listening| listening.listener.local_addr()).transpose()?;
    tracing::info!(grpc = grpc.map(tracing::field::display), admin = %admin_address, "listening");
    let mut admission = None;
    if let (Some(cluster), Some(client)) = (&cluster, client) {
        let review = index.handles.review.clone();
        admission = side::admission(cluster, client, review, &admin).await?;
    }
    if let (Some(settings), Some(grpc)) = (guard, grpc) {
        let ports = guarded_ports(grpc, admission.as_ref(), admin_address)?;
        let guard = Guard::new(&settings, ports, &controller)?;
        admin.register(|registry| guard.metrics().register(registry));
        admin.guard(guard.clone(), tls);
        server = server.guarded_by(guard.grpc());
        admission = admission.map(|admission| admission.guarded_by(guard.clone()));
        tokio::spawn(guard.follow(index.handles.policies.clone()));
    }
    let drain = CancellationToken::new();
    let admission = admission.map(|admission| tokio::spawn(admission.run(drain.clone())));
    let served = tokio::spawn(server.serve_on(listeners, drain.clone()));
    let side = side.map(|side| side.start(&index.handles, &counting, &admin));
    serving.met();

    let mut running = Running { index, served, signals };
    let ended = running.until_ended(&listed).await;
    tracing::info!("shutting down: streams end, then connections");
    let _stopping = readiness.require("shutting down");
    drain.cancel();
    if let Some(side) = side {
        side.stop().await;
    }
    running.drained().await;
    if let Some(admission) = admission {
        // A panic of it was reported where it happened.
        _ = admission.await;
    }
    stop_admin.cancel();
    _ = admin_task.await;
    ended
}

/// The ports that the guard knows, as they are bound.
fn guarded_ports(
    grpc: SocketAddr,
    admission: Option<&Admission>,
    admin: SocketAddr,
) -> Result<GuardedPorts, io::Error> {
    let port = |address: SocketAddr| {
        let unbound = || io::Error::other(format!("{address} is not bound"));
        NonZeroU16::new(address.port()).ok_or_else(unbound)
    };
    let admission = admission.map(|admission| port(admission.address())).transpose()?;
    Ok(GuardedPorts { grpc: port(grpc)?, admission, admin: port(admin)? })
}

/// Says what does not work, because of what was asked for, before anything else is done.
fn state_losses(readiness: &Readiness, cluster: Option<&ClusterSettings>, auth: &ServeAuth) {
    let Some(cluster) = cluster else { return };
    let reviews = cluster.watches.scope == Scope::Cluster;
    let lost: Vec<String> = cluster.lost.iter().cloned().chain(auth.lost(reviews)).collect();
    for function in &lost {
        tracing::warn!("{function}");
    }
    readiness.do_without(lost);
}

/// Tells somebody of watches that fell behind.
type Warn = Box<dyn Fn(&[String]) + Send + Sync>;

/// What follows the source's watches.
struct Watching {
    readiness: Readiness,
    admin: Admin,
    stale: watch::Sender<Stale>,
    warn: Option<Warn>,
}

/// Starts the thread that owns the index, on whatever the settings name.
async fn open(
    source: SourceSettings,
    config: ControllerConfig,
    watching: Watching,
) -> Result<Index, RunError> {
    let index = match source {
        SourceSettings::Directory(path) => {
            let source = DirectorySource::new(path, config.limits);
            Index::spawn(config, async { Ok(source) }).await?
        }
        SourceSettings::Cluster(cluster) => {
            // Made on the index's thread, to which its connections then belong.
            let source = async move {
                let client = cluster.args.connect().await?;
                let connecting = KubernetesSource::prepare(client, cluster.watches);
                let Watching { readiness, admin, stale, warn } = watching;
                admin.register(|registry| connecting.metrics().register(registry));
                let warn = move |watches: &[String]| {
                    if let Some(warn) = &warn {
                        warn(watches);
                    }
                };
                let (health, freshness) = (connecting.health(), connecting.freshness());
                tokio::spawn(freshness::follow(health, freshness, readiness, stale, warn));
                Ok(connecting.connected().await)
            };
            Index::spawn(config, source).await?
        }
    };
    tokio::spawn(log_diagnostics(index.handles.diagnostics.clone()));
    Ok(index)
}

/// What has to go on for the controller to.
struct Running {
    index: Index,
    served: JoinHandle<()>,
    signals: Signals,
}

impl Running {
    /// Waits for a signal or for something that must not end.
    async fn until_ended(&mut self, listed: &Requirement) -> Result<(), RunError> {
        let mut synced = self.index.handles.policies.synced();
        loop {
            if *synced.borrow_and_update() {
                tracing::info!("objects have been listed; ready");
                listed.met();
            } else {
                listed.lost();
            }
            tokio::select! {
                () = self.signals.next() => return Ok(()),
                ended = self.index.ended() => return ended,
                changed = synced.changed() => changed.map_err(|_| RunError::IndexEnded)?,
                _ = &mut self.served => return Err(RunError::IndexEnded),
            }
        }
    }

    /// Waits until connections have ended; a second signal does not.
    async fn drained(mut self) {
        if !self.served.is_finished() {
            tokio::select! {
                _ = self.served => {}
                () = self.signals.next() => abort(),
            }
        }
        self.index.stop();
    }
}

fn abort() {
    tracing::warn!("second signal: not waiting for connections");
    std::process::exit(1);
}

fn encode_options(config: &ControllerConfig) -> EncodeOptions {
    EncodeOptions { localhost_authorization: config.localhost_authorization }
}

/// Logs what is wrong with manifests when it appears, not each time it is still there.
async fn log_diagnostics(mut diagnostics: watch::Receiver<Arc<[Diagnostic]>>) {
    let mut known = HashSet::new();
    loop {
        let now = diagnostics.borrow_and_update().clone();
        let lines: HashSet<String> = now.iter().map(ToString::to_string).collect();
        for line in lines.difference(&known) {
            tracing::warn!("{line}");
        }
        known = lines;
        if diagnostics.changed().await.is_err() {
            return;
        }
    }
}

fn init_logging(filter: &str, format: LogFormat) -> Result<(), RunError> {
    let parsed = EnvFilter::builder().parse(filter).map_err(|error| RunError::LogLevel {
        filter: filter.to_owned(),
        reason: error.to_string(),
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(io::stderr);
    match format {
        LogFormat::Plain => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}
