//! Telling protocols by a connection's first line: whatever the pieces in which it comes, the answer is one,
//! it stays, it is told within its bounds, and no line that an HTTP/1 server takes for a request is called
//! something else.

use crate::http1;
use policy_proxy::sidecar::first_line::{FirstLine, Verdict, WireProtocol};

/// The most that is cut in every place.
const CUT: usize = 300;
/// A line is told within so many bytes, whatever it says.
const LONGEST: usize = 128 * 1024 + 1;

/// Holds the first bytes of a connection to this.
///
/// # Errors
/// What is wrong, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    let whole = FirstLine::default().feed(data);
    if data.len() >= LONGEST && !matches!(whole, Verdict::Known(_)) {
        return Err(format!("{} bytes are not enough", data.len()));
    }
    pieces(data, whole)?;
    for length in 1..data.len().min(CUT) {
        let (one, two) = data.split_at(length);
        let mut line = FirstLine::default();
        let first = line.feed(one);
        let then = line.feed(two);
        if then != whole {
            return Err(format!("{then:?} behind {length} bytes, {whole:?} in one piece"));
        }
        if matches!(first, Verdict::Known(_)) && first != whole {
            return Err(format!("{first:?} after {length} bytes, then {whole:?}"));
        }
    }
    no_request_is_something_else(data, whole)
}

/// Byte by byte.
fn pieces(data: &[u8], whole: Verdict) -> Result<(), String> {
    let mut line = FirstLine::default();
    let mut told = line.feed(&[]);
    for byte in data {
        told = line.feed(std::slice::from_ref(byte));
    }
    if told == whole { Ok(()) } else { Err(format!("{told:?} byte by byte, {whole:?} at once")) }
}

/// By httparse, which most servers of Rust read with, and by hyper's server.
fn no_request_is_something_else(data: &[u8], told: Verdict) -> Result<(), String> {
    if told == Verdict::Known(WireProtocol::Other) && may_be_a_request(data) {
        return Err("the beginning of a request to httparse is something else to us".into());
    }
    let seen = http1::hyper(data, http1::BOUNDS);
    match (seen.first(), told) {
        (
            Some(_),
            Verdict::Known(WireProtocol::Http1 | WireProtocol::Http2 | WireProtocol::Proxy),
        )
        | (None, _) => Ok(()),
        (
            Some(request),
            Verdict::Known(WireProtocol::Other) | Verdict::Incomplete | Verdict::Doubtful,
        ) => Err(format!("{told:?}, but to hyper it is {request:?}")),
    }
}

/// Returns true if httparse takes the first line for that of a request, whatever follows. An incomplete
/// version does not count: until it is there, any two words are nearly a request.
fn may_be_a_request(data: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut fields);
    request.parse(data).is_ok() && request.version.is_some()
}
