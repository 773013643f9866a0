//! Metrics of leader election.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

policy_core::metrics! {
    /// Handles on the metrics of the Lease; clones share them.
    #[derive(Clone, Debug)]
    pub struct LeaseMetrics {
        leader: Gauge = "lease_leader", "1 while this replica leads, else 0";
        errors: Counter = "lease_api_errors",
            "Attempts to read or write the Lease that failed or were not answered in time";
    }
}

impl LeaseMetrics {
    pub(super) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub(super) fn failed(&self) {
        self.errors.inc();
    }
}
