//! The transport header, in which a meshed client that connects to a sidecar's own inbound port
//! names the port of the workload (docs/spec/proxy.md 1.6).
//!
//! ```text
//! "transport.l5d.io/v1\r\n\r\n" · length, 4 bytes big-endian · Header, protobuf
//! ```

use prost::Message;
use std::num::NonZeroU16;

/// The messages, package `transport.l5d.io`.
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs, unreachable_pub, reason = "generated")]
#[path = "gen/transport.l5d.io.rs"]
mod messages;

/// The application protocol that both sides of such a connection negotiate in TLS.
pub const ALPN: &[u8] = b"transport.l5d.io/v1";

/// The bytes before the header's length.
const PREFACE: &[u8] = b"transport.l5d.io/v1\r\n\r\n";

/// The longest message that is read, in bytes. A name has at most 253 bytes and everything else about
/// ten; the rest is room for fields that are yet to come.
pub const MAX_MESSAGE: usize = 4096;

/// The maximum number of bytes that [`scan`] needs.
pub const MAX_SCAN: usize = PREFACE.len() + LENGTH + MAX_MESSAGE;

/// The destination of a connection, and its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The port.
    pub port: NonZeroU16,
    /// A destination beyond the workload, which only a gateway can serve.
    pub name: Option<String>,
    /// The session protocol; absent if the client does not send it.
    pub session: Option<Session>,
}

/// An application protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Session {
    /// HTTP/1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// Error of parsing a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// They begin otherwise.
    #[error("does not begin with a transport header")]
    Preface,
    /// The message is longer than [`MAX_MESSAGE`].
    #[error("a transport header longer than {MAX_MESSAGE} bytes")]
    TooLong,
    /// The message cannot be decoded.
    #[error("a transport header that is not valid protobuf")]
    Malformed,
    /// The port is not from 1 to 65535.
    #[error("a transport header without a port from 1 to 65535")]
    Port,
}

/// Reads the header at the beginning of `bytes`, with its length there; `None`: more bytes are needed.
///
/// # Errors
/// [`HeaderError`]: no further byte makes it a header.
pub fn scan(bytes: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    let begun = bytes.len().min(PREFACE.len());
    if bytes.get(..begun) != PREFACE.get(..begun) {
        return Err(HeaderError::Preface);
    }
    let rest = bytes.get(PREFACE.len()..).unwrap_or_default();
    let Some((length, rest)) = rest.split_first_chunk::<LENGTH>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE {
        return Err(HeaderError::TooLong);
    }
    let Some(message) = rest.get(..length) else { return Ok(None) };
    let whole = PREFACE.len().saturating_add(LENGTH).saturating_add(length);
    decode(message).map(|header| Some((header, whole)))
}

/// The header with everything that precedes it.
pub fn encode(header: &Header) -> Vec<u8> {
    use messages::session_protocol::{Http1, Http2, Kind};
    let kind = header.session.map(|session| match session {
        Session::Http1 => Kind::Http1(Http1 {}),
        Session::Http2 => Kind::Http2(Http2 {}),
    });
    let message = messages::Header {
        port: i32::from(header.port.get()),
        name: header.name.clone().unwrap_or_default(),
        session_protocol: kind.map(|kind| messages::SessionProtocol { kind: Some(kind) }),
    };
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    [PREFACE, &length, &message].concat()
}

fn decode(message: &[u8]) -> Result<Header, HeaderError> {
    use messages::session_protocol::Kind;
    let messages::Header { port, name, session_protocol } =
        messages::Header::decode(message).map_err(|_| HeaderError::Malformed)?;
    let port = u16::try_from(port).ok().and_then(NonZeroU16::new).ok_or(HeaderError::Port)?;
    let kind = session_protocol.and_then(|session| session.kind);
    let session = kind.map(|kind| match kind {
        Kind::Http1(_) => Session::Http1,
        Kind::Http2(_) => Session::Http2,
    });
    Ok(Header { port, name: Some(name).filter(|name| !name.is_empty()), session })
}

