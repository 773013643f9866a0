//! Sums of the policies' counters by metric and labels, and their encoding.

use super::buckets::Snapshot;
use super::names;
use policy_tls::metric::Labels;
use policy_tls::metric::Metric;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Sum of one series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Of a counter.
    Count(u64),
    /// Of a histogram.
    Histogram(Snapshot),
}

/// Sums by name and labels.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(BTreeMap<(&'static str, Labels), Value>);

/// Metric type.
#[derive(Clone, Copy, Debug)]
enum MetricShape {
    Counter,
    /// A histogram; counted values are divided by this number.
    Histogram(f64),
}

const MILLISECONDS: MetricShape = MetricShape::Histogram(1e3);
const SECONDS: MetricShape = MetricShape::Histogram(1e6);
const BYTES: MetricShape = MetricShape::Histogram(1.0);

/// All metrics of the policies' counters.
const FAMILIES: [(Metric, MetricShape); 25] = [
    (names::HTTP_ALLOW, MetricShape::Counter),
    (names::HTTP_DENY, MetricShape::Counter),
    (names::ROUTE_NOT_FOUND, MetricShape::Counter),
    (names::RATE_LIMITED, MetricShape::Counter),
    (names::TCP_ALLOW, MetricShape::Counter),
    (names::TCP_DENY, MetricShape::Counter),
    (names::TCP_TERMINATE, MetricShape::Counter),
    (names::REQUESTS, MetricShape::Counter),
    (names::RESPONSES, MetricShape::Counter),
    (names::LATENCY, MILLISECONDS),
    (names::HTTP_REQUESTS, MetricShape::Counter),
    (names::GRPC_REQUESTS, MetricShape::Counter),
    (names::HTTP_STATUSES, MetricShape::Counter),
    (names::GRPC_STATUSES, MetricShape::Counter),
    (names::HTTP_REQUEST_SECONDS, SECONDS),
    (names::GRPC_REQUEST_SECONDS, SECONDS),
    (names::HTTP_RESPONSE_SECONDS, SECONDS),
    (names::GRPC_RESPONSE_SECONDS, SECONDS),
    (names::HTTP_REQUEST_FRAMES, BYTES),
    (names::GRPC_REQUEST_FRAMES, BYTES),
    (names::HTTP_RESPONSE_FRAMES, BYTES),
    (names::GRPC_RESPONSE_FRAMES, BYTES),
    (names::HTTP_ERRORS, MetricShape::Counter),
    (names::DETECTED, MetricShape::Counter),
    (names::DETECT_SECONDS, SECONDS),
];

impl Value {
    fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Count(own), Self::Count(other)) => *own = own.saturating_add(*other),
            (Self::Histogram(own), Self::Histogram(other)) => own.add(other),
            // One metric has one shape.
            (Self::Count(_), Self::Histogram(_)) | (Self::Histogram(_), Self::Count(_)) => {}
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Histogram(histogram) => histogram.count(),
        }
    }
}

impl Totals {
    pub(super) fn count(&mut self, metric: Metric, labels: Labels, count: u64) {
        self.add((metric.name, labels), &Value::Count(count));
    }

    pub(super) fn histogram(&mut self, metric: Metric, labels: Labels, histogram: Snapshot) {
        if histogram.count() > 0 {
            self.add((metric.name, labels), &Value::Histogram(histogram));
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (key, value) in &other.0 {
            self.add(key.clone(), value);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops the series that `other` does not have.
    pub(super) fn retain_those_of(&mut self, other: &Self) {
        self.0.retain(|key, _| other.0.contains_key(key));
    }

    fn add(&mut self, key: (&'static str, Labels), value: &Value) {
        match self.0.entry(key) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(value.clone());
            }
            std::collections::btree_map::Entry::Occupied(mut taken) => taken.get_mut().add(value),
        }
    }

    /// Encodes every family, including empty ones.
    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        for (Metric { name, help, .. }, shape) in FAMILIES {
            let kind = match shape {
                MetricShape::Counter => MetricType::Counter,
                MetricShape::Histogram(_) => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            let members = self.0.range((name, Labels::default())..);
            for ((_, labels), value) in members.take_while(|((of, _), _)| *of == name) {
                let mut member = family.encode_family(labels)?;
                match (value, shape) {
                    (Value::Count(count), _) => {
                        member.encode_counter::<NoLabelSet, _, u64>(count, None)?;
                    }
                    (Value::Histogram(histogram), MetricShape::Histogram(unit)) => {
                        histogram.encode(&mut member, unit)?;
                    }
                    (Value::Histogram(_), MetricShape::Counter) => {}
                }
            }
        }
        Ok(())
    }
}

/// The last change of each series, as scrapes see it.
#[derive(Debug, Default)]
pub(super) struct IdleSeries(HashMap<(&'static str, Labels), LastChange>);

#[derive(Debug)]
struct LastChange {
    count: u64,
    since: Instant,
}

impl IdleSeries {
    /// Removes series without a change for `bound` from `totals`. A series that changes again
    /// continues with its old count.
    pub(super) fn remove_idle(&mut self, totals: &mut Totals, bound: Duration, now: Instant) {
        self.0.retain(|key, _| totals.0.contains_key(key));
        totals.0.retain(|key, value| {
            let count = value.count();
            let Some(last) = self.0.get_mut(key) else {
                self.0.insert(key.clone(), LastChange { count, since: now });
                return true;
            };
            if last.count != count {
                *last = LastChange { count, since: now };
            }
            now.saturating_duration_since(last.since) < bound
        });
    }
}
