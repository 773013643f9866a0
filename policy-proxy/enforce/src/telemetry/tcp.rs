//! Connections by side, port, client and Server, counted while they are open.
//!
//! A connection looks up its series once. Each worker counts in its own cache line.

use super::key::{Caller, TlsClass};
use super::labels;
use super::names;
use foldhash::HashMap;
use parking_lot::Mutex;
use policy_core::{Owner, Protocol, ServerPolicy};
use policy_tls::metric::Labels;
use policy_tls::metric::Metric;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The two sides of a proxied connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Clients.
    Source,
    /// The application.
    Destination,
}

/// Key of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TcpKey {
    pub(super) side: Side,
    /// `None` for series beyond the limit.
    pub(super) port: Option<NonZeroU16>,
    pub(super) address: Arc<str>,
    pub(super) caller: Caller,
    pub(super) owner: Option<Owner>,
    /// True if TLS was not detected because the port is opaque.
    pub(super) skipped: bool,
}

/// The counts of one series.
#[derive(Debug)]
pub struct TcpSeries {
    workers: Box<[Shard]>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    opened: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    closed: [AtomicU64; ERRNOS.len()],
}

/// Meter of one connection: counts it as opened when created, as closed when dropped.
#[derive(Debug)]
pub struct Meter {
    series: Arc<TcpSeries>,
    worker: usize,
    /// Index into [`ERRNOS`] of the last error.
    errno: usize,
}

/// All series.
#[derive(Debug, Default)]
pub(super) struct Connections {
    entries: Mutex<HashMap<TcpKey, TcpEntry>>,
}

#[derive(Debug)]
struct TcpEntry {
    series: Arc<TcpSeries>,
    /// Checksum and time since when scrapes saw no change.
    idle: Option<(u64, Instant)>,
}

/// Causes of a connection's end, as Linux names them; the first means no error, the last any other.
const ERRNOS: [(&str, Option<io::ErrorKind>); 7] = [
    ("", None),
    ("ECONNRESET", Some(io::ErrorKind::ConnectionReset)),
    ("EPIPE", Some(io::ErrorKind::BrokenPipe)),
    ("ETIMEDOUT", Some(io::ErrorKind::TimedOut)),
    ("ECONNABORTED", Some(io::ErrorKind::ConnectionAborted)),
    ("ENOTCONN", Some(io::ErrorKind::NotConnected)),
    ("UNKNOWN", None),
];

/// Maximum number of series, including idle ones.
const MAX_SERIES: usize = 4096;

impl TcpKey {
    pub(super) fn of(
        side: Side,
        port: NonZeroU16,
        address: Arc<str>,
        caller: Caller,
        policy: Option<&ServerPolicy>,
    ) -> Self {
        let opaque = policy.is_some_and(|policy| policy.protocol == Protocol::Opaque);
        let (caller, skipped) = match side {
            Side::Source => (caller, opaque && caller.tls == TlsClass::Absent),
            // The application's side has no client to tell apart.
            Side::Destination => (Caller::NONE, false),
        };
        let owner = policy.map(|policy| policy.owner.clone());
        Self { side, port: Some(port), address, caller, owner, skipped }
    }

    fn labels(&self, clients: &[Arc<str>]) -> Labels {
        let mut labels = Labels::default();
        labels.push("direction", "inbound");
        labels.push("peer", if self.side == Side::Source { "src" } else { "dst" });
        labels::target_or_none(&mut labels, &self.address, self.port);
        labels::server_or_none(&mut labels, self.owner.as_ref(), self.port);
        match (self.side, self.skipped) {
            (Side::Destination, _) => {
                // The application is reached in plaintext, within the pod.
                labels.push("tls", "no_identity");
                labels.push("no_tls_reason", "loopback");
            }
            (Side::Source, true) => {
                labels::tls(&mut labels, self.caller, Protocol::Opaque, clients)
            }
            (Side::Source, false) => labels::tls(&mut labels, self.caller, Protocol::Tls, clients),
        }
        labels
    }
}

