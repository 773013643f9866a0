//! Decodes the head of an application's response and determines the end of its body.
//!
//! A response that two readers could frame differently is rejected (RFC 9112 section 6.3,
//! stricter):
//! 1. The syntax is httparse's without its lenient options. Whitespace before a colon is removed
//!    (RFC 9112 section 5.1), except where the field frames the body. A folded line becomes one line
//!    (section 5.2).
//! 2. A length consists of digits. Two lengths that differ are rejected, two equal ones are one.
//! 3. A transfer coding ends in `chunked` and has no length beside it; HTTP/1.0 has none. `chunked`
//!    once more is the same coding, because frameworks add it where the server has, and clients read
//!    it as one. `identity` is no coding (RFC 2616 section 3.6).

use super::header_pool;
use super::request_decode::{Bounds, HeadBytes, digits, has_token, is_token, tokens};
use crate::bounds::MAX_FIELDS;
use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode, Version};
use httparse::Status;
use hyper::ext::ReasonPhrase;
use std::mem::MaybeUninit;

/// A complete response head.
#[derive(Debug)]
pub struct ResponseHead {
    /// Status, version and fields. A non-standard reason phrase is in its extensions.
    pub response: Response<()>,
    /// The framing of the body.
    pub body: ResponseFraming,
    /// True if another request may follow on the connection.
    pub keep_alive: bool,
    /// True if the application said that it closes the connection.
    pub closes: bool,
    /// The bytes of the head, of which the values of its fields are parts.
    pub text: Bytes,
}

/// The framing of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// A body of this many bytes; 0 means no body.
    Length(u64),
    /// A chunked body.
    Chunked,
    /// A body that lasts until the connection ends.
    UntilClose,
    /// Another protocol follows the head.
    Switched,
}

/// Error of a response head. The connection cannot be used any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseHeadError {
    /// The head is no head of HTTP/1.
    #[error("the response head is malformed")]
    Malformed,
    /// A field has a name or a value that HTTP does not allow.
    #[error("the response head has a malformed field")]
    Field,
    /// Two readers could find the end of the body in different places.
    #[error("the response head frames its body ambiguously")]
    Framing,
    /// More interim responses precede the response than may.
    #[error("too many interim responses")]
    TooManyInterim,
    /// The head exceeds the bytes or fields of [`Bounds`].
    #[error("the response head is too large")]
    TooLarge,
}

impl ResponseHead {
    /// Returns true if a further head follows for the same request (RFC 9110 section 15.2).
    pub fn is_interim(&self) -> bool {
        is_interim(self.response.status())
    }
}

/// Returns true for the status of an interim response: 1xx, except the switch of protocols.
pub fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// Consumes the head at the start of `buffer`, which may be an interim one. `is_head`: the request
/// was HEAD, whose response has no body. At most [`MAX_FIELDS`] fields are read, whatever `bounds` allows.
///
/// # Errors
/// `buffer` does not begin with a response; more bytes will not change that.
pub fn parse(
    buffer: &mut BytesMut,
    is_head: bool,
    bounds: Bounds,
) -> Result<Option<ResponseHead>, ResponseHeadError> {
    let found = find(buffer, is_head, bounds)?;
    Ok(found.map(|(head, used)| {
        buffer.advance(used);
        head
    }))
}

/// Parses the head at the start of `bytes`, which may be an interim one. Returns it and the number
/// of its bytes, and `None` if it is incomplete. `is_head`: the request was HEAD, whose response
/// has no body. At most [`MAX_FIELDS`] fields are read, whatever `bounds` allows.
///
/// # Errors
/// `bytes` do not begin with a response; more bytes will not change that.
pub(super) fn find(
    bytes: &[u8],
    is_head: bool,
    bounds: Bounds,
) -> Result<Option<(ResponseHead, usize)>, ResponseHeadError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let most = bounds.fields.min(MAX_FIELDS);
    let mut room = [const { MaybeUninit::uninit() }; STACK_FIELDS];
    let fields = room.get_mut(..most.min(STACK_FIELDS)).unwrap_or_default();
    find_within(bytes, is_head, bounds, fields)
}

