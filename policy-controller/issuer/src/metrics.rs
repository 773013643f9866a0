//! Metrics of the issuer.

use super::ca_secret::RotationPhase;
use super::publish_result::PublishResult;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::time::{Duration, SystemTime};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

policy_core::metrics! {
    /// Handles on the issuer's metrics; clones share them.
    #[derive(Clone, Debug)]
    pub struct IssuerMetrics {
        issued: Counter = "issuer_certificates", "Certificates issued to workloads";
        refused: Family<ReasonLabel, Counter> = "issuer_refused",
            "Certificate requests that were refused, by reason";
        seconds: Histogram = "issuer_certify_seconds",
            "Duration of certificate requests, TokenReview included"
            => Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]);
        connections: Family<ReasonLabel, Counter> = "issuer_connections_refused",
            "Connections to the issuer's port that were refused, by reason";
        expiry: Gauge = "issuer_authority_expiry_timestamp_seconds",
            "Expiry of the authority that certificates are issued from, in seconds of Unix time";
        state: Family<StateLabel, Gauge> = "issuer_rotation",
            "1 for the state that the rotation of the authority is in: steady, staged or overlap";
        roots: Gauge = "issuer_roots", "Roots that are published";
        namespaces: Family<StateLabel, Gauge> = "issuer_roots_namespaces",
            "Namespaces with the current roots published, with them pending, changing (they had them and another client keeps them from being restored), and left behind by repeated refusals";
        restored: Counter = "issuer_roots_restored",
            "ConfigMaps of roots that differed and were overwritten, after a rotation or a change by another client";
        failures: Family<ReasonLabel, Counter> = "issuer_failures",
            "Failed reconciliations of the authority, its roots and the serving certificate, by reason";
    }
}

impl IssuerMetrics {
    /// Counts an issued certificate.
    pub(super) fn issued(&self, took: Duration) {
        self.issued.inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts a refused request.
    pub(super) fn refused(&self, reason: &'static str, took: Duration) {
        self.refused.get_or_create(&ReasonLabel { reason }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts a refused connection.
    pub(super) fn connection_refused(&self, reason: &'static str) {
        self.connections.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Sets the expiry of the authority in use and the number of published roots.
    pub(super) fn authority(&self, ends: SystemTime, roots: usize) {
        let since = ends.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.expiry.set(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        self.roots.set(i64::try_from(roots).unwrap_or(i64::MAX));
    }

    /// Sets the phase of the rotation.
    pub(super) fn state(&self, state: RotationPhase) {
        for one in RotationPhase::ALL {
            let gauge = self.state.get_or_create(&StateLabel { state: one.as_str() });
            gauge.set(i64::from(one == state));
        }
    }

    /// Sets the numbers of namespaces with and without the current roots, and counts overwritten
    /// ConfigMaps.
    pub(super) fn published(&self, published: &PublishResult) {
        for (state, count) in [
            ("published", published.namespaces.len()),
            ("pending", published.pending.len()),
            ("changing", published.changing.len()),
            ("left_behind", published.left_behind.len()),
        ] {
            let gauge = self.namespaces.get_or_create(&StateLabel { state });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let restored = published.restored.len();
        self.restored.inc_by(u64::try_from(restored).unwrap_or(u64::MAX));
    }

    /// Counts a failed reconciliation.
    pub(super) fn failed(&self, reason: &'static str) {
        self.failures.get_or_create(&ReasonLabel { reason }).inc();
    }
}