impl TcpSeries {
    fn new(workers: usize) -> Arc<Self> {
        let workers = (0..workers.max(1)).map(|_| Shard::default()).collect();
        Arc::new(Self { workers })
    }

    fn shard(&self, worker: usize) -> Option<&Shard> {
        self.workers.get(worker.checked_rem(self.workers.len()).unwrap_or(0))
    }

    fn sum(&self, of: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        let counts = self.workers.iter().map(|shard| of(shard).load(Ordering::Relaxed));
        counts.fold(0, u64::saturating_add)
    }

    fn closed(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        ERRNOS.iter().enumerate().map(|(at, (name, _))| {
            let count = |shard: &Shard| {
                shard.closed.get(at).map_or(0, |closed| closed.load(Ordering::Relaxed))
            };
            (*name, self.workers.iter().map(count).fold(0, u64::saturating_add))
        })
    }

    /// Returns a number that changes whenever anything is counted.
    fn checksum(&self) -> u64 {
        let closed = self.closed().fold(0, |sum, (_, count)| u64::wrapping_add(sum, count));
        let parts = [
            self.sum(|shard| &shard.opened),
            self.sum(|shard| &shard.read),
            self.sum(|shard| &shard.written),
        ];
        parts.into_iter().fold(closed, u64::wrapping_add)
    }
}

impl Meter {
    /// Opens the meter of a connection.
    pub fn open(series: &Arc<TcpSeries>, worker: usize) -> Self {
        let meter = Self { series: Arc::clone(series), worker, errno: 0 };
        meter.add(|shard| Some(&shard.opened), 1);
        meter
    }

    /// Counts bytes read.
    pub fn read(&self, bytes: usize) {
        self.add(|shard| Some(&shard.read), u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Counts bytes written.
    pub fn wrote(&self, bytes: usize) {
        self.add(|shard| Some(&shard.written), u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Records the error that ended the connection.
    pub fn failed(&mut self, error: &io::Error) {
        let entries = ERRNOS.iter().position(|(_, kind)| *kind == Some(error.kind()));
        self.errno = entries.unwrap_or(ERRNOS.len().saturating_sub(1));
    }

    fn add<'a>(&'a self, of: impl Fn(&'a Shard) -> Option<&'a AtomicU64>, count: u64) {
        if let Some(counter) = self.series.shard(self.worker).and_then(of) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.add(|shard| shard.closed.get(self.errno), 1);
    }
}

impl Connections {
    /// Returns the series of `key`, or the shared one beyond the limit.
    pub(super) fn series(&self, key: TcpKey, workers: usize) -> Arc<TcpSeries> {
        let mut entries = self.entries.lock();
        let full = entries.len() >= MAX_SERIES && !entries.contains_key(&key);
        let key = if full {
            let caller = Caller { client: 0, ..key.caller };
            TcpKey { port: None, address: "".into(), caller, owner: None, ..key }
        } else {
            key
        };
        let fresh = || TcpEntry { series: TcpSeries::new(workers), idle: None };
        Arc::clone(&entries.entry(key).or_insert_with(fresh).series)
    }

    /// Drops series that are unreferenced and unchanged in scrapes for `bound`.
    pub(super) fn forget_idle(&self, bound: Duration, now: Instant) {
        self.entries.lock().retain(|_, entries| {
            let checksum = entries.series.checksum();
            match entries.idle {
                Some((seen, since)) if seen == checksum => {
                    let idle = now.saturating_duration_since(since) >= bound;
                    Arc::strong_count(&entries.series) > 1 || !idle
                }
                Some(_) | None => {
                    entries.idle = Some((checksum, now));
                    true
                }
            }
        });
    }

    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        clients: &[Arc<str>],
    ) -> Result<(), std::fmt::Error> {
        let shown =
            |(key, entries): (&TcpKey, &TcpEntry)| (key.labels(clients), entries.series.clone());
        let mut all: Vec<(Labels, Arc<TcpSeries>)> =
            self.entries.lock().iter().map(shown).collect();
        all.sort_by(|(own, _), (other, _)| own.cmp(other));
        let counters: [(Metric, ShardCounter); 3] = [
            (names::TCP_OPEN, |shard| &shard.opened),
            (names::TCP_READ, |shard| &shard.read),
            (names::TCP_WRITE, |shard| &shard.written),
        ];
        for (Metric { name, help, .. }, of) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, series) in &all {
                let mut member = family.encode_family(labels)?;
                member.encode_counter::<NoLabelSet, _, u64>(&series.sum(of), None)?;
            }
        }
        let Metric { name, help, .. } = names::TCP_CLOSE;
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, series) in &all {
            for (errno, count) in series.closed().filter(|(name, n)| name.is_empty() || *n > 0) {
                let mut labels = labels.clone();
                labels.push("errno", errno);
                let mut member = family.encode_family(&labels)?;
                member.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        let Metric { name, help, .. } = names::TCP_OPEN_CONNECTIONS;
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, series) in &all {
            let closed = series.closed().fold(0_u64, |sum, (_, n)| sum.saturating_add(n));
            let open = series.sum(|shard| &shard.opened).saturating_sub(closed);
            let open = i64::try_from(open).unwrap_or(i64::MAX);
            family.encode_family(labels)?.encode_gauge(&open)?;
        }
        Ok(())
    }
}

impl Caller {
    /// The caller of counters that are not by client.
    pub const NONE: Self = Self { tls: TlsClass::Absent, client: 0 };
}

/// One counter of a shard.
type ShardCounter = fn(&Shard) -> &AtomicU64;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> TcpKey {
        let port = NonZeroU16::new(port).unwrap();
        TcpKey::of(Side::Source, port, "10.1.2.3".into(), Caller::NONE, None)
    }

