//! Metrics that outlive a policy: the counts of replaced policies, and the known clients.

use super::counters::Counters;
use super::families::{IdleSeries, Totals};
use super::names;
use foldhash::HashMap;
use parking_lot::Mutex;
use policy_tls::metric::Labels;
use policy_tls::metric::Metric;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct CumulativeState {
    pub(super) cumulative: Mutex<Cumulative>,
    pub(super) clients: Mutex<ClientNames>,
    /// Time that a series is shown after its last change.
    pub(super) retain_idle: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Cumulative {
    live: Vec<Arc<Counters>>,
    retired: Totals,
    retired_overflow: u64,
    idle: IdleSeries,
}

#[derive(Debug, Default)]
pub(super) struct ClientNames {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u8>,
}

/// Maximum number of series of replaced policies.
pub(super) const MAX_RETIRED: usize = 16_384;
/// Maximum length of an identity that is a label.
const MAX_CLIENT_LEN: usize = 512;

impl Cumulative {
    pub(super) fn register(&mut self, counters: Arc<Counters>, clients: &[Arc<str>]) {
        self.retire(clients);
        self.live.push(counters);
    }

    /// Counts an event without a policy.
    pub(super) fn count_without_policy(&mut self, metric: Metric, labels: Labels) {
        self.retired.count(metric, labels, 1);
    }

    /// Adds up and drops the counters that only this list references.
    fn retire(&mut self, clients: &[Arc<str>]) {
        let (ended, live) = std::mem::take(&mut self.live)
            .into_iter()
            .partition::<Vec<_>, _>(|counters| Arc::strong_count(counters) == 1);
        self.live = live;
        for counters in ended {
            counters.total(&mut self.retired, clients);
            self.retired_overflow = self.retired_overflow.saturating_add(counters.overflow());
        }
        if self.retired.len() > MAX_RETIRED {
            // A series that a living policy continues must not restart.
            self.retired.retain_those_of(&self.live_totals(clients));
        }
    }

    fn live_totals(&self, clients: &[Arc<str>]) -> Totals {
        let mut live_totals = Totals::default();
        self.live.iter().for_each(|counters| counters.total(&mut live_totals, clients));
        live_totals
    }

    /// Returns the sums of all policies, and the number of uncounted events.
    pub(super) fn totals(
        &mut self,
        clients: &[Arc<str>],
        retain: Duration,
        now: Instant,
    ) -> (Totals, u64) {
        self.retire(clients);
        let live_totals = self.live_totals(clients);
        let mut totals = self.retired.clone();
        totals.merge(&live_totals);
        self.idle.remove_idle(&mut totals, retain, now);
        // Drops series that are neither shown nor continued.
        let mut kept = totals.clone();
        kept.merge(&live_totals);
        self.retired.retain_those_of(&kept);
        let live = self.live.iter().map(|counters| counters.overflow());
        (totals, live.fold(self.retired_overflow, u64::saturating_add))
    }
}

impl ClientNames {
    /// Returns the name of a number.
    pub(super) fn name(&self, number: u8) -> Option<Arc<str>> {
        self.names.get(usize::from(number).checked_sub(1)?).cloned()
    }

    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.names.clone()
    }

    /// Returns the number of a client, assigned on first use; 0 if none is left.
    pub(super) fn number(&mut self, name: &str) -> u8 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let next = u8::try_from(self.names.len().saturating_add(1)).unwrap_or(0);
        if next == 0 || name.len() > MAX_CLIENT_LEN {
            return 0;
        }
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, next);
        next
    }
}

/// Collector of the policies' counters.
#[derive(Debug)]
pub(super) struct PolicyCollector(pub(super) Arc<CumulativeState>);

impl Collector for PolicyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let shared = &self.0;
        let clients = shared.clients.lock().names();
        let (totals, overflow) =
            shared.cumulative.lock().totals(&clients, shared.retain_idle, Instant::now());
        totals.encode(&mut encoder)?;
        let Metric { name, help, .. } = names::UNCOUNTED;
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&overflow, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(name: &str, count: u64) -> Totals {
        let mut labels = Labels::default();
        labels.push("client_id", name);
        let mut totals = Totals::default();
        totals.count(names::HTTP_ALLOW, labels, count);
        totals
    }

    #[test]
    fn a_series_that_stopped_changing_is_left_out_and_comes_back_where_it_was() {
        let (start, bound) = (Instant::now(), Duration::from_secs(600));
        let at = |seconds| start.checked_add(Duration::from_secs(seconds)).unwrap();
        let mut idle = IdleSeries::default();
        let mut shown = |count, now| {
            let mut totals = totals("web", count);
            idle.remove_idle(&mut totals, bound, now);
            totals.len() == 1
        };
        assert!(shown(5, start));
        assert!(shown(5, at(599)));
        assert!(!shown(5, at(600)));
        assert!(!shown(5, at(10_000)));
        assert!(shown(6, at(10_001)), "it goes on");
        assert!(shown(6, at(10_600)));
        assert!(!shown(6, at(10_601)));
    }

    #[test]
    fn what_a_replaced_policy_counted_is_forgotten_once_it_is_idle() {
        let mut cumulative = Cumulative { retired: totals("gone", 3), ..Cumulative::default() };
        let (start, bound) = (Instant::now(), Duration::from_secs(600));
        let later = start.checked_add(bound).unwrap();
        assert_eq!(cumulative.totals(&[], bound, start).0.len(), 1);
        assert_eq!(cumulative.totals(&[], bound, later).0.len(), 0);
        assert_eq!(cumulative.retired.len(), 0);
    }
}
