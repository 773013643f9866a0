//! Kubernetes resource quantities: `100m`, `64Mi`, `1.5`, `1e3`.

/// The error of computing in binary fractions.
const ROUNDING: f64 = 1e-9;

/// True if a string is a non-negative quantity.
pub(super) fn is_quantity(text: &str) -> bool {
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let some = !(whole.is_empty() && fraction.is_empty());
    let exponent = |text: &str| {
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let known = match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" => true,
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => true,
        suffix => suffix.strip_prefix(['e', 'E']).is_some_and(exponent),
    };
    some && known && text.len() <= 32
}

/// True if a quantity is above another. False if one of them is none.
pub(super) fn exceeds(text: &str, bound: &str) -> bool {
    match (value(text), value(bound)) {
        (Some(value), Some(bound)) => is_more(value, bound),
        _ => false,
    }
}

/// True if a quantity is more than `times` another. False if one of them is none.
pub(super) fn exceeds_ratio(text: &str, base: &str, times: &str) -> bool {
    match (value(text), value(base), value(times)) {
        (Some(value), Some(base), Some(times)) => is_more(value, base * times),
        _ => false,
    }
}

/// True if an amount is above another.
pub(super) fn is_more(amount: f64, bound: f64) -> bool {
    amount > bound * (1.0 + ROUNDING)
}

/// An amount of a resource as people write it: `110m` of cpu, `80Mi` of memory.
pub(super) fn shown(resource: &str, amount: f64) -> String {
    let (unit, suffix) = match resource {
        "cpu" => (1e-3, "m"),
        _ => (1024_f64.powi(2), "Mi"),
    };
    let number = format!("{:.3}", amount / unit);
    format!("{}{suffix}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// The amount of a quantity; `None` if it is none.
pub(super) fn value(text: &str) -> Option<f64> {
    if !is_quantity(text) {
        return None;
    }
    if let Ok(value) = text.parse::<f64>() {
        return Some(value);
    }
    let at = text.find(|it: char| it.is_ascii_alphabetic())?;
    let (number, suffix) = text.split_at_checked(at)?;
    let number: f64 = number.parse().ok()?;
    let binary = |power: i32| 1024_f64.powi(power);
    let factor = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::{exceeds, is_quantity};

    #[test]
    fn quantities_are_compared_by_their_values() {
        for (more, less) in
            [("1", "999m"), ("1Gi", "1G"), ("2e3", "1k"), ("1.5", "1"), ("1E", "1P")]
        {
            assert!(exceeds(more, less) && !exceeds(less, more), "{more} {less}");
        }
        for (one, other) in [("0.1", "100m"), ("1024Mi", "1Gi"), ("1e3", "1k"), ("x", "1")] {
            assert!(!exceeds(one, other) && !exceeds(other, one), "{one} {other}");
        }
    }

    #[test]
    fn quantities_are_numbers_with_a_known_suffix() {
        for text in ["0", "100m", "64Mi", "1.5", ".5", "1.", "1e3", "12E-2", "2Gi", "+3k", "1E"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", ".", "m", "-1", "64MB", "64mi", "1 Gi", "1e", "1e100", "٣", "0x1", "1.2.3"]
        {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
