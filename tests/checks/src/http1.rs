//! Requests of HTTP/1: what the sidecar takes for a request, hyper's server takes for the same one, with
//! the same method, target, fields and body, and the next one begins at the same byte.
//!
//! The sidecar may refuse more. It does so where a transfer coding names `chunked` twice or has an empty
//! element, where a length stands beside a transfer coding, and where a line of the head or of trailers
//! does not end in CR LF.

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::rt::ReadBufCursor;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};
use policy_http::http1::decode::{Decoded, Decoder};
use policy_http::http1::request_decode;
use policy_http::http1::request_decode::{Bounds, RequestFraming};
use policy_http::http1::unencoded::UnencodedTarget;
use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub(crate) const BOUNDS: Bounds = Bounds { fields: 100, bytes: 64 * 1024 };

/// The most that is cut in every place.
const CUT: usize = 300;

/// A request as it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// With its trailers.
    Whole(Vec<u8>, HeaderMap),
    /// More has to follow.
    Cut,
    /// It is none, whatever follows.
    Refused,
}

impl Seen {
    fn without_body(&self) -> Self {
        Self { body: Body::Refused, ..self.clone() }
    }
}

/// Holds the bytes of a client's connection to this.
///
/// # Errors
/// What is wrong, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    pieces(data)?;
    let theirs = hyper(data, BOUNDS);
    for (place, own) in ours(data).into_iter().enumerate() {
        let Some(their) = theirs.get(place) else {
            return Err(format!("only we see request {place}: {own:?}"));
        };
        let alike = match (&own.body, &their.body) {
            (Body::Refused, _) => own.without_body() == their.without_body(),
            // hyper calls both a failure.
            (Body::Cut, Body::Refused) => own.without_body() == their.without_body(),
            (Body::Whole(..) | Body::Cut, _) => own == *their,
        };
        if !alike {
            return Err(format!("request {place} is {own:?} to us, {their:?} to hyper"));
        }
    }
    Ok(())
}

/// True if a line may be that of a request whose target has a character that is to be percent-encoded.
pub(crate) fn may_have_unencoded_targets(data: &[u8]) -> bool {
    data.split(|byte| *byte == b'\n').any(|line| {
        line.windows(5).any(|part| part == b"HTTP/")
            && line.iter().any(|byte| b"<>`\"".contains(byte))
    })
}

/// A head that comes in two pieces is the same head.
fn pieces(data: &[u8]) -> Result<(), String> {
    let Ok(Some((whole, used))) = request_decode::parse(data, 0, BOUNDS) else { return Ok(()) };
    for length in 1..data.len().min(CUT) {
        let Some(part) = data.get(..length) else { continue };
        match request_decode::parse(part, 0, BOUNDS) {
            Ok(None) => {}
            Ok(Some((_, again))) if again == used => continue,
            other => return Err(format!("{other:?} after {length} bytes, {used} in all")),
        }
        match request_decode::parse(data, length, BOUNDS) {
            Ok(Some((again, end))) if end == used && again.parts.uri == whole.parts.uri => {}
            other => return Err(format!("{other:?} behind {length} bytes, {used} in all")),
        }
    }
    Ok(())
}

fn ours(data: &[u8]) -> Vec<Seen> {
    let mut buffer = BytesMut::from(data);
    let mut seen = Vec::new();
    while let Ok(Some((head, used))) = request_decode::parse(&buffer, 0, BOUNDS) {
        buffer.advance(used);
        if head.parts.extensions.get::<UnencodedTarget>().is_some() {
            // hyper reads no target with such characters.
            break;
        }
        let headers = &head.parts.headers;
        if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
            // Refused by the gate.
            break;
        }
        let mut decoder = match head.body {
            RequestFraming::None => Decoder::empty(),
            RequestFraming::Length(bytes) => Decoder::length(bytes),
            RequestFraming::Chunked => Decoder::chunked(BOUNDS.fields, 16 * 1024),
        };
        let body = decode(&mut decoder, &mut buffer);
        let ended = !matches!(body, Body::Whole(..)) || !head.keep_alive;
        let parts = *head.parts;
        seen.push(Seen {
            method: parts.method,
            target: parts.uri.to_string(),
            version: parts.version,
            headers: parts.headers,
            body,
        });
        if ended {
            break;
        }
    }
    seen
}

fn decode(decoder: &mut Decoder, buffer: &mut BytesMut) -> Body {
    let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
    loop {
        match decoder.decode(buffer) {
            Ok(Decoded::Data(data)) => body.extend_from_slice(&data),
            Ok(Decoded::Trailers(fields)) => trailers = fields,
            Ok(Decoded::End) => return Body::Whole(body, trailers),
            Ok(Decoded::More) => return Body::Cut,
            Err(_) => return Body::Refused,
        }
    }
}

/// Messages that hyper's server reads in a client's bytes.
pub(crate) fn hyper(data: &[u8], bounds: Bounds) -> Vec<Seen> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let own = Rc::clone(&seen);
    let service = service_fn(move |request| see(Rc::clone(&own), request));
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.max_headers(bounds.fields).max_buf_size(bounds.bytes).half_close(true);
    let mut serving = pin!(builder.serve_connection(Input(data), service));
    let mut cx = Context::from_waker(Waker::noop());
    // It is woken by itself alone, so that it gets nowhere once nothing has changed for long.
    for _ in 0..10_000 {
        if serving.as_mut().poll(&mut cx).is_ready() {
            break;
        }
    }
    seen.take()
}

async fn see(
    seen: Rc<RefCell<Vec<Seen>>>,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let place = seen.borrow().len();
    let connect = head.method == Method::CONNECT;
    seen.borrow_mut().push(Seen {
        method: head.method,
        target: head.uri.to_string(),
        version: head.version,
        headers: head.headers,
        body: Body::Refused,
    });
    if let Ok(body) = body.collect().await {
        let trailers = body.trailers().cloned().unwrap_or_default();
        let body = Body::Whole(body.to_bytes().to_vec(), trailers);
        if let Some(own) = seen.borrow_mut().get_mut(place) {
            own.body = body;
        }
    }
    let mut response = Response::new(Empty::new());
    if connect {
        // Else the connection becomes a tunnel.
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    Ok(response)
}

/// A client that says all it has to say, and takes every answer.
struct Input<'a>(&'a [u8]);

impl hyper::rt::Read for Input<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.0.split_at(self.0.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Input<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
