//! The task that owns the index: applies batches, answers lookups, publishes what changed.

use crate::config::ControllerConfig;
use crate::desired::DesiredTracker;
use crate::destination_channels::DestinationChannels;
use crate::destinations::Destinations;
use crate::engine::{Changes, Engine, version_key};
use crate::handles::{ConditionsHandle, DesiredHandle, ObjectsHandle, Policies, ReviewHandle};
use crate::index_metrics::{Effort, IndexMetrics};
use crate::inventory::Inventory;
use crate::outside_networks::OutsidePods;
use crate::publish::SourceProgress;
use crate::request::{Request, Requests};
use crate::source::{Batch, Change, Diagnostic, Health, Source, SourceContext, SourceError};
use crate::subscriptions::Subscriptions;
use policy_core::Revision;
use policy_crds::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Interval at which channels without receivers are dropped.
const SWEEP: Duration = Duration::from_secs(30);

/// A running controller, without its gRPC server. Dropping it ends it.
#[derive(Debug)]
pub struct Controller {
    /// The policies.
    pub policies: Policies,
    /// What addresses and ports lead to.
    pub destinations: Destinations,
    /// Conditions of every object.
    pub conditions: ConditionsHandle,
    /// Reviews of objects that are about to be applied or deleted.
    pub review: ReviewHandle,
    /// The objects.
    pub objects: ObjectsHandle,
    /// Errors in the source's manifests, updated with each scan.
    pub diagnostics: watch::Receiver<Arc<[Diagnostic]>>,
    /// Health of the source's watches.
    pub health: watch::Receiver<Arc<Health>>,
    /// Size of the index and cost of changes.
    pub metrics: IndexMetrics,
    /// The custom resources in use; `None` before all objects have been listed.
    pub inventory: watch::Receiver<Option<Arc<Inventory>>>,
    /// Changes of the desired policies, for the one task that counts where they are in force.
    pub desired: Option<DesiredHandle>,
    shutdown: CancellationToken,
    source: Option<JoinHandle<Result<(), SourceError>>>,
}

