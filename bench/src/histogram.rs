//! Counts of durations, exact to less than one percent over the whole range.

use std::time::Duration;

/// Bits of a value below its highest that are kept: 128 steps per doubling.
const KEPT: u32 = 7;

/// Steps per doubling.
const STEPS: usize = 1 << KEPT;

/// Durations counted in nanoseconds, up to a few hours. As large whatever is counted.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    greatest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; STEPS * 40], total: 0, greatest: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let last = self.counts.len() - 1;
        if let Some(count) = self.counts.get_mut(slot(nanos).min(last)) {
            *count += 1;
        }
        self.total += 1;
        self.greatest = self.greatest.max(nanos);
    }

    /// Counts everything that another one has counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Number of counted values.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest.
    pub fn greatest(&self) -> Duration {
        Duration::from_nanos(self.greatest)
    }

    /// Duration that a share (0 to 1) of the values does not exceed, rounded up to its step; none
    /// without values.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = crate::stats::wide(self.total) * share;
        let mut seen = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && crate::stats::wide(seen) >= wanted {
                return Some(Duration::from_nanos(upper(slot).min(self.greatest)));
            }
        }
        None
    }
}

/// Slot of a value: itself while it is small, then 128 steps per doubling.
fn slot(value: u64) -> usize {
    let bits = 64 - value.leading_zeros();
    let shift = bits.saturating_sub(KEPT + 1);
    let step = usize::try_from(value >> shift).unwrap_or(usize::MAX);
    usize::try_from(shift).unwrap_or(0) * STEPS + step
}

/// The greatest value that is counted there.
fn upper(slot: usize) -> u64 {
    let shift = (slot / STEPS).saturating_sub(1);
    let step = u64::try_from(slot - shift * STEPS).unwrap_or(u64::MAX);
    ((step + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_step_less_than_a_percent_wide() {
        let mut value = 1_u64;
        while value < 1 << 44 {
            for near in [value - 1, value, value + 1, value + value / 3] {
                let top = upper(slot(near));
                assert!(top >= near, "{near} is counted at {top}");
                assert!(top - near <= near / 100 + 1, "{near} is counted at {top}");
            }
            value *= 2;
        }
    }

    #[test]
    fn steps_follow_each_other_without_a_gap() {
        for value in 1..100_000 {
            let (before, at) = (slot(value - 1), slot(value));
            assert!(at == before || at == before + 1, "{value}");
        }
    }

    #[test]
    fn quantiles_of_a_thousand_values() {
        let mut histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let near = |share: f64, micros: f64| {
            let found = histogram.quantile(share).unwrap().as_secs_f64() * 1e6;
            assert!((found - micros).abs() <= micros / 100.0, "{share}: {found}, not {micros}");
        };
        near(0.5, 500.0);
        near(0.99, 990.0);
        near(0.999, 999.0);
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_micros(1000)));
        assert_eq!(histogram.greatest(), Duration::from_micros(1000));
    }

    #[test]
    fn two_are_added_up_and_none_has_no_quantile() {
        let mut sum = Histogram::default();
        assert_eq!(sum.quantile(0.5), None);
        let mut other = Histogram::default();
        other.record(Duration::from_nanos(5));
        sum.add(&other);
        sum.add(&other);
        assert_eq!((sum.total(), sum.quantile(0.5)), (2, Some(Duration::from_nanos(5))));
    }

    #[test]
    fn what_is_too_long_is_counted_at_the_end() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::MAX);
        assert_eq!(histogram.total(), 1);
        assert!(histogram.quantile(0.5).is_some());
    }
}
