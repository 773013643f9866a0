//! Removes hop-by-hop fields and the fields that only the proxy may set.
//!
//! One pass over the names finds out if there is anything to do. Names that a client lists in
//! `Connection` are removed, except those that frame the message, name its host, or are set by the
//! proxy.

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, FORWARDED, HOST, HeaderName, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use std::time::Duration;

/// The client's identity, for the application.
pub const CLIENT_ID: HeaderName = HeaderName::from_static("l5d-client-id");
/// `true` if the client's connection was TLS terminated by the proxy, for the application.
pub const CONNECTION_SECURE: HeaderName = HeaderName::from_static("l5d-connection-secure");
/// The original HTTP/1 version of a request that a meshed peer upgraded to HTTP/2.
pub const ORIG_PROTO: HeaderName = HeaderName::from_static("l5d-orig-proto");
/// The error message, for meshed peers.
pub const PROXY_ERROR: HeaderName = HeaderName::from_static("l5d-proxy-error");
/// The id of the record of a refusal, for meshed peers.
pub const DECISION: HeaderName = HeaderName::from_static("portcullis-decision");
/// Makes a meshed peer close its client's connection.
pub const PROXY_CONNECTION: HeaderName = HeaderName::from_static("l5d-proxy-connection");

/// Maximum number of names in a head. A `HeaderMap` panics if it would have to grow beyond 32,768
/// slots, which happens when colliding names take a fifth of them; below this number there is space
/// for some more names of any kind.
pub const MAX_NAMES: usize = 6000;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Options of a request that concern the connection that carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// True for an upgrade to a protocol that is neither HTTP nor TLS. The `Upgrade` field is kept.
    pub upgrade: bool,
    /// The original version if a meshed peer upgraded the request to HTTP/2. The response has to
    /// state it.
    pub orig_proto: Option<Version>,
}

/// Cleans a request's head before it is evaluated. Upgrades to `h2c`, and to TLS with HTTP in it
/// (RFC 2817), are ignored, as RFC 9110 section 7.8 allows: the tunnel would carry requests that
/// bypass policy. The original version of an upgraded request is accepted from meshed peers only.
/// `Cookie` lines are joined ([`join_cookies`]).
pub fn clean_request(head: &mut Parts, meshed: bool) -> ConnectionOptions {
    let scan = scan_names(&head.headers);
    if scan.cookie {
        join_cookies(&mut head.headers);
    }
    let mut orig_proto = None;
    if scan.reserved {
        if meshed && head.version == Version::HTTP_2 {
            orig_proto = head.headers.get(ORIG_PROTO).and_then(parse_orig_proto);
        }
        remove_reserved(&mut head.headers);
    }
    if !scan.hop && (!scan.te || has_only_trailers(&head.headers)) {
        return ConnectionOptions { upgrade: false, orig_proto };
    }
    let upgrade = head.version == Version::HTTP_11 && wants_upgrade(&head.headers);
    let kept = if upgrade { named_upgrade(&head.headers) } else { None };
    let trailers = head.headers.get_all(TE).iter().any(|line| has_token(line, "trailers"));
    remove_hop_by_hop(&mut head.headers);
    if trailers {
        head.headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = kept {
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(UPGRADE, protocol);
    }
    ConnectionOptions { upgrade, orig_proto }
}

/// Parses `HTTP/1.1` or `HTTP/1.0`, with or without `; absolute-form` (docs/spec/proxy.md 1.8).
fn parse_orig_proto(line: &HeaderValue) -> Option<Version> {
    let text = line.as_bytes();
    let version = text.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    match version {
        b"HTTP/1.1" => Some(Version::HTTP_11),
        b"HTTP/1.0" => Some(Version::HTTP_10),
        _ => None,
    }
}

/// Turns an authorized HTTP/2 request back into the HTTP/1 request that it was upgraded from: the
/// host moves from `:authority` to `Host`. `sized`: the length of the body is known. A body of
/// unknown length goes as HTTP/1.1, because HTTP/1.0 cannot frame it and the library would drop it.
pub fn downgrade_orig_proto(head: &mut Parts, version: Version, sized: bool) {
    head.version = if sized { version } else { Version::HTTP_11 };
    let host = head.uri.authority().map(|authority| HeaderValue::from_str(authority.as_str()));
    if let Some(Ok(host)) = host {
        head.headers.insert(HOST, host);
    }
    if head.version == Version::HTTP_11 && !head.headers.contains_key(HOST) {
        // A target without an authority has an empty `Host` (RFC 9112 section 3.2).
        head.headers.insert(HOST, HeaderValue::from_static(""));
    }
    if let Some(target) = head.uri.path_and_query().cloned() {
        head.uri = target.into();
    }
}

/// Returns true if a request names a host, in its target or in `Host`.
pub fn names_host(head: &Parts) -> bool {
    head.uri.authority().is_some() || head.headers.contains_key(HOST)
}

/// States the version of the original response for a meshed peer.
pub fn set_orig_proto(headers: &mut HeaderMap, version: Version) {
    headers.remove(TRANSFER_ENCODING);
    let text = if version == Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" };
    headers.insert(ORIG_PROTO, HeaderValue::from_static(text));
}

/// Cleans the head of a response of this status, whose client speaks this version. A 101 is one that the
/// request asked for. A 426 has to name what its client shall switch to (RFC 9110 section 15.5.22).
pub fn clean_response(headers: &mut HeaderMap, status: StatusCode, client: Version) {
    let scan = scan_names(headers);
    if scan.reserved {
        remove_reserved(headers);
    }
    if (scan.hop || scan.te) && status != StatusCode::SWITCHING_PROTOCOLS {
        let names = status == StatusCode::UPGRADE_REQUIRED && client == Version::HTTP_11;
        let named = if names { named_upgrade(headers) } else { None };
        remove_hop_by_hop(headers);
        if let Some(protocols) = named {
            headers.insert(UPGRADE, protocols);
        }
    }
}

/// Returns the protocols that a head names to switch to, in one line. None if one of them is not carried
/// ([`clean_request`]).
fn named_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let lines: Vec<_> = headers.get_all(UPGRADE).iter().collect();
    if lines.is_empty() || lines.iter().any(|line| carries_requests(line)) {
        return None;
    }
    let texts: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
    HeaderValue::from_maybe_shared(bytes::Bytes::from(texts.join(&b", "[..]))).ok()
}

