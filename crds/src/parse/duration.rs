//! Durations: Go's syntax in routes, the Gateway API's in policies, Linkerd's own in annotations.

use std::time::Duration;

/// Reads Go's syntax: `1h30m`, `1.5s`, `250ms`, `0`. Not negative, not empty.
pub(crate) fn go(text: &str) -> Result<Duration, &'static str> {
    const FORM: &str = "is not a duration such as `1.5s`, `250ms` or `1h30m`";
    let signless = text.strip_prefix('+').unwrap_or(text);
    if signless.starts_with('-') {
        return Err("must not be negative");
    }
    if signless == "0" {
        return Ok(Duration::ZERO);
    }
    if signless.is_empty() {
        return Err(FORM);
    }
    let mut rest = signless;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let digits_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(FORM)?;
        let (number, after) = rest.split_at_checked(digits_end).ok_or(FORM)?;
        let (unit, after) = unit(after).ok_or(FORM)?;
        total = total.saturating_add(nanoseconds(number, unit).ok_or(FORM)?);
        rest = after;
    }
    // Go's own limit: 63 bits of nanoseconds, 292 years.
    match u64::try_from(total).ok().filter(|n| i64::try_from(*n).is_ok()) {
        Some(nanoseconds) => Ok(Duration::from_nanos(nanoseconds)),
        None => Err("is too long"),
    }
}

/// Reads the Gateway API's syntax (GEP-2257): one to four whole numbers of up to five digits, each with
/// `h`, `m`, `s` or `ms`.
pub(crate) fn gateway(text: &str) -> Option<Duration> {
    const MAX_PARTS: usize = 4;
    const MAX_DIGITS: usize = 5;
    let mut total = Duration::ZERO;
    let mut rest = text;
    for _ in 0..MAX_PARTS {
        let digits_end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) =
            rest.split_at_checked(digits_end).filter(|_| digits_end <= MAX_DIGITS)?;
        let (milliseconds, after) = milliseconds(after)?;
        let part = number.parse::<u64>().ok()?.checked_mul(milliseconds)?;
        total = total.checked_add(Duration::from_millis(part))?;
        rest = after;
        if rest.is_empty() {
            return Some(total);
        }
    }
    None
}

/// The unit at the beginning of `text` in milliseconds, and what follows it.
fn milliseconds(text: &str) -> Option<(u64, &str)> {
    const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    UNITS.iter().find_map(|(name, size)| Some((*size, text.strip_prefix(name)?)))
}

/// Reads Linkerd's syntax for annotations: a whole number and `ms`, `s`, `m`, `h` or `d`, or `0`.
pub(crate) fn linkerd(text: &str) -> Result<Duration, &'static str> {
    const FORM: &str =
        "is not a duration such as `10s`: a whole number and `ms`, `s`, `m`, `h` or `d`";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).ok_or(FORM)?;
    let (number, unit) = text.split_at_checked(digits_end).ok_or(FORM)?;
    let number: u64 = number.parse().map_err(|_| FORM)?;
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(FORM),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or("is too long")
}

/// The unit at the beginning of `text` in nanoseconds, and what follows it.
fn unit(text: &str) -> Option<(u128, &str)> {
    const UNITS: [(&str, u128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    UNITS.iter().find_map(|(name, size)| Some((*size, text.strip_prefix(name)?)))
}

/// `number` units; digits beyond a nanosecond are cut off.
fn nanoseconds(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let fraction = fraction.get(..fraction.len().min(18))?;
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = digits(fraction)?.checked_mul(unit)?.checked_div(scale)?;
    digits(whole)?.checked_mul(unit)?.checked_add(part)
}
