//! Metrics of the guard.

use crate::metric_names;
use crate::metric_names::Metric;
use policy_core::Denied;
use policy_enforce::record::Verdict;
use policy_enforce::{Record, Recorder};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::num::NonZeroU16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    port: u16,
    reason: &'static str,
}

/// Handles on the guard's metrics; clones share them.
#[derive(Clone, Debug, Default)]
pub struct GuardMetrics {
    refused: Family<Refused, Counter>,
    follows: Gauge,
}

impl GuardMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let Metric { name, help } = metric_names::GUARD_REFUSED;
        registry.register(name, help, self.refused.clone());
        let Metric { name, help } = metric_names::GUARD_FOLLOWS;
        registry.register(name, help, self.follows.clone());
    }

    pub(super) fn refused(&self, port: NonZeroU16, reason: Denied) {
        let labels = Refused { port: port.get(), reason: reason.as_str() };
        self.refused.get_or_create(&labels).inc();
    }

    pub(super) fn follows(&self, follows: bool) {
        self.follows.set(follows.into());
    }

    /// Whether the cluster's Servers are followed.
    #[cfg(test)]
    pub(super) fn is_following(&self) -> bool {
        self.follows.get() == 1
    }
}

impl Recorder for GuardMetrics {
    fn record(&self, record: &Record<'_>) {
        match record.verdict {
            Verdict::Allowed => {}
            Verdict::Denied(reason) => self.refused(record.port, reason),
        }
    }
}