    #[test]
    fn a_series_is_kept_while_it_is_used_or_changes_and_forgotten_when_idle() {
        let connections = Connections::default();
        let (start, bound) = (Instant::now(), Duration::from_secs(600));
        let at = |seconds| start.checked_add(Duration::from_secs(seconds)).unwrap();
        let entries = || connections.entries.lock().len();
        let meter = Meter::open(&connections.series(key(80), 1), 0);
        connections.forget_idle(bound, start);
        connections.forget_idle(bound, at(6_000));
        assert_eq!(entries(), 1, "in use");
        drop(meter);
        connections.forget_idle(bound, at(6_001));
        assert_eq!(entries(), 1, "just closed");
        connections.forget_idle(bound, at(6_600));
        assert_eq!(entries(), 1);
        connections.forget_idle(bound, at(6_601));
        assert_eq!(entries(), 0);
    }

    #[test]
    fn ports_beyond_the_bound_share_a_series_and_a_client_keeps_its_own() {
        let connections = Connections::default();
        let own = connections.series(key(80), 1);
        for port in 1..=u16::MAX {
            drop(Meter::open(&connections.series(key(port), 1), 0));
            drop(Meter::open(&connections.series(key(80), 1), 0));
        }
        assert_eq!(own.sum(|shard| &shard.opened), u64::from(u16::MAX) + 1);
        let entries = connections.entries.lock();
        assert_eq!(entries.len(), MAX_SERIES + 1);
        let opened = entries.values().map(|entries| entries.series.sum(|shard| &shard.opened));
        assert_eq!(opened.sum::<u64>(), 2 * u64::from(u16::MAX));
    }

    #[test]
    fn a_connection_closes_with_its_last_error() {
        let connections = Connections::default();
        let series = connections.series(key(80), 2);
        let mut meter = Meter::open(&series, 1);
        meter.read(3);
        meter.wrote(5);
        meter.failed(&io::ErrorKind::ConnectionReset.into());
        drop(meter);
        drop(Meter::open(&series, 0));
        let closed: Vec<_> = series.closed().filter(|(_, count)| *count > 0).collect();
        assert_eq!(closed, [("", 1), ("ECONNRESET", 1)]);
        assert_eq!(series.sum(|shard| &shard.read), 3);
        assert_eq!(series.sum(|shard| &shard.written), 5);
        assert_eq!(series.sum(|shard| &shard.opened), 2);
    }
}
