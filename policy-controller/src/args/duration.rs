//! Durations of the issuer's flags.

use super::issuer_error::IssuerArgsError;
use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// A whole number with `s`, `m`, `h` or `d`, within bounds.
pub(super) fn duration(
    flag: &'static str,
    value: &str,
    least: Duration,
    most: Duration,
) -> Result<Duration, IssuerArgsError> {
    let wrong = |allowed| IssuerArgsError::Duration { flag, value: value.to_owned(), allowed };
    let form = || wrong("a whole number with s, m, h or d (for example `24h`)");
    let text = value.trim();
    let unit = text.chars().last().ok_or_else(form)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(form()),
    };
    let number: u64 = text.trim_end_matches(unit).parse().map_err(|_| form())?;
    let duration = number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(form)?;
    if duration < least || duration > most {
        return Err(wrong(match flag {
            "issuance-lifetime" => "within 1m to 30d",
            "clock-skew" => "within 0s to 1h",
            "ca-lifetime" => "within 1h to 36500d",
            "root-settle" => "within 1s to 30d",
            _ => "within 1s to 1m",
        }));
    }
    Ok(duration)
}
