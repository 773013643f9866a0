//! Metrics of the watches. The `kube_watch_` family has Linkerd's names (controller-semantics 6.4).

use crate::metric_names as names;
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

/// Handles on the metrics of the watches; clones share them.
#[derive(Clone, Debug)]
pub struct WatchMetrics {
    events: Family<EventLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    lists: Family<KindLabels, Counter>,
    relists: Family<KindLabels, Counter>,
    nameless: Family<KindLabels, Counter>,
    health: watch::Receiver<Arc<Health>>,
}

impl WatchMetrics {
    /// Metrics of the watches that `health` tells of.
    pub fn new(health: watch::Receiver<Arc<Health>>) -> Self {
        Self {
            events: Family::default(),
            errors: Family::default(),
            lists: Family::default(),
            relists: Family::default(),
            nameless: Family::default(),
            health,
        }
    }

    /// Adds the metrics to `registry`, under their full names.
    pub fn register(&self, registry: &mut Registry) {
        let counters = [
            (names::KUBE_WATCH_LISTS, &self.lists),
            (names::KUBE_WATCH_RELISTS, &self.relists),
            (names::KUBE_WATCH_NAMELESS, &self.nameless),
        ];
        let events = names::KUBE_WATCH_EVENTS;
        registry.register(events.name, events.help, self.events.clone());
        let errors = names::KUBE_WATCH_ERRORS;
        registry.register(errors.name, errors.help, self.errors.clone());
        for (metric, family) in counters {
            registry.register(metric.name, metric.help, family.clone());
        }
        registry.register_collector(Box::new(Ages(self.health.clone())));
    }

    pub(super) fn event(&self, key: &WatchKey, version: &'static str, op: &'static str) {
        let (kind, group) = (key.kind.as_str(), key.kind.group());
        self.events.get_or_create(&EventLabels { op, kind, group, version }).inc();
    }

    pub(super) fn error(&self, key: &WatchKey, error: &'static str) {
        let (kind, group) = (key.kind.as_str(), key.kind.group());
        self.errors.get_or_create(&ErrorLabels { kind, group, error }).inc();
    }

    pub(super) fn listed(&self, key: &WatchKey, again: bool) {
        self.lists.get_or_create(&KindLabels::of(key)).inc();
        if again {
            self.relists.get_or_create(&KindLabels::of(key)).inc();
        }
    }

    /// Objects without a name cannot be indexed; no API server has any.
    pub(super) fn nameless(&self, key: &WatchKey, count: u64) {
        if count > 0 {
            tracing::warn!(watch = %key, count, "the API server sent objects without a name");
            self.nameless.get_or_create(&KindLabels::of(key)).inc_by(count);
        }
    }
}

/// How long ago each watch was heard of, at the time of the scrape.
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
        let metric = names::KUBE_WATCH_AGE_SECONDS;
        let encoder =
            encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
        self.encode_each(encoder)
    }
}
