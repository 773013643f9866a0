//! Metrics of the process's own identity.

use super::state::{CertificateState, FailureKind};
use crate::metric::{Labels, Metric};
use crate::names;
use crate::x509::validity;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use rustls::pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Metrics of the process's own identity; clones share them. Empty until an identity source has
/// started.
#[derive(Clone, Debug, Default)]
pub struct IdentityMetrics(Arc<Mutex<MetricValues>>);

#[derive(Clone, Debug, Default)]
struct MetricValues {
    started: bool,
    usable: bool,
    /// Seconds since 1970, as all times here.
    expires: Option<u64>,
    renewed: Option<u64>,
    renewals: u64,
    failures: BTreeMap<FailureKind, u64>,
    failed: Option<u64>,
    roots: u64,
    roots_expire: Option<u64>,
    roots_changed: u64,
}

impl IdentityMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    pub(crate) fn start(&self) {
        self.0.lock().started = true;
    }

    pub(crate) fn renewed(&self, at: SystemTime) {
        let mut values = self.0.lock();
        values.renewed = Some(seconds(at));
        values.renewals = values.renewals.saturating_add(1);
    }

    pub(crate) fn roots_changed(&self) {
        let mut values = self.0.lock();
        values.roots_changed = values.roots_changed.saturating_add(1);
    }

    pub(crate) fn in_force(&self, held: &CertificateState, roots: &[CertificateDer<'_>]) {
        let ends = roots.iter().filter_map(|root| validity(root)).map(|(_, end)| seconds(end));
        let mut values = self.0.lock();
        values.usable = held.rejection.is_none();
        values.expires = Some(seconds(held.not_after));
        values.roots = u64::try_from(roots.len()).unwrap_or(u64::MAX);
        values.roots_expire = ends.min();
    }

    pub(crate) fn usable(&self, usable: bool) {
        self.0.lock().usable = usable;
    }

    pub(crate) fn revoked(&self) {
        let mut values = self.0.lock();
        values.usable = false;
        values.expires = None;
    }

    pub(crate) fn failed(&self, kind: FailureKind, at: SystemTime) {
        let mut values = self.0.lock();
        values.failed = Some(seconds(at));
        let count = values.failures.entry(kind).or_default();
        *count = count.saturating_add(1);
    }
}

impl Collector for IdentityMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let values = self.0.lock().clone();
        if !values.started {
            return Ok(());
        }
        for (Metric { name, help, .. }, value) in values.gauges() {
            if let Some(value) = value {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                encoder
                    .encode_descriptor(name, help, None, MetricType::Gauge)?
                    .encode_gauge(&value)?;
            }
        }
        let failures: u64 = values.failures.values().sum();
        let results = [("ok", values.renewals), ("error", failures)];
        family(&mut encoder, names::CERT_REFRESHES, "result", &results)?;
        let by_reason: Vec<_> =
            values.failures.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        family(&mut encoder, names::IDENTITY_FAILURES, "reason", &by_reason)?;
        let Metric { name, help, .. } = names::ROOTS_CHANGES;
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&values.roots_changed, None)
    }
}

impl MetricValues {
    fn gauges(&self) -> [(Metric, Option<u64>); 6] {
        [
            (names::IDENTITY_USABLE, Some(u64::from(self.usable))),
            (names::CERT_EXPIRATION, self.expires),
            (names::CERT_REFRESH, self.renewed),
            (names::IDENTITY_FAILED, self.failed),
            (names::IDENTITY_ROOTS, Some(self.roots)),
            (names::ROOTS_EXPIRATION, self.roots_expire),
        ]
    }
}

/// Encodes a counter with one label.
fn family(
    encoder: &mut DescriptorEncoder<'_>,
    Metric { name, help, .. }: Metric,
    label: &'static str,
    counts: &[(&'static str, u64)],
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in counts {
        let mut labels = Labels::default();
        labels.push(label, *value);
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
    }
    Ok(())
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
