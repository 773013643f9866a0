//! Metrics of the watches. The `kube_watch_` family has Linkerd's names (docs/spec/controller.md 6.4).

use policy_core::metric::Metric;
use policy_engine::source::{Health, WatchKey};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    op: &'static str,
    kind: &'static str,
    group: &'static str,
    version: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    kind: &'static str,
    group: &'static str,
    error: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
    group: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    kind: &'static str,
    group: &'static str,
    namespace: String,
}

impl KindLabels {
    fn of(key: &WatchKey) -> Self {
        Self { kind: key.kind.as_str(), group: key.kind.group() }
    }
}

policy_core::metrics! {
    /// Counters of the watches.
    #[derive(Clone, Debug)]
    struct Counts {
        events: Family<EventLabels, Counter> = "kube_watch_events",
            "Events of watches, bookmarks included";
        errors: Family<ErrorLabels, Counter> = "kube_watch_errors",
            "Lists and watches that failed, by error";
        lists: Family<KindLabels, Counter> = "kube_watch_lists", "Complete lists of a kind";
        relists: Family<KindLabels, Counter> = "kube_watch_relists",
            "Complete lists of a kind that had been listed before";
        nameless: Family<KindLabels, Counter> = "kube_watch_nameless",
            "Objects that the API server sent without a name, which are left out";
    }
}

/// Age of the watches, computed from their health at scrape time.
const AGE: Metric = Metric {
    name: "kube_watch_age_seconds",
    labels: "kind group namespace",
    help: "Seconds since the last list, event or bookmark of a watch",
};

/// Handles on the metrics of the watches; clones share them.
#[derive(Clone, Debug)]
pub struct WatchMetrics {
    counts: Counts,
    health: watch::Receiver<Arc<Health>>,
}

impl WatchMetrics {
    /// Metrics of the watches in `health`.
    pub fn new(health: watch::Receiver<Arc<Health>>) -> Self {
        Self { counts: Counts::default(), health }
    }

    /// Adds the metrics to `registry`, under their full names.
    pub fn register(&self, registry: &mut Registry) {
        self.counts.register(registry);
        registry.register_collector(Box::new(Ages(self.health.clone())));
    }

    /// Every metric, in the order of its declaration.
    pub fn all() -> impl Iterator<Item = Metric> {
        Counts::all().chain([AGE])
    }

    pub(super) fn event(&self, key: &WatchKey, version: &'static str, op: &'static str) {
        let (kind, group) = (key.kind.as_str(), key.kind.group());
        self.counts.events.get_or_create(&EventLabels { op, kind, group, version }).inc();
    }

    pub(super) fn error(&self, key: &WatchKey, error: &'static str) {
        let (kind, group) = (key.kind.as_str(), key.kind.group());
        self.counts.errors.get_or_create(&ErrorLabels { kind, group, error }).inc();
    }

    pub(super) fn listed(&self, key: &WatchKey, again: bool) {
        self.counts.lists.get_or_create(&KindLabels::of(key)).inc();
        if again {
            self.counts.relists.get_or_create(&KindLabels::of(key)).inc();
        }
    }

    /// Counts objects without a name, which cannot be indexed. A real API server sends none.
    pub(super) fn nameless(&self, key: &WatchKey, count: u64) {
        if count > 0 {
            tracing::warn!(watch = %key, count, "the API server sent objects without a name");
            self.counts.nameless.get_or_create(&KindLabels::of(key)).inc_by(count);
        }
    }
}

/// Time since each watch last received something, computed at scrape time.
#[derive(Debug)]
struct Ages(watch::Receiver<Arc<Health>>);

impl Ages {
    fn encode_each(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (health, now) = (self.0.borrow().clone(), Instant::now());
        for (key, watch) in &health.watches {
            let labels = WatchLabels {
                kind: key.kind.as_str(),
                group: key.kind.group(),
                namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
            };
            let age = now.saturating_duration_since(watch.heard).as_secs_f64();
            ConstGauge::new(age).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for Ages {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let encoder = encoder.encode_descriptor(AGE.name, AGE.help, None, MetricType::Gauge)?;
        self.encode_each(encoder)
    }
}
