//! Follows manifests while they change.

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use policy_engine::config::Limits;
use policy_engine::source::directory::{Lint, Look, Looker, Manifests, Store, apply_scan};
use policy_engine::source::{Change, Diagnostic, Health, Source, SourceContext, SourceError};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Quiet time after a change before the directory is read again.
const QUIET: Duration = Duration::from_millis(40);

/// Longest delay of reading while changes go on.
const PATIENCE: Duration = Duration::from_millis(400);

/// Interval of reading without a notification (links, network file systems).
const RESCAN: Duration = Duration::from_secs(5);

/// The same interval where there are no notifications at all.
const RESCAN_BLIND: Duration = Duration::from_secs(1);

/// Directories of manifests, files, and text that does not change.
#[derive(Debug)]
pub struct DirectorySource {
    looker: Looker,
    lint: Option<Lint>,
    epoch: Arc<str>,
    diagnostics: watch::Sender<Arc<[Diagnostic]>>,
}

impl DirectorySource {
    /// Follows `path`, a directory or a single file.
    pub fn new(path: impl Into<PathBuf>, limits: Limits) -> Self {
        Self::of(vec![Manifests::Path(path.into())], limits)
    }

    /// Follows several inputs.
    pub fn of(inputs: Vec<Manifests>, limits: Limits) -> Self {
        // The standard library's hash keys are its one source of randomness.
        let random = RandomState::new().hash_one(std::process::id());
        Self {
            looker: Looker::new(inputs, limits.file_bytes),
            lint: None,
            epoch: format!("directory-{random:016x}").into(),
            diagnostics: watch::Sender::new(Arc::from([])),
        }
    }

    /// The same, with a further look at every object.
    pub fn linting(self, lint: Lint) -> Self {
        Self { lint: Some(lint), ..self }
    }
}

impl Source for DirectorySource {
    fn epoch(&self) -> Arc<str> {
        self.epoch.clone()
    }

    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>> {
        self.diagnostics.subscribe()
    }

    fn health(&self) -> watch::Receiver<Arc<Health>> {
        watch::channel(Arc::default()).1
    }

    async fn run(self, context: SourceContext) -> Result<(), SourceError> {
        // A directory is read whole each time, so that a refresh has nothing to add.
        let SourceContext { sink, refresh: _, shutdown } = context;
        // Watching begins before the first look, so that nothing falls between the two.
        let (notify, mut notified) = mpsc::channel(1);
        let watcher = watcher(self.looker.inputs(), notify);
        let rescan = match &watcher {
            Ok(_) => RESCAN,
            Err(error) => {
                tracing::warn!(%error, "no file change notifications; polling every second");
                RESCAN_BLIND
            }
        };
        let mut store = Store::linting(self.lint);
        let Look { scan, .. } = self.looker.steady(None).await?;
        let mut seen = scan.fingerprint();
        let (mut batch, diagnostics) = apply_scan(self.looker.inputs(), &mut store, scan);
        self.diagnostics.send_replace(diagnostics.into());
        batch.changes.push(Change::Synced);
        if sink.send(batch).await.is_err() {
            return Ok(());
        }
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = sink.closed() => return Ok(()),
                () = tokio::time::sleep(rescan) => {}
                Some(()) = notified.recv() => settle(&mut notified).await,
            }
            let (batch, diagnostics) = match self.looker.steady(Some(seen)).await {
                Ok(Look { scan, .. }) if scan.fingerprint() == seen => continue,
                Ok(Look { scan, .. }) => {
                    seen = scan.fingerprint();
                    apply_scan(self.looker.inputs(), &mut store, scan)
                }
                Err(error) => {
                    seen = 0;
                    store.withdraw_grants(&error.to_string())
                }
            };
            self.diagnostics.send_if_modified(|current| {
                let differs = **current != *diagnostics;
                if differs {
                    *current = diagnostics.into();
                }
                differs
            });
            if !batch.changes.is_empty() && sink.send(batch).await.is_err() {
                return Ok(());
            }
        }
    }
}

fn watcher(inputs: &[Manifests], notify: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let read_only = event.is_ok_and(|event| event.kind.is_access());
        if !read_only {
            // A full channel holds a notification already.
            let _ = notify.try_send(());
        }
    })?;
    let paths = inputs.iter().filter_map(|input| match input {
        Manifests::Path(path) => Some(path.as_path()),
        Manifests::Text { .. } => None,
    });
    for path in paths {
        // An editor replaces a file: a single file is watched through its directory.
        let watched = if path.is_file() { path.parent().unwrap_or(path) } else { path };
        let watched = if watched.as_os_str().is_empty() { Path::new(".") } else { watched };
        watcher.watch(watched, RecursiveMode::Recursive)?;
    }
    Ok(watcher)
}

/// Waits until nothing has happened for a moment.
async fn settle(notified: &mut mpsc::Receiver<()>) {
    let quiet =
        async { while let Ok(Some(())) = tokio::time::timeout(QUIET, notified.recv()).await {} };
    // Either way the directory is read next.
    let _ = tokio::time::timeout(PATIENCE, quiet).await;
}

#[cfg(test)]
mod tests;
