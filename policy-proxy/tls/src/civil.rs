//! Times of day and calendar, both ways, in UTC (proleptic Gregorian calendar).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A date and a time of day, as far as they are written out: `1970-01-01T00:00:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: u64,
    pub(crate) month: u64,
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) second: u64,
}

/// With milliseconds: `1970-01-01T00:00:00.000Z`. What lies before 1970 is shown as its beginning.
pub fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = since.subsec_millis();
    format!("{}.{millis:03}Z", of(since.as_secs()))
}

/// To the second: `1970-01-01T00:00:00Z`.
pub fn shown(at: SystemTime) -> String {
    format!("{}Z", of(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()))
}

/// The instant, if there is such a date. What lies before 1970 counts as its beginning; a leap second
/// as the next.
pub(crate) fn instant(civil: Civil) -> Option<SystemTime> {
    let Civil { year, month, day, hour, minute, second } = civil;
    if year > 9999 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let before = months(year).into_iter().take(usize::try_from(month.checked_sub(1)?).ok()?);
    let length = *months(year).get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    if day == 0 || day > length {
        return None;
    }
    if year < 1970 {
        return Some(UNIX_EPOCH);
    }
    let years: u64 = (1970..year).map(|year| months(year).iter().sum::<u64>()).sum();
    let days = years.checked_add(before.sum())?.checked_add(day.checked_sub(1)?)?;
    let seconds = hour.checked_mul(3600)?.checked_add(minute.checked_mul(60)?)?;
    let seconds = days.checked_mul(86_400)?.checked_add(seconds)?.checked_add(second)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// What lies after the year 9999 is shown as its end: somebody else may have said the number, and
/// years are counted one by one.
fn of(seconds: u64) -> Civil {
    let seconds = seconds.min(LAST);
    let (mut day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let mut year = 1970;
    while let Some(rest) = day.checked_sub(months(year).iter().sum()) {
        (day, year) = (rest, year.saturating_add(1));
    }
    let mut month = 1;
    for length in months(year) {
        let Some(rest) = day.checked_sub(length) else { break };
        (day, month) = (rest, u64::saturating_add(month, 1));
    }
    Civil {
        year,
        month,
        day: day.saturating_add(1),
        hour: second.div_euclid(3600),
        minute: second.rem_euclid(3600).div_euclid(60),
        second: second.rem_euclid(60),
    }
}

/// 9999-12-31T23:59:59, in seconds since 1970.
const LAST: u64 = 253_402_300_799;

/// The days of each month.
fn months(year: u64) -> [u64; 12] {
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

impl std::fmt::Display for Civil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(rfc3339(UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        let last_of_a_leap_year = UNIX_EPOCH + Duration::from_secs(1_735_689_599);
        assert_eq!(rfc3339(last_of_a_leap_year), "2024-12-31T23:59:59.000Z");
        assert_eq!(shown(last_of_a_leap_year), "2024-12-31T23:59:59Z");
        let leap_day = UNIX_EPOCH + Duration::from_millis(951_782_400_250);
        assert_eq!(rfc3339(leap_day), "2000-02-29T00:00:00.250Z");
    }

    #[test]
    fn there_is_no_instant_for_what_is_no_date() {
        let date = |year, month, day| {
            instant(Civil { year, month, day, hour: 0, minute: 0, second: 0 }).is_some()
        };
        assert!(date(2024, 2, 29) && date(1949, 12, 31) && date(9999, 12, 31));
        for (year, month, day) in [
            (2023, 2, 29),
            (2024, 0, 1),
            (2024, 13, 1),
            (2024, 1, 0),
            (2024, 4, 31),
            (10_000, 1, 1),
        ] {
            assert!(!date(year, month, day), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn a_time_beyond_all_dates_is_shown_at_once() {
        let latest = UNIX_EPOCH + Duration::from_secs(i64::MAX.unsigned_abs());
        assert_eq!(shown(latest), "9999-12-31T23:59:59Z");
    }

    proptest! {
        #[test]
        fn every_second_is_found_again(seconds in 0_u64..253_402_300_800) {
            prop_assert_eq!(instant(of(seconds)), Some(UNIX_EPOCH + Duration::from_secs(seconds)));
        }

        #[test]
        fn no_numbers_panic(
            year: u64, month: u64, day: u64, hour: u64, minute: u64, second: u64,
        ) {
            instant(Civil { year, month, day, hour, minute, second });
        }
    }
}
