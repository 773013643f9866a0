//! Body encoding, so that the recipient finds the end of a body (RFC 9112 sections 6 and 7).

use super::line::line;
use super::write_buf::WriteBuf;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    HOST, HeaderName, MAX_FORWARDS, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
};

/// Encoder of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEncoder {
    /// No body is written.
    None,
    /// Number of bytes still to be written.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Bytes until the connection ends.
    UntilClose,
}

/// The body ended before its announced length; the message cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("body shorter than its content-length")]
pub struct IncompleteBody;

impl BodyEncoder {
    /// Returns true if a body is written.
    pub(crate) fn has_body(&self) -> bool {
        match self {
            Self::None | Self::Length(0) => false,
            Self::Length(_) | Self::Chunked | Self::UntilClose => true,
        }
    }

    /// Appends a piece of the body. Bytes beyond the announced length are dropped.
    pub fn data(&mut self, mut piece: Bytes, out: &mut WriteBuf) {
        if piece.is_empty() {
            return;
        }
        match self {
            Self::None => {}
            Self::Length(left) => {
                piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                let taken = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                *left = left.saturating_sub(taken);
                out.push(piece);
            }
            Self::Chunked => {
                let mut line = [0; SIZE_LINE];
                out.copy(size_line(piece.len(), &mut line));
                out.push(piece);
                out.fixed(b"\r\n");
            }
            Self::UntilClose => out.push(piece),
        }
    }

    /// Appends the end of the body.
    ///
    /// # Errors
    /// The body is shorter than its announced length.
    pub fn end(&mut self, out: &mut WriteBuf) -> Result<(), IncompleteBody> {
        match std::mem::replace(self, Self::None) {
            Self::None | Self::Length(0) | Self::UntilClose => Ok(()),
            Self::Length(_) => Err(IncompleteBody),
            Self::Chunked => {
                out.fixed(b"0\r\n\r\n");
                Ok(())
            }
        }
    }

    /// Appends the end of the body with those `trailers` that are allowed there. A `Trailer` field
    /// need not have announced them, because it is optional (RFC 9110 section 6.6.2).
    ///
    /// # Errors
    /// The body is shorter than its announced length.
    pub fn trailers(
        &mut self,
        trailers: &HeaderMap,
        out: &mut WriteBuf,
    ) -> Result<(), IncompleteBody> {
        if *self != Self::Chunked {
            return self.end(out);
        }
        let mut lines = b"0\r\n".to_vec();
        for (name, value) in trailers {
            if !FORBIDDEN_TRAILERS.contains(name) {
                line(name, value.as_bytes(), &mut lines);
            }
        }
        lines.extend_from_slice(b"\r\n");
        out.copy(&lines);
        *self = Self::None;
        Ok(())
    }
}

/// Formats `len` in hexadecimal, with CR LF.
fn size_line(len: usize, line: &mut [u8; SIZE_LINE]) -> &[u8] {
    let (mut left, mut used) = (len, 2_usize);
    let mut places = line.iter_mut().rev();
    // In this order, because `zip` of the other order would take one place too many.
    for (byte, place) in b"\n\r".iter().copied().zip(places.by_ref()) {
        *place = byte;
    }
    for place in places {
        *place = HEX.get(left % 16).copied().unwrap_or(b'0');
        used = used.saturating_add(1);
        left /= 16;
        if left == 0 {
            break;
        }
    }
    line.get(SIZE_LINE.saturating_sub(used)..).unwrap_or_default()
}

const SIZE_LINE: usize = 18;
const HEX: [u8; 16] = *b"0123456789ABCDEF";
/// Fields that must not be trailers (RFC 9110 section 6.5.1): those for routing, framing,
/// authentication and modification of the message.
const FORBIDDEN_TRAILERS: [HeaderName; 12] = [
    AUTHORIZATION,
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    HOST,
    MAX_FORWARDS,
    SET_COOKIE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
];

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::future::poll_fn;

    fn framed(
        mut framing: BodyEncoder,
        pieces: &[&'static [u8]],
    ) -> (String, Result<(), IncompleteBody>) {
        let mut out = WriteBuf::default();
        for piece in pieces {
            framing.data(Bytes::from_static(piece), &mut out);
        }
        let ended = framing.end(&mut out);
        (text(out), ended)
    }

    fn text(mut out: WriteBuf) -> String {
        let mut written = Vec::new();
        let flushed = poll_fn(|cx| out.poll_flush(&mut written, cx));
        tokio_test::block_on(flushed).unwrap();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn a_length_is_neither_exceeded_nor_missed_unseen() {
        let pieces: [&[u8]; 3] = [b"abc", b"", b"defg"];
        assert_eq!(framed(BodyEncoder::Length(7), &pieces), ("abcdefg".into(), Ok(())));
        assert_eq!(framed(BodyEncoder::Length(5), &pieces), ("abcde".into(), Ok(())));
        assert_eq!(
            framed(BodyEncoder::Length(8), &pieces),
            ("abcdefg".into(), Err(IncompleteBody))
        );
        assert_eq!(framed(BodyEncoder::UntilClose, &pieces), ("abcdefg".into(), Ok(())));
        assert_eq!(framed(BodyEncoder::None, &pieces), (String::new(), Ok(())));
    }

    #[test]
    fn chunks_are_as_long_as_they_say_and_an_empty_piece_is_no_end() {
        let pieces: [&[u8]; 3] = [b"abc", b"", b"0123456789abcdefg"];
        let want = "3\r\nabc\r\n11\r\n0123456789abcdefg\r\n0\r\n\r\n";
        assert_eq!(framed(BodyEncoder::Chunked, &pieces), (want.into(), Ok(())));
    }

    #[test]
    fn every_size_is_written_in_hexadecimal() {
        for size in [1, 15, 16, 255, 4096, usize::MAX] {
            let mut line = [0; SIZE_LINE];
            assert_eq!(size_line(size, &mut line), format!("{size:X}\r\n").as_bytes());
        }
    }

    #[test]
    fn trailers_are_written_unless_they_may_not_be_there() {
        let mut trailers = HeaderMap::new();
        for name in ["x-a", "content-length", "x-b"] {
            trailers.insert(name, HeaderValue::from_static("1"));
        }
        let mut out = WriteBuf::default();
        BodyEncoder::Chunked.trailers(&trailers, &mut out).unwrap();
        assert_eq!(text(out), "0\r\nx-a: 1\r\nx-b: 1\r\n\r\n");
        let mut out = WriteBuf::default();
        BodyEncoder::UntilClose.trailers(&trailers, &mut out).unwrap();
        assert_eq!(text(out), "");
    }
}
