//! Decodes bodies from a buffer.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Decoder of one body. Bytes behind the end of the body stay in the buffer.
#[derive(Clone, Debug)]
pub struct Decoder {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Ended,
    /// Number of bytes to come; never 0.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Bad(BodyError),
}

#[derive(Clone, Debug)]
struct Chunked {
    state: ChunkState,
    /// The chunk's size while its size line is read, then the number of its data bytes to come.
    left: u64,
    extensions: usize,
    trailers: Vec<u8>,
    fields: usize,
    most_fields: usize,
    most_bytes: usize,
}

/// Position in a chunked body: the kind of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    FirstDigit,
    Digits,
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The first byte of a trailer line, or of the empty line.
    Line,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

/// Result of a decoding step.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A piece of the body, never empty. It shares the buffer's memory.
    Data(Bytes),
    /// The trailers behind the last chunk; the end follows.
    Trailers(HeaderMap),
    /// The body is complete.
    End,
    /// More bytes are needed.
    More,
}

/// Error of a body. Its connection cannot be used any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A chunk's size line is not a hexadecimal number, or does not end in CR LF.
    #[error("malformed chunk")]
    Chunk,
    /// The chunk size exceeds 64 bits.
    #[error("chunk size too large")]
    Size,
    /// Too many bytes of chunk extensions.
    #[error("too many chunk extensions")]
    Extensions,
    /// Too many trailers, or too many bytes of trailers.
    #[error("trailers too large")]
    TrailersTooLarge,
    /// The trailers are not header fields.
    #[error("malformed trailers")]
    Trailers,
    /// The connection ended before the body did.
    #[error("incomplete body")]
    Incomplete,
}

/// Maximum number of bytes of chunk extensions in one body. Extensions are ignored and not
/// forwarded.
const MAX_EXTENSIONS: usize = 16 * 1024;
/// Number of trailer fields for which there is space on the stack.
const MAX_FIELDS: usize = 100;

impl Decoder {
    /// Creates the decoder of an empty body.
    #[inline]
    pub fn empty() -> Self {
        Self { kind: Kind::Ended }
    }

    /// Creates the decoder of a body of exactly `bytes`.
    #[inline]
    pub fn length(bytes: u64) -> Self {
        Self { kind: if bytes == 0 { Kind::Ended } else { Kind::Length(bytes) } }
    }

    /// Creates the decoder of a chunked body with at most `most_fields` trailers (never more than
    /// 100) and less than `most_bytes` bytes of them.
    pub fn chunked(most_fields: usize, most_bytes: usize) -> Self {
        Self {
            kind: Kind::Chunked(Chunked {
                state: ChunkState::FirstDigit,
                left: 0,
                extensions: 0,
                trailers: Vec::new(),
                fields: 0,
                most_fields: most_fields.min(MAX_FIELDS),
                most_bytes,
            }),
        }
    }

    /// Creates the decoder of a body that lasts until the connection ends.
    pub fn until_close() -> Self {
        Self { kind: Kind::UntilClose }
    }

    /// Returns true if the body is complete.
    #[inline]
    pub fn is_end(&self) -> bool {
        matches!(self.kind, Kind::Ended)
    }

    /// Returns true if `bytes` contain all that is still to come of the body.
    pub fn ends_within(&self, bytes: &[u8]) -> bool {
        if let Some(left) = self.remaining() {
            return usize::try_from(left).is_ok_and(|left| left <= bytes.len());
        }
        let (mut decoder, mut bytes) = (self.clone(), BytesMut::from(bytes));
        loop {
            match decoder.decode(&mut bytes) {
                Ok(Decoded::Data(_)) => {}
                Ok(Decoded::Trailers(_) | Decoded::End) => return true,
                Ok(Decoded::More) | Err(_) => return false,
            }
        }
    }

    /// Returns the number of bytes to come, if the head states it.
    #[inline]
    pub fn remaining(&self) -> Option<u64> {
        match &self.kind {
            Kind::Ended => Some(0),
            Kind::Length(left) => Some(*left),
            Kind::Chunked(_) | Kind::UntilClose | Kind::Bad(_) => None,
        }
    }

