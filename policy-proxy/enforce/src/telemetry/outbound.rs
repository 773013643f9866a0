//! Outbound connections by their destination, counted while they are open.
//!
//! Series are by Service or owner of a pod, never by address. All unknown destinations share one.

use super::names;
use foldhash::HashMap;
use parking_lot::Mutex;
use policy_tls::metric::{Labels, Metric};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A destination, as metrics name it. Empty for one that nobody is known to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutboundTarget {
    /// Namespace of the Service, or of the pod.
    pub namespace: Arc<str>,
    /// The Service; empty for a pod's address.
    pub service: Arc<str>,
    /// The Service's port; absent for a pod's address, whose port the application chooses.
    pub port: Option<NonZeroU16>,
    /// The owner of the pod that was chosen, such as `deployment/web`.
    pub owner: Arc<str>,
}

/// The carrier of a connection, as metrics name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OutboundTls {
    /// In mesh TLS, to this identity.
    Mesh(Arc<str>),
    /// In plaintext, for this reason, which is one of a closed set.
    Plaintext(&'static str),
}

/// An event that is counted without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum FailureKind {
    /// The connection was reset before its first byte.
    Refused,
    /// An attempt to reach an endpoint failed.
    Attempt,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct SeriesKey {
    target: OutboundTarget,
    tls: OutboundTls,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct FailureKey {
    kind: FailureKind,
    target: OutboundTarget,
    reason: &'static str,
}

/// The counts of one series.
#[derive(Debug)]
pub struct OutboundSeries {
    workers: Box<[WorkerCounts]>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct WorkerCounts {
    opened: AtomicU64,
    closed: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// The meter of one connection: counts it as opened when created, as closed when dropped.
#[derive(Debug)]
pub struct OutboundMeter {
    series: Arc<OutboundSeries>,
    worker: usize,
}

/// All series.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    series: Mutex<HashMap<SeriesKey, Aged<Arc<OutboundSeries>>>>,
    failures: Mutex<HashMap<FailureKey, Aged<u64>>>,
}

/// A value, and what scrapes saw of it.
#[derive(Debug)]
struct Aged<T> {
    value: T,
    /// The count, and the time since which it has not changed.
    seen: Option<(u64, Instant)>,
}

/// One counter of a shard.
type CountOf = fn(&WorkerCounts) -> &AtomicU64;

/// Label sets at most, of connections and of failures each. Further ones are counted together.
const MAX_SERIES: usize = 1000;
/// The Service of further ones.
const OTHER: &str = "other";

impl OutboundTarget {
    fn other() -> Self {
        Self { service: OTHER.into(), ..Self::default() }
    }

    fn labels(&self) -> Labels {
        let mut labels = Labels::default();
        labels.push("dst_namespace", &*self.namespace);
        labels.push("dst_service", &*self.service);
        labels.push("dst_port", self.port.map(|port| port.to_string()).unwrap_or_default());
        labels.push("dst_owner", &*self.owner);
        labels
    }
}

impl SeriesKey {
    fn labels(&self) -> Labels {
        let mut labels = self.target.labels();
        let (tls, identity, reason) = match &self.tls {
            OutboundTls::Mesh(identity) => ("true", &**identity, ""),
            OutboundTls::Plaintext(reason) => ("no_identity", "", *reason),
        };
        labels.push("tls", tls);
        labels.push("server_id", identity);
        labels.push("no_tls_reason", reason);
        labels
    }

    /// The series of those beyond the limit: encrypted and plaintext bytes stay apart.
    fn other(&self) -> Self {
        let tls = match &self.tls {
            OutboundTls::Mesh(_) => OutboundTls::Mesh("".into()),
            OutboundTls::Plaintext(reason) => OutboundTls::Plaintext(reason),
        };
        Self { target: OutboundTarget::other(), tls }
    }
}

impl OutboundSeries {
    fn new(workers: usize) -> Arc<Self> {
        let workers = (0..workers.max(1)).map(|_| WorkerCounts::default()).collect();
        Arc::new(Self { workers })
    }

    fn sum(&self, of: CountOf) -> u64 {
        let counts = self.workers.iter().map(|shard| of(shard).load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    /// A number that changes whenever anything is counted.
    fn checksum(&self) -> u64 {
        COUNTERS.into_iter().fold(0, |sum, of| sum.wrapping_add(self.sum(of)))
    }
}

/// All counters of a shard.
const COUNTERS: [CountOf; 4] =
    [|shard| &shard.opened, |shard| &shard.closed, |shard| &shard.sent, |shard| &shard.received];

impl OutboundMeter {
    /// Opens the meter of a connection.
    pub(super) fn open(series: Arc<OutboundSeries>, worker: usize) -> Self {
        let meter = Self { series, worker };
        meter.add(|shard| &shard.opened, 1);
        meter
    }

    /// Counts bytes sent to the destination, and received from it.
    pub fn passed(&self, sent: u64, received: u64) {
        if sent > 0 {
            self.add(|shard| &shard.sent, sent);
        }
        if received > 0 {
            self.add(|shard| &shard.received, received);
        }
    }

    fn add(&self, of: CountOf, count: u64) {
        let workers = &self.series.workers;
        let place = self.worker.checked_rem(workers.len()).unwrap_or(0);
        if let Some(shard) = workers.get(place) {
            of(shard).fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Drop for OutboundMeter {
    fn drop(&mut self) {
        self.add(|shard| &shard.closed, 1);
    }
}

impl Outbound {
    pub(super) fn series(
        &self,
        target: OutboundTarget,
        tls: OutboundTls,
        workers: usize,
    ) -> Arc<OutboundSeries> {
        let key = SeriesKey { target, tls };
        let mut series = self.series.lock();
        let full = series.len() >= MAX_SERIES && !series.contains_key(&key);
        let key = if full { key.other() } else { key };
        let fresh = || Aged { value: OutboundSeries::new(workers), seen: None };
        Arc::clone(&series.entry(key).or_insert_with(fresh).value)
    }

    pub(super) fn refused(&self, target: OutboundTarget, reason: &'static str) {
        self.count(FailureKey { kind: FailureKind::Refused, target, reason });
    }

    pub(super) fn failed(&self, target: OutboundTarget, reason: &'static str) {
        self.count(FailureKey { kind: FailureKind::Attempt, target, reason });
    }

    fn count(&self, key: FailureKey) {
        let mut failures = self.failures.lock();
        let full = failures.len() >= MAX_SERIES && !failures.contains_key(&key);
        let key = if full { FailureKey { target: OutboundTarget::other(), ..key } } else { key };
        let aged = failures.entry(key).or_insert(Aged { value: 0, seen: None });
        aged.value = aged.value.saturating_add(1);
    }

    /// Drops series without a connection that did not change in scrapes for `bound`.
    pub(super) fn forget_idle(&self, bound: Duration, now: Instant) {
        self.series.lock().retain(|_, aged| {
            let checksum = aged.value.checksum();
            aged.is_shown(checksum, bound, now) || Arc::strong_count(&aged.value) > 1
        });
        self.failures.lock().retain(|_, aged| aged.is_shown(aged.value, bound, now));
    }

    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let all: BTreeMap<SeriesKey, Arc<OutboundSeries>> = {
            let series = self.series.lock();
            series.iter().map(|(key, aged)| (key.clone(), Arc::clone(&aged.value))).collect()
        };
        let metrics = [
            names::OUTBOUND_OPENED,
            names::OUTBOUND_CLOSED,
            names::OUTBOUND_SENT,
            names::OUTBOUND_RECEIVED,
        ];
        for (Metric { name, help, .. }, of) in metrics.into_iter().zip(COUNTERS) {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (key, series) in &all {
                let labels = key.labels();
                let mut member = family.encode_family(&labels)?;
                member.encode_counter::<NoLabelSet, _, u64>(&series.sum(of), None)?;
            }
        }
        let failures: BTreeMap<FailureKey, u64> = {
            let failures = self.failures.lock();
            failures.iter().map(|(key, aged)| (key.clone(), aged.value)).collect()
        };
        let metrics = [
            (names::OUTBOUND_REFUSED, FailureKind::Refused),
            (names::OUTBOUND_FAILED, FailureKind::Attempt),
        ];
        for (Metric { name, help, .. }, kind) in metrics {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (key, count) in failures.iter().filter(|(key, _)| key.kind == kind) {
                let mut labels = key.target.labels();
                labels.push("reason", key.reason);
                let mut member = family.encode_family(&labels)?;
                member.encode_counter::<NoLabelSet, _, u64>(count, None)?;
            }
        }
        Ok(())
    }
}

impl<T> Aged<T> {
    /// Notes what a scrape sees, and returns false if that has not changed for `bound`.
    fn is_shown(&mut self, count: u64, bound: Duration, now: Instant) -> bool {
        match self.seen {
            Some((seen, since)) if seen == count => now.saturating_duration_since(since) < bound,
            Some(_) | None => {
                self.seen = Some((count, now));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "tests")]
    use super::*;
    use crate::telemetry::Telemetry;

    fn target(service: &str) -> OutboundTarget {
        OutboundTarget {
            namespace: "shop".into(),
            service: service.into(),
            port: NonZeroU16::new(80),
            owner: "deployment/web".into(),
        }
    }

    fn shown(telemetry: &Telemetry) -> Vec<String> {
        let text = telemetry.encode(&[]).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("outbound_"));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn connections_are_counted_by_destination_identity_and_reason() {
        let telemetry = Telemetry::new(2);
        let meter = telemetry.outbound(target("web"), OutboundTls::Mesh("web.id".into()), 1);
        meter.passed(3, 0);
        meter.passed(0, 5);
        drop(telemetry.outbound(target("web"), OutboundTls::Mesh("web.id".into()), 0));
        drop(telemetry.outbound(OutboundTarget::default(), OutboundTls::Plaintext("unknown"), 0));
        telemetry.outbound_refused(target("web"), "no_endpoint");
        telemetry.outbound_failed(target("web"), "connect");
        let web =
            r#"dst_namespace="shop",dst_service="web",dst_port="80",dst_owner="deployment/web""#;
        let mesh = format!(r#"{web},tls="true",server_id="web.id",no_tls_reason="""#);
        let none = r#"dst_namespace="",dst_service="",dst_port="",dst_owner="",tls="no_identity",server_id="",no_tls_reason="unknown""#;
        assert_eq!(
            shown(&telemetry),
            [
                format!("outbound_tcp_opened_total{{{none}}} 1"),
                format!("outbound_tcp_opened_total{{{mesh}}} 2"),
                format!("outbound_tcp_closed_total{{{none}}} 1"),
                format!("outbound_tcp_closed_total{{{mesh}}} 1"),
                format!("outbound_tcp_sent_bytes_total{{{none}}} 0"),
                format!("outbound_tcp_sent_bytes_total{{{mesh}}} 3"),
                format!("outbound_tcp_received_bytes_total{{{none}}} 0"),
                format!("outbound_tcp_received_bytes_total{{{mesh}}} 5"),
                format!(r#"outbound_tcp_refused_total{{{web},reason="no_endpoint"}} 1"#),
                format!(r#"outbound_tcp_attempts_failed_total{{{web},reason="connect"}} 1"#),
            ]
        );
    }

    #[test]
    fn destinations_beyond_the_bound_are_counted_together() {
        let telemetry = Telemetry::new(1);
        for number in 0..3000 {
            let service = format!("web-{number}");
            let tls = [OutboundTls::Mesh("id".into()), OutboundTls::Plaintext("unmeshed")];
            for tls in tls {
                drop(telemetry.outbound(target(&service), tls, 0));
            }
            telemetry.outbound_refused(target(&service), "connect");
        }
        let lines = shown(&telemetry);
        let of = |name: &str| lines.iter().filter(|line| line.starts_with(name)).count();
        assert_eq!(of("outbound_tcp_opened_total"), MAX_SERIES + 2);
        assert_eq!(of("outbound_tcp_refused_total"), MAX_SERIES + 1);
        let other = r#"dst_namespace="",dst_service="other",dst_port="",dst_owner="""#;
        let mesh = format!(r#"{{{other},tls="true",server_id="",no_tls_reason=""}} 2500"#);
        assert!(lines.contains(&format!("outbound_tcp_opened_total{mesh}")), "{lines:#?}");
        let refused = format!(r#"outbound_tcp_refused_total{{{other},reason="connect"}} 2000"#);
        assert!(lines.contains(&refused));
    }

    #[test]
    fn what_is_neither_open_nor_counted_is_forgotten() {
        let (outbound, start, bound) =
            (Outbound::default(), Instant::now(), Duration::from_secs(600));
        let plain = || OutboundTls::Plaintext("unmeshed");
        let meter = OutboundMeter::open(outbound.series(target("a"), plain(), 1), 0);
        drop(OutboundMeter::open(outbound.series(target("b"), plain(), 1), 0));
        outbound.refused(target("a"), "connect");
        let left = |after: u64| {
            outbound.forget_idle(bound, start + Duration::from_secs(after));
            (outbound.series.lock().len(), outbound.failures.lock().len())
        };
        assert_eq!(left(0), (2, 1));
        assert_eq!(left(599), (2, 1));
        assert_eq!(left(600), (1, 0));
        drop(meter);
        assert_eq!(left(6000), (1, 0), "just closed");
        assert_eq!(left(6600), (0, 0));
    }
}
