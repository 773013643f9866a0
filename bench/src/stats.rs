//! Medians, spreads and slopes of few values.

use serde::{Deserialize, Serialize};

/// The middle of several values, the least and the greatest of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl Spread {
    /// Of the values, in any order; nothing where there are none or one is no number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.iter().any(|value| value.is_nan()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let upper = sorted.get(sorted.len() / 2)?;
        let lower = sorted.get((sorted.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(*lower, *upper), low, high })
    }

    /// Distance between the values, as a share of the middle one.
    pub fn width(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / self.median }
    }
}

/// Ratios of values that were taken in the same rounds, one ratio per round: what disturbs a whole
/// round cancels. Rounds that either lacks are left out.
pub fn ratio(of: &[f64], to: &[f64]) -> Option<Spread> {
    let pairs = of.iter().zip(to).filter(|(_, to)| **to != 0.0);
    Spread::of(pairs.map(|(of, to)| of / to))
}

/// The value that a share (0 to 1) of the values is not above, by the nearest rank.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = number(sorted.len().checked_sub(1)?);
    let wanted = (last * share.clamp(0.0, 1.0)).round();
    // Both ends are within the values by construction.
    let found = sorted.iter().enumerate().find(|(at, _)| number(*at) >= wanted);
    found.map(|(_, value)| *value)
}

/// Slope of `y` per unit of `x`, by least squares; none for fewer than two different `x`.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = number(points.len());
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (along > 0.0).then(|| across / along)
}

/// The order in which `parts` are measured in each of `rounds`: forwards and backwards in turn, so
/// that none is always the first, and what drifts meets all alike.
pub fn interleaved(rounds: usize, parts: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rounds).flat_map(move |round| {
        (0..parts).map(move |at| (round, if round % 2 == 0 { at } else { parts - 1 - at }))
    })
}

/// A count as a number to reckon with. Counts of a measurement are far below what this keeps exact.
pub fn number(count: usize) -> f64 {
    wide(u64::try_from(count).unwrap_or(u64::MAX))
}

/// The same of 64 bits.
pub fn wide(count: u64) -> f64 {
    let half = |value: u64| f64::from(u32::try_from(value & 0xffff_ffff).unwrap_or(u32::MAX));
    half(count >> 32).mul_add(4_294_967_296.0, half(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_values_in_any_order() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!(spread, Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]);
        assert_eq!(spread, Some(Spread { median: 2.5, low: 1.0, high: 4.0 }));
        assert_eq!(spread.map(|spread| spread.width()), Some(1.2));
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([1.0, f64::NAN]), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let spread = ratio(&[2.0, 30.0, 4.0], &[1.0, 10.0, 4.0]);
        assert_eq!(spread, Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 0.5), Some(3.0));
        assert_eq!(quantile(&values, 1.0), Some(5.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_slope_is_what_grows_per_unit() {
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some(2.0));
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 0.0), (2.0, 1.0)]), Some(0.0));
        assert_eq!(slope(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(slope(&[]), None);
    }

    #[test]
    fn rounds_run_to_and_fro() {
        let order: Vec<_> = interleaved(2, 3).collect();
        assert_eq!(order, [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]);
    }

    #[test]
    fn counts_stay_what_they_are() {
        assert_eq!(number(12_345), 12_345.0);
        assert_eq!(wide((1 << 40) + 1), 1_099_511_627_777.0);
    }
}
