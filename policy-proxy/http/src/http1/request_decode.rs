//! Decodes the head of a request into the types that policy is evaluated on.
//!
//! A head that two readers could understand differently is rejected here, or left to the
//! authorizer, which names the reason:
//! 1. The syntax is httparse's without its lenient options: no folded lines, no whitespace before a
//!    colon, no lone carriage return.
//! 2. A length consists of digits. Two lengths that differ are rejected, two equal ones are one.
//! 3. A transfer coding ends in `chunked` and names it once; HTTP/1.0 has none.
//! 4. A target has no fragment. Characters that clients should percent-encode are so in the URI, and
//!    the head has a mark of it ([`UnencodedTarget`]).
//! 5. A length beside a transfer coding is kept: the authorizer rejects it (RFC 9112 section 6.3:
//!    request smuggling).
//! 6. A line ends in CR LF. RFC 9112 section 2.2 allows a recipient to accept a lone LF, but some
//!    recipients take it for a part of a value: a proxy in front of this one, or an application behind
//!    another.

use super::unencoded::UnencodedTarget;
use super::{head_arena, header_pool};
use crate::bounds::MAX_FIELDS;
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Uri, Version};
use httparse::Status;
use std::mem::MaybeUninit;

/// Bounds of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of header fields.
    pub fields: usize,
    /// Maximum number of bytes, including the empty line.
    pub bytes: usize,
}

/// A complete request head.
#[derive(Debug)]
pub struct RequestHead {
    /// Method, target, version and fields, which share one copy of the bytes.
    pub parts: Box<Parts>,
    /// The framing of the body.
    pub body: RequestFraming,
    /// True if another request may follow on the connection.
    pub keep_alive: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects: bool,
    /// The bytes of the head, of which the values of its fields are parts.
    pub text: Bytes,
}

/// The framing of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFraming {
    /// No body.
    None,
    /// A body of this many bytes, at least one.
    Length(u64),
    /// A chunked body.
    Chunked,
}

/// Error of a request head. The connection cannot be used any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestHeadError {
    /// The head is malformed or ambiguous: 400.
    #[error("the request head is malformed")]
    Malformed,
    /// The head exceeds the bytes or fields of [`Bounds`]: 431.
    #[error("the request head is too large")]
    TooLarge,
    /// The target is longer than `http` supports: 414.
    #[error("the request target is too long")]
    TargetTooLong,
}

/// Parses the head at the start of `bytes`; returns it and its length, or `None` if it is
/// incomplete. `before`: the number of bytes that were there at the last incomplete attempt. At
/// most [`MAX_FIELDS`] are read, whatever `bounds` allows.
///
/// # Errors
/// `bytes` do not begin with a request; more bytes will not change that.
pub fn parse(
    bytes: &[u8],
    before: usize,
    bounds: Bounds,
) -> Result<Option<(RequestHead, usize)>, RequestHeadError> {
    if before > 0 && !may_be_complete(bytes, before) {
        return partial(bytes, bounds);
    }
    let mut room = [const { MaybeUninit::uninit() }; STACK_FIELDS];
    let mut more: Vec<MaybeUninit<httparse::Header<'_>>> = Vec::new();
    let most = bounds.fields.min(MAX_FIELDS);
    let fields = match room.get_mut(..most) {
        Some(fields) => fields,
        None => {
            more.resize_with(most, MaybeUninit::uninit);
            more.as_mut_slice()
        }
    };
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(bytes, fields) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return partial(bytes, bounds),
        Err(httparse::Error::TooManyHeaders) => return Err(RequestHeadError::TooLarge),
        Err(_) => return Err(RequestHeadError::Malformed),
    };
    if length > bounds.bytes {
        return Err(RequestHeadError::TooLarge);
    }
    let head = bytes.get(..length).ok_or(RequestHeadError::Malformed)?;
    let shared = HeadBytes::new(head);
    RequestHeadBuilder::new(&parsed)?.read(&parsed, shared).map(|head| Some((head, length)))
}

fn partial(bytes: &[u8], bounds: Bounds) -> Result<Option<(RequestHead, usize)>, RequestHeadError> {
    if bytes.len() >= bounds.bytes { Err(RequestHeadError::TooLarge) } else { Ok(None) }
}

/// Returns true if the bytes behind the first `before` can end a head. Avoids parsing a head again
/// for each byte that arrives.
fn may_be_complete(bytes: &[u8], before: usize) -> bool {
    let fresh = bytes.get(before.saturating_sub(3)..).unwrap_or_default();
    fresh.windows(2).any(|two| two == b"\n\n") || fresh.windows(3).any(|three| three == b"\n\r\n")
}

