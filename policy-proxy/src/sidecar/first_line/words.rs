//! Words by which HTTP is distinguished from other protocols.

/// True for every byte that some server separates words by: ASCII white space, the separators that
/// Python's `str.split` knows, and NEL and NBSP of Latin-1.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | 0x1c..=0x1f | b' ' | 0x85 | 0xa0)
}

/// True for the blanks that clients write; a CR ends the line.
pub(super) fn is_ordinary_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// True for the characters of a token (RFC 9110 section 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Names of protocol versions in request lines.
pub(super) const VERSIONS: [&str; 3] = ["HTTP/", "RTSP/", "ICE/"];
pub(super) const LONGEST_VERSION: usize = 5;

/// The methods that HTTP servers know; after one of these a target is enough. From the IANA
/// registry, UPnP and caches; Node knows `PRI` and the methods of RTSP and of Icecast, too.
pub(super) const METHODS: [&str; 57] = [
    "PRI",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "QUERY",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PROPFIND",
    "PROPPATCH",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
    "M-SEARCH",
    "NOTIFY",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PURGE",
    "ANNOUNCE",
    "DESCRIBE",
    "FLUSH",
    "GET_PARAMETER",
    "PAUSE",
    "PLAY",
    "RECORD",
    "REDIRECT",
    "SET_PARAMETER",
    "SETUP",
    "SOURCE",
    "TEARDOWN",
];
pub(super) const LONGEST_METHOD: usize = 17;
