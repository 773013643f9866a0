//! The bytes that attackers send.

use std::fmt::Write;
use std::net::SocketAddr;

/// Streams that are opened and reset on one connection.
const RESETS: u32 = 20;

/// Fields of a hostile head of HTTP/1.1.
const HUNDRED: usize = 100;

/// Fields of a hostile head of HTTP/2.
const MANY: usize = 1600;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;

/// `GET`, `http` and `:authority a` in HPACK; the path follows.
const GET: &[u8] = &[0x82, 0x86, 0x01, 0x01, b'a', 0x04];

/// A head that has begun.
pub(crate) fn begun_head(to: SocketAddr) -> Vec<u8> {
    format!("GET /zz/x HTTP/1.1\r\nhost: {to}\r\nx: ").into_bytes()
}

/// A request for a mebibyte.
pub(crate) fn large(to: SocketAddr) -> Vec<u8> {
    format!("GET /zz/x?1048576 HTTP/1.1\r\nhost: {to}\r\n\r\n").into_bytes()
}

/// A request of a hundred fields, 5 KB, for a path that is refused.
pub(crate) fn refused(to: SocketAddr) -> Vec<u8> {
    let mut text = format!("GET /nope HTTP/1.1\r\nhost: {to}\r\n");
    for number in 1..HUNDRED {
        // Writing to a string cannot fail.
        _ = write!(text, "x-hostile-{number}: {}\r\n", "a".repeat(32));
    }
    (text + "\r\n").into_bytes()
}

/// A connection of HTTP/2 whose streams are reset as soon as they are open.
pub(crate) fn resets() -> Vec<u8> {
    let mut all = opening();
    for number in 0..RESETS {
        let stream = 2 * number + 1;
        all.extend(frame(HEADERS, WHOLE, stream, &head("/zz/x")));
        // CANCEL.
        all.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    all
}

/// The request of this number on a connection of HTTP/2: one field that is to be remembered, and its
/// index again and again.
pub(crate) fn fields(number: u32) -> Vec<u8> {
    let mut all = if number == 0 { opening() } else { Vec::new() };
    let field: &[u8] = &[0x40, 0x01, b'x', 0x01, b'a'];
    let block = [&head("/nope"), field, &[0xbe; MANY]].concat();
    all.extend(frame(HEADERS, WHOLE, number.wrapping_mul(2).wrapping_add(1), &block));
    all
}

fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

fn head(path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap_or(0);
    [GET, &[length], path.as_bytes()].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let [_, first, second, third] = length;
    [&[first, second, third, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}