const LENGTH: usize = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn header(port: u16, name: Option<&str>, session: Option<Session>) -> Header {
        let name = name.map(str::to_owned);
        Header { port: NonZeroU16::new(port).unwrap(), name, session }
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [b"transport.l5d.io/v1\r\n\r\n", length.as_slice(), message].concat()
    }

    /// The bytes that Linkerd's proxies write, field by field.
    #[test]
    fn the_wire_is_linkerds() {
        let cases: [(Header, &[u8]); 4] = [
            (header(8080, None, None), &[8, 144, 63]),
            (header(8080, None, Some(Session::Http1)), &[8, 144, 63, 26, 2, 10, 0]),
            (header(4191, None, Some(Session::Http2)), &[8, 223, 32, 26, 2, 18, 0]),
            (header(80, Some("a.b"), None), &[8, 80, 18, 3, b'a', b'.', b'b']),
        ];
        for (header, message) in cases {
            let bytes = framed(message);
            assert_eq!(encode(&header), bytes);
            assert_eq!(scan(&bytes), Ok(Some((header, bytes.len()))));
        }
    }

    #[test]
    fn what_a_header_does_not_say_is_not_known() {
        // A session protocol without a kind, and fields that are yet to come.
        let bytes = framed(&[8, 80, 26, 0, 34, 1, 7]);
        assert_eq!(scan(&bytes), Ok(Some((header(80, None, None), bytes.len()))));
    }

    #[test]
    fn what_is_no_header_is_told_at_the_first_wrong_byte() {
        assert_eq!(scan(b"GET / HTTP/1.1\r\n"), Err(HeaderError::Preface));
        assert_eq!(scan(b"transport.l5d.io/v2"), Err(HeaderError::Preface));
        assert_eq!(scan(b"transport.l5d.io/v1\r\n\n"), Err(HeaderError::Preface));
        let long = [PREFACE, &[0, 0, 16, 1]].concat();
        assert_eq!(scan(&long), Err(HeaderError::TooLong));
        let longest = [PREFACE, &[0, 0, 16, 0]].concat();
        assert_eq!(scan(&longest), Ok(None));
        assert_eq!(scan(&framed(&[8])), Err(HeaderError::Malformed));
        assert_eq!(scan(&framed(&[18, 1, 0xff])), Err(HeaderError::Malformed), "not UTF-8");
        for port in [&[][..], &[8, 0], &[8, 0x80, 0x80, 4]] {
            assert_eq!(scan(&framed(port)), Err(HeaderError::Port), "{port:?}");
        }
        let negative = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(scan(&framed(&negative)), Err(HeaderError::Port));
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written_at_any_cut(
            port in 1_u16..,
            name in prop::option::of("[a-z.]{1,40}"),
            session in prop::option::of(prop::sample::select(vec![Session::Http1, Session::Http2])),
            tail in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let header = header(port, name.as_deref(), session);
            let bytes = encode(&header);
            for cut in 0..bytes.len() {
                prop_assert_eq!(scan(&bytes[..cut]), Ok(None));
            }
            let whole = [bytes.clone(), tail].concat();
            prop_assert_eq!(scan(&whole), Ok(Some((header, bytes.len()))));
        }

        #[test]
        fn no_bytes_panic_or_ask_for_more_than_the_bound(
            start in prop::sample::select(vec![0, 5, PREFACE.len(), PREFACE.len() + 3]),
            length in 0_u32..5000,
            message in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let mut bytes = [PREFACE, &length.to_be_bytes(), &message].concat();
            let _ = scan(&bytes);
            bytes.resize(MAX_SCAN, 0);
            prop_assert!(scan(&bytes) != Ok(None));
            let _ = scan(&[&PREFACE[..start.min(PREFACE.len())], &message].concat());
        }
    }
}