/// The same with room for this many fields at first.
fn find_within<'a>(
    bytes: &'a [u8],
    is_head: bool,
    bounds: Bounds,
    fields: &mut [MaybeUninit<httparse::Header<'a>>],
) -> Result<Option<(ResponseHead, usize)>, ResponseHeadError> {
    let (room, most) = (fields.len(), bounds.fields.min(MAX_FIELDS));
    let mut parsed = httparse::Response::new(&mut []);
    let mut config = httparse::ParserConfig::default();
    config.allow_spaces_after_header_name_in_responses(true);
    let length = match config.parse_response_with_uninit_headers(&mut parsed, bytes, fields) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() < bounds.bytes => return Ok(None),
        Err(httparse::Error::TooManyHeaders) if room < most => {
            let mut more = Vec::new();
            more.resize_with(most, MaybeUninit::uninit);
            return find_within(bytes, is_head, bounds, &mut more);
        }
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(ResponseHeadError::TooLarge);
        }
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => {
            let unfolded = unfolded(bytes).ok_or(ResponseHeadError::Field)?;
            return find(&unfolded, is_head, bounds);
        }
        Err(_) => return Err(ResponseHeadError::Malformed),
    };
    if length > bounds.bytes {
        return Err(ResponseHeadError::TooLarge);
    }
    let shared = HeadBytes::new(bytes.get(..length).ok_or(ResponseHeadError::Malformed)?);
    ResponseHeadBuilder::new(&parsed, is_head)?
        .read(&parsed, shared)
        .map(|head| Some((head, length)))
}

/// Returns the bytes up to the end of the head with blanks in place of each end of line that a folded
/// line continues, so that their number stays; `None` if no line is folded, or one without a colon, which
/// is no field.
fn unfolded(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut head = bytes.to_vec();
    // The status line has no continuation.
    let mut from = head.iter().position(|byte| *byte == b'\n')?.checked_add(1)?;
    let mut is_folded = false;
    let (mut continues, mut is_field) = (false, false);
    while let Some(rest) = head.get_mut(from..) {
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else { break };
        let (line, next) = rest.split_at_mut(length);
        if matches!(line, [] | [b'\r']) {
            let end = from.saturating_add(length).saturating_add(1);
            head.truncate(end);
            break;
        }
        is_field = if continues { is_field } else { line.contains(&b':') };
        continues = matches!(next, [_, b' ' | b'\t', ..]);
        if continues && !is_field {
            return None;
        }
        if let [lf, b' ' | b'\t', ..] = next {
            *lf = b' ';
            if let [.., cr @ b'\r'] = line {
                *cr = b' ';
            }
            is_folded = true;
        }
        from = from.saturating_add(length).saturating_add(1);
    }
    is_folded.then_some(head)
}

/// A response head under construction.
struct ResponseHeadBuilder {
    status: StatusCode,
    version: Version,
    is_head: bool,
    keep_alive: bool,
    closes: bool,
    length: Option<u64>,
    /// True if the codings named so far end in `chunked`.
    coding: Option<bool>,
    headers: HeaderMap,
}

impl ResponseHeadBuilder {
    fn new(parsed: &httparse::Response<'_, '_>, is_head: bool) -> Result<Self, ResponseHeadError> {
        let version = match parsed.version {
            Some(1) => Version::HTTP_11,
            Some(0) => Version::HTTP_10,
            Some(_) | None => return Err(ResponseHeadError::Malformed),
        };
        let status = StatusCode::from_u16(parsed.code.unwrap_or(0))
            .map_err(|_| ResponseHeadError::Malformed)?;
        let mut headers = header_pool::take();
        headers.reserve(parsed.headers.len());
        Ok(Self {
            status,
            version,
            is_head,
            keep_alive: version == Version::HTTP_11,
            closes: false,
            length: None,
            coding: None,
            headers,
        })
    }

    fn read(
        mut self,
        parsed: &httparse::Response<'_, '_>,
        shared: HeadBytes,
    ) -> Result<ResponseHead, ResponseHeadError> {
        for field in &*parsed.headers {
            let (name, value) = shared.field(field).ok_or(ResponseHeadError::Field)?;
            let frames = name == CONTENT_LENGTH || name == TRANSFER_ENCODING;
            if frames && !shared.has_colon_behind(field.name) {
                return Err(ResponseHeadError::Framing);
            }
            if self.keep(&name, &value)? {
                self.headers.append(name, value);
            }
        }
        let reason = parsed.reason.unwrap_or_default();
        let own = reason != self.status.canonical_reason().unwrap_or_default();
        let reason = own.then(|| ReasonPhrase::try_from(reason.as_bytes()));
        let body = self.framing()?;
        if self.coding.is_some() && self.length.is_some() {
            // An answer without a body. Of the two fields the coding counts, and the length must not be
            // forwarded (RFC 9112 section 6.3): the answer with a body has none.
            self.headers.remove(CONTENT_LENGTH);
        }
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.version_mut() = self.version;
        *response.headers_mut() = self.headers;
        if let Some(Ok(reason)) = reason {
            response.extensions_mut().insert(reason);
        }
        let kept = !matches!(body, ResponseFraming::UntilClose | ResponseFraming::Switched);
        let keep_alive = self.keep_alive && !self.closes && kept;
        let closes = self.closes;
        Ok(ResponseHead { response, body, keep_alive, closes, text: shared.into_bytes() })
    }

