//! Detects a TLS ClientHello in the first bytes of a connection and reads its server name (SNI),
//! without consuming anything (RFC 8446 sections 4.1.2 and 5.1, RFC 6066 section 3).
//!
//! The caller collects bytes and scans again after each read. The bytes to collect are bounded by
//! [`MAX_CLIENT_HELLO`] and the headers of the records that carry it; one byte at a time and
//! several records are both legal.

/// Bytes of the longest ClientHello that is scanned, without record headers.
pub const MAX_CLIENT_HELLO: usize = 16 * 1024;

/// Bytes after which [`scan`] never needs more.
pub const MAX_SCAN: usize = MAX_CLIENT_HELLO + MAX_RECORDS * RECORD_HEADER;

/// Result of [`scan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The bytes cannot become a ClientHello.
    NotTls,
    /// More bytes are needed.
    Partial,
    /// A complete ClientHello; its server name, lower-case, if it has exactly one valid one.
    ClientHello(Option<String>),
}

/// Scans the first bytes of a connection.
pub fn scan(bytes: &[u8]) -> Scan {
    let mut message = Vec::new();
    let mut rest = bytes;
    let mut records = 0_usize;
    loop {
        match record(rest) {
            Err(RecordError::NotTls) => return Scan::NotTls,
            Err(RecordError::Incomplete(available)) => {
                // An incomplete record may already rule a ClientHello out.
                message.extend_from_slice(available);
                return match handshake(&message) {
                    Handshake::Invalid => Scan::NotTls,
                    Handshake::Incomplete | Handshake::Complete(_) => Scan::Partial,
                };
            }
            Ok((fragment, tail)) => {
                message.extend_from_slice(fragment);
                rest = tail;
            }
        }
        records = records.saturating_add(1);
        match handshake(&message) {
            Handshake::Invalid => return Scan::NotTls,
            Handshake::Complete(body) => return client_hello(body),
            Handshake::Incomplete if records >= MAX_RECORDS => return Scan::NotTls,
            Handshake::Incomplete => {}
        }
    }
}

enum RecordError<'a> {
    NotTls,
    /// The record is incomplete; these are the bytes of its fragment so far.
    Incomplete(&'a [u8]),
}

enum Handshake<'a> {
    Invalid,
    Incomplete,
    Complete(&'a [u8]),
}

/// Splits the first record off: handshake, version 3.x, not empty, at most 2^14 bytes.
fn record(bytes: &[u8]) -> Result<(&[u8], &[u8]), RecordError<'_>> {
    let wanted = [Some(HANDSHAKE), Some(3)];
    for (byte, want) in bytes.iter().zip(wanted) {
        if want.is_some_and(|want| want != *byte) {
            return Err(RecordError::NotTls);
        }
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER) else {
        return Err(RecordError::Incomplete(&[]));
    };
    let length = match header {
        [_, _, minor, high, low] if *minor <= 4 => usize::from(u16::from_be_bytes([*high, *low])),
        _ => return Err(RecordError::NotTls),
    };
    if length == 0 || length > MAX_CLIENT_HELLO {
        return Err(RecordError::NotTls);
    }
    rest.split_at_checked(length).ok_or(RecordError::Incomplete(rest))
}

/// Reads the handshake header: type 1 and a plausible length.
fn handshake(message: &[u8]) -> Handshake<'_> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Handshake::Invalid;
    }
    let Some(([_, length @ ..], body)) = message.split_first_chunk::<4>() else {
        return Handshake::Incomplete;
    };
    let length = length.iter().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
    if !(MIN_BODY..=MAX_CLIENT_HELLO).contains(&length) {
        return Handshake::Invalid;
    }
    // The legacy version is fixed to 3.3, or lower in old hellos that are passed through.
    if body.first().is_some_and(|major| *major != 3) {
        return Handshake::Invalid;
    }
    match body.get(..length) {
        Some(body) => Handshake::Complete(body),
        None => Handshake::Incomplete,
    }
}

/// Reads the body of a ClientHello. One that does not parse is TLS without a name, which is passed
/// through.
fn client_hello(body: &[u8]) -> Scan {
    Scan::ClientHello(extensions(body).and_then(server_name))
}

/// The extensions block of a ClientHello.
fn extensions(body: &[u8]) -> Option<&[u8]> {
    let rest = body.get(34..)?; // legacy_version, random
    let (_session, rest) = vector8(rest)?;
    let (_suites, rest) = vector16(rest)?;
    let (_compression, rest) = vector8(rest)?;
    let (extensions, rest) = vector16(rest)?;
    rest.is_empty().then_some(extensions)
}