/// Removes fields that are invalid in HTTP/2 (RFC 9113 section 8.2.2) and those that `Connection`
/// names: h2 sends no head that has them. For heads that policy filters changed after cleaning.
pub fn clean_for_http2(headers: &mut HeaderMap) {
    let scan = scan_names(headers);
    if !scan.hop && !scan.te && !headers.contains_key(TRANSFER_ENCODING) {
        return;
    }
    let trailers = headers.get_all(TE).iter().any(|line| has_token(line, "trailers"));
    remove_hop_by_hop(headers);
    headers.remove(TRANSFER_ENCODING);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Cleans a request's head again after policy filters changed it: what [`clean_request`] removes or
/// joins is not what a policy may bring back.
pub fn clean_changed(head: &mut Parts) {
    clean_reserved(&mut head.headers);
    join_cookies(&mut head.headers);
    if head.version >= Version::HTTP_2 {
        clean_for_http2(&mut head.headers);
    }
}

/// Joins several `Cookie` lines to one. HTTP/2 clients may split cookies into several lines, which
/// have to be joined before they leave HTTP/2 (RFC 9113 section 8.2.3). HTTP/1 clients must not
/// send several lines (RFC 6265 section 5.4), and applications differ in joining them, so the proxy
/// joins them too. Empty lines are skipped, because they would leave whitespace at the end.
pub fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(COOKIE).iter();
    if lines.next().is_none() || lines.next().is_none() {
        return;
    }
    let bytes = |line: &HeaderValue| line.len().saturating_add(2);
    let all = headers.get_all(COOKIE).iter().map(bytes).fold(0, usize::saturating_add);
    let (mut joined, mut sensitive) = (Vec::with_capacity(all), false);
    for crumb in headers.get_all(COOKIE) {
        sensitive |= crumb.is_sensitive();
        if !joined.is_empty() && !crumb.is_empty() {
            joined.extend_from_slice(b"; ");
        }
        joined.extend_from_slice(crumb.as_bytes());
    }
    // Joined values are a valid value.
    if let Ok(mut line) = HeaderValue::from_maybe_shared(bytes::Bytes::from(joined)) {
        line.set_sensitive(sensitive);
        if headers.try_insert(COOKIE, line).is_err() {
            // Several lines must not pass.
            headers.remove(COOKIE);
        }
    }
}

