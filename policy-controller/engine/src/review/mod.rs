//! What an object would be told, were it applied: asked of a copy of the index, away from the task
//! that owns it.

#[cfg(test)]
mod tests;

use crate::config::ControllerConfig;
use crate::findings::{Finder, Finding, FindingKind};
use crate::incremental::Memo;
use crate::index::Index;
use crate::question::workload::EXAMINED;
use crate::source::{Batch, Change};
use policy_crds::{FieldError, Object};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// How long a review may take, with the wait for its turn. API servers wait five seconds, and then
/// refuse what is sound.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reviews at once: each keeps a thread busy and may copy parts of the index.
const AT_ONCE: usize = 4;

/// An object that does not exist yet is younger than every other.
const YOUNGEST: i64 = i64::MAX;

/// Asks what objects would be told.
#[derive(Clone, Debug)]
pub struct ReviewHandle {
    requests: mpsc::Sender<oneshot::Sender<Option<Snapshot>>>,
    room: Arc<Semaphore>,
}

impl ReviewHandle {
    pub(crate) fn new(requests: mpsc::Sender<oneshot::Sender<Option<Snapshot>>>) -> Self {
        Self { requests, room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// What is legal in `object` but surely not meant, as things are now. `None` where it cannot be
    /// told: objects have not been listed completely yet, or the index is too busy to be asked.
    pub async fn review(&self, object: Object) -> Option<Vec<FieldError>> {
        tokio::time::timeout(PATIENCE, self.reviewed(object)).await.ok()?
    }

    async fn reviewed(&self, object: Object) -> Option<Vec<FieldError>> {
        let turn = self.room.clone().acquire_owned().await.ok()?;
        let snapshot = self.snapshot().await?;
        // A fresh look at a large namespace takes milliseconds, for which nobody else should wait.
        let review = move || {
            // Held until it has ended, whether or not somebody still waits for it.
            let _turn = turn;
            snapshot.review(object)
        };
        tokio::task::spawn_blocking(review).await.ok()
    }

    async fn snapshot(&self) -> Option<Snapshot> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(reply).await.ok()?;
        answer.await.ok()?
    }
}

/// A copy of the index, to be asked what a change would mean.
pub(crate) struct Snapshot {
    index: Index,
    config: Arc<ControllerConfig>,
    memo: Memo,
}

impl Snapshot {
    /// The index must have been listed completely: what is missing from it is missing.
    pub(crate) fn new(index: Index, config: Arc<ControllerConfig>) -> Self {
        Self { index, config, memo: Memo::default() }
    }

    /// What the object would lack, were it applied: each with the field it is about.
    pub(crate) fn review(mut self, mut object: Object) -> Vec<FieldError> {
        if object.meta.created.is_none() && self.index.object(&object.meta.key).is_none() {
            object.meta.created = Some(YOUNGEST);
        }
        let object = Arc::new(object);
        let changes = vec![Change::Apply(object.clone())];
        self.index.apply(&Batch { changes, ..Batch::default() });
        let mut finder = Finder::new(&self.index, &mut self.memo, &self.config, EXAMINED);
        // Beside which proxies a policy is for is not known here, and the status says it.
        let relevant = |finding: &Finding| finding.kind != FindingKind::PrecedenceDiffers;
        finder.of(&object).into_iter().filter(relevant).map(FieldError::from).collect()
    }
}
