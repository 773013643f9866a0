//! Lock-free histograms: counts of values per bucket, and their sum.

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts values by the first of `N` bounds that they do not exceed, and those above all bounds.
#[derive(Debug)]
pub(super) struct Buckets<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
    above: AtomicU64,
    sum: AtomicU64,
}

/// Snapshot of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    bounds: &'static [u64],
    /// One count per bound, and one above all.
    counts: Vec<u64>,
    sum: u64,
}

impl<const N: usize> Buckets<N> {
    pub(super) fn new(bounds: &'static [u64; N]) -> Self {
        let counts = [const { AtomicU64::new(0) }; N];
        Self { bounds, counts, above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts.get(at).unwrap_or(&self.above).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let counts = self.counts.iter().chain([&self.above]);
        Snapshot {
            bounds: self.bounds,
            counts: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

impl Snapshot {
    /// Adds another histogram of the same bounds.
    pub(super) fn add(&mut self, other: &Self) {
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            *own = own.saturating_add(*other);
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Encodes the histogram with values divided by `unit`.
    pub(super) fn encode(
        &self,
        encoder: &mut MetricEncoder<'_>,
        unit: f64,
    ) -> Result<(), std::fmt::Error> {
        let bounds = self.bounds.iter().map(|bound| scaled(*bound, unit)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.counts.iter().copied()).collect();
        let sum = scaled(self.sum, unit);
        encoder.encode_histogram::<NoLabelSet>(sum, self.count(), &buckets, None)
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown, not counted with")]
fn scaled(value: u64, unit: f64) -> f64 {
    value as f64 / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_under_the_first_bound_that_it_does_not_exceed() {
        let buckets = Buckets::new(&[10, 100]);
        for value in [0, 10, 11, 100, 101, 9_999] {
            buckets.observe(value);
        }
        let seen = buckets.snapshot();
        let expected = Snapshot { bounds: &[10, 100], counts: vec![2, 2, 2], sum: 10_221 };
        assert_eq!(seen, expected);
        assert_eq!(seen.count(), 6);
        let mut twice = seen.clone();
        twice.add(&seen);
        assert_eq!(twice, Snapshot { bounds: &[10, 100], counts: vec![4, 4, 4], sum: 20_442 });
    }
}