    /// Decodes the next piece of `buffer`.
    ///
    /// # Errors
    ///
    /// The bytes are not a valid body; more bytes will not change that.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Decoded, BodyError> {
        let found = match &mut self.kind {
            Kind::Ended => return Ok(Decoded::End),
            Kind::Bad(bad) => return Err(*bad),
            Kind::Length(_) | Kind::UntilClose if buffer.is_empty() => return Ok(Decoded::More),
            Kind::UntilClose => return Ok(Decoded::Data(buffer.split().freeze())),
            Kind::Length(left) => {
                let data = take(buffer, left);
                if *left == 0 {
                    self.kind = Kind::Ended;
                }
                return Ok(Decoded::Data(data));
            }
            Kind::Chunked(chunked) => chunked.decode(buffer),
        };
        match &found {
            Ok(Decoded::End | Decoded::Trailers(_)) => self.kind = Kind::Ended,
            Ok(Decoded::Data(_)) => self.look_for_end(buffer),
            Ok(Decoded::More) => {}
            Err(bad) => self.kind = Kind::Bad(*bad),
        }
        found
    }

    /// Handles the end of the connection.
    ///
    /// # Errors
    ///
    /// The body was not complete.
    pub fn end_of_input(&mut self) -> Result<(), BodyError> {
        match &self.kind {
            Kind::Ended | Kind::UntilClose => {
                self.kind = Kind::Ended;
                Ok(())
            }
            Kind::Bad(bad) => Err(*bad),
            Kind::Length(_) | Kind::Chunked(_) => {
                self.kind = Kind::Bad(BodyError::Incomplete);
                Err(BodyError::Incomplete)
            }
        }
    }

    /// Reads the lines behind a chunk that are available, so that the caller knows whether the
    /// piece is the last one.
    fn look_for_end(&mut self, buffer: &mut BytesMut) {
        let Kind::Chunked(chunked) = &mut self.kind else { return };
        match chunked.lines(buffer) {
            Err(bad) => self.kind = Kind::Bad(bad),
            Ok(()) if chunked.state == ChunkState::End && chunked.trailers.is_empty() => {
                self.kind = Kind::Ended;
            }
            Ok(()) => {}
        }
    }
}

impl Chunked {
    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Decoded, BodyError> {
        self.lines(buffer)?;
        match self.state {
            ChunkState::Data if buffer.is_empty() => Ok(Decoded::More),
            ChunkState::Data => {
                let data = take(buffer, &mut self.left);
                if self.left == 0 {
                    self.state = ChunkState::DataCr;
                }
                Ok(Decoded::Data(data))
            }
            ChunkState::End if self.trailers.is_empty() => Ok(Decoded::End),
            ChunkState::End => parse_trailers(&self.trailers).map(Decoded::Trailers),
            ChunkState::FirstDigit
            | ChunkState::Digits
            | ChunkState::Blank
            | ChunkState::Extension
            | ChunkState::SizeLf
            | ChunkState::DataCr
            | ChunkState::DataLf
            | ChunkState::Line
            | ChunkState::Trailer
            | ChunkState::TrailerLf
            | ChunkState::EndLf => Ok(Decoded::More),
        }
    }

    /// Reads lines up to the next data or to the end.
    fn lines(&mut self, buffer: &mut BytesMut) -> Result<(), BodyError> {
        let mut used = 0_usize;
        for byte in &**buffer {
            if matches!(self.state, ChunkState::Data | ChunkState::End) {
                break;
            }
            self.state = self.step(*byte)?;
            used = used.saturating_add(1);
        }
        buffer.advance(used);
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<ChunkState, BodyError> {
        match (self.state, byte) {
            (
                ChunkState::FirstDigit | ChunkState::Digits,
                b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F',
            ) => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                let size = self.left.checked_mul(16).and_then(|size| size.checked_add(digit));
                self.left = size.ok_or(BodyError::Size)?;
                Ok(ChunkState::Digits)
            }
            (ChunkState::Digits | ChunkState::Blank, b' ' | b'\t') => Ok(ChunkState::Blank),
            (ChunkState::Digits | ChunkState::Blank, b';') => Ok(ChunkState::Extension),
            (ChunkState::Digits | ChunkState::Blank | ChunkState::Extension, b'\r') => {
                Ok(ChunkState::SizeLf)
            }
            (ChunkState::Extension, b'\n') => Err(BodyError::Chunk),
            (ChunkState::Extension, _) => {
                self.extensions = self.extensions.saturating_add(1);
                if self.extensions < MAX_EXTENSIONS {
                    Ok(ChunkState::Extension)
                } else {
                    Err(BodyError::Extensions)
                }
            }
            (ChunkState::SizeLf, b'\n') if self.left == 0 => Ok(ChunkState::Line),
            (ChunkState::SizeLf, b'\n') => Ok(ChunkState::Data),
            (ChunkState::DataCr, b'\r') => Ok(ChunkState::DataLf),
            (ChunkState::DataLf, b'\n') => Ok(ChunkState::FirstDigit),
            (
                ChunkState::Line | ChunkState::Trailer | ChunkState::TrailerLf | ChunkState::EndLf,
                _,
            ) => self.trailer(byte),
            // Both end the loop of the caller.
            (state @ (ChunkState::Data | ChunkState::End), _) => Ok(state),
            (
                ChunkState::FirstDigit
                | ChunkState::Digits
                | ChunkState::Blank
                | ChunkState::SizeLf
                | ChunkState::DataCr
                | ChunkState::DataLf,
                _,
            ) => Err(BodyError::Chunk),
        }
    }