impl Controller {
    /// Waits until the source ends. It ends by itself only if it cannot work.
    ///
    /// # Errors
    /// The reason why the source cannot work.
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

/// Starts the task that owns the index, and the source. Needs a tokio runtime.
pub fn start<S: Source>(config: ControllerConfig, source: S) -> Controller {
    let shutdown = CancellationToken::new();
    let (requests, queue) = Requests::channel();
    let (sink, batches) = mpsc::channel(64);
    let (synced, synced_receiver) = watch::channel(false);
    let (seen, seen_receiver) = watch::channel(Arc::new(SourceProgress::default()));
    let (changed, changed_receiver) = watch::channel(0);
    let (inventory, inventory_receiver) = watch::channel(None);
    let diagnostics = source.diagnostics();
    let health = source.health();
    let epoch = source.epoch();
    let refresh = Arc::new(Notify::new());
    let config = Arc::new(config);
    let (desired, desired_changed) = DesiredTracker::new();
    let metrics = IndexMetrics::default();
    let task = IndexTask {
        metrics: metrics.clone(),
        desired,
        subscriptions: Subscriptions::new(epoch.clone(), &config),
        destinations: DestinationChannels::new(config.limits.destinations),
        outside: OutsidePods::new(&config),
        engine: Engine::new(config),
        synced,
        seen,
        changed,
        inventory,
        epoch,
        lists: 0,
        passed: BTreeMap::new(),
    };
    tokio::spawn(task.run(batches, queue, shutdown.clone()));
    let context = SourceContext { sink, refresh: refresh.clone(), shutdown: shutdown.clone() };
    let source = tokio::spawn(source.run(context));
    Controller {
        policies: Policies::new(requests.clone(), synced_receiver, seen_receiver, refresh),
        destinations: Destinations::new(requests.clone()),
        conditions: ConditionsHandle::new(requests.clone(), changed_receiver),
        review: ReviewHandle::new(requests.clone()),
        objects: ObjectsHandle::new(requests.clone()),
        diagnostics,
        health,
        metrics,
        inventory: inventory_receiver,
        desired: Some(DesiredHandle::new(requests, desired_changed)),
        shutdown,
        source: Some(source),
    }
}

struct IndexTask {
    engine: Engine,
    metrics: IndexMetrics,
    desired: DesiredTracker,
    subscriptions: Subscriptions,
    destinations: DestinationChannels,
    outside: OutsidePods,
    synced: watch::Sender<bool>,
    seen: watch::Sender<Arc<SourceProgress>>,
    changed: watch::Sender<u64>,
    inventory: watch::Sender<Option<Arc<Inventory>>>,
    epoch: Arc<str>,
    lists: u64,
    /// The version that all watches of a kind have passed, where it differs from the newest
    /// version.
    passed: BTreeMap<Kind, u64>,
}

impl IndexTask {
    async fn run(
        mut self,
        mut batches: mpsc::Receiver<Batch>,
        mut requests: mpsc::Receiver<Request>,
        shutdown: CancellationToken,
    ) {
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.metrics.waiting(batches.len(), requests.len());
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(batch) = batches.recv() => self.apply(&batch),
                Some(request) = requests.recv() => self.answer(request),
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    /// Drops what nobody follows.
    fn sweep(&mut self) {
        let roots = self.subscriptions.sweep().into_iter();
        let roots = roots.chain(self.destinations.sweep());
        self.engine.retain(roots.chain(self.desired.roots()));
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
        self.destinations.publish(&mut self.engine, &changes.destinations);
        self.measured(&changes, batch.changes.len(), before, (began, resolved));
        self.take_inventory(&changes);
        self.metrics.pods_outside(self.outside.note(batch));
        self.desired.note(&changes);
        if changes.conditions {
            self.changed.send_modify(|count| *count = count.saturating_add(1));
        }
        let listed = batch.changes.iter().any(|c| matches!(c, Change::Synced));
        self.lists = self.lists.saturating_add(u64::from(listed));
        self.passed.extend(&batch.passed);
        let passed = |kind| self.passed.get(&kind).copied().or_else(|| self.engine.version(kind));
        // No policy is made from what discovery alone reads.
        let kinds = Kind::ALL.into_iter().filter(|kind| !kind.is_for_discovery());
        let seen = kinds.filter_map(|kind| Some((version_key(kind), passed(kind)?)));
        let revision = Revision { epoch: self.epoch.clone(), content: 0, versions: seen.collect() };
        self.seen.send_replace(Arc::new(SourceProgress { revision, lists: self.lists }));
        self.synced.send_if_modified(|synced| {
            let became = self.engine.is_synced() && !*synced;
            *synced |= became;
            became
        });
        let (answers, answered) = self.engine.effort();
        tracing::debug!(changes = batch.changes.len(), answers, answered, "applied a batch");
    }

    /// Records the cost of a batch that has been resolved and published.
    fn measured(
        &self,
        changes: &Changes,
        number: usize,
        before: Effort,
        (began, resolved): (Instant, Instant),
    ) {
        let resolving = resolved.duration_since(began);
        self.metrics.applied(number, resolving, resolved.elapsed());
        self.metrics.effort(before, self.engine.effort_by_stage());
        let touched = changes.objects.iter();
        let touched = touched.map(|key| (key.kind, key.namespace.clone())).collect();
        self.metrics.count(self.engine.index(), &touched);
        self.metrics.delegations(self.engine.delegation_counts());
    }

    /// Publishes the custom resources in use if they may have changed.
    fn take_inventory(&self, changes: &Changes) {
        let is_known = self.inventory.borrow().is_some();
        let may_differ = changes.objects.iter().any(|key| key.kind.is_custom()) || !is_known;
        if !self.engine.is_synced() || !may_differ {
            return;
        }
        let inventory = Some(Arc::new(Inventory::of(self.engine.index())));
        self.metrics.kept(self.engine.index().kept());
        self.inventory.send_if_modified(|known| {
            let differs = *known != inventory;
            *known = inventory;
            differs
        });
    }

    fn answer(&mut self, request: Request) {
        // Sending fails if the caller has gone; that is not an error.
        match request {
            Request::Workload(key, reply) => {
                _ = reply.send(self.subscriptions.workload(&mut self.engine, &key));
            }
            Request::Port(key, port, reply) => {
                _ = reply.send(self.subscriptions.port(&mut self.engine, &key, port));
            }
            Request::Destination(question, client, reply) => {
                _ = reply.send(self.destinations.follow(&mut self.engine, question, client));
                if self.destinations.is_full() {
                    self.sweep();
                }
            }
            Request::ClientPlace(key, reply) => _ = reply.send(self.engine.client_place(&key)),
            Request::Workloads(reply) => _ = reply.send(self.engine.workloads()),
            Request::Conditions(reply) => _ = reply.send(self.engine.conditions().clone()),
            Request::DesiredConditions(reply) => _ = reply.send(self.engine.desired_conditions()),
            Request::Objects(kinds, reply) => _ = reply.send(self.engine.objects(&kinds)),
            Request::Snapshot(reply) => _ = reply.send(self.engine.snapshot()),
            Request::DesiredDelta(reply) => _ = reply.send(self.desired.delta(&mut self.engine)),
            Request::StopDesired => self.desired.stop(),
        }
    }
}
