//! Encodes the head of a request that is forwarded, without the formatting machinery: names and
//! values are copied.

use super::encode::BodyEncoder;
use super::line::{line_as_received, sized, spelling};
use super::response_encode::write_transfer_encoding;
use super::unencoded::UnencodedTarget;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{Uri, Version};
use http_body::SizeHint;
use std::io::Write;

/// Writes a request's head; returns the encoder of its body. `body` is the size of the body as far
/// as it is known, `text` the head as it was received over HTTP/1, by which names are spelt.
///
/// The body's framing is written anew: a length if it is known, else chunks. A request without a
/// body gets no framing field unless the client sent a length of 0; so does HTTP/1.0, which cannot
/// have a body of unknown length. If an HTTP/2 client has not ended a GET, a body may follow; it is
/// sent as an HTTP/1 client would send it.
///
/// `ends_after_body`: no request follows a body, and the head says so (RFC 9112 section 9.6), because the
/// server may leave the body unread and take it for the next request while the connection is open. The
/// head of such a request asks for no upgrade, which a server would take for a wish to keep the connection.
pub(super) fn write(
    out: &mut Vec<u8>,
    (head, text): (&Parts, &[u8]),
    (body, ends_after_body): (&SizeHint, bool),
) -> BodyEncoder {
    out.reserve(AVERAGE_HEAD);
    out.extend_from_slice(head.method.as_str().as_bytes());
    out.push(b' ');
    match head.extensions.get::<UnencodedTarget>() {
        None => put_target(out, &head.uri),
        Some(mark) => mark.write(&head.uri, text, out),
    }
    let old = head.version == Version::HTTP_10;
    out.extend_from_slice(if old { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
    let (mut said, mut coded) = (None, None);
    let closes = ends_after_body && body.exact() != Some(0);
    for (name, value) in &head.headers {
        if closes && (*name == CONNECTION || *name == UPGRADE) {
            continue;
        }
        if *name == CONTENT_LENGTH {
            said = Some(spelling(name, value.as_bytes(), text));
        } else if *name == TRANSFER_ENCODING {
            coded = coded.or(Some(spelling(name, value.as_bytes(), text)));
        } else {
            line_as_received(name, value.as_bytes(), text, out);
        }
    }
    let framing = frame(out, head, body, (said, coded));
    if closes && framing.has_body() {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
    framing
}

/// Writes the framing field, whose name is spelt as the client spelt it. `said`: the name of a length that
/// the client sent; `coded`: that of a coding.
fn frame(
    out: &mut Vec<u8>,
    head: &Parts,
    body: &SizeHint,
    (said, coded): (Option<&[u8]>, Option<&[u8]>),
) -> BodyEncoder {
    match body.exact() {
        Some(0) if said.is_none() => BodyEncoder::None,
        Some(bytes) => {
            sized(said.unwrap_or(b"content-length"), bytes, out);
            BodyEncoder::Length(bytes)
        }
        None if head.version == Version::HTTP_10 => BodyEncoder::None,
        None => {
            write_transfer_encoding(coded.unwrap_or(b"transfer-encoding"), &head.headers, out);
            BodyEncoder::Chunked
        }
    }
}

/// Appends the target in the form of the URI, which is a path or `*` for all forwarded requests.
fn put_target(out: &mut Vec<u8>, uri: &Uri) {
    match uri.path_and_query() {
        Some(target) if uri.authority().is_none() => {
            out.extend_from_slice(target.as_str().as_bytes());
        }
        Some(_) | None => {
            // Writing to memory cannot fail.
            let _ = write!(out, "{uri}");
        }
    }
}

/// Capacity that fits most heads, so that they are not moved while they grow.
const AVERAGE_HEAD: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[track_caller]
    fn check(request: http::request::Builder, body: SizeHint, want: &str) {
        let (head, ()) = request.body(()).unwrap().into_parts();
        let mut out = Vec::new();
        write(&mut out, (&head, b""), (&body, false));
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn the_head_of_a_last_request_with_a_body_says_that_none_follows() {
        let written = |request: http::request::Builder, bytes: u64| {
            let (head, ()) = request.body(()).unwrap().into_parts();
            let mut out = Vec::new();
            write(&mut out, (&head, b""), (&SizeHint::with_exact(bytes), true));
            String::from_utf8(out).unwrap()
        };
        let last = "GET / HTTP/1.1\r\ncontent-length: 5\r\nconnection: close\r\n\r\n";
        assert_eq!(written(Request::get("/"), 5), last);
        assert_eq!(written(Request::get("/"), 0), "GET / HTTP/1.1\r\n\r\n");
        let upgrade =
            || Request::get("/").header("connection", "upgrade").header("upgrade", "websocket");
        assert_eq!(written(upgrade(), 5), last);
        let kept = "GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        assert_eq!(written(upgrade(), 0), kept);
    }

    #[test]
    fn a_head_says_of_its_body_what_the_body_is() {
        let (none, some) = (|| SizeHint::with_exact(0), || SizeHint::with_exact(12));
        let unknown = SizeHint::default;
        check(
            Request::get("/a?b").header("Host", "x"),
            none(),
            "GET /a?b HTTP/1.1\r\nhost: x\r\n\r\n",
        );
        check(Request::options("*"), none(), "OPTIONS * HTTP/1.1\r\n\r\n");
        let post = || Request::post("/");
        check(post(), none(), "POST / HTTP/1.1\r\n\r\n");
        let said = || post().header("content-length", "0");
        check(said(), none(), "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n");
        check(said(), some(), "POST / HTTP/1.1\r\ncontent-length: 12\r\n\r\n");
        let chunked = || post().header("transfer-encoding", "gzip, chunked");
        check(chunked(), unknown(), "POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n");
        check(chunked(), none(), "POST / HTTP/1.1\r\n\r\n");
        let chunks = "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        check(Request::get("/"), unknown(), chunks);
        let get = || Request::get("/").header("transfer-encoding", "chunked");
        check(get(), unknown(), "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
        let old = || post().version(Version::HTTP_10);
        check(old(), unknown(), "POST / HTTP/1.0\r\n\r\n");
        check(old(), some(), "POST / HTTP/1.0\r\ncontent-length: 12\r\n\r\n");
    }
}
