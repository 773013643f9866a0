//! Heads as large as the largest setting allows (`--max-request-head 16777216`), of both versions, from end to
//! end: what is to be sent is written down in a few bytes, since no fuzzer comes up with megabytes.
//!
//! Beside what holds of every connection through the sidecar, each is answered, and one that is well within
//! all bounds reaches the application.

use crate::sidecar::{Carried, carry_large};

/// A head that is to be sent.
struct Plan {
    http2: bool,
    /// Bytes of the query.
    query: usize,
    fields: Vec<Field>,
}

/// So many fields with values of so many bytes.
struct Field {
    kind: Kind,
    bytes: usize,
    times: usize,
}

enum Kind {
    /// Each with a name of its own.
    Distinct,
    /// All of one name.
    Alike,
    /// Cookies.
    Crumbs,
}

/// The bytes that write down one [`Field`]: its kind, the size and the number.
const FIELD: usize = 5;
/// More than the largest setting, in bytes and in fields.
const MOST_BYTES: usize = 17 << 20;
const MOST_FIELDS: usize = 40_000;
/// Well within every bound.
const FEW_BYTES: usize = 512 * 1024;
const FEW_FIELDS: usize = 4_000;
const SHORT_QUERY: usize = 32 * 1024;
/// The ports of `sidecar`.
const HTTP1: usize = 1;
const HTTP2: usize = 2;

/// Holds a head that is written down in `data` to this.
///
/// # Errors
/// What is wrong, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    carry(data).map(drop)
}

/// The same, and what it came to.
///
/// # Errors
/// What is wrong, in words.
pub fn carry(data: &[u8]) -> Result<Carried, String> {
    let plan = Plan::read(data);
    let (bytes, number) = (plan.bytes(), plan.fields().count());
    let carried = match plan.http2 {
        true => carry_large(HTTP2, &bytes, is_all_of_http2)?,
        // It ends by itself.
        false => carry_large(HTTP1, &bytes, |_| false)?,
    };
    if carried.answer.is_empty() {
        let Carried { forwarded, broke, .. } = carried;
        let sent = format!("{number} fields in {} bytes, {forwarded} forwarded", bytes.len());
        return Err(format!("{sent}, have no answer: {broke:?}"));
    }
    let small = bytes.len() <= FEW_BYTES && number <= FEW_FIELDS && plan.query <= SHORT_QUERY;
    if small && carried.forwarded != 1 {
        let start = carried.answer.get(..200).unwrap_or(&carried.answer).escape_ascii();
        return Err(format!("{number} fields in {} bytes: {start}", bytes.len()));
    }
    Ok(carried)
}

impl Plan {
    fn read(data: &[u8]) -> Self {
        let (first, rest) = data.split_first().unwrap_or((&0, data));
        let mut plan = Self { http2: first & 1 == 1, query: 0, fields: Vec::new() };
        let (mut bytes, mut fields) = (0_usize, 0_usize);
        for piece in rest.chunks_exact(FIELD) {
            let &[kind, size, more, times, again] = piece else { continue };
            let size = usize::from(u16::from_le_bytes([size, more]));
            let times = usize::from(u16::from_le_bytes([times, again]));
            bytes = bytes.saturating_add((size + NAME).saturating_mul(times));
            fields = fields.saturating_add(times);
            if bytes > MOST_BYTES || fields > MOST_FIELDS {
                break;
            }
            let kind = match kind & 3 {
                0 => Kind::Distinct,
                1 => Kind::Alike,
                2 => Kind::Crumbs,
                _ => {
                    plan.query = plan.query.max(size);
                    continue;
                }
            };
            plan.fields.push(Field { kind, bytes: size, times });
        }
        plan
    }

    /// Every field with its value.
    fn fields(&self) -> impl Iterator<Item = (String, String)> {
        let each = self.fields.iter().enumerate().flat_map(|(group, field)| {
            (0..field.times).map(move |time| {
                let name = match field.kind {
                    Kind::Distinct => format!("x-{group}-{time}"),
                    Kind::Alike => "x-alike".to_owned(),
                    Kind::Crumbs => "cookie".to_owned(),
                };
                (name, "v".repeat(field.bytes))
            })
        });
        each.take(MOST_FIELDS)
    }

    fn target(&self) -> String {
        format!("/open/echo?{}", "q".repeat(self.query))
    }

    fn bytes(&self) -> Vec<u8> {
        if self.http2 { self.http2() } else { self.http1() }
    }

    fn http1(&self) -> Vec<u8> {
        let mut head =
            format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", self.target());
        for (name, value) in self.fields() {
            head.extend([&name, ": ", &value, "\r\n"]);
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    fn http2(&self) -> Vec<u8> {
        // `:method: GET` and `:scheme: http`, then literals by the number of their name (RFC 7541
        // appendix A) or by name, which no table keeps.
        let mut block = vec![0x82, 0x86, 0x01];
        text("a", &mut block);
        block.push(0x04);
        text(&self.target(), &mut block);
        for (name, value) in self.fields() {
            block.push(0x00);
            text(&name, &mut block);
            text(&value, &mut block);
        }
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame(SETTINGS, 0, 0, &[], &mut bytes);
        let pieces = block.chunks(FRAME).count();
        for (number, piece) in block.chunks(FRAME).enumerate() {
            let (kind, end) = match number {
                0 => (HEADERS, END_STREAM),
                _ => (CONTINUATION, 0),
            };
            let last = if number + 1 == pieces { END_HEADERS } else { 0 };
            frame(kind, end | last, 1, piece, &mut bytes);
        }
        bytes
    }
}

/// Most bytes of a name and of the bytes around a field.
const NAME: usize = 24;

const FRAME: usize = 16 * 1024;
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;
const CONTINUATION: u8 = 0x9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// RFC 9113 section 4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], bytes: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    bytes.extend_from_slice(&length[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}

/// True if the stream of the request has ended, or the connection is about to.
fn is_all_of_http2(mut answer: &[u8]) -> bool {
    while let Some((&[one, two, three, kind, flags, ..], rest)) = answer.split_first_chunk::<9>() {
        let ends = matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
        if ends || matches!(kind, RST_STREAM | GOAWAY) {
            return true;
        }
        let length = u32::from_be_bytes([0, one, two, three]) as usize;
        answer = rest.get(length..).unwrap_or_default();
    }
    false
}

/// A string without Huffman coding, with its length (RFC 7541 section 5).
fn text(text: &str, block: &mut Vec<u8>) {
    const PREFIX: usize = 0x7f;
    let mut length = text.len();
    if length < PREFIX {
        block.extend(u8::try_from(length));
    } else {
        block.push(0x7f);
        length -= PREFIX;
        while length >= 0x80 {
            block.extend(u8::try_from(length & 0x7f | 0x80));
            length >>= 7;
        }
        block.extend(u8::try_from(length));
    }
    block.extend_from_slice(text.as_bytes());
}