    /// Records the effect of a field on the message. Returns false if the field only repeats an
    /// earlier one.
    fn keep(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<bool, ResponseHeadError> {
        if *name == CONTENT_LENGTH {
            return self.size(value);
        }
        if *name == TRANSFER_ENCODING {
            return self.code(value.as_bytes());
        }
        if *name == CONNECTION {
            return Ok(self.option(value));
        }
        Ok(true)
    }

    fn size(&mut self, value: &HeaderValue) -> Result<bool, ResponseHeadError> {
        if let (None, Some(length)) = (self.length, length(value.as_bytes())) {
            self.length = Some(length);
            return Ok(true);
        }
        let first = self.length.is_none();
        for text in tokens(value.as_bytes()) {
            let length = length(text).ok_or(ResponseHeadError::Framing)?;
            if self.length.replace(length).is_some_and(|again| again != length) {
                return Err(ResponseHeadError::Framing);
            }
        }
        if let (true, Some(length)) = (first, self.length) {
            // One number is forwarded.
            self.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        Ok(false)
    }

    /// Reads a `Connection` field. Returns false if it concerns this connection only and names no
    /// other field.
    fn option(&mut self, value: &HeaderValue) -> bool {
        let text = value.as_bytes();
        if text.eq_ignore_ascii_case(b"keep-alive") {
            self.keep_alive = true;
            return false;
        }
        if text.eq_ignore_ascii_case(b"close") {
            self.closes = true;
            return false;
        }
        self.closes |= has_token(value, b"close");
        self.keep_alive |= has_token(value, b"keep-alive");
        true
    }

    /// Reads a `Transfer-Encoding` field. Returns false if it adds no coding.
    fn code(&mut self, codings: &[u8]) -> Result<bool, ResponseHeadError> {
        let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
        if is_chunked(codings) {
            return Ok(self.coding.replace(true) != Some(true));
        }
        if codings.eq_ignore_ascii_case(b"identity") {
            return Ok(false);
        }
        if self.coding != Some(false) && tokens(codings).all(is_chunked) {
            // One is forwarded, and beside earlier codings none.
            if self.coding == Some(true) {
                return Ok(false);
            }
            self.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            self.coding = Some(true);
            return Ok(false);
        }
        for coding in tokens(codings) {
            if !is_token(coding) || self.coding == Some(true) {
                return Err(ResponseHeadError::Framing);
            }
            self.coding = Some(is_chunked(coding));
        }
        Ok(true)
    }

    fn framing(&self) -> Result<ResponseFraming, ResponseHeadError> {
        if self.status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(ResponseFraming::Switched);
        }
        let bare = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&self.status);
        if self.is_head || bare || self.status.is_informational() {
            return Ok(ResponseFraming::Length(0));
        }
        match (self.coding, self.length) {
            (Some(true), None) if self.version == Version::HTTP_11 => Ok(ResponseFraming::Chunked),
            (Some(_), _) => Err(ResponseHeadError::Framing),
            (None, Some(length)) => Ok(ResponseFraming::Length(length)),
            (None, None) => Ok(ResponseFraming::UntilClose),
        }
    }
}

/// Parses a number of bytes below the values that hyper reserves.
fn length(text: &[u8]) -> Option<u64> {
    digits(text).filter(|length| *length < u64::MAX - 1)
}

