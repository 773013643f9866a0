//! The questions to the task that owns the index.
//!
//! All of them wait in one queue and are answered in the order in which they came, so that none is
//! put off for as long as others keep coming. Batches of changes have a queue of their own, because
//! they go first: an answer reflects every change that had arrived before it, and a source that falls
//! behind is held back by its own queue instead of by those who ask.

use crate::desired::DesiredDelta;
use crate::desired_conditions::DesiredConditionTable;
use crate::latest::Latest;
use crate::publish::{LookupError, PortPolicy, PublishedWorkload};
use crate::query::condition::ConditionTable;
use crate::review::Snapshot;
use policy_core::WorkloadKey;
use policy_crds::{Kind, Object};
use std::num::NonZeroU16;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The most questions that may wait.
const ROOM: usize = 1024;

/// A question to the task that owns the index, with the place of its answer.
pub enum Request {
    /// Watch a workload.
    Workload(WorkloadKey, Reply<PublishedWorkload>),
    /// Watch a port.
    Port(WorkloadKey, NonZeroU16, Reply<PortPolicy>),
    /// Every workload there is.
    Workloads(oneshot::Sender<Vec<WorkloadKey>>),
    /// The conditions of every object.
    Conditions(oneshot::Sender<ConditionTable>),
    /// The same, with the version of each object that its conditions are about.
    DesiredConditions(oneshot::Sender<DesiredConditionTable>),
    /// Every object of these kinds; nothing before all have been listed.
    Objects(Arc<[Kind]>, oneshot::Sender<Option<Vec<Arc<Object>>>>),
    /// A copy of the index; nothing before all has been listed.
    Snapshot(oneshot::Sender<Option<Snapshot>>),
    /// The changes of what ought to be in force; nothing before all has been listed.
    DesiredDelta(oneshot::Sender<Option<DesiredDelta>>),
    /// The end of these questions: nobody asks for news any more.
    StopDesired,
}

/// The place of the answer to a lookup.
pub type Reply<T> = oneshot::Sender<Result<Latest<Arc<T>>, LookupError>>;

/// The sending side of the queue.
#[derive(Clone, Debug)]
pub struct Requests(mpsc::Sender<Request>);

impl Requests {
    /// A queue, and its receiving side.
    pub fn channel() -> (Self, mpsc::Receiver<Request>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self(sender), receiver)
    }

    /// The answer to a question; none if nobody answers any more.
    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.send(request(reply)).await?;
        answer.await.ok()
    }

    /// Says something that has no answer; none if nobody listens any more.
    pub(crate) async fn send(&self, request: Request) -> Option<()> {
        self.0.send(request).await.ok()
    }
}
