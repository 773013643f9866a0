//! Asks what objects would be told, a few at a time.

use super::snapshot::Snapshot;
use crate::request::{Request, Requests};
use policy_crds::{FieldError, Object};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a review may take, with the wait for its turn. API servers wait five seconds, and then
/// refuse what is sound.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reviews at once: each keeps a thread busy and may copy parts of the index.
pub(super) const AT_ONCE: usize = 4;

/// Asks what objects would be told.
#[derive(Clone, Debug)]
pub struct ReviewHandle {
    requests: Requests,
    room: Arc<Semaphore>,
}

impl ReviewHandle {
    pub(crate) fn new(requests: Requests) -> Self {
        Self { requests, room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// What is legal in `object` but surely not meant, as things are now. `None` where it cannot be
    /// told: objects have not been listed completely yet, or the index is too busy to be asked.
    pub async fn review(&self, object: Object) -> Option<Vec<FieldError>> {
        let asked = self.asked(|snapshot| snapshot.review(object));
        tokio::time::timeout(PATIENCE, asked).await.ok()?
    }

    /// What holds once `object` is deleted and surely surprises. `None` as for [`Self::review`].
    pub async fn review_deletion(&self, object: Object) -> Option<Vec<FieldError>> {
        let asked = self.asked(|snapshot| snapshot.review_deletion(object));
        tokio::time::timeout(PATIENCE, asked).await.ok()?
    }

    async fn asked(
        &self,
        of: impl FnOnce(Snapshot) -> Vec<FieldError> + Send + 'static,
    ) -> Option<Vec<FieldError>> {
        let turn = self.room.clone().acquire_owned().await.ok()?;
        let snapshot = self.requests.ask(Request::Snapshot).await??;
        // A fresh look at a large namespace takes milliseconds, for which nobody else should wait.
        let review = move || {
            // Held until it has ended, whether or not somebody still waits for it.
            let _turn = turn;
            of(snapshot)
        };
        tokio::task::spawn_blocking(review).await.ok()
    }
}
