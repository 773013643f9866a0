//! A cluster as a source: its connection, and the tasks that it runs.

use super::api::{Api, ApiError};
use super::backoff::Backoff;
use super::batcher::{Batcher, Epochs};
use super::config::{KubernetesConfig, Scope};
use super::epoch::{EpochLease, EpochObjects};
use super::epoch_tracker::{EpochState, EpochTracker};
use super::freshness::Freshness;
use super::latest_versions::LatestVersions;
use super::metrics::WatchMetrics;
use super::pending_batch::WatchUpdate;
use super::watch::{Watch, WatchContext};
use super::watch_status::WatchStatus;
use super::{decode, epoch, namespaces};
use policy_crds::{Kind, Object};
use policy_engine::source::{
    Change, Diagnostic, Health, Source, SourceContext, SourceError, WatchKey,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinSet;

/// Parses an item of a list as the watches do: one that cannot be parsed is an invalid object. `None`
/// if it has no name.
pub fn object_of(kind: Kind, version: &'static str, item: Value) -> Option<Object> {
    decode::KindVersion { kind, version }.object(item)
}

/// Capacity of the queue of watch updates.
const QUEUE_CAPACITY: usize = 64;

/// A cluster to which no request has succeeded yet.
#[derive(Debug)]
pub struct PendingSource {
    api: Api,
    config: KubernetesConfig,
    watch_status: Arc<WatchStatus>,
    metrics: WatchMetrics,
}

impl PendingSource {
    /// The health of the watches.
    pub fn health(&self) -> channel::Receiver<Arc<Health>> {
        self.watch_status.subscribe()
    }

    /// Handles on its metrics.
    pub fn metrics(&self) -> WatchMetrics {
        self.metrics.clone()
    }

    /// The staleness bound of the watches.
    pub fn freshness(&self) -> Freshness {
        self.config.freshness
    }

    /// The features that are unavailable because only some namespaces are watched.
    pub fn limitations(&self) -> Vec<String> {
        self.config.scope.limitations()
    }

    /// Waits until the API server names the epoch of its resource versions.
    pub async fn connected(self) -> KubernetesSource {
        let names = EpochObjects {
            namespace: self.config.control_plane_namespace.clone(),
            lease: self.config.lease_name.clone(),
            fallback: self.fallback(),
        };
        let mut backoff = Backoff::default();
        let mut reported = None;
        let (epoch, lease) = loop {
            let failure = match Self::epoch(&self.api, &names).await {
                Ok(epoch) => break epoch,
                Err(failure) => failure,
            };
            let error: Arc<str> = failure.to_string().into();
            if reported.as_ref() != Some(&error) {
                tracing::warn!(%error, "waiting for the API server");
                self.watch_status.fail_all(&error);
                reported = Some(error);
            }
            tokio::time::sleep(backoff.next(failure.retry_after())).await;
        };
        if reported.is_some() {
            self.watch_status.reset_all();
        }
        let Self { api, config, watch_status, metrics } = self;
        let diagnostics = channel::Sender::new(Arc::from([]));
        let in_use = lease.as_ref().map(EpochLease::kinds_in_use).unwrap_or_default();
        let in_use = Arc::new(in_use);
        KubernetesSource {
            epoch,
            lease,
            in_use,
            names,
            api,
            config,
            watch_status,
            metrics,
            diagnostics,
        }
    }

    /// Reads the epoch, and the Lease if it names it. Fails only where a retry may help.
    async fn epoch(
        api: &Api,
        names: &EpochObjects,
    ) -> Result<(Arc<str>, Option<EpochLease>), ApiError> {
        match epoch::read(api, names).await {
            Ok(lease) => Ok((lease.epoch(), Some(lease))),
            Err(failure) if failure.is_permanent() => {
                Ok((epoch::without_lease(api, names, &failure).await?, None))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Namespaces whose uid names the epoch where there is no Lease.
    fn fallback(&self) -> Vec<Arc<str>> {
        let own = self.config.control_plane_namespace.clone();
        match &self.config.scope {
            Scope::Cluster => vec!["kube-system".into(), own],
            // Nothing outside of them is requested, and of the control plane's namespace only its
            // Lease.
            Scope::Namespaces(names) => names.iter().cloned().collect(),
        }
    }
}

/// A cluster to which a connection succeeded.
#[derive(Debug)]
pub struct KubernetesSource {
    epoch: Arc<str>,
    /// The Lease, if it names the epoch.
    lease: Option<EpochLease>,
    /// The kinds that the Lease says are in use.
    in_use: Arc<BTreeSet<Kind>>,
    names: EpochObjects,
    api: Api,
    config: KubernetesConfig,
    watch_status: Arc<WatchStatus>,
    metrics: WatchMetrics,
    diagnostics: channel::Sender<Arc<[Diagnostic]>>,
}

impl KubernetesSource {
    /// Prepares the source. Sends nothing yet.
    pub fn prepare(client: kube::Client, config: KubernetesConfig) -> PendingSource {
        let watch_status = Arc::new(WatchStatus::new(config.watches()));
        let metrics = WatchMetrics::new(watch_status.subscribe());
        PendingSource { api: Api::new(client), config, watch_status, metrics }
    }

    /// Connects, and retries until it succeeds.
    pub async fn connect(client: kube::Client, config: KubernetesConfig) -> Self {
        Self::prepare(client, config).connected().await
    }

    fn spawn(
        &self,
        updates: mpsc::Sender<WatchUpdate>,
        refresh: channel::Receiver<u64>,
        latest_versions: Arc<LatestVersions>,
    ) -> JoinSet<()> {
        let shared = WatchContext {
            api: self.api.clone(),
            watch_status: self.watch_status.clone(),
            metrics: self.metrics.clone(),
            updates,
            refresh,
            page_size: self.config.page_size,
            idle_timeout: self.config.freshness.idle_timeout(),
            latest_versions,
            in_use: self.in_use.clone(),
        };
        let mut tasks = JoinSet::new();
        for (index, (key, optional)) in self.config.watches().into_iter().enumerate() {
            match key {
                WatchKey { kind: Kind::Namespace, namespace: Some(namespace) } => {
                    tasks.spawn(
                        namespaces::NamespacePoller::new(shared.clone(), index, namespace).run(),
                    );
                }
                key => {
                    tasks.spawn(Watch::new(shared.clone(), index, key, optional).run());
                }
            }
        }
        let watch_status = self.watch_status.clone();
        tasks.spawn(async move { watch_status.run().await });
        tasks
    }
}

impl Source for KubernetesSource {
    fn epoch(&self) -> Arc<str> {
        self.epoch.clone()
    }

    fn diagnostics(&self) -> channel::Receiver<Arc<[Diagnostic]>> {
        self.diagnostics.subscribe()
    }

    fn health(&self) -> channel::Receiver<Arc<Health>> {
        self.watch_status.subscribe()
    }

    async fn run(self, context: SourceContext) -> Result<(), SourceError> {
        let (updates, queue) = mpsc::channel(QUEUE_CAPACITY);
        let (refresh, refreshes) = channel::channel(0);
        let nodes = self.config.node_objects().into_iter();
        let changes = nodes.map(|node| Change::Apply(Arc::new(node))).collect();
        let (version, listed, since) = (None, None, 0);
        let (watch, kind, regressed) = (usize::MAX, Kind::Node, false);
        let first = WatchUpdate { watch, kind, changes, version, listed, since, regressed };
        // The queue has capacity: this is the first update.
        let _ = updates.try_send(first);
        // Dropping the set aborts the tasks when this function returns.
        let latest_versions = Arc::<LatestVersions>::default();
        let mut tasks = self.spawn(updates, refreshes.clone(), latest_versions.clone());
        let state = EpochState { epoch: self.epoch, number: 0, verified: 0, bump_due: false };
        let (states, epoch_states) = channel::channel(state);
        let (regressions, noticed) = channel::channel(None);
        let (api, names) = (self.api, self.names);
        let tracker = EpochTracker::new((api, names), self.lease, states, refreshes, noticed);
        tasks.spawn(tracker.run());
        let watches = self.config.watches().into_iter().map(|(key, _)| key);
        let epochs = Epochs {
            state: epoch_states,
            regressions,
            latest_versions,
            watch_status: self.watch_status,
        };
        let batcher = Batcher::new(watches, queue, refresh, epochs);
        tokio::select! {
            () = context.shutdown.cancelled() => Ok(()),
            ended = batcher.run(&context) => ended,
            // Only a panic ends a watch.
            _ = tasks.join_next() => Err(SourceError::Failed),
        }
    }
}
