//! The one canonical form of a request target, made once before anything looks at it.
//!
//! What this returns is what is logged and forwarded; routes are matched on the match form that
//! [`crate::match_form`] makes of it. Percent-encoded unreserved bytes
//! are decoded and hexadecimal digits upper-cased (RFC 3986 section 6.2.2); what two parsers could
//! read differently is refused. A fragment never gets here: the sidecar refuses it in HTTP/1, else the
//! HTTP library cuts it off.

use crate::decision::TargetFault;
use crate::host::{Host, canonical_host};
use crate::path_handling::PathHandling;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri, Version};
use std::borrow::Cow;

/// A canonical request target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Lower-case host without port and trailing dot; absent if the request names none.
    pub host: Option<Cow<'a, str>>,
    /// Begins with `/`, save for `*` (`OPTIONS *`) and the empty path of `CONNECT`.
    pub path: Cow<'a, str>,
    /// The query as received, without the `?`.
    pub query: Option<&'a str>,
}

impl Target<'_> {
    /// True if the path was received in the canonical form.
    pub fn is_canonical(&self) -> bool {
        matches!(self.path, Cow::Borrowed(_))
    }

    /// The path and query to forward; `None` if what was received is already canonical and is to
    /// be forwarded as it is.
    pub fn rewritten(&self) -> Option<PathAndQuery> {
        let Cow::Owned(path) = &self.path else {
            return None;
        };
        let text = match self.query {
            Some(query) => format!("{path}?{query}"),
            None => path.clone(),
        };
        // Decoding yields only characters that are legal in a path.
        text.try_into().ok()
    }
}

/// The one canonical form of a target, or why it is ambiguous. `uri` is the target as the HTTP
/// library parsed it (for HTTP/2 with `:authority`); `headers` are looked at for `Host`. Does not
/// allocate if the target is already canonical. With [`PathHandling::Raw`] the path is taken as
/// received; the host rules stay.
pub fn canonical_target<'a>(
    method: &Method,
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
    handling: PathHandling,
) -> Result<Target<'a>, TargetFault> {
    check_form(method, uri, version)?;
    let host = one_host(method, uri, version, headers)?;
    rest_of_target(host, uri, handling)
}

/// As [`canonical_target`], for an HTTP/1 target without an authority beside one `Host` line whose
/// canonical host is known to be `host`. What a host means depends on its text alone, so that one which was
/// read before need not be read again.
pub fn canonical_target_at<'a>(
    host: &'a str,
    method: &Method,
    uri: &'a Uri,
    version: Version,
    handling: PathHandling,
) -> Result<Target<'a>, TargetFault> {
    check_form(method, uri, version)?;
    rest_of_target(Some(Cow::Borrowed(host)), uri, handling)
}

fn rest_of_target<'a>(
    host: Option<Cow<'a, str>>,
    uri: &'a Uri,
    handling: PathHandling,
) -> Result<Target<'a>, TargetFault> {
    let path = match handling {
        PathHandling::Canonical => canonical_path(uri.path())?,
        PathHandling::Raw => Cow::Borrowed(uri.path()),
    };
    Ok(Target { host, path, query: uri.query() })
}

/// Checks that the form of the target (one of the four of RFC 9112 section 3.2) is legal for the
/// method and the version.
fn check_form(method: &Method, uri: &Uri, version: Version) -> Result<(), TargetFault> {
    let legal = match uri.path() {
        "" => *method == Method::CONNECT && uri.authority().is_some(),
        "*" => *method == Method::OPTIONS,
        path if !path.starts_with('/') => false,
        // `:path` is written as it came, and the library takes `?q` for `/?q`.
        _ if version >= Version::HTTP_2 && !begins_with_slash(uri) => false,
        // Extended CONNECT (RFC 8441) has a scheme and a path; HTTP/1 knows only the authority.
        _ => *method != Method::CONNECT || version >= Version::HTTP_2,
    };
    if legal { Ok(()) } else { Err(TargetFault::Malformed) }
}

fn begins_with_slash(uri: &Uri) -> bool {
    uri.path_and_query().is_some_and(|target| target.as_str().starts_with('/'))
}

/// The host that target and `Host` agree on.
fn one_host<'a>(
    method: &Method,
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
) -> Result<Option<Cow<'a, str>>, TargetFault> {
    let mut lines = headers.get_all(HOST).iter();
    let line = lines.next();
    if lines.next().is_some() {
        return Err(TargetFault::DuplicateHost);
    }
    if line.is_none() && version == Version::HTTP_11 {
        return Err(TargetFault::MissingHost);
    }
    let line = match line {
        // The line of a target that has no authority (RFC 9112 section 3.2).
        Some(line) if line.is_empty() && uri.authority().is_none() && version < Version::HTTP_2 => {
            None
        }
        Some(line) => {
            // A host is ASCII, which costs less to find out than UTF-8.
            let text = line.to_str().map_err(|_| TargetFault::InvalidHost)?;
            Some(canonical_host(text)?)
        }
        None => None,
    };
    let authority = match uri.authority() {
        Some(authority) => Some(canonical_host(authority.as_str())?),
        None => None,
    };
    let default = default_port(method, uri);
    match (authority, line) {
        (Some(authority), Some(line)) if !same(&authority, &line, default) => {
            Err(TargetFault::AuthorityMismatch)
        }
        (Some(host), _) | (None, Some(host)) => Ok(Some(host.name)),
        (None, None) => Ok(None),
    }
}

