//! Starts a whole controller: source, index, gRPC server; in a process of its own ([`run`]) or
//! inside another ([`start_embedded`]).
//!
//! The process has two threads that matter. One owns the index, so that compiling holds up no
//! stream; the other serves. A source other than a directory is one more arm of [`run`].

mod embedded;
mod freshness;
mod identity;
mod index;
mod issuer;
mod ports;
mod serving;
mod side;
mod signals;
mod vital;

pub use embedded::{Embedded, start_embedded};
pub use issuer::issuer;

use crate::access::{KeyError, ServeAuth};
use crate::admin::{Admin, Readiness, Requirement};
use crate::admission::AdmissionError;
use crate::args::{ArgsError, Cli, ClusterSettings, Command, LogFormat, Settings, SourceSettings};
use crate::guard::LocalPolicyError;
use crate::issuer::IssuerSettings;
use crate::source::directory::{Diagnostic, DirectorySource};
use clap::Parser;
use index::Index;
use policy_discovery::serve::{Stale, TlsError};
use policy_engine::config::ControllerConfig;
use policy_engine::source::SourceError;
use policy_kube::cluster::ClusterError;
use policy_kube::source::{KubernetesSource, Scope};
use policy_proto::compat::EncodeOptions;
use policy_proxy::identity::SourceError as IdentitySourceError;
use policy_proxy::termination::TerminationLog;
use ports::{AdminPort, Ports};
use serving::Serving;
use side::Side;
use signals::Signals;
use std::collections::HashSet;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tracing_subscriber::EnvFilter;
use vital::Vital;

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
    /// The identity that the issuer is to certify cannot be asked for.
    #[error("--identity=certify: {0}")]
    Identity(#[from] IdentitySourceError),
    /// The local policy cannot be used.
    #[error(transparent)]
    LocalPolicy(#[from] LocalPolicyError),
    /// The keys of viewers' tokens cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Objects cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The authority that was supplied to the issuer cannot be used.
    #[error("--issuer-cert, --issuer-key, --roots: {0}")]
    Authority(String),
    /// Something that has to go on has ended.
    #[error("{0} ended unexpectedly")]
    Ended(&'static str),
}

/// The program: reads the command line, runs, and says how it ended.
pub fn main() -> ExitCode {
    let Cli { command, termination_log } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                TerminationLog::default().write(&error.to_string());
            }
            error.exit()
        }
    };
    let ended = match command {
        Command::Run(args) => {
            Settings::try_from(*args).map_err(RunError::from).and_then(|settings| {
                init_logging(&settings.log_level, settings.log_format)?;
                block_on(run(settings))
            })
        }
        Command::Issuer(args) => {
            IssuerSettings::try_from(*args).map_err(RunError::from).and_then(|settings| {
                init_logging(&settings.log_level, settings.log_format)?;
                block_on(issuer(settings))
            })
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            TerminationLog::at(termination_log).write(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn block_on(run: impl Future<Output = Result<(), RunError>>) -> Result<(), RunError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run)
}

/// Runs a controller until it is told to stop by SIGTERM or SIGINT; a second one aborts.
///
/// # Errors
/// If it cannot listen, objects cannot be read at all, or something ends that has to go on.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let mut signals = Signals::new()?;
    let (vital, ended) = Vital::new();
    let readiness = Readiness::default();
    let listed = readiness.require("objects have not been listed completely");
    let serving = readiness.require("the gRPC port is not open");
    let port = AdminPort::open(settings.admin, settings.guard.is_some(), readiness.clone(), &vital)
        .await?;
    let admin = port.admin.clone();

    let Settings { source, controller, serve, auth, replicas, outbound, guard, .. } = settings;
    let cluster = match &source {
        SourceSettings::Cluster(cluster) => Some(cluster.clone()),
        SourceSettings::Directory(_) => None,
    };
    let side = match &cluster {
        Some(cluster) => Some(Side::new(cluster).await?),
        None => None,
    };
    state_losses(&readiness, cluster.as_deref(), &auth);
    let (stale, stale_receiver) = watch::channel(Stale::default());
    let warn = side.as_ref().map(|side| Box::new(side.warn_stale()) as Warn);
    let watching = Watching { admin: admin.clone(), stale, warn, vital: vital.clone() };
    let mut index = tokio::select! {
        index = open(source, controller.clone(), watching) => index?,
        () = signals.next() => return Ok(()),
    };
    admin.show(index.handles.policies.clone());
    admin.register(|registry| index.handles.metrics.register(registry));

    let client = side.as_ref().map(|side| side.client.clone());
    let reviews = reviews(cluster.as_deref());
    let parts = Serving { controller, serve, auth, replicas, outbound, client, reviews, vital };
    let ports = Ports { serving: parts, cluster, side, guard, stale: stale_receiver };
    let started = ports.open(&mut index, &port).await?;
    serving.met();

    let mut running = Running { index, signals, ended };
    let ended = running.until_ended(&listed).await;
    tracing::info!("shutting down: streams end, then connections");
    let _stopping = readiness.require("shutting down");
    tokio::select! {
        () = started.stop() => {}
        () = running.signals.next() => abort(),
    }
    running.index.stop();
    port.close().await;
    ended
}

/// Whether the API server may be asked about tokens: reviews are objects of the whole cluster, out of
/// reach of Roles.
fn reviews(cluster: Option<&ClusterSettings>) -> bool {
    cluster.is_some_and(|cluster| cluster.watches.scope == Scope::Cluster)
}

/// Says what does not work, because of what was asked for, before anything else is done.
fn state_losses(readiness: &Readiness, cluster: Option<&ClusterSettings>, auth: &ServeAuth) {
    let reviews = reviews(cluster);
    let Some(cluster) = cluster else { return };
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
    admin: Admin,
    stale: watch::Sender<Stale>,
    warn: Option<Warn>,
    vital: Vital,
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
                let Watching { admin, stale, warn, vital } = watching;
                admin.register(|registry| connecting.metrics().register(registry));
                let warn = move |watches: &[String]| {
                    if let Some(warn) = &warn {
                        warn(watches);
                    }
                };
                let (health, freshness) = (connecting.health(), connecting.freshness());
                let readiness = admin.readiness().clone();
                let follow = freshness::follow(health, freshness, readiness, stale, warn);
                vital.spawn("the look after watches", follow);
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
    signals: Signals,
    ended: mpsc::UnboundedReceiver<&'static str>,
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
                error = self.index.ended() => return Err(error),
                changed = synced.changed() => changed.map_err(|_| RunError::Ended("the index"))?,
                Some(name) = self.ended.recv() => return Err(RunError::Ended(name)),
            }
        }
    }
}

fn abort() -> ! {
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
