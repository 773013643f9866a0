//! The task that owns the index: applies batches, answers lookups, publishes what changed.

use crate::config::ControllerConfig;
use crate::desired::{Ask, Demand, DemandHandle};
use crate::engine::{Engine, version_key};
use crate::index_metrics::{Effort, IndexMetrics};
use crate::publish::{Command, Policies, Seen};
use crate::question::condition::ConditionTable;
use crate::review::{ReviewHandle, Snapshot};
use crate::source::{Batch, Change, Diagnostic, Health, Source, SourceContext, SourceError};
use crate::stated::StatedTable;
use crate::subscriptions::Subscriptions;
use policy_core::Revision;
use policy_crds::{Kind, Object};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How often channels without listeners are forgotten.
const SWEEP: Duration = Duration::from_secs(30);

/// A running controller, without its gRPC server. Dropping it ends it.
#[derive(Debug)]
pub struct Controller {
    /// The policies.
    pub policies: Policies,
    /// What every object is told about itself.
    pub conditions: ConditionsHandle,
    /// What objects would be told.
    pub review: ReviewHandle,
    /// The objects.
    pub objects: ObjectsHandle,
    /// What the source has found wrong, each time it looked.
    pub diagnostics: watch::Receiver<Arc<[Diagnostic]>>,
    /// How the source's watches are doing.
    pub health: watch::Receiver<Arc<Health>>,
    /// How much there is in the index, and what changes cost.
    pub metrics: IndexMetrics,
    /// What ought to be in force where; for the one who counts.
    pub demand: Option<DemandHandle>,
    shutdown: CancellationToken,
    source: Option<JoinHandle<Result<(), SourceError>>>,
}

impl Controller {
    /// Waits until the source ends, which it does by itself only if it cannot work.
    ///
    /// # Errors
    /// Why the source cannot work.
    pub async fn source_ended(&mut self) -> Result<(), SourceError> {
        match self.source.as_mut() {
            Some(task) => {
                let ended = task.await;
                self.source = None;
                ended.unwrap_or(Err(SourceError::Failed))
            }
            None => std::future::pending().await,
        }
    }

