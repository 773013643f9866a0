//! Metrics of the rollout of objects.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::time::Duration;

policy_core::metrics! {
    /// Handles on the metrics of counting; clones share them.
    #[derive(Clone, Debug)]
    pub struct RolloutMetrics {
        seconds: Histogram = "policy_programmed_seconds",
            "Time from publishing a change to the acknowledgement of the last proxy concerned"
            => Histogram::new([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]);
        not_programmed: Gauge = "policy_objects_not_programmed",
            "Objects not in force on every proxy concerned, while this replica counts";
        known: Gauge = "policy_replicas_known", "Other replicas, while this replica counts";
        answering: Gauge = "policy_replicas_answering",
            "Other replicas that report what their clients have in force, while this replica counts";
    }
}

impl RolloutMetrics {
    pub(super) fn observe_rollout(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    pub(super) fn not_programmed(&self, objects: usize) {
        self.not_programmed.set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    pub(super) fn replicas(&self, known: usize, answering: usize) {
        self.known.set(i64::try_from(known).unwrap_or(i64::MAX));
        self.answering.set(i64::try_from(answering).unwrap_or(i64::MAX));
    }
}
