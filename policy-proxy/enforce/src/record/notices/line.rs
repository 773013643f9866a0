//! Formats log lines: bounded, and without characters that could end a line or forge another one.

use super::digest::{ClientKey, DueLines, RepeatCount};
use crate::record::entry::{Record, Verdict};
use http::Method;
use policy_core::target::canonical_path;
use std::fmt::Write;

/// Maximum lengths of paths, names and methods, in bytes; longer ones are truncated.
const PATH: usize = 256;
const NAME: usize = 256;
const METHOD: usize = 32;
/// The tracing target, which operators filter by.
const TARGET: &str = "policy_proxy::decisions";

/// The request line, for a log line.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path. A query is removed.
    pub path: &'a str,
    /// True if the path is made canonical first; false if policy takes it raw.
    pub canonical: bool,
}

/// Writes the line of a decision.
pub(super) fn first(record: &Record<'_>, request: Option<RequestLine<'_>>) {
    let method = request.map(|request| plain(request.method.as_str(), METHOD));
    let path = request.map(|request| path(&request));
    let route = record.route.map(|route| plain(&route.to_string(), NAME));
    let http_route = record.http_route.map(|label| plain(label, NAME));
    let authorization = record.authorization.map(|grant| plain(&grant.to_string(), NAME));
    let client_id = record.client_id().map(|name| plain(name, NAME));
    let what = match (record.verdict, request.is_some()) {
        (Verdict::Denied(_), true) => "request denied",
        (Verdict::Denied(_), false) => "connection denied",
        (Verdict::Allowed, true) => "request audited",
        (Verdict::Allowed, false) => "connection audited",
    };
    tracing::info!(
        target: TARGET,
        workload = record.workload,
        port = record.port,
        client = %record.client(),
        client_id,
        method,
        path,
        route,
        http_route,
        authorization,
        reason = record.verdict.reason().map(policy_core::Denied::as_str),
        "{what}"
    );
}

/// Writes the lines that are due.
pub(super) fn due(workload: &str, due: &DueLines) {
    for RepeatCount { client, kind, more, within, last } in &due.repeats {
        let (network, client_id) = match client {
            ClientKey::Identity(identity) => (None, Some(plain(identity.as_str(), NAME))),
            ClientKey::Network(_) => (Some(client.to_string()), None),
        };
        let what = match (kind.reason.is_some(), kind.connection) {
            (true, false) => "more requests denied",
            (true, true) => "more connections denied",
            (false, false) => "more requests audited",
            (false, true) => "more connections audited",
        };
        tracing::info!(
            target: TARGET,
            workload,
            port = kind.port,
            network,
            client_id,
            last = %last,
            reason = kind.reason.map(policy_core::Denied::as_str),
            more,
            seconds = within.as_secs(),
            "{what}"
        );
    }
    if due.left_out > 0 {
        let left_out = due.left_out;
        let what = "lines about what was denied or audited were left out";
        tracing::info!(target: TARGET, workload, left_out, "{what}");
    }
}

fn path(request: &RequestLine<'_>) -> String {
    let path = request.path.split('?').next().unwrap_or_default();
    let canonical = if request.canonical { canonical_path(path).ok() } else { None };
    // A path without a canonical form is logged as sent.
    plain(canonical.as_deref().unwrap_or(path), PATH)
}

/// Percent-encodes everything but visible ASCII, and truncates to `most` bytes.
fn plain(text: &str, most: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(most));
    for byte in text.bytes() {
        let visible = matches!(byte, b' '..=b'~');
        let length = if visible { 1 } else { 3 };
        if plain.len().saturating_add(length) > most {
            plain.push_str("...");
            break;
        }
        if visible {
            plain.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(plain, "%{byte:02X}");
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_a_path_is_canonical_bounded_and_visible() {
        let logged =
            |text: &str| path(&RequestLine { method: &Method::GET, path: text, canonical: true });
        assert_eq!(logged("/%61?secret=1"), "/a");
        assert_eq!(logged("/a/../b"), "/a/../b", "has no canonical form");
        assert_eq!(logged("/a\n2026 INFO \u{1b}[1m\u{202e}"), "/a%0A2026 INFO %1B[1m%E2%80%AE");
        let raw = RequestLine { method: &Method::GET, path: "/%61", canonical: false };
        assert_eq!(path(&raw), "/%61");
        let long = logged(&format!("/{}", "x".repeat(100_000)));
        assert_eq!(long.len(), 259);
        assert!(long.ends_with("xxx..."));
        assert_eq!(plain(&"\u{e9}".repeat(100_000), 7), "%C3%A9...");
    }
}
