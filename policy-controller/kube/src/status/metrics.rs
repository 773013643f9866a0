//! Metrics of the status writer and of events, with Linkerd's names where it has them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Code {
    code: u16,
}

policy_core::metrics! {
    /// Handles on the metrics of the status writer; clones share them.
    #[derive(Clone, Debug)]
    pub struct StatusMetrics {
        pub(crate) patches: Counter = "resource_status_patches", "Statuses written";
        pub(crate) timeouts: Counter = "resource_status_patch_timeouts",
            "Attempts to write a status that were not answered in time";
        pub(crate) seconds: Histogram = "resource_status_patch_duration_seconds",
            "Time that one object took, reading included"
            => Histogram::new([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0]);
        pub(crate) enqueues: Counter = "resource_status_patch_enqueues",
            "Objects put into the queue because their status differs or may differ";
        pub(crate) dequeues: Counter = "resource_status_patch_dequeues",
            "Objects taken from the queue";
        pub(crate) drops: Counter = "resource_status_patch_drops",
            "Objects taken from the queue of which nothing was written: gone, or as they should be";
        pub(crate) overwritten: Counter = "resource_status_overwritten",
            "Statuses that this controller wrote and found changed by another client when it listed them";
        pub(crate) queue: Gauge = "resource_status_queue_depth",
            "Objects whose status is to be written, retries included";
        pub(crate) too_large: Counter = "resource_status_too_large",
            "Attempts to write a status that the API server refused because the object would be too large";
        errors: Family<Code, Counter> = "resource_status_patch_api_errors",
            "Attempts to write a status that the API server refused, by status code (0: no answer)";
    }
}

impl StatusMetrics {
    pub(crate) fn refused(&self, code: u16) {
        self.errors.get_or_create(&Code { code }).inc();
    }

    /// Number of statuses that have been written.
    pub fn written(&self) -> u64 {
        self.patches.get()
    }
}

policy_core::metrics! {
    /// Handles on the metrics of events; clones share them.
    #[derive(Clone, Debug)]
    pub struct EventMetrics {
        pub(crate) created: Counter = "resource_events_created", "Kubernetes Events created";
        pub(crate) dropped: Counter = "resource_events_dropped",
            "Kubernetes Events that were not created because there were too many or creating failed";
    }
}
