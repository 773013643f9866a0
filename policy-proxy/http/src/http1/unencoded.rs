//! Targets with characters that RFC 3986 has percent-encoded and that some clients send as they are.
//!
//! `http` holds none of them, so the head of such a request has a URI in which they are
//! percent-encoded. The target as it was received is in the bytes of the head.

use http::Uri;
use std::fmt::Write as _;

/// A mark in the extensions of a head: characters of its URI were received without percent-encoding,
/// and are forwarded so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnencodedTarget {
    /// The first of them in the path: `<`, `>` or a grave accent. Those in the query (`<`, `>` and `"`)
    /// have the meaning of their percent-encoding, and no policy depends on the spelling.
    pub in_path: Option<u8>,
}

impl UnencodedTarget {
    /// Reads a target that `http` rejects; `None` if it has another fault.
    #[cold]
    pub(super) fn read(target: &str) -> Option<(Uri, Self)> {
        let (mut encoded, mut in_path, mut in_query) = (String::new(), None, false);
        for character in target.chars() {
            match (character, in_query) {
                ('<' | '>' | '`', false) => {
                    in_path = in_path.or(u8::try_from(character).ok());
                    write!(encoded, "%{:02X}", u32::from(character)).ok()?;
                }
                ('<' | '>' | '"', true) => write!(encoded, "%{:02X}", u32::from(character)).ok()?,
                (_, _) => {
                    in_query |= character == '?';
                    encoded.push(character);
                }
            }
        }
        Some((Uri::try_from(encoded).ok()?, Self { in_path }))
    }

    /// Appends the target in origin form: the query as it is in the received head `text`, and the path
    /// if that has any of the characters. Any other path may have been made canonical since.
    #[cold]
    pub(super) fn write(self, uri: &Uri, text: &[u8], out: &mut Vec<u8>) {
        let target = received(text);
        let (path, query) = match target.iter().position(|byte| *byte == b'?') {
            Some(at) => target.split_at_checked(at).unwrap_or_default(),
            None => (target, &b""[..]),
        };
        match self.in_path {
            Some(_) => out.extend_from_slice(without_authority(path)),
            None => out.extend_from_slice(uri.path().as_bytes()),
        }
        out.extend_from_slice(query);
    }
}

/// The target of a received head, behind empty lines.
fn received(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b' ').nth(1).unwrap_or_default()
}

/// The path of a target in origin or absolute form.
fn without_authority(target: &[u8]) -> &[u8] {
    let scheme = target.windows(3).position(|part| part == b"://").filter(|at| *at > 0);
    let behind = match scheme {
        Some(at) if !target.starts_with(b"/") => target.get(at.saturating_add(3)..),
        Some(_) | None => return target,
    };
    let behind = behind.unwrap_or_default();
    let path = behind.iter().position(|byte| *byte == b'/');
    path.and_then(|at| behind.get(at..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, encoded: &str, in_path: Option<u8>, forwarded: &str) {
        let (uri, mark) = UnencodedTarget::read(target).unwrap();
        assert_eq!((uri.to_string(), mark.in_path), (encoded.to_owned(), in_path), "{target}");
        let (mut out, text) = (Vec::new(), format!("\r\nGET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        mark.write(&uri, text.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), forwarded, "{target}");
    }

    #[test]
    fn a_target_is_judged_percent_encoded_and_forwarded_as_it_was_received() {
        check("/a<b>`?c", "/a%3Cb%3E%60?c", Some(b'<'), "/a<b>`?c");
        check("/`?<`\">", "/%60?%3C`%22%3E", Some(b'`'), "/`?<`\">");
        check("/a?q=\"b\"?<c>", "/a?q=%22b%22?%3Cc%3E", None, "/a?q=\"b\"?<c>");
        check("http://a:1/b>://c?d", "http://a:1/b%3E://c?d", Some(b'>'), "/b>://c?d");
        check("http://a?q=<", "http://a/?q=%3C", None, "/?q=<");
        check("/://<", "/://%3C", Some(b'<'), "/://<");
    }

    #[test]
    fn a_target_with_another_fault_is_none() {
        for target in ["/a<\u{1}", "a<", "/<?\u{7f}", "http://a<b/", "<", ""] {
            assert_eq!(UnencodedTarget::read(target), None, "{target:?}");
        }
    }
}
