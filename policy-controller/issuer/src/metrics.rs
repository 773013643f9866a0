//! What the issuer counts.

use super::held::State;
use super::metric_names as names;
use policy_engine::metric_names as declared;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use std::time::{Duration, SystemTime};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: &'static str,
}

/// Handles on the issuer's metrics; clones share them.
#[derive(Clone, Debug)]
pub struct IssuerMetrics {
    issued: Counter,
    refused: Family<Reason, Counter>,
    seconds: Histogram,
    connections: Family<Reason, Counter>,
    expiry: Gauge,
    state: Family<InState, Gauge>,
    roots: Gauge,
    namespaces: Family<InState, Gauge>,
    restored: Counter,
    failures: Family<Reason, Counter>,
}

impl Default for IssuerMetrics {
    fn default() -> Self {
        Self {
            issued: Counter::default(),
            refused: Family::default(),
            seconds: Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]),
            connections: Family::default(),
            expiry: Gauge::default(),
            state: Family::default(),
            roots: Gauge::default(),
            namespaces: Family::default(),
            restored: Counter::default(),
            failures: Family::default(),
        }
    }
}

impl IssuerMetrics {
    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let mut add = |metric: &declared::Metric,
                       family: &dyn Fn(&mut Registry, &declared::Metric)| {
            family(registry, metric);
        };
        fn one<M: Metric + Clone>(family: &M) -> impl Fn(&mut Registry, &declared::Metric) + '_ {
            |registry, metric| registry.register(metric.name, metric.help, family.clone())
        }
        add(&names::ISSUER_CERTIFICATES, &one(&self.issued));
        add(&names::ISSUER_REFUSED, &one(&self.refused));
        add(&names::ISSUER_SECONDS, &one(&self.seconds));
        add(&names::ISSUER_CONNECTIONS_REFUSED, &one(&self.connections));
        add(&names::ISSUER_AUTHORITY_EXPIRY, &one(&self.expiry));
        add(&names::ISSUER_ROTATION, &one(&self.state));
        add(&names::ISSUER_ROOTS, &one(&self.roots));
        add(&names::ISSUER_NAMESPACES, &one(&self.namespaces));
        add(&names::ISSUER_ROOTS_RESTORED, &one(&self.restored));
        add(&names::ISSUER_FAILURES, &one(&self.failures));
    }

    /// A certificate was issued.
    pub(super) fn issued(&self, took: Duration) {
        self.issued.inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// A request was refused.
    pub(super) fn refused(&self, reason: &'static str, took: Duration) {
        self.refused.get_or_create(&Reason { reason }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// A connection was refused.
    pub(super) fn connection_refused(&self, reason: &'static str) {
        self.connections.get_or_create(&Reason { reason }).inc();
    }

    /// The authority in use ends then, and so many roots are published.
    pub(super) fn authority(&self, ends: SystemTime, roots: usize) {
        let since = ends.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.expiry.set(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        self.roots.set(i64::try_from(roots).unwrap_or(i64::MAX));
    }

    /// The rotation is in this state.
    pub(super) fn state(&self, state: State) {
        for one in State::ALL {
            let gauge = self.state.get_or_create(&InState { state: one.as_str() });
            gauge.set(i64::from(one == state));
        }
    }

    /// So many namespaces have the roots, so many have not, and so many were set right.
    pub(super) fn published(&self, done: usize, pending: usize, restored: usize) {
        for (state, count) in [("published", done), ("pending", pending)] {
            let gauge = self.namespaces.get_or_create(&InState { state });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.restored.inc_by(u64::try_from(restored).unwrap_or(u64::MAX));
    }

    /// Something that has to be kept could not be.
    pub(super) fn failed(&self, reason: &'static str) {
        self.failures.get_or_create(&Reason { reason }).inc();
    }
}
