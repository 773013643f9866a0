//! Durations as other projects write them.

/// A duration of Go (`10s`, `1m30s`, `1.5s`) as the Gateway API writes it, in whole milliseconds.
/// `None`: it is none, or it is below a millisecond or above the hour that a TimeoutPolicy takes.
pub(crate) fn of_go(text: &str) -> Option<String> {
    let mut rest = text.trim();
    let mut total: u128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits)?;
        let length = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(length)?;
        let nanoseconds = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "µs" | "μs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        total = total.checked_add(part(number, nanoseconds)?)?;
        rest = after;
    }
    let milliseconds = total.checked_div(1_000_000).filter(|it| (1..=3_600_000).contains(it))?;
    Some(match (milliseconds.checked_div(1000)?, milliseconds.checked_rem(1000)?) {
        (seconds, 0) => format!("{seconds}s"),
        (0, rest) => format!("{rest}ms"),
        (seconds, rest) => format!("{seconds}s{rest}ms"),
    })
}

/// A number with decimals of a unit, in nanoseconds.
fn part(number: &str, unit: u128) -> Option<u128> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && decimals.is_empty()) || decimals.len() > 9 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let scale = 10_u128.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let fraction = digits(decimals)?.checked_mul(unit)?.checked_div(scale)?;
    digits(whole)?.checked_mul(unit)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_of_go_is_one_of_the_gateway_api() {
        let cases = [
            ("10s", Some("10s")),
            ("300ms", Some("300ms")),
            ("1.5s", Some("1s500ms")),
            ("1m30s", Some("90s")),
            ("1h", Some("3600s")),
            ("1h0.001s", None),
            (".5s", Some("500ms")),
            ("1500us", Some("1ms")),
            ("10us", None),
            ("0s", None),
            ("-1s", None),
            ("10", None),
            ("1d", None),
            ("s", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(of_go(text).as_deref(), expected, "{text}");
        }
    }
}