/// Returns the size of a header list (RFC 9113 section 6.5.2).
pub fn list_size(headers: &HeaderMap) -> usize {
    let sizes = headers.iter().map(|(name, value)| {
        name.as_str().len().saturating_add(value.len()).saturating_add(FIELD_SIZE)
    });
    sizes.fold(0, usize::saturating_add)
}

/// Returns true if a value begins or ends with whitespace. HTTP/1 cannot carry such a value: its
/// readers trim it (RFC 9112 section 5.1). In HTTP/2 it is malformed (RFC 9113 section 8.2.1), but
/// h2 does not check that.
pub fn has_outer_blanks(headers: &HeaderMap) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    headers.values().any(|value| {
        let bytes = value.as_bytes();
        is_blank(bytes.first()) || is_blank(bytes.last())
    })
}

/// Cleans a request's head for a server that is the application itself: hop-by-hop fields are its own.
pub fn clean_for_origin(headers: &mut HeaderMap) {
    let scan = scan_names(headers);
    if scan.reserved {
        remove_reserved(headers);
    }
    if scan.cookie {
        join_cookies(headers);
    }
}

/// Removes the fields that only the proxy may set.
pub fn clean_reserved(headers: &mut HeaderMap) {
    if scan_names(headers).reserved {
        remove_reserved(headers);
    }
}

/// Removes from trailers the fields that only the proxy may set and those that are meaningful in a
/// head only (RFC 9110 section 6.5.1), because some applications merge trailers into the head.
pub fn clean_trailers(trailers: &mut HeaderMap) {
    clean_reserved(trailers);
    for name in [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, UPGRADE, TE, FORWARDED] {
        trailers.remove(name);
    }
}

struct HeaderScan {
    reserved: bool,
    cookie: bool,
    /// True for a hop-by-hop field other than `TE`.
    hop: bool,
    te: bool,
}

/// Returns true if `TE` is exactly `trailers`, which is forwarded: every gRPC client sends that.
fn has_only_trailers(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(TE).iter();
    matches!((lines.next(), lines.next()), (Some(line), None) if line == "trailers")
}

/// Returns the `grpc-status` of a gRPC response, from its trailers or its head.
pub fn grpc_status(fields: &HeaderMap) -> Option<u16> {
    fields.get(&GRPC_STATUS)?.to_str().ok()?.parse().ok()
}

/// Returns the deadline of a gRPC request (gRPC over HTTP/2, *Requests*): at most eight digits and a
/// unit. `None` if there is none, or not just one that is positive and well-formed.
pub fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let mut lines = headers.get_all(&GRPC_TIMEOUT).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let (unit, digits) = line.as_bytes().split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let timeout = match unit {
        b'H' => Duration::from_secs(count.checked_mul(3600)?),
        b'M' => Duration::from_secs(count.checked_mul(60)?),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    };
    (!timeout.is_zero()).then_some(timeout)
}

fn scan_names(headers: &HeaderMap) -> HeaderScan {
    let mut scan = HeaderScan { reserved: false, cookie: false, hop: false, te: false };
    for name in headers.keys() {
        let text = name.as_str().as_bytes();
        match text.first() {
            Some(b'l') => scan.reserved |= is_reserved(text),
            Some(b't') => scan.te |= *name == TE,
            Some(b'c') => {
                scan.cookie |= *name == COOKIE;
                scan.hop |= is_hop(name);
            }
            Some(b'p') => {
                scan.reserved |= is_reserved(text);
                scan.hop |= is_hop(name);
            }
            Some(b'k' | b'u' | b'h') => scan.hop |= is_hop(name),
            Some(_) | None => {}
        }
    }
    scan
}

fn is_hop(name: &HeaderName) -> bool {
    *name == CONNECTION || *name == UPGRADE || *name == TE || HOP.contains(&name.as_str())
}

/// Returns true for a field that only the proxy may set, in every spelling that an application may
/// treat as the same: CGI makes a variable's name of it (RFC 3875 section 4.1.18), and servers put
/// `_` in place of each byte that is no letter and no digit.
fn is_reserved(name: &[u8]) -> bool {
    RESERVED.iter().any(|own| {
        let alike = |(a, b): (&u8, &u8)| a == b || (*a == b'-' && !b.is_ascii_alphanumeric());
        own.len() == name.len() && own.as_bytes().iter().zip(name).all(alike)
    })
}