/// Number of fields for which there is space without an allocation.
const STACK_FIELDS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { fields: 8, bytes: 200 };

    fn read(
        text: &str,
        is_head: bool,
    ) -> Result<Option<(u16, ResponseFraming, bool, String)>, ResponseHeadError> {
        let mut buffer = BytesMut::from(text);
        let head = parse(&mut buffer, is_head, BOUNDS)?;
        Ok(head.map(|head| {
            let left = String::from_utf8(buffer.to_vec()).unwrap();
            (head.response.status().as_u16(), head.body, head.keep_alive, left)
        }))
    }

    #[track_caller]
    fn check(fields: &str, want: Result<(ResponseFraming, bool), ResponseHeadError>) {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\nrest");
        let got = read(&text, false).map(|head| head.unwrap());
        assert_eq!(got, want.map(|(body, kept)| (200, body, kept, "rest".into())), "{fields}");
    }

    #[test]
    fn a_body_has_one_end_or_there_is_no_response() {
        check("", Ok((ResponseFraming::UntilClose, false)));
        check("content-length: 5\r\n", Ok((ResponseFraming::Length(5), true)));
        check("content-length: 5\r\ncontent-length: 5\r\n", Ok((ResponseFraming::Length(5), true)));
        check("content-length: 5, 5\r\n", Ok((ResponseFraming::Length(5), true)));
        check("Transfer-Encoding: Chunked\r\n", Ok((ResponseFraming::Chunked, true)));
        check("transfer-encoding: gzip, chunked\r\n", Ok((ResponseFraming::Chunked, true)));
        check(
            "connection: x, CLOSE\r\ncontent-length: 0\r\n",
            Ok((ResponseFraming::Length(0), false)),
        );
        for refused in [
            "content-length: 5\r\ncontent-length: 6\r\n",
            "content-length: 5, 6\r\n",
            "content-length: +5\r\n",
            "content-length: \r\n",
            "content-length: 5,\r\n",
            "content-length: 18446744073709551616\r\n",
            "content-length: 18446744073709551615\r\n",
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
            "transfer-encoding: chunked, gzip\r\n",
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked, chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n",
            "transfer-encoding: identity, chunked, identity\r\n",
            "content-length: 1\r\n 0\r\n",
            "content-length: 5\r\ntransfer-encoding:\r\n chunked\r\n",
            "transfer-encoding: gzip\r\n",
            "transfer-encoding: xchunked\r\n",
            "transfer-encoding: chunked;a\r\n",
            "transfer-encoding: \r\n",
            "transfer-encoding: g\u{e4}p, chunked\r\n",
            "content-length : 5\r\n",
            "transfer-encoding\t: chunked\r\n",
        ] {
            check(refused, Err(ResponseHeadError::Framing));
        }
        for refused in [" a: b\r\n", "a\r\n", "a: b\rc\r\n", "a: b\0\r\n", "a: b\r\n c\0\r\n"] {
            check(refused, Err(ResponseHeadError::Field));
        }
    }

    fn lines(text: &str) -> Vec<(String, String)> {
        let head = parse(&mut BytesMut::from(text), false, BOUNDS).unwrap().unwrap();
        let field = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        head.response.headers().iter().map(field).collect()
    }

    #[test]
    fn a_coding_that_is_named_again_is_one() {
        for fields in [
            "Transfer-Encoding: chunked\r\ntransfer-encoding: Chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        ] {
            check(fields, Ok((ResponseFraming::Chunked, true)));
            let own = ("transfer-encoding".to_owned(), "chunked".to_owned());
            assert_eq!(lines(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")), [own], "{fields}");
        }
        let behind = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n";
        let behind = lines(&format!("{behind}Transfer-Encoding: chunked, chunked\r\n\r\n"));
        assert_eq!(behind, [("transfer-encoding".to_owned(), "gzip, chunked".to_owned())]);
        check("Transfer-Encoding: identity\r\n", Ok((ResponseFraming::UntilClose, false)));
        let sized = "Transfer-Encoding: Identity\r\nContent-Length: 5\r\n";
        check(sized, Ok((ResponseFraming::Length(5), true)));
    }

    #[test]
    fn a_folded_line_is_one_line_and_the_bytes_of_a_body_are_left_alone() {
        let text =
            "HTTP/1.1 200 OK\r\na: b\r\n\tc\r\n  d\r\nContent-Length:\n 7\r\n\r\nx\r\n y\r\n";
        let (status, framing, kept, rest) = read(text, false).unwrap().unwrap();
        assert_eq!((status, framing, kept), (200, ResponseFraming::Length(7), true));
        assert_eq!(rest, "x\r\n y\r\n");
        let own = [("a", "b  \tc    d"), ("content-length", "7")];
        assert_eq!(lines(text), own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let no_field = "HTTP/1.1 200 OK\r\nContent-Length03\r\n : 0\r\n\r\n";
        assert!(read(no_field, false).is_err(), "a line without a colon is no field");
        // In pieces.
        for end in 0..text.len() - 9 {
            assert_eq!(read(text.get(..end).unwrap(), false), Ok(None), "{end}");
        }
    }

    #[test]
    fn a_blank_before_a_colon_is_removed_before_anything_looks_at_the_field() {
        let mut buffer = BytesMut::from(
            "HTTP/1.1 200 OK\r\nX-A : b\r\nConnection\t: close\r\ncontent-length: 0\r\n\r\n",
        );
        let head = parse(&mut buffer, false, BOUNDS).unwrap().unwrap();
        let fields: Vec<_> = head.response.headers().iter().map(|(n, v)| (n.as_str(), v)).collect();
        assert_eq!(
            fields,
            [
                ("x-a", &HeaderValue::from_static("b")),
                ("content-length", &HeaderValue::from_static("0"))
            ]
        );
        assert!(!head.keep_alive);
    }

    #[test]
    fn some_responses_have_no_body_whatever_they_say() {
        for status in ["204 No Content", "304 Not Modified"] {
            let text = format!("HTTP/1.1 {status}\r\ncontent-length: 5\r\n\r\n");
            assert_eq!(read(&text, false).unwrap().unwrap().1, ResponseFraming::Length(0));
        }
        let text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(
            read(text, true),
            Ok(Some((200, ResponseFraming::Length(0), true, String::new())))
        );
    }

    #[test]
    fn a_length_beside_a_coding_is_not_forwarded_where_there_is_no_body() {
        let fields = ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"];
        for (status, is_head) in [("200 OK", true), ("304 Not Modified", false)] {
            for text in [fields.concat(), fields.iter().rev().copied().collect()] {
                let text = format!("HTTP/1.1 {status}\r\n{text}\r\n");
                let head = parse(&mut BytesMut::from(&*text), is_head, BOUNDS).unwrap().unwrap();
                assert_eq!(head.body, ResponseFraming::Length(0), "{text}");
                assert!(!head.response.headers().contains_key(CONTENT_LENGTH), "{text}");
            }
            // No coding beside it.
            let text =
                format!("HTTP/1.1 {status}\r\n{}Transfer-Encoding: identity\r\n\r\n", fields[0]);
            let head = parse(&mut BytesMut::from(&*text), is_head, BOUNDS).unwrap().unwrap();
            assert_eq!(head.response.headers()[CONTENT_LENGTH], "5", "{text}");
        }
    }

    #[test]
    fn interim_responses_are_heads_of_their_own_and_switching_is_the_last() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nLink: a\r\n\r\n";
        for (end, status) in [("HTTP/1.1 200 OK", 200), ("HTTP/1.1 101 S", 101)] {
            let mut buffer = BytesMut::from(format!("{text}{end}\r\n\r\n").as_str());
            let mut heads = Vec::new();
            while let Some(head) = parse(&mut buffer, false, BOUNDS).unwrap() {
                heads.push((head.response.status().as_u16(), head.is_interim()));
            }
            assert_eq!(heads, [(100, true), (103, true), (status, false)]);
        }
    }

    #[test]
    fn an_old_application_keeps_a_connection_only_if_it_says_so() {
        let text = "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n";
        assert!(!read(text, false).unwrap().unwrap().2);
        let text = "HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n";
        assert!(read(text, false).unwrap().unwrap().2);
        let text = "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(read(text, false), Err(ResponseHeadError::Framing));
        assert_eq!(read("HTTP/2.0 200 OK\r\n\r\n", false), Err(ResponseHeadError::Malformed));
    }

    #[test]
    fn a_head_is_bounded_and_a_part_of_one_is_waited_for() {
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(BOUNDS.bytes));
        assert_eq!(read(&long, false), Err(ResponseHeadError::TooLarge));
        assert_eq!(read(&format!("{long}\r\n\r\n"), false), Err(ResponseHeadError::TooLarge));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(9));
        assert_eq!(read(&many, false), Err(ResponseHeadError::TooLarge));
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r";
        for end in 0..=text.len() {
            assert_eq!(read(text.get(..end).unwrap(), false), Ok(None));
        }
    }

    #[test]
    fn a_reason_of_the_applications_own_is_kept() {
        let reason = |line: &str| {
            let mut buffer = BytesMut::from(format!("HTTP/1.1 {line}\r\n\r\n").as_str());
            let head = parse(&mut buffer, false, BOUNDS).unwrap().unwrap();
            head.response.extensions().get::<ReasonPhrase>().map(|own| own.as_bytes().to_vec())
        };
        assert_eq!(reason("200 OK"), None);
        assert_eq!(reason("200 Fine"), Some(b"Fine".to_vec()));
        assert_eq!(reason("299"), None);
        assert_eq!(reason("200"), Some(Vec::new()));
    }
}
