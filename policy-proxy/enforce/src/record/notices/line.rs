//! Formats log lines: bounded, and without characters that could end a line or forge another one.

use super::digest::{DueLines, RepeatCount};
use crate::record::client_key::ClientKey;
use crate::record::entry::{Record, Verdict};
use crate::record::request_line::RequestLine;
use crate::record::visible::{self, MAX_METHOD as METHOD, MAX_TEXT as NAME, plain};

/// The tracing target, which operators filter by.
const TARGET: &str = "policy_proxy::decisions";

/// Writes the line of a decision.
pub(super) fn first(record: &Record<'_>, request: Option<RequestLine<'_>>) {
    let method = request.map(|request| plain(request.method.as_str(), METHOD));
    let path = request.map(|request| visible::path(request.path, request.canonical));
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
        decision = record.id.map(tracing::field::display),
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
