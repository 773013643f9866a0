//! Values of plain scalars: YAML 1.1 as `kubectl` reads it.

use serde_json::{Number, Value};

/// The value of an unquoted scalar.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    let starts_like_a_number =
        text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    if !starts_like_a_number {
        return Value::String(text.to_owned());
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    if let Some(integer) = integer(text) {
        return Some(integer);
    }
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    if !is_float(&plain) {
        return None;
    }
    // JSON has no way to write infinity or NaN; such a text stays text.
    let float: f64 = plain.parse().ok()?;
    // The cluster stores `8.0` as `8`.
    #[allow(clippy::cast_possible_truncation, reason = "checked to be a whole number in range")]
    if float.fract() == 0.0 && float.abs() < 9.0e15 {
        return Some(Number::from(float as i64));
    }
    Number::from_f64(float)
}

/// `12`, `-3`, `0x1f`, `0b11`, `0o17`, `017` and the same with `_`.
fn integer(text: &str) -> Option<Number> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(hex) = lower.strip_prefix("0x") {
        (16, hex)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        (8, octal)
    } else if let Some(binary) = lower.strip_prefix("0b") {
        (2, binary)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, lower.as_str())
    } else {
        (10, lower.as_str())
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let signed = format!("{sign}{digits}");
    match i64::from_str_radix(&signed, radix) {
        Ok(value) => Some(value.into()),
        Err(_) => u64::from_str_radix(&signed, radix).ok().map(Number::from),
    }
}

/// `1.5`, `.5`, `1e3`.
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_is_good = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    digits(whole)
        && digits(fraction)
        && (!whole.is_empty() || !fraction.is_empty())
        && exponent_is_good
}
