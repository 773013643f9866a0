//! Formatting and parsing of times: RFC 3339, and the digits of certificates. Always UTC.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Formats with milliseconds: `1970-01-01T00:00:00.000Z`. Times before 1970 are formatted as its
/// beginning, times after the year 9999 as its end.
pub fn rfc3339(at: SystemTime) -> String {
    format!("{:.3}Z", to_datetime(at))
}

/// Formats without fractions: `1970-01-01T00:00:00Z`.
pub fn rfc3339_seconds(at: SystemTime) -> String {
    format!("{:.0}Z", to_datetime(at))
}

/// Formats without separators: `19700101000000Z`.
pub(crate) fn compact(at: SystemTime) -> String {
    let at = to_datetime(at);
    let (year, month, day) = (at.year(), at.month(), at.day());
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z")
}

/// Returns the time of a date, if it exists. Dates before 1970 count as its beginning; a leap
/// second as the next second.
pub(crate) fn from_parts(
    year: i16,
    [month, day, hour, minute, second]: [i8; 5],
) -> Option<SystemTime> {
    let leap = u64::from(second == 60);
    let second = if second == 60 { 59 } else { second };
    let at = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    // Not a timestamp of the library, because these end a day before the year 9999 does, which
    // stands for no end at all (RFC 5280 section 4.1.2.5).
    let since = Duration::try_from(at.duration_since(EPOCH)).unwrap_or_default();
    UNIX_EPOCH.checked_add(since)?.checked_add(Duration::from_secs(leap))
}

fn to_datetime(at: SystemTime) -> DateTime {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = SignedDuration::try_from(since).ok();
    since.and_then(|since| EPOCH.checked_add(since).ok()).unwrap_or(DateTime::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::arithmetic_side_effects,
        clippy::string_slice,
        reason = "test times are small"
    )]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(rfc3339(UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        let last_of_a_leap_year = UNIX_EPOCH + Duration::from_secs(1_735_689_599);
        assert_eq!(rfc3339(last_of_a_leap_year), "2024-12-31T23:59:59.000Z");
        assert_eq!(rfc3339_seconds(last_of_a_leap_year), "2024-12-31T23:59:59Z");
        let leap_day = UNIX_EPOCH + Duration::from_millis(951_782_400_250);
        assert_eq!(rfc3339(leap_day), "2000-02-29T00:00:00.250Z");
        let nearly = UNIX_EPOCH + Duration::from_nanos(1_999_999_999);
        assert_eq!(rfc3339(nearly), "1970-01-01T00:00:01.999Z", "nothing is rounded up");
        assert_eq!(rfc3339_seconds(nearly), "1970-01-01T00:00:01Z");
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn there_is_no_instant_for_what_is_no_date() {
        let date = |year, month, day| from_parts(year, [month, day, 0, 0, 0]).is_some();
        assert_eq!(from_parts(1949, [12, 31, 0, 0, 0]), Some(UNIX_EPOCH));
        let next_day = UNIX_EPOCH + Duration::from_secs(1_483_228_800);
        assert_eq!(from_parts(2016, [12, 31, 23, 59, 60]), Some(next_day), "a leap second");
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
        assert_eq!(rfc3339_seconds(latest), "9999-12-31T23:59:59Z");
    }

    proptest! {
        #[test]
        fn every_second_is_found_again(seconds in 0_u64..253_402_300_800) {
            let at = UNIX_EPOCH + Duration::from_secs(seconds);
            let text = compact(at);
            let year = text[..4].parse().unwrap();
            let rest = [4, 6, 8, 10, 12].map(|from| text[from..from + 2].parse().unwrap());
            prop_assert_eq!(from_parts(year, rest), Some(at));
        }

        #[test]
        fn no_numbers_panic(year: i16, rest: [i8; 5]) {
            from_parts(year, rest);
        }
    }
}
