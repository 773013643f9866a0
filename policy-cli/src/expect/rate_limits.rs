//! The buckets of rate limits, for decisions without a sidecar.

use super::workload_port::WorkloadPort;
use policy_core::{Connection, Identity, ServerPolicy, Tls};
use policy_enforce::limiter::Limiter;
use std::collections::BTreeMap;
use std::time::Instant;

/// The buckets of all ports. Time stands still, so that none is filled again.
pub(super) struct RateLimits {
    now: Instant,
    by_port: BTreeMap<WorkloadPort, Limiter>,
}

impl RateLimits {
    /// Creates full buckets.
    pub(super) fn new() -> Self {
        Self { now: Instant::now(), by_port: BTreeMap::new() }
    }

    /// Takes a token for one request to `port`; false if a limit refuses it.
    pub(super) fn take(
        &mut self,
        port: &WorkloadPort,
        policy: &ServerPolicy,
        connection: &Connection<'_>,
    ) -> bool {
        let limiter = self
            .by_port
            .entry(port.clone())
            .or_insert_with(|| Limiter::new(policy.rate_limit.as_ref()));
        let identity = match connection.tls {
            Tls::Terminated(identity) => identity.map(Identity::as_str),
            Tls::Absent | Tls::Passthrough => None,
        };
        limiter.take(&limiter.client(identity, self.now), self.now).is_ok()
    }
}
