//! Values of plain scalars: YAML 1.1 as `kubectl` reads it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};
use std::ops::RangeInclusive;

/// The value of a scalar with a tag, as `kubectl` reads it: `core` is the name of a type of YAML. A tag of
/// another kind (`!Ref`) says nothing, and the scalar is its text. `None` if the text is none of the type.
pub(super) fn tagged(text: &str, core: Option<&str>) -> Option<Value> {
    let of_plain = |is: fn(&Value) -> bool| Some(plain(text)).filter(is);
    match core {
        Some("int") => of_plain(|value| value.is_i64() || value.is_u64()),
        Some("float") => of_plain(Value::is_number),
        Some("bool") => of_plain(Value::is_boolean),
        Some("null") => of_plain(Value::is_null),
        Some("binary") => binary(text).map(Value::String),
        Some("timestamp") => is_date(text).then(|| Value::String(text.to_owned())),
        Some(_) | None => Some(Value::String(text.to_owned())),
    }
}

/// The text that base64 stands for. Bytes that are no text would be stored changed.
fn binary(text: &str) -> Option<String> {
    let written: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    String::from_utf8(STANDARD.decode(written).ok()?).ok()
}

/// True for `2001-12-14`, alone or before a time (<https://yaml.org/type/timestamp.html>).
fn is_date(text: &str) -> bool {
    let end = text.find(['T', 't', ' ', '\t']).unwrap_or(text.len());
    let (date, time) = text.split_at_checked(end).unwrap_or((text, ""));
    let mut parts = date.split('-');
    let mut is_part = |lengths: RangeInclusive<usize>| {
        parts.next().is_some_and(|it| lengths.contains(&it.len()) && is_digits(it))
    };
    let is_whole = is_part(4..=4) && is_part(1..=2) && is_part(1..=2) && parts.next().is_none();
    is_whole && (time.is_empty() || is_time(time.trim_start_matches(['T', 't', ' ', '\t'])))
}

/// True for `21:59:43.10 -05:00`, with or without a fraction and a zone.
fn is_time(text: &str) -> bool {
    let end = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at_checked(end).unwrap_or((text, ""));
    let (time, fraction) = time.trim_end().split_once('.').unwrap_or((time.trim_end(), ""));
    let is_short = |text: &str| (1..=2).contains(&text.len()) && is_digits(text);
    let parts: Vec<&str> = time.split(':').collect();
    let offset = zone.strip_prefix(['+', '-']);
    let is_zone = matches!(zone, "" | "Z")
        || offset.is_some_and(|offset| {
            offset.split(':').count() <= 2 && offset.split(':').all(is_short)
        });
    parts.len() == 3 && parts.into_iter().all(is_short) && is_digits(fraction) && is_zone
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

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
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_is_good = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && is_digits(e)
    });
    is_digits(whole)
        && is_digits(fraction)
        && (!whole.is_empty() || !fraction.is_empty())
        && exponent_is_good
}
