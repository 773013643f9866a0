//! What is told of writing status and events. Names as Linkerd's, where it has them.

use crate::metric_names as names;
use policy_engine::metric_names::Metric;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Code {
    code: u16,
}

/// Handles on the metrics of the status writer; clones share them.
#[derive(Clone, Debug)]
pub struct StatusMetrics {
    pub(crate) patches: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) seconds: Histogram,
    pub(crate) enqueues: Counter,
    pub(crate) dequeues: Counter,
    pub(crate) drops: Counter,
    pub(crate) overwritten: Counter,
    pub(crate) queue: Gauge,
    errors: Family<Code, Counter>,
}

impl Default for StatusMetrics {
    fn default() -> Self {
        Self {
            patches: Counter::default(),
            timeouts: Counter::default(),
            seconds: Histogram::new([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0]),
            enqueues: Counter::default(),
            dequeues: Counter::default(),
            drops: Counter::default(),
            overwritten: Counter::default(),
            queue: Gauge::default(),
            errors: Family::default(),
        }
    }
}

impl StatusMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let mut counter = |metric: Metric, counter: &Counter| {
            registry.register(metric.name, metric.help, counter.clone());
        };
        counter(names::STATUS_PATCHES, &self.patches);
        counter(names::STATUS_TIMEOUTS, &self.timeouts);
        counter(names::STATUS_ENQUEUES, &self.enqueues);
        counter(names::STATUS_DEQUEUES, &self.dequeues);
        counter(names::STATUS_DROPS, &self.drops);
        counter(names::STATUS_OVERWRITTEN, &self.overwritten);
        let duration = names::STATUS_DURATION;
        let seconds = self.seconds.clone();
        registry.register(duration.name, duration.help, seconds);
        registry.register(names::STATUS_QUEUE.name, names::STATUS_QUEUE.help, self.queue.clone());
        let errors = names::STATUS_API_ERRORS;
        registry.register(errors.name, errors.help, self.errors.clone());
    }

    pub(crate) fn refused(&self, code: u16) {
        self.errors.get_or_create(&Code { code }).inc();
    }

    /// How many statuses have been written.
    pub fn written(&self) -> u64 {
        self.patches.get()
    }
}

/// Handles on the metrics of events; clones share them.
#[derive(Clone, Debug, Default)]
pub struct EventMetrics {
    pub(crate) created: Counter,
    pub(crate) dropped: Counter,
}

impl EventMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let (created, dropped) = (names::EVENTS_CREATED, names::EVENTS_DROPPED);
        registry.register(created.name, created.help, self.created.clone());
        registry.register(dropped.name, dropped.help, self.dropped.clone());
    }
}
