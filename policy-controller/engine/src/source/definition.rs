//! What a source of objects is, what it sends, and what it is given while it runs.

use super::diagnostic::Diagnostic;
use super::health::Health;
use policy_crds::{Kind, Object, ObjectKey};
use std::collections::BTreeMap;
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
    /// from a moment after the notice, and ends with [`Change::Synced`]. Notices may be
    /// gathered.
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

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object exists like this, valid or not.
    Apply(Arc<Object>),
    /// The object is gone.
    Delete(ObjectKey),
    /// Every kind has been listed completely. Before it, nothing is answered.
    Synced,
}

/// Changes that belong together: nothing between the first and the last is ever seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The epoch that begins with this batch; absent: the one before goes on. Nothing that was stated
    /// of versions before counts any more.
    pub epoch: Option<Arc<str>>,
    /// Per kind that has news in here, the newest resource version that any of its watches has told,
    /// deletes and relists included: an event may be older, because another watch of its kind is
    /// further. Never smaller than in an earlier batch of the same epoch.
    pub versions: BTreeMap<Kind, u64>,
    /// Of kinds that several watches share, each of a namespace: the resource version up to which
    /// all of them have seen everything, where it has changed. What is published is labelled by the
    /// newest version of any of them; whether something has been missed is a question to the oldest.
    pub passed: BTreeMap<Kind, u64>,
}

/// Why a source cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The directory cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// Its task failed: nothing changes any more.
    #[error("the source failed, what it last said stays in force")]
    Failed,
}