/// One copy of the head's bytes, shared by everything that refers to them.
pub(super) struct HeadBytes {
    /// Address of the original bytes.
    base: usize,
    bytes: Bytes,
}

impl HeadBytes {
    pub(super) fn new(head: &[u8]) -> Self {
        Self { base: head.as_ptr().addr(), bytes: head_arena::keep(head) }
    }

    /// Returns the copy.
    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Returns true if every line ends in CR LF, including those before the request line: the bytes
    /// in front of a field name are the end of the line before it.
    fn has_whole_lines(&self, parsed: &httparse::Request<'_, '_>) -> bool {
        let before = |text: &str| {
            let from = text.as_ptr().addr().checked_sub(self.base)?;
            self.bytes.get(..from)
        };
        let blank = parsed.method.and_then(before);
        self.bytes.ends_with(b"\r\n\r\n")
            && blank.is_some_and(|blank| blank.chunks(2).all(|line| line == b"\r\n"))
            && parsed
                .headers
                .iter()
                .all(|field| before(field.name).is_some_and(|lines| lines.ends_with(b"\r\n")))
    }

    /// Returns true if a colon follows `name`, which is a part of the original, without a blank.
    pub(super) fn has_colon_behind(&self, name: &str) -> bool {
        let end = name.as_ptr().addr().checked_add(name.len());
        let at = end.and_then(|end| end.checked_sub(self.base));
        at.and_then(|at| self.bytes.get(at)) == Some(&b':')
    }

    /// Returns the copy of `part`, which is a part of the original.
    pub(super) fn of(&self, part: &[u8]) -> Option<Bytes> {
        let from = part.as_ptr().addr().checked_sub(self.base)?;
        let own = self.bytes.get(from..from.checked_add(part.len())?)?;
        Some(self.bytes.slice_ref(own))
    }

    /// Returns a field whose value shares the copy; `None` if `http` rejects it.
    pub(super) fn field(&self, field: &httparse::Header<'_>) -> Option<(HeaderName, HeaderValue)> {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_maybe_shared(self.of(field.value)?).ok()?;
        Some((name, value))
    }
}

/// A request head under construction.
struct RequestHeadBuilder {
    version: Version,
    keep_alive: bool,
    closes: bool,
    expects: bool,
    length: Option<u64>,
    /// True if the codings named so far end in `chunked`.
    coding: Option<bool>,
    headers: HeaderMap,
}

impl RequestHeadBuilder {
    fn new(parsed: &httparse::Request<'_, '_>) -> Result<Self, RequestHeadError> {
        let version = match parsed.version {
            Some(1) => Version::HTTP_11,
            Some(0) => Version::HTTP_10,
            Some(_) | None => return Err(RequestHeadError::Malformed),
        };
        let mut headers = header_pool::take();
        headers.reserve(parsed.headers.len().saturating_add(EXTRA_FIELDS));
        Ok(Self {
            version,
            keep_alive: version == Version::HTTP_11,
            closes: false,
            expects: false,
            length: None,
            coding: None,
            headers,
        })
    }

    fn read(
        mut self,
        parsed: &httparse::Request<'_, '_>,
        shared: HeadBytes,
    ) -> Result<RequestHead, RequestHeadError> {
        if !shared.has_whole_lines(parsed) {
            return Err(RequestHeadError::Malformed);
        }
        let (method, target) = parsed.method.zip(parsed.path).ok_or(RequestHeadError::Malformed)?;
        if target.len() > MAX_TARGET {
            return Err(RequestHeadError::TargetTooLong);
        }
        let method =
            Method::from_bytes(method.as_bytes()).map_err(|_| RequestHeadError::Malformed)?;
        // `http` would cut a fragment off; a recipient behind the proxy might not.
        if target.contains('#') {
            return Err(RequestHeadError::Malformed);
        }
        let (uri, mark) = read_target(target, &shared)?;
        for field in &*parsed.headers {
            let (name, value) = shared.field(field).ok_or(RequestHeadError::Malformed)?;
            if self.keep(&name, &value)? {
                self.headers.append(name, value);
            }
        }
        let mut head = self.end(method, uri, shared.into_bytes())?;
        if let Some(mark) = mark {
            head.parts.extensions.insert(mark);
        }
        Ok(head)
    }

