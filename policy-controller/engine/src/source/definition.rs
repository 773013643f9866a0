//! The trait of sources, the batches they send, and their context.

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
    /// The epoch that it begins with, which names a numbering of resource versions: revisions of
    /// different epochs are not comparable.
    fn epoch(&self) -> Arc<str>;

    /// Errors in manifests, updated with each scan.
    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>>;

    /// Health of its watches; empty for a source without watches.
    fn health(&self) -> watch::Receiver<Arc<Health>>;

    /// Sends batches until the context's `shutdown`. After an earlier end there are no further
    /// changes.
    ///
    /// # Errors
    /// [`SourceError`] where the source cannot work at all.
    fn run(self, context: SourceContext) -> impl Future<Output = Result<(), SourceError>> + Send;
}

/// The context of a running source.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// The channel for batches.
    pub sink: mpsc::Sender<Batch>,
    /// Notified when a client waits for changes that may have been missed (it has a newer policy in
    /// force than this replica has seen). The source then lists every kind again, consistently,
    /// from a moment after the notice, and ends with [`Change::Synced`]. Several notices may be
    /// answered by one list.
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
    /// The object is gone because the definition of its kind is. Nobody decided about the object
    /// itself, so it stays in force until another object of its name is applied, its Namespace is
    /// gone, or an administrator ends it ([`policy_crds::annotation::END_KEPT_OBJECTS`]).
    Keep(ObjectKey),
    /// Every kind has been listed completely. Before it, nothing is answered.
    Synced,
}

/// Changes that belong together: nothing between the first and the last is ever seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The epoch that begins with this batch; absent: the previous one continues. Versions stated
    /// before are no longer valid.
    pub epoch: Option<Arc<str>>,
    /// The newest resource version that any watch of a kind has delivered, for each kind with
    /// changes or a newer version in this batch: deletes, relists and bookmarks included. An event
    /// may be older, because another watch of its kind is further ahead. Never smaller than in an earlier batch of the same
    /// epoch.
    pub versions: BTreeMap<Kind, u64>,
    /// The resource version that all watches of a kind have passed, where several watches share the
    /// kind, one for each namespace, and it has changed. Published values are labelled with the
    /// newest version of any of these watches; only the oldest shows that nothing was missed.
    pub passed: BTreeMap<Kind, u64>,
}

/// Error of a source that cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The directory cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The path.
        path: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Its task failed: nothing changes any more.
    #[error("the source failed; the objects it last sent stay in force")]
    Failed,
}
