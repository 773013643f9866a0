//! The program: from the command line to a controller that runs until it receives a signal.

use super::admin_port::AdminPort;
use super::cluster_tasks::ClusterTasks;
use super::error::RunError;
use super::freshness;
use super::index::Index;
use super::issuer::issuer;
use super::logging::init_logging;
use super::ports::Ports;
use super::serving::Serving;
use super::signals::{Signals, abort};
use super::supervisor::Supervisor;
use crate::admin::{Admin, Readiness, Requirement};
use crate::args::{
    Cli, ClusterSettings, Command, IssuerSettings, ServeAuth, Settings, SourceSettings,
};
use crate::directory::DirectorySource;
use clap::Parser;
use policy_discovery::serve::StaleNotice;
use policy_engine::compatibility::PresetReport;
use policy_engine::config::ControllerConfig;
use policy_engine::source::Diagnostic;
use policy_kube::source::{KubernetesSource, Scope};
use policy_tls::termination::{self, TerminationLog};
use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Reads the command line, runs the command, and reports its error.
pub fn main() -> ExitCode {
    let Cli { command, termination_log } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                let variable = std::env::var_os(termination::VARIABLE);
                let log = TerminationLog::of_command_line(std::env::args_os(), variable);
                log.write(&error.to_string());
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
    policy_server::forbid_core_dumps();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run)
}

/// Runs a controller until SIGTERM or SIGINT; a second one aborts.
///
/// # Errors
/// If it cannot listen, objects cannot be read at all, or a required task ends.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let mut signals = Signals::new()?;
    let (supervisor, ended) = Supervisor::new();
    let readiness = Readiness::default();
    let listed = readiness.require("objects have not been listed completely");
    let serving = readiness.require("the gRPC port is not open");
    let is_guarded = settings.guard.is_some();
    let port = AdminPort::open(settings.admin, is_guarded, readiness.clone(), &supervisor).await?;
    let admin = port.admin.clone();
    let Settings {
        source, controller, serve, auth, replicas, outbound, guard, cluster_domain, ..
    } = settings;
    let cluster = source.cluster();
    let cluster_tasks = match &cluster {
        Some(cluster) => Some(ClusterTasks::new(cluster).await?),
        None => None,
    };
    report_limitations(&readiness, cluster.as_deref(), &auth);
    report_preset(&controller);
    let (stale, stale_receiver) = watch::channel(StaleNotice::default());
    let warn = cluster_tasks.as_ref().map(|tasks| Box::new(tasks.warn_stale()) as Warn);
    let observer =
        WatchObserver { admin: admin.clone(), stale, warn, supervisor: supervisor.clone() };
    let mut index = tokio::select! {
        index = open(source, controller.clone(), observer) => index?,
        () = signals.next() => return Ok(()),
    };
    admin.show(index.handles.policies.clone());
    admin.register(|registry| index.handles.metrics.register(registry));
    let client = cluster_tasks.as_ref().map(|cluster_tasks| cluster_tasks.client.clone());
    let reviewer = match &cluster {
        Some(cluster) if reviews(Some(cluster)) => Some(cluster.args.connect().await?),
        Some(_) | None => None,
    };
    let parts = Serving {
        controller,
        serve,
        auth,
        replicas,
        outbound,
        cluster_domain,
        client,
        reviewer,
        supervisor,
    };
    let ports = Ports { serving: parts, cluster, cluster_tasks, guard, stale: stale_receiver };
    let started = ports.open(&mut index, &port).await?;
    serving.met();

    let mut running = MainLoop { index, signals, ended };
    let ended = running.until_ended(&listed).await;
    tracing::info!("shutting down: draining streams, then connections");
    let _stopping = readiness.require("shutting down");
    tokio::select! {
        () = started.stop() => {}
        () = running.signals.next() => abort(),
    }
    running.index.stop();
    port.close().await;
    ended
}

/// True if this controller may create TokenReviews: they are objects of the whole cluster, out of
/// reach of Roles.
pub(super) fn reviews(cluster: Option<&ClusterSettings>) -> bool {
    cluster.is_some_and(|cluster| cluster.watches.scope == Scope::Cluster)
}

/// Reports the functions that the flags disable, before anything else is done.
fn report_limitations(readiness: &Readiness, cluster: Option<&ClusterSettings>, auth: &ServeAuth) {
    let reviews = reviews(cluster);
    let Some(cluster) = cluster else { return };
    let lost: Vec<String> = cluster.lost.iter().cloned().chain(auth.lost(reviews)).collect();
    for function in &lost {
        tracing::warn!("{function}");
    }
    readiness.do_without(lost);
}

/// Reports what `--linkerd-compatible` has set.
fn report_preset(config: &ControllerConfig) {
    let Some(PresetReport { set, kept }) = PresetReport::of(config) else { return };
    let (set, kept) = (set.join(" "), kept.join(" "));
    tracing::info!(%set, %kept, "--linkerd-compatible: as Linkerd's controller");
}

/// Reports stale watches.
type Warn = Box<dyn Fn(&[String]) + Send + Sync>;

/// Reporting of the source's watches.
struct WatchObserver {
    admin: Admin,
    stale: watch::Sender<StaleNotice>,
    warn: Option<Warn>,
    supervisor: Supervisor,
}

/// Starts the thread that owns the index, on whatever the settings name.
async fn open(
    source: SourceSettings,
    config: ControllerConfig,
    observer: WatchObserver,
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
                let WatchObserver { admin, stale, warn, supervisor } = observer;
                admin.register(|registry| connecting.metrics().register(registry));
                let warn = move |watches: &[String]| {
                    if let Some(warn) = &warn {
                        warn(watches);
                    }
                };
                let (health, freshness) = (connecting.health(), connecting.freshness());
                let readiness = admin.readiness().clone();
                let follow = freshness::follow(health, freshness, readiness, stale, warn);
                supervisor.spawn("the watch monitor", follow);
                Ok(connecting.connected().await)
            };
            Index::spawn(config, source).await?
        }
    };
    tokio::spawn(log_diagnostics(index.handles.diagnostics.clone()));
    Ok(index)
}

/// Parts whose end ends the controller.
struct MainLoop {
    index: Index,
    signals: Signals,
    ended: mpsc::UnboundedReceiver<&'static str>,
}

impl MainLoop {
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

/// Logs problems of manifests when they appear, not each time they are still there.
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
