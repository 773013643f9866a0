//! Headers that tell the application about its clients.

use crate::forwarded;
use crate::headers::{CLIENT_ID, CONNECTION_SECURE};
use http::header::{FORWARDED, MaxSizeReached};
use http::{HeaderMap, HeaderValue};
use policy_core::Identity;
use policy_tls::peer::{Peer, PeerTls};
use std::net::SocketAddr;

/// Headers about a connection, added to each of its requests (delegation 2.7.4). Created once per
/// connection.
#[derive(Debug)]
pub struct ClientHeaders {
    client_id: Option<HeaderValue>,
    secure: HeaderValue,
    forwarded: Option<HeaderValue>,
}

impl ClientHeaders {
    /// Creates the headers for a proxy that forwards to `by`. A server that is the application
    /// itself is no hop and adds no `Forwarded` element.
    pub fn new(peer: &Peer, by: Option<SocketAddr>) -> Self {
        let id = peer.identity().map(Identity::as_str);
        let secure = matches!(peer.tls(), PeerTls::Terminated(_));
        let forwarded = by.map(|by| forwarded::element(peer.ip(), by));
        Self {
            client_id: id.and_then(|id| HeaderValue::from_str(id).ok()),
            secure: HeaderValue::from_static(if secure { "true" } else { "false" }),
            forwarded: forwarded.and_then(|element| HeaderValue::try_from(element).ok()),
        }
    }

    /// Adds the headers to a request. The client's own copies of them were removed before.
    /// `Forwarded` elements of other hops stay in front of ours, except for lines that a reader
    /// could merge ours into.
    ///
    /// # Errors
    /// The map has no space for more headers.
    pub fn insert(&self, headers: &mut HeaderMap) -> Result<(), MaxSizeReached> {
        if let Some(id) = &self.client_id {
            headers.try_insert(CLIENT_ID, id.clone())?;
        }
        headers.try_insert(CONNECTION_SECURE, self.secure.clone())?;
        if let Some(own) = &self.forwarded {
            remove_unreadable(headers)?;
            headers.try_append(FORWARDED, own.clone())?;
        }
        Ok(())
    }
}

