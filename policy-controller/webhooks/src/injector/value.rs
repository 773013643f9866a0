//! Parsers for the values of settings, with their errors.

use std::ops::RangeInclusive;

/// A value, and what states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    /// The field or flag.
    pub(super) field: String,
    /// The value, normalized.
    pub(super) value: String,
    /// True if it is a default of the installation.
    pub(super) is_default: bool,
}

pub(super) fn expected(text: &str, what: &str) -> String {
    let shown: String = text.chars().take(64).collect();
    format!("`{shown}` is not allowed; expected {what}")
}

pub(super) fn one_of(text: &str, known: &[&str]) -> Result<String, String> {
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
    Err(expected(text, &format!("one of {}", known.join(", "))))
}

/// Parses an image by its characters; whether it exists is left to the kubelet.
pub(super) fn image(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte);
    let sound =
        text.bytes().all(allowed) && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let tagged = text.rsplit('/').next().is_some_and(|name| name.contains(':'));
    if !sound || text.len() > 255 {
        return Err(expected(text, "an image such as `ghcr.io/portcullis/proxy`"));
    }
    if tagged {
        return Err(expected(text, "an image without its version, which proxy-version states"));
    }
    Ok(text.to_owned())
}

/// Parses an image tag.
pub(super) fn version(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    match text.len() <= 128 && begins && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(expected(text, "the tag of an image")),
    }
}

/// Parses a duration as the proxy does: a whole number with a unit.
pub(super) fn duration(text: &str) -> Result<String, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number = number.parse::<u32>();
    match number {
        Ok(_) if ["ms", "s", "m", "h", "d"].contains(&unit) => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(expected(text, "a whole number with ms, s, m, h or d")),
    }
}

/// Parses a duration above zero.
pub(super) fn positive(text: &str) -> Result<String, String> {
    let nothing = text.bytes().take_while(u8::is_ascii_digit).all(|digit| digit == b'0');
    match duration(text) {
        Ok(_) if nothing => Err(expected(text, "a whole number above 0 with ms, s, m, h or d")),
        read => read,
    }
}

/// Parses a whole number in a range.
pub(super) fn number(text: &str, range: RangeInclusive<u32>) -> Result<String, String> {
    match text.parse::<u32>() {
        Ok(number) if range.contains(&number) => Ok(number.to_string()),
        Ok(_) | Err(_) => {
            let (from, to) = range.into_inner();
            Err(expected(text, &format!("a number from {from} to {to}")))
        }
    }
}

/// Parses `enabled` or `disabled`.
pub(super) fn switch(text: &str) -> Result<String, String> {
    match text {
        "enabled" => Ok("true".to_owned()),
        "disabled" => Ok("false".to_owned()),
        text => Err(expected(text, "`enabled` or `disabled`")),
    }
}