    /// Records the effect of a field on the message. Returns false if the field only repeats an
    /// earlier one.
    fn keep(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<bool, RequestHeadError> {
        if *name == CONTENT_LENGTH {
            let length = digits(value.as_bytes()).ok_or(RequestHeadError::Malformed)?;
            let again = self.length.replace(length);
            if again.is_some_and(|again| again != length) {
                return Err(RequestHeadError::Malformed);
            }
            return Ok(again.is_none());
        }
        if *name == TRANSFER_ENCODING {
            self.code(value.as_bytes())?;
        } else if *name == CONNECTION {
            self.closes |= has_token(value, b"close");
            self.keep_alive |= has_token(value, b"keep-alive");
        } else if *name == EXPECT {
            self.expects = value.as_bytes().eq_ignore_ascii_case(b"100-continue");
        }
        Ok(true)
    }

    fn code(&mut self, codings: &[u8]) -> Result<(), RequestHeadError> {
        if self.version < Version::HTTP_11 {
            return Err(RequestHeadError::Malformed);
        }
        for coding in tokens(codings) {
            if !is_token(coding) || self.coding == Some(true) {
                return Err(RequestHeadError::Malformed);
            }
            self.coding = Some(coding.eq_ignore_ascii_case(b"chunked"));
        }
        Ok(())
    }

    fn end(self, method: Method, uri: Uri, text: Bytes) -> Result<RequestHead, RequestHeadError> {
        let body = match (self.coding, self.length) {
            (Some(false), _) => return Err(RequestHeadError::Malformed),
            (Some(true), _) => RequestFraming::Chunked,
            (None, Some(0) | None) => RequestFraming::None,
            (None, Some(length)) => RequestFraming::Length(length),
        };
        // Boxed, because it moves through many calls.
        let mut parts = Box::new(Request::new(()).into_parts().0);
        parts.method = method;
        parts.uri = uri;
        parts.version = self.version;
        parts.headers = self.headers;
        let ambiguous = self.coding.is_some() && self.length.is_some();
        let expects =
            self.expects && self.version == Version::HTTP_11 && body != RequestFraming::None;
        let keep_alive = self.keep_alive && !self.closes && !ambiguous;
        Ok(RequestHead { parts, body, keep_alive, expects, text })
    }
}

/// Reads the target, and notes characters in it that RFC 3986 has percent-encoded.
fn read_target(
    target: &str,
    shared: &HeadBytes,
) -> Result<(Uri, Option<UnencodedTarget>), RequestHeadError> {
    let own = shared.of(target.as_bytes()).ok_or(RequestHeadError::Malformed)?;
    match Uri::from_maybe_shared(own) {
        Ok(uri) => Ok((uri, None)),
        Err(_) => UnencodedTarget::read(target)
            .map(|(uri, mark)| (uri, Some(mark)))
            .ok_or(RequestHeadError::Malformed),
    }
}

/// Parses a number that consists of digits only; `None` on overflow.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

pub(super) fn tokens(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|b| *b == b',').map(<[u8]>::trim_ascii)
}

/// Returns true if `text` is a token (RFC 9110 section 5.6.2). Other bytes could hide `chunked`
/// from a reader that decodes the list as text.
pub(super) fn is_token(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_part)
}

pub(super) fn has_token(list: &HeaderValue, token: &[u8]) -> bool {
    tokens(list.as_bytes()).any(|own| own.eq_ignore_ascii_case(token))
}

/// Number of fields for which there is space without an allocation.
const STACK_FIELDS: usize = 100;
/// Number of fields that the proxy adds on the way to the application.
const EXTRA_FIELDS: usize = 3;
/// Maximum length of a target: `http` stores it in 16 bits and reserves one value.
const MAX_TARGET: usize = 65_534;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_head_ends_in_cr_lf_wherever_it_stands() {
        let bounds = Bounds { fields: 100, bytes: 64 * 1024 };
        let head = "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nx-a: b \r\n\r\n";
        assert!(parse(head.as_bytes(), 0, bounds).unwrap().is_some());
        for (at, _) in head.match_indices("\r\n") {
            let mut lone = head.to_owned();
            lone.remove(at);
            assert_eq!(
                parse(lone.as_bytes(), 0, bounds).unwrap_err(),
                RequestHeadError::Malformed,
                "{lone:?}"
            );
        }
    }

    #[test]
    fn more_fields_than_a_map_can_hold_are_refused_whatever_the_setting() {
        let bounds = Bounds { fields: usize::MAX, bytes: usize::MAX };
        let head = |fields: usize| {
            let lines: String = (0..fields).map(|n| format!("x{n}:\r\n")).collect();
            format!("GET / HTTP/1.1\r\n{lines}\r\n")
        };
        let most = parse(head(MAX_FIELDS).as_bytes(), 0, bounds).unwrap().unwrap().0;
        assert_eq!(most.parts.headers.len(), MAX_FIELDS);
        for fields in [MAX_FIELDS + 1, 40_000] {
            assert_eq!(
                parse(head(fields).as_bytes(), 0, bounds).unwrap_err(),
                RequestHeadError::TooLarge
            );
        }
    }
}
