//! What is told of the election.

use crate::metric_names::{LEASE_API_ERRORS, LEASE_LEADER};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Handles on the metrics of the Lease; clones share them.
#[derive(Clone, Debug, Default)]
pub struct LeaseMetrics {
    leader: Gauge,
    errors: Counter,
}

impl LeaseMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(LEASE_LEADER.name, LEASE_LEADER.help, self.leader.clone());
        registry.register(LEASE_API_ERRORS.name, LEASE_API_ERRORS.help, self.errors.clone());
    }

    pub(super) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub(super) fn failed(&self) {
        self.errors.inc();
    }
}
