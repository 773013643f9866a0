//! The canonical form of paths in configuration, and prefixes in it.

use crate::quote::quote;
use policy_core::{PathPattern, match_form};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Longest path (Gateway API HTTPPathMatch).
const MAX_PATH: usize = 1024;

/// A path prefix in match form: `/`, or `/a/b` without a slash at its end. It stands for whole
/// segments: `/a` contains `/a/b`, not `/ab`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathPrefix(Arc<str>);

impl PathPrefix {
    /// Reads a prefix. A text with another form than the one in which paths are matched is refused,
    /// not repaired: its author would not see what is matched. Hex digits are written in upper case,
    /// and a slash at the end is left out. The reason follows the quoted text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = in_match_form(text)?;
        let trimmed = path.strip_suffix('/').unwrap_or(&path);
        Ok(Self(if trimmed.is_empty() { "/" } else { trimmed }.into()))
    }

    /// The prefix of these segments, each in match form.
    pub(crate) fn of_segments<'a>(segments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut path = String::new();
        for segment in segments {
            path.push('/');
            path.push_str(segment);
        }
        Self(if path.is_empty() { "/".into() } else { path.into() })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if `other` is the same path or below it, by whole segments.
    pub fn contains(&self, other: &Self) -> bool {
        let rest = other.0.strip_prefix(&*self.0);
        *self.0 == *"/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The segments; none for `/`.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// The path and each one above it, the longest first; `/` is the last.
    pub fn and_above(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(&*self.0), |path| above(path))
    }

    /// The pattern of the paths that it contains.
    pub fn pattern(&self) -> PathPattern {
        PathPattern::prefix(&self.0)
    }
}

impl Borrow<str> for PathPrefix {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path above; `None` for `/`.
fn above(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (above, _) => Some(above),
    }
}

/// The first character of a canonical path that its match form spells in another way, as it is
/// written and as it is matched.
fn other_form(path: &str) -> Option<(String, String)> {
    let mut rest = path.chars();
    while let Some(first) = rest.next() {
        let mut written = String::from(first);
        if first == '%' {
            written.extend(rest.by_ref().take(2));
        }
        let form = match_form(&written);
        if *form != *written {
            let form = form.into_owned();
            return Some((written, form));
        }
    }
    None
}

/// Checks a path that must be written in the form in which paths are matched. The reason follows the
/// quoted text.
pub(crate) fn in_match_form(text: &str) -> Result<String, String> {
    let path = canonical(text)?;
    match other_form(&path) {
        Some((written, form)) => {
            Err(format!("has `{written}`, which paths are matched with as `{form}`"))
        }
        None => Ok(path),
    }
}

/// Checks a path. The reason follows the quoted text.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    let Some(relative) = text.strip_prefix('/') else {
        return Err("must begin with `/`".to_owned());
    };
    if text.len() > MAX_PATH {
        return Err(format!("is longer than {MAX_PATH} bytes"));
    }
    let path = characters(text)?;
    let mut segments = relative.split('/').peekable();
    while let Some(segment) = segments.next() {
        if segment.is_empty() && segments.peek().is_some() {
            return Err("has an empty segment: requests with `//` are refused".to_owned());
        }
        if matches!(segment, "." | "..") {
            return Err(format!("has the segment `{segment}`: such requests are refused"));
        }
    }
    Ok(path)
}

fn characters(text: &str) -> Result<String, String> {
    let mut path = String::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let decoded = hex(bytes.next()).zip(hex(bytes.next()));
                let (high, low) = decoded.ok_or("has `%` without two hex digits after it")?;
                let octet = high.saturating_mul(16).saturating_add(low);
                encoded(octet)?;
                path.push_str(&format!("%{octet:02X}"));
            }
            b'?' | b'#' => {
                let rule = "paths are matched without query and fragment";
                return Err(format!("contains `{}`: {rule}", char::from(byte)));
            }
            b';' => return Err("contains `;`: requests with path parameters are refused".into()),
            b'\\' => return Err("contains `\\`: such requests are refused".into()),
            b' ' | b'"' | b'<' | b'>' | b'`' => {
                return Err(format!("contains {:?}, write it as `%{byte:02X}`", char::from(byte)));
            }
            0x80.. => return Err(non_ascii(text)),
            0..=0x1F | 0x7F => return Err("contains a control character".into()),
            _ => path.push(char::from(byte)),
        }
    }
    Ok(path)
}

/// Checks that an encoded octet can be part of a canonical path.
fn encoded(octet: u8) -> Result<(), String> {
    let c = char::from(octet);
    match octet {
        b'/' | b'\\' | b';' => {
            Err(format!("contains `{c}` encoded as `%{octet:02X}`: such requests are refused"))
        }
        0..=0x1F | 0x7F => Err("contains an encoded control character".to_owned()),
        b'-' | b'.' | b'_' | b'~' => Err(plainly(octet)),
        _ if octet.is_ascii_alphanumeric() => Err(plainly(octet)),
        _ => Ok(()),
    }
}

fn plainly(octet: u8) -> String {
    format!("encodes a character that needs no encoding, write `{}`", char::from(octet))
}

fn non_ascii(text: &str) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        if byte.is_ascii() {
            written.push(char::from(byte));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("has characters outside ASCII, write {}", quote(&written))
}

fn hex(byte: Option<u8>) -> Option<u8> {
    char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::canonical;
    use http::uri::PathAndQuery;
    use policy_core::canonical_path;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_accepted_is_the_canonical_path_of_a_request(
            text in "/([a-c./%;\\\\?# ~{}<|*é]|%[0-9a-fA-F]{2}){0,12}",
        ) {
            if let Ok(path) = canonical(&text) {
                let request: PathAndQuery = path.parse().unwrap();
                prop_assert_eq!(request.path(), path.as_str());
                prop_assert_eq!(canonical_path(&path).unwrap(), path.as_str());
            }
        }

        #[test]
        fn every_canonical_path_of_a_request_is_accepted(
            text in "/([a-c./%;\\\\~{}|*:@!]|%[0-9a-fA-F]{2}){0,12}",
        ) {
            let Ok(request) = text.parse::<PathAndQuery>() else { return Ok(()) };
            if let Ok(path) = canonical_path(request.path()) {
                prop_assert_eq!(canonical(&path), Ok(path.clone().into_owned()));
            }
        }
    }
}
