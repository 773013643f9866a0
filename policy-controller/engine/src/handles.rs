//! Handles on the task that owns the index, for the rest of the controller.

use crate::desired::DesiredDelta;
use crate::desired_conditions::DesiredConditionTable;
use crate::latest::Latest;
use crate::publish::{LookupError, PortPolicy, PublishedWorkload, SourceProgress};
use crate::query::condition::ConditionTable;
use crate::request::{Request, Requests};
use crate::review::Snapshot;
use policy_core::WorkloadKey;
use policy_crds::{FieldError, Kind, Object};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};

/// Time limit of a review, including the wait for its turn. API servers wait five seconds, and then
/// reject valid objects.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(2);

/// Reviews at once: each keeps a thread busy and may copy parts of the index.
pub(crate) const MAX_CONCURRENT_REVIEWS: usize = 4;

/// A cheap handle on all policies: all that `serve` is given.
#[derive(Clone, Debug)]
pub struct Policies {
    requests: Requests,
    synced: watch::Receiver<bool>,
    seen: watch::Receiver<Arc<SourceProgress>>,
    refresh: Arc<Notify>,
}

impl Policies {
    /// Creates a handle on the task that answers these requests and publishes its progress.
    pub fn new(
        requests: Requests,
        synced: watch::Receiver<bool>,
        seen: watch::Receiver<Arc<SourceProgress>>,
        refresh: Arc<Notify>,
    ) -> Self {
        Self { requests, synced, seen, refresh }
    }

    /// Follows a workload. The channel holds the state at the time of the call and each one that
    /// differs; it closes when the workload goes away.
    ///
    /// # Errors
    /// See [`LookupError`]; never `TooManyPorts`.
    pub async fn workload(
        &self,
        key: &WorkloadKey,
    ) -> Result<Latest<Arc<PublishedWorkload>>, LookupError> {
        let answer = self.requests.call(|reply| Request::Workload(key.clone(), reply)).await;
        answer.ok_or(LookupError::Stopped)?
    }

    /// Follows the policy of a port, declared or not. The channel holds the policy at the time of
    /// the call and each one that differs; it closes when the workload goes away.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub async fn port(
        &self,
        key: &WorkloadKey,
        port: NonZeroU16,
    ) -> Result<Latest<Arc<PortPolicy>>, LookupError> {
        let answer = self.requests.call(|reply| Request::Port(key.clone(), port, reply)).await;
        answer.ok_or(LookupError::Stopped)?
    }

    /// Every workload at the time of the call, in order.
    ///
    /// # Errors
    /// `NotSynced` and `Stopped`.
    pub async fn workloads(&self) -> Result<Vec<WorkloadKey>, LookupError> {
        if !*self.synced.borrow() {
            return Err(LookupError::NotSynced);
        }
        self.requests.call(Request::Workloads).await.ok_or(LookupError::Stopped)
    }

    /// True once every kind has been listed completely, which makes the controller ready.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.clone()
    }

    /// Progress of the source: updated with every batch, after its changes were published.
    pub fn seen(&self) -> watch::Receiver<Arc<SourceProgress>> {
        self.seen.clone()
    }

    /// Requests that the source list everything again, because a client has a version in force that
    /// the source has not delivered yet. [`Policies::seen`] changes when it has.
    pub fn refresh(&self) {
        self.refresh.notify_one();
    }
}

/// Reads of objects, for parts of the controller that manage objects themselves.
#[derive(Clone, Debug)]
pub struct ObjectsHandle {
    requests: Requests,
}

impl ObjectsHandle {
    pub(crate) fn new(requests: Requests) -> Self {
        Self { requests }
    }

    /// Every object of these kinds at the time of the call; none before all have been listed, or if
    /// the controller has ended.
    pub async fn all(&self, kinds: &[Kind]) -> Option<Vec<Arc<Object>>> {
        self.requests.call(|reply| Request::Objects(kinds.into(), reply)).await?
    }
}

/// Conditions, on demand.
#[derive(Clone, Debug)]
pub struct ConditionsHandle {
    requests: Requests,
    changed: watch::Receiver<u64>,
}

impl ConditionsHandle {
    pub(crate) fn new(requests: Requests, changed: watch::Receiver<u64>) -> Self {
        Self { requests, changed }
    }

    /// The conditions of every object at the time of the call; none if the controller has ended.
    pub async fn table(&self) -> Option<ConditionTable> {
        self.requests.call(Request::Conditions).await
    }

    /// The same, with the version of each object that its conditions are about.
    pub async fn desired(&self) -> Option<DesiredConditionTable> {
        self.requests.call(Request::DesiredConditions).await
    }

    /// A counter that moves whenever some condition does, or the version of an object that has any.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }
}

/// Requests the changes of the desired policies. Only one task may do so at a time.
#[derive(Debug)]
pub struct DesiredHandle {
    requests: Requests,
    changed: watch::Receiver<u64>,
}

impl DesiredHandle {
    pub(crate) fn new(requests: Requests, changed: watch::Receiver<u64>) -> Self {
        Self { requests, changed }
    }

    /// Changes since the last call; `None` before all objects have been listed, or if the
    /// controller has ended.
    pub async fn delta(&mut self) -> Option<DesiredDelta> {
        self.changed.mark_unchanged();
        self.requests.call(Request::DesiredDelta).await?
    }

    /// Waits until there may be changes; false if the controller has ended.
    pub async fn changed(&mut self) -> bool {
        self.changed.changed().await.is_ok()
    }

    /// Stops tracking. The next delta contains everything again.
    pub async fn stop(&self) {
        // If the controller has ended there is nothing to stop.
        _ = self.requests.send(Request::StopDesired).await;
    }
}

/// Reviews objects as if they were applied or deleted.
#[derive(Clone, Debug)]
pub struct ReviewHandle {
    requests: Requests,
    room: Arc<Semaphore>,
}

impl ReviewHandle {
    pub(crate) fn new(requests: Requests) -> Self {
        Self { requests, room: Arc::new(Semaphore::new(MAX_CONCURRENT_REVIEWS)) }
    }

    /// Warnings about `object`: what is legal but surely not meant, given the current objects.
    /// `None` if this is unknown: objects have not been listed completely yet, or the index is too
    /// busy.
    pub async fn review(&self, object: Object) -> Option<Vec<FieldError>> {
        let run_review = self.run_review(|snapshot| snapshot.review(object));
        tokio::time::timeout(REVIEW_TIMEOUT, run_review).await.ok()?
    }

    /// Warnings about deleting `object`. `None` as for [`Self::review`].
    pub async fn review_deletion(&self, object: Object) -> Option<Vec<FieldError>> {
        let run_review = self.run_review(|snapshot| snapshot.review_deletion(object));
        tokio::time::timeout(REVIEW_TIMEOUT, run_review).await.ok()?
    }

    async fn run_review(
        &self,
        of: impl FnOnce(Snapshot) -> Vec<FieldError> + Send + 'static,
    ) -> Option<Vec<FieldError>> {
        let turn = self.room.clone().acquire_owned().await.ok()?;
        let snapshot = self.requests.call(Request::Snapshot).await??;
        // A fresh evaluation of a large namespace takes milliseconds, which must not delay other
        // requests.
        let review = move || {
            // Held until the review has ended, even if the caller has gone.
            let _turn = turn;
            of(snapshot)
        };
        tokio::task::spawn_blocking(review).await.ok()
    }
}