fn default_port(method: &Method, uri: &Uri) -> Option<u16> {
    if *method == Method::CONNECT && uri.path().is_empty() {
        return None;
    }
    match uri.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        Some(_) | None => None,
    }
}

fn same(one: &Host<'_>, other: &Host<'_>, default: Option<u16>) -> bool {
    one.name == other.name && one.port.or(default) == other.port.or(default)
}

/// The canonical form of `path`, or why it is ambiguous. `*` and the empty path are canonical.
pub fn canonical_path(path: &str) -> Result<Cow<'_, str>, TargetFault> {
    if is_plain(path) { Ok(Cow::Borrowed(path)) } else { read_path(path) }
}

/// Fast path: returns true if `path` is evidently canonical, as nearly all are: it begins with `/`,
/// has no byte that needs decoding or checking, and no `/` precedes another or a dot.
fn is_plain(path: &str) -> bool {
    let mut after_slash = false;
    let plain = path.bytes().all(|byte| {
        let fine = match byte {
            b'/' | b'.' => !after_slash,
            b'%' | b';' | b'\\' => false,
            other => matches!(other, 0x20..=0x7e),
        };
        after_slash = byte == b'/';
        fine
    });
    plain && path.starts_with('/')
}

fn read_path(path: &str) -> Result<Cow<'_, str>, TargetFault> {
    if !path.is_ascii() {
        return Err(TargetFault::NonAscii);
    }
    if path.is_empty() || path == "*" {
        return Ok(Cow::Borrowed(path));
    }
    let inner = path.strip_prefix('/').ok_or(TargetFault::Malformed)?;
    let mut changes = false;
    let mut segments = inner.split('/').peekable();
    while let Some(segment) = segments.next() {
        if segment.is_empty() && segments.peek().is_some() {
            return Err(TargetFault::EmptySegment);
        }
        changes |= check_segment(segment)?;
    }
    Ok(if changes { Cow::Owned(decode(path)) } else { Cow::Borrowed(path) })
}

/// Refuses an ambiguous segment; returns true if the segment has to be rewritten.
fn check_segment(segment: &str) -> Result<bool, TargetFault> {
    let mut changes = false;
    // How many characters it has after decoding, and whether all of them are dots.
    let (mut length, mut dots) = (0_usize, true);
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        let meant = if byte == b'%' {
            let (Some(high), Some(low)) = (bytes.next(), bytes.next()) else {
                return Err(TargetFault::BadEncoding);
            };
            let value = hex_pair(high, low).ok_or(TargetFault::BadEncoding)?;
            changes |=
                is_unreserved(value) || high.is_ascii_lowercase() || low.is_ascii_lowercase();
            if value == b'/' {
                return Err(TargetFault::EncodedSlash);
            }
            value
        } else {
            byte
        };
        match meant {
            b'\\' => return Err(TargetFault::Backslash),
            b';' => return Err(TargetFault::PathParameter),
            0..=0x1f | 0x7f => return Err(TargetFault::Control),
            _ => {}
        }
        length = length.saturating_add(1);
        dots &= meant == b'.';
    }
    if dots && (length == 1 || length == 2) {
        return Err(TargetFault::DotSegment);
    }
    Ok(changes)
}

/// Decodes unreserved bytes and upper-cases the digits of the others. `path` has been checked.
fn decode(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let pair = if byte == b'%' { bytes.next().zip(bytes.next()) } else { None };
        let Some((high, low)) = pair else {
            out.push(char::from(byte));
            continue;
        };
        match hex_pair(high, low) {
            Some(value) if is_unreserved(value) => out.push(char::from(value)),
            Some(_) | None => {
                out.push('%');
                out.push(char::from(high.to_ascii_uppercase()));
                out.push(char::from(low.to_ascii_uppercase()));
            }
        }
    }
    out
}

/// The octet that two hexadecimal digits stand for.
pub(crate) fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let value = char::from(high).to_digit(16)?.checked_mul(16)?;
    u8::try_from(value.checked_add(char::from(low).to_digit(16)?)?).ok()
}

/// RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_canonical_at_first_sight_is_canonical(text in "[/a-c.%;\\\\é~ \\x00\\x7f]{0,8}") {
            if is_plain(&text) {
                prop_assert!(matches!(read_path(&text), Ok(Cow::Borrowed(same)) if same == text));
            }
        }
    }
}
