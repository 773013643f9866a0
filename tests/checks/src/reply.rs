//! Responses of HTTP/1: what the sidecar takes for an application's response, hyper's client takes for the
//! same one, with the same status, fields and body, and both find it whole or both find it broken.
//!
//! The sidecar may refuse more. It does so where a length stands beside a transfer coding, where codings
//! do not end in the one `chunked`, where a length is no number in a response that needs none, where a
//! blank precedes the colon of one of the two, and where a line of trailers does not end in CR LF.

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use hyper::rt::ReadBufCursor;
use hyper::{HeaderMap, Method, Request, StatusCode, Version};
use policy_http::http1::decode::{Decoded, Decoder};
use policy_http::http1::request_decode::Bounds;
use policy_http::http1::response_decode;
use policy_http::http1::response_decode::{ResponseFraming, ResponseHead, ResponseHeadError};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

const BOUNDS: Bounds = Bounds { fields: 100, bytes: 64 * 1024 };

/// A response as it was understood.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: StatusCode,
    version: Version,
    reason: Vec<u8>,
    /// Without the length, which may be told more than once, and options of the connection.
    headers: HeaderMap,
    /// The transfer codings in their order: `chunked` once more is the same coding to the sidecar.
    codings: Vec<Vec<u8>>,
    coded: bool,
    /// True if it tells its length. A length beside a coding says nothing: the sidecar removes it (RFC 9112
    /// section 6.3).
    sized: bool,
    /// With its trailers; none: it is broken.
    body: Option<(Vec<u8>, HeaderMap)>,
}

impl Seen {
    fn new(head: Parts, body: Option<(Vec<u8>, HeaderMap)>) -> Self {
        let reason = head.extensions.get::<ReasonPhrase>();
        let mut headers = head.headers;
        let coded = headers.contains_key(TRANSFER_ENCODING);
        let sized = headers.remove(CONTENT_LENGTH).is_some() && !coded;
        let lines = headers.get_all(TRANSFER_ENCODING).iter();
        let mut codings: Vec<Vec<u8>> = lines
            .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
            .map(|coding| coding.trim_ascii().to_ascii_lowercase())
            .collect();
        codings.dedup_by(|one, other| one == other && one == b"chunked");
        headers.remove(TRANSFER_ENCODING);
        // One that says nothing to anybody but us is not kept.
        let options: Vec<_> = headers.get_all(CONNECTION).iter().cloned().collect();
        headers.remove(CONNECTION);
        options.into_iter().filter(|own| !is_ours(own)).for_each(|own| {
            headers.append(CONNECTION, own);
        });
        Self {
            status: head.status,
            version: head.version,
            reason: reason.map(|own| own.as_bytes().to_vec()).unwrap_or_default(),
            coded,
            headers,
            codings,
            sized,
            body,
        }
    }
}

/// The same, with one blank for blanks in values: readers put different numbers of them in place of the
/// end of a folded line (RFC 9112 section 5.2).
fn squeezed(seen: Seen) -> Seen {
    let mut headers = seen.headers;
    for value in headers.values_mut() {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let words: Vec<&[u8]> =
            value.as_bytes().split(blank).filter(|word| !word.is_empty()).collect();
        if let Ok(own) = HeaderValue::from_bytes(&words.join(&b' ')) {
            *value = own;
        }
    }
    Seen { headers, ..seen }
}

/// True if a line continues the one before it.
fn is_folded(data: &[u8]) -> bool {
    data.windows(2).any(|pair| matches!(pair, [b'\n', b' ' | b'\t']))
}

/// True if anything in `data` delimits a body.
fn tells_a_body(data: &[u8]) -> bool {
    let text = data.to_ascii_lowercase();
    [&b"content-length"[..], b"transfer-encoding"]
        .iter()
        .any(|name| text.windows(name.len()).any(|part| part == *name))
}

fn is_ours(option: &HeaderValue) -> bool {
    let text = option.as_bytes();
    text.eq_ignore_ascii_case(b"close") || text.eq_ignore_ascii_case(b"keep-alive")
}

