//! Paths in configuration. A path that no canonical request can have is rejected instead of
//! repaired, because a repaired path would match something else than its author wrote.

use crate::reader::{JsonNode, quote};

/// Longest path (Gateway API HTTPPathMatch).
const MAX_PATH: usize = 1024;

/// A path in the canonical form of requests: begins with `/`, percent-encoding only where needed,
/// hex digits in upper case.
pub(crate) fn path(node: &JsonNode<'_>) -> Option<String> {
    let text = node.text()?;
    match canonical(text) {
        Ok(path) => Some(path),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
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
