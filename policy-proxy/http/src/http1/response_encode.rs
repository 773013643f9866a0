//! Encodes the head of a response and determines the framing of its body.
//!
//! Only the body decides the framing: the framing fields of the application's head were consumed on
//! the application's side and are written anew here, so that the two cannot disagree.

use super::encode::BodyEncoder;
use super::line::{line, line_as_received, sized, spelling};
use super::request_decode::{has_token, tokens};
use super::{date, header_pool};
use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HeaderValue, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode, Version};
use hyper::ext::ReasonPhrase;

/// The properties of the request that the response depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseContext {
    /// HTTP/1.1 or HTTP/1.0.
    pub version: Version,
    /// True for HEAD: its response has no body, whatever its head says.
    pub head: bool,
    /// True if another request may follow on the connection.
    pub keep_alive: bool,
}

/// Length of the body that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// This many bytes; 0 means no body.
    Known(u64),
    /// Unknown until the body ends.
    Unknown,
}

/// A head that was written.
#[derive(Debug)]
pub struct EncodedHead {
    /// The encoder of the body.
    pub framing: BodyEncoder,
    /// True if the connection ends with this response.
    pub last: bool,
}

/// Appends the head of `response` to `out`. `text` is the head as it was received over HTTP/1, by which
/// names are spelt. `second` is the caller's clock: when it changes, the date is formatted again. It is
/// never 0. The header map goes back to the pool.
pub fn write<B>(
    (response, text): (Response<B>, &[u8]),
    (context, length): (ResponseContext, BodyLength),
    out: &mut Vec<u8>,
    second: u32,
) -> (EncodedHead, B) {
    let (head, body) = response.into_parts();
    let status = head.status;
    let reason = head.extensions.get::<ReasonPhrase>();
    status_line(status, context.version, reason, out);
    let written = fields(&head.headers, text, out);
    let framing = frame(status, (context, length), (&head.headers, text), out);
    let until_close = framing == BodyEncoder::UntilClose;
    let last = connection(&head.headers, status, context, until_close, out);
    if !written.date {
        out.extend_from_slice(b"date: ");
        date::append(out, second);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    header_pool::recycle(head.headers);
    (EncodedHead { framing, last }, body)
}

/// Appends an interim response of HTTP/1.1. The header map goes back to the pool.
pub fn write_interim(response: Response<()>, out: &mut Vec<u8>) {
    let (head, ()) = response.into_parts();
    status_line(head.status, Version::HTTP_11, head.extensions.get::<ReasonPhrase>(), out);
    fields(&head.headers, b"", out);
    out.extend_from_slice(b"\r\n");
    header_pool::recycle(head.headers);
}

fn status_line(
    status: StatusCode,
    version: Version,
    reason: Option<&ReasonPhrase>,
    out: &mut Vec<u8>,
) {
    if let (Version::HTTP_11, StatusCode::OK, None) = (version, status, reason) {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(if version == Version::HTTP_10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    let reason = match reason {
        Some(reason) => reason.as_bytes(),
        None => status.canonical_reason().unwrap_or_default().as_bytes(),
    };
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

struct WrittenFields {
    date: bool,
}

/// Every field but those that are written by what they are about.
fn fields(headers: &HeaderMap, text: &[u8], out: &mut Vec<u8>) -> WrittenFields {
    let mut written = WrittenFields { date: false };
    for (name, value) in headers {
        if *name == CONTENT_LENGTH
            || *name == TRANSFER_ENCODING
            || *name == TRAILER
            || *name == CONNECTION
        {
            continue;
        }
        written.date |= *name == DATE;
        line_as_received(name, value.as_bytes(), text, out);
    }
    written
}

/// RFC 9112 section 6. The names of the fields are spelt as the application spelt them.
fn frame(
    status: StatusCode,
    (context, length): (ResponseContext, BodyLength),
    (headers, text): (&HeaderMap, &[u8]),
    out: &mut Vec<u8>,
) -> BodyEncoder {
    if status.is_informational() || status == StatusCode::NO_CONTENT {
        return BodyEncoder::None;
    }
    let said = headers.get(CONTENT_LENGTH);
    let name = match said {
        Some(value) => spelling(&CONTENT_LENGTH, value.as_bytes(), text),
        None => b"content-length",
    };
    if context.head || status == StatusCode::NOT_MODIFIED {
        // As in the response to a GET, or with the content (RFC 9110 section 8.6).
        match (said, length) {
            (Some(value), _) => {
                line_as_received(&CONTENT_LENGTH, value.as_bytes(), text, out);
            }
            (None, BodyLength::Known(bytes)) if bytes > 0 => sized(name, bytes, out),
            (None, BodyLength::Known(_) | BodyLength::Unknown) => {}
        }
        return BodyEncoder::None;
    }
    match length {
        BodyLength::Known(bytes) => {
            sized(name, bytes, out);
            if bytes == 0 { BodyEncoder::None } else { BodyEncoder::Length(bytes) }
        }
        BodyLength::Unknown if context.version == Version::HTTP_10 => BodyEncoder::UntilClose,
        BodyLength::Unknown => {
            chunked((headers, text), out);
            BodyEncoder::Chunked
        }
    }
}

/// Says that chunks follow, in a field of this name. Other codings stay, since what was sent is still
/// coded by them.
pub(super) fn write_transfer_encoding(name: &[u8], headers: &HeaderMap, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    for value in headers.get_all(TRANSFER_ENCODING) {
        for coding in tokens(value.as_bytes()) {
            if !coding.is_empty() && !coding.eq_ignore_ascii_case(b"chunked") {
                out.extend_from_slice(coding);
                out.extend_from_slice(b", ");
            }
        }
    }
    out.extend_from_slice(b"chunked\r\n");
}

fn chunked((headers, text): (&HeaderMap, &[u8]), out: &mut Vec<u8>) {
    let name = match headers.get(TRANSFER_ENCODING) {
        Some(value) => spelling(&TRANSFER_ENCODING, value.as_bytes(), text),
        None => b"transfer-encoding",
    };
    write_transfer_encoding(name, headers, out);
    for value in headers.get_all(TRAILER) {
        line_as_received(&TRAILER, value.as_bytes(), text, out);
    }
}

/// Writes the `Connection` field if the version's default does not apply; returns true if the
/// connection ends.
fn connection(
    headers: &HeaderMap,
    status: StatusCode,
    context: ResponseContext,
    until_close: bool,
    out: &mut Vec<u8>,
) -> bool {
    let own = |token: &[u8]| headers.get_all(CONNECTION).iter().any(|own| has_token(own, token));
    if status == StatusCode::SWITCHING_PROTOCOLS {
        headers.get_all(CONNECTION).iter().for_each(|own| option(own, out));
        return true;
    }
    let last = !context.keep_alive || until_close || own(b"close");
    let upgrades = status == StatusCode::UPGRADE_REQUIRED && headers.contains_key(UPGRADE);
    let options = match (last, context.version, upgrades) {
        (true, Version::HTTP_10, _) | (false, Version::HTTP_11, false) => return last,
        (false, Version::HTTP_11, true) => "upgrade",
        (true, _, true) => "close, upgrade",
        (true, _, false) => "close",
        (false, _, _) => "keep-alive",
    };
    option(&HeaderValue::from_static(options), out);
    last
}

fn option(value: &HeaderValue, out: &mut Vec<u8>) {
    line(&CONNECTION, value.as_bytes(), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: ResponseContext =
        ResponseContext { version: Version::HTTP_11, head: false, keep_alive: true };

    fn written(
        status: u16,
        lines: &[(&str, &str)],
        context: ResponseContext,
        length: BodyLength,
    ) -> (String, BodyEncoder, bool) {
        let mut response = Response::builder().status(status).header(DATE, "now");
        for (name, value) in lines {
            response = response.header(*name, *value);
        }
        let mut out = Vec::new();
        let response = response.body(()).unwrap();
        let (EncodedHead { framing, last }, ()) =
            write((response, b""), (context, length), &mut out, 1);
        (String::from_utf8(out).unwrap().replace("date: now\r\n", ""), framing, last)
    }

    #[track_caller]
    fn check(
        (status, lines): (u16, &[(&str, &str)]),
        (context, length): (ResponseContext, BodyLength),
        (head, framing, last): (&str, BodyEncoder, bool),
    ) {
        let head = head.replace('\n', "\r\n");
        assert_eq!(written(status, lines, context, length), (head, framing, last));
    }

    #[test]
    fn a_length_that_is_known_is_told_and_the_applications_own_words_are_not() {
        let lines = [("content-length", "7"), ("transfer-encoding", "chunked"), ("x-a", "b")];
        check(
            (200, &lines),
            (GET, BodyLength::Known(12_345)),
            (
                "HTTP/1.1 200 OK\nx-a: b\ncontent-length: 12345\n\n",
                BodyEncoder::Length(12_345),
                false,
            ),
        );
        check(
            (404, &lines),
            (GET, BodyLength::Known(0)),
            ("HTTP/1.1 404 Not Found\nx-a: b\ncontent-length: 0\n\n", BodyEncoder::None, false),
        );
    }

    #[test]
    fn an_unknown_length_is_chunked_and_other_codings_stay() {
        check(
            (200, &[("transfer-encoding", "gzip, Chunked"), ("trailer", "x-a, x-b")]),
            (GET, BodyLength::Unknown),
            (
                "HTTP/1.1 200 OK\ntransfer-encoding: gzip, chunked\ntrailer: x-a, x-b\n\n",
                BodyEncoder::Chunked,
                false,
            ),
        );
        let lines = [("trailer", "x-a"), ("content-length", "3")];
        let head = "HTTP/1.1 200 OK\ntransfer-encoding: chunked\ntrailer: x-a\n\n";
        check((200, &lines), (GET, BodyLength::Unknown), (head, BodyEncoder::Chunked, false));
    }

    #[test]
    fn responses_without_a_body_have_none_and_say_the_length_that_the_content_has() {
        let lines = [("content-length", "7"), ("transfer-encoding", "chunked")];
        let empty = "HTTP/1.1 204 No Content\n\n";
        check((204, &lines), (GET, BodyLength::Known(7)), (empty, BodyEncoder::None, false));
        let same = "HTTP/1.1 304 Not Modified\ncontent-length: 7\n\n";
        check((304, &lines), (GET, BodyLength::Known(0)), (same, BodyEncoder::None, false));
        let same = "HTTP/1.1 304 Not Modified\n\n";
        check((304, &[]), (GET, BodyLength::Known(0)), (same, BodyEncoder::None, false));
        let head = ResponseContext { head: true, ..GET };
        let expected = "HTTP/1.1 200 OK\ncontent-length: 7\n\n";
        check((200, &lines), (head, BodyLength::Known(0)), (expected, BodyEncoder::None, false));
        check(
            (200, &[]),
            (head, BodyLength::Unknown),
            ("HTTP/1.1 200 OK\n\n", BodyEncoder::None, false),
        );
    }

    #[test]
    fn an_old_client_is_told_that_the_connection_stays_and_gets_no_chunks() {
        let old = ResponseContext { version: Version::HTTP_10, ..GET };
        check(
            (200, &[]),
            (old, BodyLength::Known(1)),
            (
                "HTTP/1.0 200 OK\ncontent-length: 1\nconnection: keep-alive\n\n",
                BodyEncoder::Length(1),
                false,
            ),
        );
        check(
            (200, &[("transfer-encoding", "chunked"), ("trailer", "x-a")]),
            (old, BodyLength::Unknown),
            ("HTTP/1.0 200 OK\n\n", BodyEncoder::UntilClose, true),
        );
    }

    #[test]
    fn an_end_of_the_connection_is_told_once() {
        let closing = ResponseContext { keep_alive: false, ..GET };
        let head = "HTTP/1.1 502 Bad Gateway\ncontent-length: 0\nconnection: close\n\n";
        check((502, &[]), (closing, BodyLength::Known(0)), (head, BodyEncoder::None, true));
        let lines = [("connection", "close")];
        check((502, &lines), (GET, BodyLength::Known(0)), (head, BodyEncoder::None, true));
    }

    #[test]
    fn a_switch_keeps_its_own_words() {
        let lines = [("connection", "Upgrade"), ("upgrade", "websocket")];
        let head = "HTTP/1.1 101 Switching Protocols\nupgrade: websocket\nconnection: Upgrade\n\n";
        check((101, &lines), (GET, BodyLength::Known(0)), (head, BodyEncoder::None, true));
    }

    #[test]
    fn a_reason_of_the_applications_own_is_passed_on() {
        let mut response = Response::new(());
        response.headers_mut().insert(DATE, HeaderValue::from_static("now"));
        let reason = ReasonPhrase::from_static(b"Fine");
        response.extensions_mut().insert(reason);
        let mut out = Vec::new();
        write((response, b""), (GET, BodyLength::Known(0)), &mut out, 1);
        assert!(out.starts_with(b"HTTP/1.1 200 Fine\r\n"), "{}", out.escape_ascii());
    }
}