/// Holds the bytes of an application's connection to this.
///
/// # Errors
/// The fault, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    for method in [Method::GET, Method::HEAD] {
        let (mut own, mut their) = (ours(data, method == Method::HEAD), hyper(data, &method));
        if is_folded(data) {
            (own, their) = (own.map(squeezed), their.map(squeezed));
        }
        let alike = match (&own, &their) {
            (None, None) => true,
            // It may stand in an interim one.
            (None, Some(_)) => tells_a_body(data),
            (Some(_), None) => false,
            (Some(own), Some(their)) => {
                let stricter = own.body.is_none() && own.coded;
                let body = own.body == their.body || stricter;
                let head = |seen: &Seen| {
                    let codings = seen.codings.clone();
                    (seen.status, seen.version, seen.reason.clone(), codings, seen.sized)
                };
                body && head(own) == head(their) && own.headers == their.headers
            }
        };
        if !alike {
            return Err(format!("the response to {method} is {own:?} to us, {their:?} to hyper"));
        }
    }
    pieces(data)
}

/// A response that comes byte by byte is the same one.
fn pieces(data: &[u8]) -> Result<(), String> {
    let mut whole = BytesMut::from(data);
    let Ok(Some(head)) = final_head(&mut whole, false) else { return Ok(()) };
    let mut buffer = BytesMut::new();
    for (place, byte) in data.iter().enumerate() {
        buffer.extend_from_slice(&[*byte]);
        match final_head(&mut buffer, false) {
            Ok(None) => {}
            Ok(Some(again)) => {
                let same = again.body == head.body
                    && again.response.headers() == head.response.headers()
                    && data.len().saturating_sub(place).saturating_sub(1) == whole.len();
                return if same { Ok(()) } else { Err(format!("{again:?} after {place} bytes")) };
            }
            Err(bad) => return Err(format!("{bad:?} after {place} bytes")),
        }
    }
    Err("a response that is none byte by byte".into())
}

/// The head behind the interim ones, which hyper passes over.
fn final_head(
    buffer: &mut BytesMut,
    to_head: bool,
) -> Result<Option<ResponseHead>, ResponseHeadError> {
    loop {
        match response_decode::parse(buffer, to_head, BOUNDS)? {
            Some(head) if head.is_interim() => {}
            head => return Ok(head),
        }
    }
}

fn ours(data: &[u8], to_head: bool) -> Option<Seen> {
    let mut buffer = BytesMut::from(data);
    let head = final_head(&mut buffer, to_head).ok()??;
    let mut decoder = match head.body {
        ResponseFraming::Switched => Decoder::empty(),
        ResponseFraming::Length(bytes) => Decoder::length(bytes),
        ResponseFraming::Chunked => Decoder::chunked(BOUNDS.fields, 16 * 1024),
        ResponseFraming::UntilClose => Decoder::until_close(),
    };
    let body = decode(&mut decoder, &mut buffer);
    Some(Seen::new(head.response.into_parts().0, body))
}

fn decode(decoder: &mut Decoder, buffer: &mut BytesMut) -> Option<(Vec<u8>, HeaderMap)> {
    let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
    loop {
        match decoder.decode(buffer).ok()? {
            Decoded::Data(data) => body.extend_from_slice(&data),
            Decoded::Trailers(fields) => trailers = fields,
            Decoded::End => return Some((body, trailers)),
            Decoded::More => decoder.end_of_input().ok()?,
        }
    }
}

fn hyper(data: &[u8], method: &Method) -> Option<Seen> {
    let mut builder = http1::Builder::new();
    builder.max_headers(BOUNDS.fields).max_buf_size(BOUNDS.bytes);
    builder.allow_spaces_after_header_name_in_responses(true);
    builder.allow_obsolete_multiline_headers_in_responses(true);
    let io = Application { asked: false, left: data };
    let (mut sender, connection) = poll(pin!(builder.handshake(io)))?.ok()?;
    let mut connection = pin!(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = method.clone();
    let asked = async {
        let (head, body) = sender.send_request(request).await.ok()?.into_parts();
        let body = body.collect().await.ok().map(|body| {
            let trailers = body.trailers().cloned().unwrap_or_default();
            (body.to_bytes().to_vec(), trailers)
        });
        Some(Seen::new(head, body))
    };
    let mut asked = pin!(asked);
    let mut ended = false;
    poll(std::future::poll_fn(|cx| {
        if !ended {
            ended = connection.as_mut().poll(cx).is_ready();
        }
        asked.as_mut().poll(cx)
    }))?
}

/// Polls a future that only wakes itself; none if it stops making progress.
fn poll<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    (0..10_000).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

/// Answers whatever it is asked, and ends.
struct Application<'a> {
    asked: bool,
    left: &'a [u8],
}

impl hyper::rt::Read for Application<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.asked {
            return Poll::Pending;
        }
        let (now, later) = self.left.split_at(self.left.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.left = later;
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Application<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