fn remove_reserved(headers: &mut HeaderMap) {
    let reserved = |name: &&HeaderName| is_reserved(name.as_str().as_bytes());
    let names: Vec<HeaderName> = headers.keys().filter(reserved).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let mut listed: Vec<HeaderName> = Vec::new();
    for line in headers.get_all(CONNECTION) {
        let tokens = line.as_bytes().split(|b| *b == b',').map(<[u8]>::trim_ascii);
        // The usual options name no field that is still present.
        let named = tokens.filter(|t| !OPTIONS.iter().any(|own| own.eq_ignore_ascii_case(t)));
        listed.extend(named.filter_map(|t| HeaderName::from_bytes(t).ok()));
    }
    for name in listed {
        let framing = [&HOST, &CONTENT_LENGTH, &TRANSFER_ENCODING].contains(&&name);
        if !framing && !is_reserved(name.as_str().as_bytes()) {
            headers.remove(name);
        }
    }
    headers.remove(CONNECTION);
    if headers.keys().any(is_hop) {
        headers.remove(UPGRADE);
        headers.remove(TE);
        for name in HOP {
            headers.remove(name);
        }
    }
}

fn wants_upgrade(headers: &HeaderMap) -> bool {
    let listed = headers.get_all(CONNECTION).iter().any(|line| has_token(line, "upgrade"));
    listed && named_upgrade(headers).is_some()
}

fn carries_requests(protocol: &HeaderValue) -> bool {
    let mut tokens = protocol.as_bytes().split(|b| *b == b',');
    tokens.any(|token| {
        let token = token.trim_ascii();
        let name = token.split(|b| *b == b'/').next().unwrap_or_default();
        // `h2c`, `h2`, any name of HTTP, and TLS, which HTTP continues in.
        [&b"h2c"[..], b"h2", b"http", b"tls"].iter().any(|own| name.eq_ignore_ascii_case(own))
    })
}

fn has_token(line: &HeaderValue, token: &str) -> bool {
    let mut tokens = line.as_bytes().split(|b| *b == b',');
    tokens.any(|own| {
        let own = own.split(|b| *b == b';').next().unwrap_or_default();
        own.trim_ascii().eq_ignore_ascii_case(token.as_bytes())
    })
}

