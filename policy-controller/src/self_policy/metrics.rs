//! Metrics of the policy of the controller's own ports.

use policy_core::Denied;
use policy_enforce::record::Verdict;
use policy_enforce::{Record, Recorder};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::num::NonZeroU16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    port: u16,
    reason: &'static str,
}

policy_core::metrics! {
    /// Handles on the metrics of the controller's own ports; clones share them.
    #[derive(Clone, Debug)]
    pub struct SelfPolicyMetrics {
        refused: Family<RefusedLabels, Counter> = "policy_guard_refused",
            "Connections and requests refused on the controller's own ports, by port and reason";
        follows: Gauge = "policy_guard_follows",
            "1 if the controller's own ports follow the cluster's Servers, 0 if the local policy applies";
    }
}

impl SelfPolicyMetrics {
    pub(super) fn refused(&self, port: NonZeroU16, reason: Denied) {
        let labels = RefusedLabels { port: port.get(), reason: reason.as_str() };
        self.refused.get_or_create(&labels).inc();
    }

    pub(super) fn follows(&self, follows: bool) {
        self.follows.set(follows.into());
    }

    /// True if the cluster's Servers are followed.
    #[cfg(test)]
    pub(super) fn is_following(&self) -> bool {
        self.follows.get() == 1
    }
}

impl Recorder for SelfPolicyMetrics {
    fn record(&self, record: &Record<'_>) {
        match record.verdict {
            Verdict::Allowed => {}
            Verdict::Denied(reason) => self.refused(record.port, reason),
        }
    }
}