    fn trailer(&mut self, byte: u8) -> Result<ChunkState, BodyError> {
        let state = match (self.state, byte) {
            (ChunkState::Line, b'\r') => ChunkState::EndLf,
            (ChunkState::EndLf, b'\n') => ChunkState::End,
            (ChunkState::Trailer, b'\r') => ChunkState::TrailerLf,
            (ChunkState::TrailerLf, b'\n') => {
                self.fields = self.fields.saturating_add(1);
                if self.fields > self.most_fields {
                    return Err(BodyError::TrailersTooLarge);
                }
                ChunkState::Line
            }
            // Some readers take a lone LF for the end of a line, others do not.
            (ChunkState::Line | ChunkState::Trailer, b'\n') => return Err(BodyError::Trailers),
            (ChunkState::Line | ChunkState::Trailer, _) => ChunkState::Trailer,
            (_, _) => return Err(BodyError::Trailers),
        };
        // The empty line of a body without trailers needs no memory.
        if !self.trailers.is_empty() || state == ChunkState::Trailer {
            self.trailers.push(byte);
            if self.trailers.len() >= self.most_bytes {
                return Err(BodyError::TrailersTooLarge);
            }
        }
        Ok(state)
    }
}

/// Takes at most `left` bytes and subtracts them from `left`.
fn take(buffer: &mut BytesMut, left: &mut u64) -> Bytes {
    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
    *left = left.saturating_sub(u64::try_from(most).unwrap_or(u64::MAX));
    buffer.split_to(most).freeze()
}