/// The one host name of the server_name extension; none if there are several or it is not a name.
fn server_name(mut extensions: &[u8]) -> Option<String> {
    let mut found = None;
    while !extensions.is_empty() {
        let (kind, rest) = extensions.split_first_chunk::<2>()?;
        let (data, rest) = vector16(rest)?;
        extensions = rest;
        if u16::from_be_bytes(*kind) != SERVER_NAME {
            continue;
        }
        if found.is_some() {
            return None;
        }
        found = Some(data);
    }
    let (list, after) = vector16(found?)?;
    let (kind, rest) = list.split_first()?;
    let (name, more) = vector16(rest)?;
    if *kind != HOST_NAME || !after.is_empty() || !more.is_empty() {
        return None;
    }
    host_name(name)
}

/// RFC 5280 preferred name syntax with underscores, at most 253 bytes, labels of at most 63.
fn host_name(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && l.bytes().all(allowed)
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    let numeric = name.rsplit('.').next()?.bytes().all(|b| b.is_ascii_digit());
    (name.len() <= 253 && !numeric && name.split('.').all(label)).then(|| name.to_ascii_lowercase())
}

fn vector8(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

fn vector16(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const RECORD_HEADER: usize = 5;
/// Enough for a ClientHello that is fragmented on purpose; more records are an attack.
const MAX_RECORDS: usize = 64;
/// Version, random, and the three empty vectors.
const MIN_BODY: usize = 38;

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "tests")]
    use super::*;
    use policy_tls::identity::provider;
    use proptest::prelude::*;
    use rustls::pki_types::ServerName;

    fn hello(name: &str) -> Vec<u8> {
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = rustls::ClientConnection::new(config.into(), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// The same handshake message in records of `size` bytes.
    fn resliced(bytes: &[u8], size: usize) -> Vec<u8> {
        let chunks = bytes[5..].chunks(size);
        chunks
            .flat_map(|c| {
                let length = u16::try_from(c.len()).unwrap().to_be_bytes();
                [&[22, 3, 1], &length[..], c].concat()
            })
            .collect()
    }

    #[test]
    fn a_real_hello_tells_its_name() {
        assert_eq!(scan(&hello("Web.Example")), Scan::ClientHello(Some("web.example".into())));
    }

    #[test]
    fn a_hello_without_a_name_is_tls_for_nobody() {
        assert_eq!(scan(&hello("10.0.0.1")), Scan::ClientHello(None));
    }

    #[test]
    fn one_byte_at_a_time_is_partial_until_the_last() {
        let bytes = hello("web.example");
        for end in 0..bytes.len() {
            assert_eq!(scan(&bytes[..end]), Scan::Partial, "after {end} bytes");
        }
    }

    #[test]
    fn several_records_make_one_hello_but_not_without_bound() {
        let bytes = hello("web.example");
        let name = Scan::ClientHello(Some("web.example".into()));
        assert_eq!(scan(&resliced(&bytes, bytes.len() / 3)), name);
        assert_eq!(scan(&resliced(&bytes, 1)), Scan::NotTls, "a record per byte");
    }

    #[test]
    fn the_first_byte_that_does_not_fit_decides() {
        assert_eq!(scan(b"G"), Scan::NotTls);
        assert_eq!(scan(&[22, 2]), Scan::NotTls);
        assert_eq!(scan(&[22, 3, 9, 0, 1]), Scan::NotTls);
        assert_eq!(scan(&[22, 3, 1, 0, 0]), Scan::NotTls, "an empty record");
        assert_eq!(scan(&[22, 3, 1, 0, 9, 2]), Scan::NotTls, "not a ClientHello");
        assert_eq!(scan(&[22, 3, 1, 0, 9, 1, 255]), Scan::Partial);
        assert_eq!(scan(&[22, 3, 1, 0, 9, 1, 255, 0, 0]), Scan::NotTls, "too long");
        assert_eq!(scan(&[]), Scan::Partial);
    }

    #[test]
    fn two_names_are_none() {
        let list = |names: &[&str]| -> Vec<u8> {
            let one = |n: &&str| [&[0, 0, u8::try_from(n.len()).unwrap()], n.as_bytes()].concat();
            let list: Vec<u8> = names.iter().flat_map(one).collect();
            let two = |n: usize| u16::try_from(n).unwrap().to_be_bytes();
            [&[0, 0][..], &two(list.len() + 2), &two(list.len()), &list].concat()
        };
        assert_eq!(server_name(&list(&["a.example"])), Some("a.example".into()));
        assert_eq!(server_name(&list(&["a.example", "b.example"])), None);
        assert_eq!(server_name(&[list(&["a"]), list(&["b"])].concat()), None);
        assert_eq!(server_name(&list(&["a..b"])), None);
        assert_eq!(server_name(&list(&["10.0.0.1"])), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_ask_for_more_than_the_bound(
            head in prop::sample::select(vec![vec![], vec![22, 3, 1], vec![22, 3, 1, 1, 0, 1, 0, 0]]),
            tail in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let _ = scan(&[head, tail].concat());
        }

        #[test]
        fn any_slicing_of_a_real_hello_tells_the_same(size in 20_usize..2000) {
            let bytes = resliced(&hello("web.example"), size);
            prop_assert_eq!(scan(&bytes), Scan::ClientHello(Some("web.example".into())));
        }
    }
}
