//! Starts a whole controller: source, index, gRPC server; in a process of its own ([`run`]) or
//! inside another ([`start_embedded`]).
//!
//! The process has two threads that matter. One owns the index, so that compiling holds up no
//! stream; the other serves. A source other than a directory is one more arm of [`run`].

mod embedded;
mod index;
mod signals;

pub use embedded::{Embedded, start_embedded};

use crate::admin::{self, Admin, Readiness};
use crate::args::{ArgsError, Cli, Command, LogFormat, Settings};
use crate::config::ControllerConfig;
use crate::serve::Server;
use crate::source::SourceError;
use crate::source::directory::{Diagnostic, DirectorySource};
use clap::Parser;
use index::Index;
use policy_proto::compat::EncodeOptions;
use prometheus_client::registry::Registry;
use signals::Signals;
use std::collections::HashSet;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::watch;
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
    let readiness = Readiness::default();
    let listed = readiness.require("objects have not been listed completely");
    let serving = readiness.require("the gRPC port is not open");
    let admin_listener = admin::bind("/live, /ready and /metrics", settings.admin).await?;
    let listener = admin::bind("gRPC", settings.serve.listen).await?;
    let mut signals = Signals::new()?;
    let options = encode_options(&settings.controller);
    let source = DirectorySource::new(&settings.manifests, settings.controller.limits);
    let mut index = Index::spawn(settings.controller, source).await?;
    let server = Server::new(index.policies.clone(), settings.serve, options);

    let mut registry = Registry::default();
    server.metrics().register(&mut registry);
    let stop_admin = CancellationToken::new();
    let admin = Admin::new(readiness.clone(), registry).with_policies(index.policies.clone());
    let grpc = listener.local_addr()?;
    let admin_address = admin_listener.local_addr()?;
    tracing::info!(%grpc, admin = %admin_address, "listening");
    let admin = tokio::spawn(admin.run(admin_listener, stop_admin.clone()));
    let drain = CancellationToken::new();
    let mut served = tokio::spawn(server.serve(listener, drain.clone()));
    serving.met();
    tokio::spawn(log_diagnostics(index.diagnostics.clone()));

    let mut synced = index.policies.synced();
    let ended = loop {
        tokio::select! {
            () = signals.next() => break Ok(()),
            ended = index.ended() => break ended,
            changed = synced.changed() => match changed {
                Ok(()) if *synced.borrow_and_update() => {
                    tracing::info!("objects have been listed; ready");
                    listed.met();
                }
                Ok(()) => listed.lost(),
                Err(_) => break Err(RunError::IndexEnded),
            },
            _ = &mut served => break Err(RunError::IndexEnded),
        }
    };
    tracing::info!("shutting down: streams end, then connections");
    let _stopping = readiness.require("shutting down");
    drain.cancel();
    if !served.is_finished() {
        tokio::select! {
            _ = served => {}
            () = signals.next() => abort(),
        }
    }
    index.stop();
    stop_admin.cancel();
    _ = admin.await;
    ended
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
