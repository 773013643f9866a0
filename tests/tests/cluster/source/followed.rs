//! A source that runs against a cluster, and everything it has told.

use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::source::{Batch, Change, Health, Source, SourceContext};
use policy_kube::source::{KubernetesConfig, KubernetesSource, PendingSource, WatchMetrics};
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Most that anything may take that is waited for here.
const PATIENCE: Duration = Duration::from_secs(90);

/// Objects as the source reported them.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The objects there are.
    pub(crate) objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// The objects that are in force although their definitions are gone.
    pub(crate) kept: BTreeSet<ObjectKey>,
    /// The newest versions.
    pub(crate) versions: BTreeMap<Kind, u64>,
    /// Number of complete listings.
    pub(crate) synced: u64,
    /// Batches so far.
    pub(crate) batches: usize,
}

impl Seen {
    /// True if there is such an object.
    pub(crate) fn is(&self, key: &ObjectKey, is: impl Fn(&Object) -> bool) -> bool {
        self.objects.get(key).is_some_and(|object| is(object))
    }

    /// True if there is an object of this name, as `Kind namespace/name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.objects.keys().any(|key| key.to_string() == name)
    }

    fn add(&mut self, batch: Batch) {
        self.batches += 1;
        for change in batch.changes {
            match change {
                Change::Apply(object) => {
                    self.kept.remove(&object.meta.key);
                    self.objects.insert(object.meta.key.clone(), object);
                }
                Change::Delete(key) => {
                    self.kept.remove(&key);
                    self.objects.remove(&key);
                }
                Change::Keep(key) => {
                    self.kept.insert(key);
                }
                Change::Synced => self.synced += 1,
            }
        }
        for (kind, version) in batch.versions {
            let before = self.versions.insert(kind, version);
            assert!(before.is_none_or(|before| before <= version), "{kind:?} went back");
        }
    }
}

/// A running source. Dropping it ends it.
pub(crate) struct Followed {
    /// Objects reported so far.
    pub(crate) seen: Seen,
    batches: mpsc::Receiver<Batch>,
    refresh: Arc<Notify>,
    health: watch::Receiver<Arc<Health>>,
    registry: Registry,
    shutdown: DropGuard,
    task: JoinHandle<()>,
}

impl Followed {
    /// Connects and runs it.
    pub(crate) async fn start(client: kube::Client, config: KubernetesConfig) -> Self {
        let connecting: PendingSource = KubernetesSource::prepare(client, config);
        let (health, metrics) = (connecting.health(), connecting.metrics());
        let source = connecting.connected().await;
        assert!(!source.epoch().is_empty());
        let (sink, batches) = mpsc::channel(4);
        let (refresh, shutdown) = (Arc::new(Notify::new()), CancellationToken::new());
        let context = SourceContext { sink, refresh: refresh.clone(), shutdown: shutdown.clone() };
        let task = tokio::spawn(async move { source.run(context).await.unwrap() });
        let mut registry = Registry::default();
        WatchMetrics::register(&metrics, &mut registry);
        let shutdown = shutdown.drop_guard();
        Self { seen: Seen::default(), batches, refresh, health, registry, shutdown, task }
    }

    /// Asks for a new list of everything.
    pub(crate) fn refresh(&self) {
        self.refresh.notify_one();
    }

    /// Takes in what is told until `done`.
    pub(crate) async fn until(&mut self, what: &str, done: impl Fn(&Seen) -> bool) {
        let all = async {
            while !done(&self.seen) {
                let batch = self.batches.recv().await.expect("the source has ended");
                self.seen.add(batch);
            }
        };
        let ended = tokio::time::timeout(PATIENCE, all).await;
        let states = &self.health.borrow().watches;
        assert!(ended.is_ok(), "never told: {what}\n{states:#?}\n{:#?}", self.seen);
    }

    /// Takes in what is told until everything has been listed as many times.
    pub(crate) async fn synced(&mut self, times: u64) {
        self.until("Synced", |seen| seen.synced >= times).await;
    }

    /// Takes in what is told for a while.
    pub(crate) async fn drain(&mut self, time: Duration) {
        let all = async {
            while let Some(batch) = self.batches.recv().await {
                self.seen.add(batch);
            }
        };
        // It goes on for as long as the source runs.
        let _ = tokio::time::timeout(time, all).await;
    }

    /// State of the watches.
    pub(crate) fn health(&self) -> Arc<Health> {
        self.health.borrow().clone()
    }

    /// Waits until the watches do as `find` looks for, taking in what is told.
    pub(crate) async fn health_until<T>(&mut self, find: impl Fn(&Health) -> Option<T>) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(found) = find(&self.health()) {
                return found;
            }
            let late = tokio::time::Instant::now() > deadline;
            assert!(!late, "never so: {:#?}", self.health().watches);
            self.drain(Duration::from_millis(100)).await;
        }
    }

    /// Its metrics as they are scraped.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// The sum of the metrics whose line begins so.
    pub(crate) fn metric(&self, beginning: &str) -> u64 {
        let metrics = self.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with(beginning));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Ends it.
    pub(crate) async fn end(self) {
        self.shutdown.disarm().cancel();
        self.task.await.unwrap();
    }
}

/// The defaults, with the Lease in a namespace that exists.
pub(crate) fn config(control_plane: &str) -> KubernetesConfig {
    KubernetesConfig {
        control_plane_namespace: control_plane.into(),
        ..KubernetesConfig::default()
    }
}

/// A client of the user of a kubeconfig file.
pub(crate) async fn client_of(kubeconfig: &Path) -> kube::Client {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// An object as a document.
pub(crate) fn text_of(object: &Value) -> String {
    object.to_string()
}