/// Size of a field of a header list beside its name and value.
const FIELD_SIZE: usize = 32;
const OPTIONS: [&[u8]; 3] = [b"keep-alive", b"close", b"upgrade"];
const HOP: [&str; 3] = ["keep-alive", "proxy-connection", "http2-settings"];
const RESERVED: [&str; 6] = [
    "l5d-client-id",
    "l5d-connection-secure",
    "l5d-orig-proto",
    "l5d-proxy-error",
    "l5d-proxy-connection",
    "portcullis-decision",
];

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(lines: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn left(lines: &[(&str, &str)]) -> (Vec<String>, bool) {
        let mut head = head(lines);
        let asked = clean_request(&mut head, false);
        let show = |(n, v): (&HeaderName, &HeaderValue)| format!("{n}: {}", v.to_str().unwrap());
        let mut lines: Vec<_> = head.headers.iter().map(show).collect();
        lines.sort();
        (lines, asked.upgrade)
    }

    #[test]
    fn what_the_proxy_sets_is_taken_out_in_every_spelling() {
        let spoofed = [
            ("l5d-client-id", "a"),
            ("L5D_Client_Id", "b"),
            ("l5d-client_id", "c"),
            ("l5d_proxy-error", "d"),
            ("l5d-connection-secure", "true"),
            ("L5D_connection-Secure", "true"),
            ("l5d_connection_secure", "true"),
            ("l5d-orig-proto", "e"),
            ("l5d.client.id", "f"),
            ("l5d~client!id", "g"),
            ("l5d+client^id", "h"),
            ("l5d'client`id", "i"),
            ("portcullis-decision", "j"),
            ("Portcullis_Decision", "k"),
            ("l5d-dst-canonical", "kept"),
            ("l5dxclient-id", "kept"),
        ];
        assert_eq!(left(&spoofed).0, ["l5d-dst-canonical: kept", "l5dxclient-id: kept"]);
    }

    #[test]
    fn connection_lists_are_obeyed_but_not_for_framing_host_or_our_own() {
        let lines = [
            ("connection", "keep-alive, x-a, host"),
            ("connection", "Content-Length, close, l5d-client-id, l5d-connection-secure"),
            ("x-a", "1"),
            ("x-b", "1"),
            ("host", "h"),
            ("content-length", "0"),
            ("keep-alive", "timeout=1"),
            ("proxy-connection", "x"),
        ];
        assert_eq!(left(&lines).0, ["content-length: 0", "host: h", "x-b: 1"]);
    }

    #[test]
    fn cookies_become_one_line_in_their_order_and_without_a_blank_at_an_end() {
        let joined = |crumbs: &[&str]| {
            let lines: Vec<_> = crumbs.iter().map(|crumb| ("cookie", *crumb)).collect();
            left(&lines).0
        };
        assert_eq!(joined(&["a=1; b=2"]), ["cookie: a=1; b=2"]);
        assert_eq!(joined(&["a=1", "b=2", "c=3; d=4"]), ["cookie: a=1; b=2; c=3; d=4"]);
        assert_eq!(joined(&["", "a=1", "", "b=2", ""]), ["cookie: a=1; b=2"]);
        assert_eq!(joined(&["", ""]), ["cookie: "]);
        let mut headers = HeaderMap::new();
        let mut secret = HeaderValue::from_static("a=1");
        secret.set_sensitive(true);
        headers.append(COOKIE, secret);
        headers.append(COOKIE, HeaderValue::from_static("b=2"));
        join_cookies(&mut headers);
        assert!(headers[COOKIE].is_sensitive(), "stays out of compression tables");
    }

    #[test]
    fn a_websocket_upgrade_is_kept() {
        let lines =
            [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "k")];
        let (lines, upgrade) = left(&lines);
        assert!(upgrade);
        assert_eq!(lines, ["connection: upgrade", "sec-websocket-key: k", "upgrade: websocket"]);
    }

    #[test]
    fn an_upgrade_to_what_carries_requests_nobody_decides_on_is_ignored() {
        for protocol in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "h2", "TLS/1.0", "tls"] {
            let lines = [
                ("connection", "Upgrade, HTTP2-Settings"),
                ("upgrade", protocol),
                ("http2-settings", "AAMAAABk"),
            ];
            assert_eq!(left(&lines), (vec![], false), "{protocol}");
        }
    }

    #[test]
    fn an_upgrade_that_is_not_listed_is_no_upgrade() {
        assert_eq!(left(&[("upgrade", "websocket")]), (vec![], false));
    }

    #[test]
    fn te_keeps_only_trailers() {
        assert_eq!(left(&[("te", "gzip, trailers;q=0.5")]).0, ["te: trailers"]);
        assert_eq!(left(&[("te", "gzip")]).0, Vec::<String>::new());
    }

    #[test]
    fn a_carried_version_is_believed_of_meshed_peers_only() {
        let orig_proto = |meshed, version, line| {
            let mut head = head(&[("l5d-orig-proto", line)]);
            head.version = version;
            let asked = clean_request(&mut head, meshed);
            assert!(head.headers.is_empty(), "consumed in any case");
            asked.orig_proto
        };
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        assert_eq!(orig_proto(true, two, "HTTP/1.1; absolute-form"), Some(one));
        assert_eq!(orig_proto(true, two, "HTTP/1.0"), Some(Version::HTTP_10));
        assert_eq!(orig_proto(true, two, "HTTP/2.0"), None);
        assert_eq!(orig_proto(true, one, "HTTP/1.1"), None);
        assert_eq!(orig_proto(false, two, "HTTP/1.1"), None);
    }

    #[test]
    fn a_grpc_deadline_is_one_line_of_digits_and_a_unit() {
        let read = |lines: &[&str]| {
            let lines: Vec<_> = lines.iter().map(|line| ("grpc-timeout", *line)).collect();
            grpc_timeout(&head(&lines).headers)
        };
        let seconds = Duration::from_secs;
        for (line, wanted) in [
            ("2H", seconds(7200)),
            ("3M", seconds(180)),
            ("5S", seconds(5)),
            ("250m", Duration::from_millis(250)),
            ("7u", Duration::from_micros(7)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("00000001S", seconds(1)),
        ] {
            assert_eq!(read(&[line]), Some(wanted), "{line}");
        }
        for line in
            ["", "S", "5", "5s", "-5S", "+5S", " 5S", "5 S", "5.0S", "100000000S", "0S", "0m"]
        {
            assert_eq!(read(&[line]), None, "{line}");
        }
        assert_eq!(read(&["1S", "2S"]), None, "two deadlines are none");
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn nothing_to_do_leaves_the_head_alone() {
        let lines = [("accept", "*/*"), ("host", "h"), ("user-agent", "u")];
        assert_eq!(left(&lines).0, ["accept: */*", "host: h", "user-agent: u"]);
    }
}