    /// Ends everything: channels close, lookups answer `Stopped`.
    pub fn shutdown(&self) {
        self.shutdown.cancel();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Objects as they are, on demand: for parts of the controller that look after objects themselves.
#[derive(Clone, Debug)]
pub struct ObjectsHandle {
    requests: mpsc::Sender<ObjectsRequest>,
}

/// Which kinds, and where the answer goes.
type ObjectsRequest = (Arc<[Kind]>, oneshot::Sender<Option<Vec<Arc<Object>>>>);

impl ObjectsHandle {
    /// Every object of these kinds at the time of the call; none before all have been listed, or if
    /// the controller has ended.
    pub async fn all(&self, kinds: &[Kind]) -> Option<Vec<Arc<Object>>> {
        let (reply, answer) = oneshot::channel();
        self.requests.send((kinds.into(), reply)).await.ok()?;
        answer.await.ok()?
    }
}

/// Conditions, on demand.
#[derive(Clone, Debug)]
pub struct ConditionsHandle {
    requests: mpsc::Sender<oneshot::Sender<ConditionTable>>,
    stated: mpsc::Sender<oneshot::Sender<StatedTable>>,
    changed: watch::Receiver<u64>,
}

impl ConditionsHandle {
    /// The conditions of every object at the time of the call; none if the controller has ended.
    pub async fn table(&self) -> Option<ConditionTable> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(reply).await.ok()?;
        answer.await.ok()
    }

    /// The same, with the version of each object that its conditions are about.
    pub async fn stated(&self) -> Option<StatedTable> {
        let (reply, answer) = oneshot::channel();
        self.stated.send(reply).await.ok()?;
        answer.await.ok()
    }

    /// A counter that moves whenever some condition does, or the version of an object that has any.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }
}

/// Starts the task that owns the index, and the source. Needs a tokio runtime.
pub fn start<S: Source>(config: ControllerConfig, source: S) -> Controller {
    let shutdown = CancellationToken::new();
    let (commands, command_queue) = mpsc::channel(1024);
    let (requests, request_queue) = mpsc::channel(16);
    let (stated, stated_queue) = mpsc::channel(16);
    let (reviews, review_queue) = mpsc::channel(16);
    let (objects, object_queue) = mpsc::channel(16);
    let (sink, batches) = mpsc::channel(64);
    let (synced, synced_receiver) = watch::channel(false);
    let (seen, seen_receiver) = watch::channel(Arc::new(Seen::default()));
    let (changed, changed_receiver) = watch::channel(0);
    let diagnostics = source.diagnostics();
    let health = source.health();
    let epoch = source.epoch();
    let refresh = Arc::new(Notify::new());
    let config = Arc::new(config);
    let (demand, demand_handle, asks) = Demand::new();
    let metrics = IndexMetrics::default();
    let owner = Owner {
        metrics: metrics.clone(),
        demand,
        subscriptions: Subscriptions::new(epoch.clone(), &config),
        engine: Engine::new(config),
        synced,
        seen,
        changed,
        epoch,
        lists: 0,
        passed: BTreeMap::new(),
    };
    let queues = Queues {
        commands: command_queue,
        requests: request_queue,
        stated: stated_queue,
        reviews: review_queue,
        objects: object_queue,
        asks,
        batches,
    };
    tokio::spawn(owner.run(queues, shutdown.clone()));
    let context = SourceContext { sink, refresh: refresh.clone(), shutdown: shutdown.clone() };
    let source = tokio::spawn(source.run(context));
    Controller {
        policies: Policies::new(commands, synced_receiver, seen_receiver, refresh),
        conditions: ConditionsHandle { requests, stated, changed: changed_receiver },
        review: ReviewHandle::new(reviews),
        objects: ObjectsHandle { requests: objects },
        diagnostics,
        health,
        metrics,
        demand: Some(demand_handle),
        shutdown,
        source: Some(source),
    }
}

struct Queues {
    commands: mpsc::Receiver<Command>,
    requests: mpsc::Receiver<oneshot::Sender<ConditionTable>>,
    stated: mpsc::Receiver<oneshot::Sender<StatedTable>>,
    reviews: mpsc::Receiver<oneshot::Sender<Option<Snapshot>>>,
    objects: mpsc::Receiver<ObjectsRequest>,
    asks: mpsc::Receiver<Ask>,
    batches: mpsc::Receiver<Batch>,
}

struct Owner {
    engine: Engine,
    metrics: IndexMetrics,
    demand: Demand,
    subscriptions: Subscriptions,
    synced: watch::Sender<bool>,
    seen: watch::Sender<Arc<Seen>>,
    changed: watch::Sender<u64>,
    epoch: Arc<str>,
    lists: u64,
    /// What all watches of a kind have passed, where that is not what the newest one has seen.
    passed: BTreeMap<Kind, u64>,
}

impl Owner {
    async fn run(mut self, mut queues: Queues, shutdown: CancellationToken) {
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.metrics.waiting(queues.batches.len(), queues.commands.len());
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(batch) = queues.batches.recv() => self.apply(&batch),
                Some(command) = queues.commands.recv() => self.answer(command),
                Some(reply) = queues.requests.recv() => {
                    // Nobody waits any more if this fails.
                    let _ = reply.send(self.engine.conditions().clone());
                }
                Some(reply) = queues.stated.recv() => {
                    let _ = reply.send(self.engine.stated());
                }
                Some(reply) = queues.reviews.recv() => {
                    let _ = reply.send(self.engine.snapshot());
                }
                Some((kinds, reply)) = queues.objects.recv() => {
                    let _ = reply.send(self.engine.objects(&kinds));
                }
                Some(ask) = queues.asks.recv() => self.demand.answer(&mut self.engine, ask),
                _ = sweep.tick() => {
                    let roots = self.subscriptions.sweep();
                    self.engine.retain(roots.into_iter().chain(self.demand.roots()));
                }
            }
        }
    }

    fn apply(&mut self, batch: &Batch) {
        let (before, began) = (self.engine.effort_by_stage(), Instant::now());
        let changes = self.engine.apply(batch);
        let resolved = Instant::now();
        if let Some(epoch) = &batch.epoch {
            self.epoch = epoch.clone();
            self.passed.clear();
            self.subscriptions.begin_epoch(epoch.clone());
        }
        self.subscriptions.publish(&mut self.engine, &changes);
        self.measured(batch, before, (began, resolved));
        self.demand.note(&changes);
        if changes.conditions {
            self.changed.send_modify(|count| *count = count.saturating_add(1));
        }
        let listed = batch.changes.iter().any(|c| matches!(c, Change::Synced));
        self.lists = self.lists.saturating_add(u64::from(listed));
        self.passed.extend(&batch.passed);
        let passed = |kind| self.passed.get(&kind).copied().or_else(|| self.engine.version(kind));
        let seen =
            Kind::ALL.into_iter().filter_map(|kind| Some((version_key(kind), passed(kind)?)));
        let revision = Revision { epoch: self.epoch.clone(), content: 0, versions: seen.collect() };
        self.seen.send_replace(Arc::new(Seen { revision, lists: self.lists }));
        self.synced.send_if_modified(|synced| {
            let became = self.engine.is_synced() && !*synced;
            *synced |= became;
            became
        });
        let (answers, answered) = self.engine.effort();
        tracing::debug!(changes = batch.changes.len(), answers, answered, "applied a batch");
    }

    /// Takes note of what a batch cost that was resolved and has just been published.
    fn measured(&self, batch: &Batch, before: Effort, (began, resolved): (Instant, Instant)) {
        let resolving = resolved.duration_since(began);
        self.metrics.applied(batch.changes.len(), resolving, resolved.elapsed());
        self.metrics.effort(before, self.engine.effort_by_stage());
        let touched = batch.changes.iter().filter_map(|change| match change {
            Change::Apply(object) => Some(&object.meta.key),
            Change::Delete(key) => Some(key),
            Change::Synced => None,
        });
        let touched = touched.map(|key| (key.kind, key.namespace.clone())).collect();
        self.metrics.count(self.engine.index(), &touched);
    }

    fn answer(&mut self, command: Command) {
        // Sending fails where the caller has gone, which is no concern of ours.
        match command {
            Command::Workload(key, reply) => {
                let _ = reply.send(self.subscriptions.workload(&mut self.engine, &key));
            }
            Command::Port(key, port, reply) => {
                let _ = reply.send(self.subscriptions.port(&mut self.engine, &key, port));
            }
            Command::Workloads(reply) => {
                let _ = reply.send(self.engine.workloads());
            }
        }
    }
}
