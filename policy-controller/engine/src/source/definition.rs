//! What a source of objects is, and what it is given while it runs.

use super::batch::Batch;
use super::diagnostic::Diagnostic;
use super::error::SourceError;
use super::health::Health;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Supplies objects.
pub trait Source: Send + 'static {
    /// Names the numbering of the versions that it begins with: revisions of different epochs are not
    /// comparable.
    fn epoch(&self) -> Arc<str>;

    /// What it finds wrong in manifests, each time it looks.
    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>>;

    /// How its watches are doing. A source without watches has none to report.
    fn health(&self) -> watch::Receiver<Arc<Health>>;

    /// Sends batches until the context's `shutdown`. Ending earlier means that nothing changes any
    /// more.
    ///
    /// # Errors
    /// [`SourceError`] where the source cannot work at all.
    fn run(self, context: SourceContext) -> impl Future<Output = Result<(), SourceError>> + Send;
}

/// What a running source is given.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// Where batches go.
    pub sink: mpsc::Sender<Batch>,
    /// Notified when somebody waits for what may have been missed (a client has a newer policy in
    /// force than this replica has seen): the source then lists every kind again, consistently,
    /// from a moment after the notice, and ends with [`Change::Synced`](super::batch::Change::Synced). Notices may be gathered.
    pub refresh: Arc<Notify>,
    /// Ends the source.
    pub shutdown: CancellationToken,
}

impl SourceContext {
    /// A context of its own refresh.
    pub fn new(sink: mpsc::Sender<Batch>, shutdown: CancellationToken) -> Self {
        Self { sink, refresh: Arc::default(), shutdown }
    }
}
