//! A directory, read again and again.

use policy_engine::config::Limits;
use policy_engine::source::directory::{Look, Looker, Manifests, Store, apply_scan};
use policy_engine::source::{Change, Diagnostic, Health, Source, SourceContext, SourceError};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Interval of reading.
const INTERVAL: Duration = Duration::from_secs(1);

/// A directory that is read each second. Notifications of the system would need a dependency that a
/// service may not want, for less than a second.
#[derive(Debug)]
pub(super) struct DirectorySource {
    looker: Looker,
    epoch: Arc<str>,
    diagnostics: watch::Sender<Arc<[Diagnostic]>>,
}

impl DirectorySource {
    pub(super) fn new(path: PathBuf, limits: Limits) -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        Self {
            looker: Looker::new(vec![Manifests::Path(path)], limits.file_bytes),
            epoch: format!("directory-{random:016x}").into(),
            diagnostics: watch::Sender::new(Arc::from([])),
        }
    }

    /// Reports what has changed since the last report.
    fn report(&self, diagnostics: Vec<Diagnostic>) {
        if **self.diagnostics.borrow() == *diagnostics {
            return;
        }
        for diagnostic in &diagnostics {
            tracing::warn!("{diagnostic}");
        }
        self.diagnostics.send_replace(diagnostics.into());
    }
}

impl Source for DirectorySource {
    fn epoch(&self) -> Arc<str> {
        Arc::clone(&self.epoch)
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
        let mut store = Store::linting(None);
        let Look { scan, .. } = self.looker.steady(None).await?;
        let mut seen = scan.fingerprint();
        let (mut batch, diagnostics) = apply_scan(self.looker.inputs(), &mut store, scan);
        self.report(diagnostics);
        batch.changes.push(Change::Synced);
        if sink.send(batch).await.is_err() {
            return Ok(());
        }
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = sink.closed() => return Ok(()),
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let (batch, diagnostics) = match self.looker.steady(Some(seen)).await {
                Ok(Look { scan, .. }) if scan.fingerprint() == seen => continue,
                // A file that is emptied again and again is never read in that state.
                Ok(Look { scan, rests: false }) if scan.has_empty_file() => continue,
                Ok(Look { scan, .. }) => {
                    seen = scan.fingerprint();
                    apply_scan(self.looker.inputs(), &mut store, scan)
                }
                Err(error) => {
                    seen = 0;
                    store.withdraw_grants(&error.to_string())
                }
            };
            self.report(diagnostics);
            if !batch.changes.is_empty() && sink.send(batch).await.is_err() {
                return Ok(());
            }
        }
    }
}