fn remove_unreadable(headers: &mut HeaderMap) -> Result<(), MaxSizeReached> {
    let readable = |line: &&HeaderValue| forwarded::is_readable(line.as_bytes());
    let lines = headers.get_all(FORWARDED);
    if lines.iter().all(|line| readable(&line)) {
        return Ok(());
    }
    let kept: Vec<HeaderValue> = lines.iter().filter(readable).cloned().collect();
    headers.remove(FORWARDED);
    for line in kept {
        headers.try_append(FORWARDED, line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;
    use proptest::prelude::*;

    #[test]
    fn the_application_is_told_after_what_others_say_and_ipv6_is_quoted() {
        let headers = |client: &str, by: Option<&str>, tls: PeerTls| {
            let peer = Peer::new(client.parse().unwrap(), tls);
            let mut headers = HeaderMap::new();
            headers.append(FORWARDED, HeaderValue::from_static("for=192.0.2.1"));
            ClientHeaders::new(&peer, by.map(|by| by.parse().unwrap()))
                .insert(&mut headers)
                .unwrap();
            let show =
                |(n, v): (&HeaderName, &HeaderValue)| format!("{n}: {}", v.to_str().unwrap());
            headers.iter().map(show).collect::<Vec<_>>()
        };
        let plain = headers("10.1.2.3:5", Some("10.9.9.9:80"), PeerTls::Absent);
        assert_eq!(
            plain,
            [
                "forwarded: for=192.0.2.1",
                "forwarded: for=10.1.2.3;by=\"10.9.9.9:80\"",
                "l5d-connection-secure: false"
            ]
        );
        let id = Identity::Dns("bot.example".into());
        let mesh = headers("[2001:db8::1]:5", Some("[fd00::1]:80"), PeerTls::Terminated(Some(id)));
        assert_eq!(
            mesh,
            [
                "forwarded: for=192.0.2.1",
                "forwarded: for=\"[2001:db8::1]\";by=\"[fd00::1]:80\"",
                "l5d-client-id: bot.example",
                "l5d-connection-secure: true"
            ]
        );
        let layer = headers("10.1.2.3:5", None, PeerTls::Terminated(None));
        assert_eq!(layer, ["forwarded: for=192.0.2.1", "l5d-connection-secure: true"]);
    }

    /// Parses the elements of a list as RFC 7239 section 4 and RFC 9110 section 5.6 define them,
    /// escapes included; `None` if it is malformed.
    fn elements(list: &[u8]) -> Option<Vec<Vec<u8>>> {
        #[derive(PartialEq)]
        enum At {
            Name,
            Value,
            Quoted,
            Escaped,
            Behind,
        }
        let (mut at, mut elements, mut own) = (At::Name, Vec::new(), Vec::<u8>::new());
        for byte in list {
            match (&at, byte) {
                (At::Escaped, b'\t' | b' '..=b'~' | 0x80..) => at = At::Quoted,
                (At::Quoted, b'\\') => at = At::Escaped,
                (At::Quoted, b'"') => at = At::Behind,
                (At::Quoted, b'\t' | b' '..=b'~' | 0x80..) => {}
                (At::Name, b'=') => at = At::Value,
                (At::Value, b'"') if own.ends_with(b"=") => at = At::Quoted,
                (At::Name | At::Value | At::Behind, b';') => at = At::Name,
                (At::Name | At::Value | At::Behind, b',') => {
                    elements.push(std::mem::take(&mut own));
                    at = At::Name;
                    continue;
                }
                (At::Name | At::Value | At::Behind, b' ' | b'\t') => {}
                (At::Name | At::Value, byte) if byte.is_ascii_graphic() && *byte != b'"' => {}
                (_, _) => return None,
            }
            own.push(*byte);
        }
        elements.push(own);
        (at != At::Quoted && at != At::Escaped).then_some(elements)
    }

    fn headers(lines: &[Vec<u8>]) -> Vec<u8> {
        let peer = Peer::new("10.1.2.3:5".parse().unwrap(), PeerTls::Absent);
        let mut headers = HeaderMap::new();
        for line in lines {
            if let Ok(line) = HeaderValue::from_bytes(line) {
                headers.append(FORWARDED, line);
            }
        }
        let by = Some("10.9.9.9:80".parse().unwrap());
        ClientHeaders::new(&peer, by).insert(&mut headers).unwrap();
        let lines: Vec<_> = headers.get_all(FORWARDED).iter().map(HeaderValue::as_bytes).collect();
        lines.join(&b", "[..])
    }

    const OWN: &[u8] = b"for=10.1.2.3;by=\"10.9.9.9:80\"";

    #[track_caller]
    fn found_last(lines: &[Vec<u8>]) {
        let list = headers(lines);
        let elements = elements(&list);
        let last = elements.as_ref().and_then(|all| all.last()).map(|own| own.trim_ascii());
        assert_eq!(last, Some(OWN), "{}", list.escape_ascii());
    }

    #[test]
    fn a_quote_that_a_client_leaves_open_takes_nothing_in() {
        for lines in [&["for=\""][..], &["for=\"a", "b\""], &["for=1", "for=\"\\\""], &["a=\"\\"]] {
            found_last(&lines.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
        }
        assert_eq!(headers(&[b"for=1".to_vec(), b"for=\"".to_vec()]), [b"for=1, ", OWN].concat());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn a_reader_of_rfc_7239_finds_our_element_last_whatever_a_client_says(
            lines in prop::collection::vec(
                prop::collection::vec(
                    prop_oneof![
                        4 => prop::sample::select(&b"\"\\,;= \tfor"[..]),
                        1 => any::<u8>(),
                    ],
                    0..24,
                ),
                0..4,
            )
        ) {
            found_last(&lines);
        }
    }
}