/// Parses trailers. `lines` ends with the empty line.
fn parse_trailers(lines: &[u8]) -> Result<HeaderMap, BodyError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let parsed = httparse::parse_headers(lines, &mut fields);
    let Ok(httparse::Status::Complete((_, fields))) = parsed else {
        return Err(BodyError::Trailers);
    };
    let mut trailers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_bytes(field.value);
        match (name, value) {
            (Ok(name), Ok(value)) => trailers.append(name, value),
            (_, _) => return Err(BodyError::Trailers),
        };
    }
    Ok(trailers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes a whole body that arrives in pieces of `piece` bytes; the body and the remaining
    /// bytes.
    fn all(
        mut decoder: Decoder,
        wire: &[u8],
        piece: usize,
    ) -> Result<(Vec<u8>, HeaderMap, Vec<u8>), BodyError> {
        let (mut data, mut trailers) = (Vec::new(), HeaderMap::new());
        let mut buffer = BytesMut::new();
        let mut pieces = wire.chunks(piece);
        loop {
            match decoder.decode(&mut buffer)? {
                Decoded::Data(piece) => {
                    assert!(!piece.is_empty());
                    data.extend_from_slice(&piece);
                }
                Decoded::Trailers(fields) => trailers = fields,
                Decoded::End => break,
                Decoded::More => match pieces.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => {
                        decoder.end_of_input()?;
                        break;
                    }
                },
            }
        }
        assert!(decoder.is_end());
        for piece in pieces {
            buffer.extend_from_slice(piece);
        }
        Ok((data, trailers, buffer.to_vec()))
    }

    fn chunked() -> Decoder {
        Decoder::chunked(4, 64)
    }

    #[track_caller]
    fn refused(wire: &str, want: BodyError) {
        for piece in [1, 2, 3, wire.len()] {
            assert_eq!(all(chunked(), wire.as_bytes(), piece).unwrap_err(), want, "{wire:?}");
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused_however_it_arrives() {
        refused("\r\n", BodyError::Chunk);
        refused("x\r\n", BodyError::Chunk);
        refused("-1\r\n", BodyError::Chunk);
        refused("+1\r\na\r\n0\r\n\r\n", BodyError::Chunk);
        refused("0x1\r\na\r\n0\r\n\r\n", BodyError::Chunk);
        refused("1 1\r\naaa", BodyError::Chunk);
        refused("1\na\n0\n\n", BodyError::Chunk);
        refused("1\r\nab\r\n0\r\n\r\n", BodyError::Chunk);
        refused("1\r\na\n0\r\n\r\n", BodyError::Chunk);
        refused("1\r\ra\r\n0\r\n\r\n", BodyError::Chunk);
        refused("1;a\nb\r\na\r\n0\r\n\r\n", BodyError::Chunk);
        refused("11111111111111111\r\n", BodyError::Size);
        refused("0\r\n\n", BodyError::Trailers);
        refused("0\r\na: b\n\r\n", BodyError::Trailers);
        refused("0\r\na: b\r\r\n", BodyError::Trailers);
        refused("0\r\n a: b\r\n\r\n", BodyError::Trailers);
        refused("0\r\na : b\r\n\r\n", BodyError::Trailers);
        refused("0\r\na: b\r\n c\r\n\r\n", BodyError::Trailers);
        refused("0\r\n\ra", BodyError::Trailers);
        refused("0\r\na:1\r\nb:1\r\nc:1\r\nd:1\r\ne:1\r\n\r\n", BodyError::TrailersTooLarge);
        refused(&format!("0\r\na: {}\r\n\r\n", "b".repeat(64)), BodyError::TrailersTooLarge);
        refused("1\r\na\r\n", BodyError::Incomplete);
        refused("2\r\na", BodyError::Incomplete);
        refused("0\r\n", BodyError::Incomplete);
        refused(&format!("1;{}", "a".repeat(MAX_EXTENSIONS)), BodyError::Extensions);
    }

    #[test]
    fn an_error_stays_one() {
        let mut decoder = chunked();
        let mut buffer = BytesMut::from("1\r\naX0\r\n\r\n");
        assert_eq!(decoder.decode(&mut buffer), Ok(Decoded::Data(Bytes::from_static(b"a"))));
        assert!(!decoder.is_end());
        for _ in 0..2 {
            assert_eq!(decoder.decode(&mut buffer), Err(BodyError::Chunk));
        }
        assert_eq!(decoder.end_of_input(), Err(BodyError::Chunk));
    }

    #[test]
    fn the_last_piece_is_known_to_be_the_last_and_what_follows_is_left() {
        let mut decoder = chunked();
        let mut buffer = BytesMut::from("3 ; x=\"y\"\r\nabc\r\n000\r\n\r\nHTTP/1.1");
        assert_eq!(decoder.decode(&mut buffer), Ok(Decoded::Data(Bytes::from_static(b"abc"))));
        assert!(decoder.is_end());
        assert_eq!(&*buffer, b"HTTP/1.1");
        let mut decoder = Decoder::length(3);
        let mut buffer = BytesMut::from("abcd");
        assert_eq!(decoder.remaining(), Some(3));
        assert_eq!(decoder.decode(&mut buffer), Ok(Decoded::Data(Bytes::from_static(b"abc"))));
        assert!(decoder.is_end());
        assert_eq!(&*buffer, b"d");
    }

    #[test]
    fn a_body_of_known_length_that_breaks_off_is_incomplete_and_one_until_close_is_not() {
        assert_eq!(all(Decoder::length(3), b"ab", 1), Err(BodyError::Incomplete));
        let (data, _, left) = all(Decoder::until_close(), b"ab", 1).unwrap();
        assert_eq!((data, left), (b"ab".to_vec(), Vec::new()));
        let (data, _, left) = all(Decoder::empty(), b"ab", 1).unwrap();
        assert_eq!((data, left), (Vec::new(), b"ab".to_vec()));
    }

    proptest! {
        #[test]
        fn chunks_come_out_as_they_went_in(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            trailers in prop::collection::vec("[a-z]{1,3}", 0..4),
            behind in prop::collection::vec(any::<u8>(), 0..10),
            piece in 1_usize..50,
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:x};e\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n");
            for name in &trailers {
                wire.extend_from_slice(format!("{name}: v\r\n").as_bytes());
            }
            wire.extend_from_slice(b"\r\n");
            wire.extend_from_slice(&behind);
            let (data, fields, left) = all(chunked(), &wire, piece).unwrap();
            prop_assert_eq!(data, chunks.concat());
            prop_assert_eq!(fields.len(), trailers.len());
            prop_assert_eq!(left, behind);
        }

        #[test]
        fn no_bytes_make_it_panic_and_pieces_make_no_difference(
            wire in "[0-3a;:\r\n x]{0,40}",
            piece in 1_usize..10,
        ) {
            let whole = all(chunked(), wire.as_bytes(), wire.len().max(1));
            prop_assert_eq!(all(chunked(), wire.as_bytes(), piece), whole);
        }
    }
}
