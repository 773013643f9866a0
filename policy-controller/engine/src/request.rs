//! Requests to the task that owns the index.
//!
//! All of them wait in one queue and are answered in order, so that none starves. Batches of
//! changes have a queue of their own with priority: a response reflects every change that had
//! arrived before the request, and a source that falls behind gets backpressure from its own queue.

use crate::desired::DesiredDelta;
use crate::desired_conditions::DesiredConditionTable;
use crate::destination_shares::DestinationClient;
use crate::latest::Latest;
use crate::publish::destination::{ClientPlace, DestinationQuestion, PublishedDestination};
use crate::publish::{LookupError, PortPolicy, PublishedWorkload};
use crate::query::condition::ConditionTable;
use crate::review::Snapshot;
use policy_core::WorkloadKey;
use policy_crds::{Kind, Object};
use std::num::NonZeroU16;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Capacity of the request queue.
const QUEUE_CAPACITY: usize = 1024;

/// A request to the task that owns the index, with its response channel.
pub enum Request {
    /// Watch a workload.
    Workload(WorkloadKey, Reply<PublishedWorkload>),
    /// Watch a port.
    Port(WorkloadKey, NonZeroU16, Reply<PortPolicy>),
    /// Watch a destination, which counts for a client.
    Destination(DestinationQuestion, DestinationClient, Reply<PublishedDestination>),
    /// The place of a workload; nothing if it does not exist.
    ClientPlace(WorkloadKey, oneshot::Sender<Option<ClientPlace>>),
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
    /// Stop tracking desired policies.
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
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        (Self(sender), receiver)
    }

    /// The response to a request; `None` if the task has ended.
    pub(crate) async fn call<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.send(request(reply)).await?;
        answer.await.ok()
    }

    /// Sends a request without a response; `None` if the task has ended.
    pub(crate) async fn send(&self, request: Request) -> Option<()> {
        self.0.send(request).await.ok()
    }
}
