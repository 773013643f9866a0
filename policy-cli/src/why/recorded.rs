//! A decision that a sidecar recorded or logged, and the question that it is the answer to.

use super::client::ClientArgument;
use super::judge::{Question, QuestionRequest};
use crate::inventory::Inventory;
use http::HeaderMap;
use policy_core::{Protocol, WorkloadKey};
use policy_enforce::record::MAX_TEXT;
use policy_proxy::outbound::plan::Refusal;
use serde::Serialize;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

/// A recorded decision, or a group of them: facts alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedDecision {
    /// The id of its group.
    pub(crate) id: Option<String>,
    /// The workload, as `namespace/name`.
    pub(crate) workload: String,
    /// Its port; of its own connections, the port that was dialled.
    pub(crate) port: u16,
    /// True if it is about a connection that the workload opened itself.
    pub(crate) outbound: bool,
    /// `deny`, `audit` or `allow`.
    pub(crate) decision: String,
    /// The reason of a denial.
    pub(crate) reason: Option<String>,
    /// The client, or the Service or network that was dialled.
    pub(crate) subject: String,
    /// The identity that the client proved.
    pub(crate) identity: Option<String>,
    /// The client's address, or the one that was dialled.
    pub(crate) address: Option<String>,
    /// True if it is about a connection and not about a request.
    pub(crate) connection: bool,
    /// Method, host and path of the last request that is known.
    pub(crate) method: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) path: Option<String>,
    /// The route that took the request.
    pub(crate) route: Option<String>,
    /// The revision of the policy; absent: not known.
    pub(crate) revision: Option<String>,
    /// True if that revision is still in force; absent: not known.
    pub(crate) current: Option<bool>,
    /// Times of the first and the last, as they were written.
    pub(crate) first: Option<String>,
    pub(crate) last: Option<String>,
    /// Number of decisions.
    pub(crate) count: u64,
    /// The sidecar's own explanation; null: it has none.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) explanation: Value,
}

impl RecordedDecision {
    /// Reads a group of `/decisions`; `None` if it is none.
    pub(super) fn of_group(workload: &str, group: &Value) -> Option<Self> {
        let text =
            |pointer: &str| group.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let identity = text("/subject/identity");
        let others = || text("/subject/network").or_else(|| text("/subject/service"));
        let samples = group.get("samples").and_then(Value::as_array);
        let sample = samples.and_then(|samples| samples.last());
        let of_sample = |field: &str| sample?.get(field)?.as_str().map(str::to_owned);
        Some(Self {
            id: text("/id"),
            workload: workload.to_owned(),
            port: u16::try_from(group.get("port")?.as_u64()?).ok()?,
            outbound: text("/side").as_deref() == Some("outbound"),
            decision: text("/decision")?,
            reason: text("/reason"),
            subject: identity.clone().or_else(others)?,
            identity,
            address: of_sample("address"),
            connection: text("/on").as_deref() == Some("connection"),
            method: of_sample("method"),
            host: of_sample("host"),
            path: of_sample("path"),
            route: text("/route"),
            revision: text("/revision"),
            current: group.get("current").and_then(Value::as_bool),
            first: text("/first"),
            last: text("/last"),
            count: group.get("count").and_then(Value::as_u64).unwrap_or(1),
            explanation: group.get("explanation").cloned().unwrap_or_default(),
        })
    }

    /// The question that the decision is the answer to, at a port of a workload of `inventory`. What is not
    /// recorded is left out: queries, headers and the version of HTTP, which the port's protocol decides.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn question(
        &self,
        inventory: &Inventory,
        (workload, port): (&WorkloadKey, NonZeroU16),
    ) -> Result<Question, String> {
        let address = self.address.as_deref().and_then(ip);
        let from = match (&self.identity, address) {
            (Some(identity), _) => identity
                .parse::<ClientArgument>()
                .map_err(|error| format!("the client: {error}"))?,
            (None, Some(address)) => ClientArgument::Address(address),
            (None, None) => return Err("the client's address is not recorded".to_owned()),
        };
        let address = address.filter(|_| self.identity.is_some());
        if self.connection {
            return Ok(Question { from, address, request: None });
        }
        let (Some(method), Some(path)) = (&self.method, &self.path) else {
            return Err("the request is not recorded (--decisions=counts)".to_owned());
        };
        if is_truncated(path) {
            return Err("the path was truncated in the record".to_owned());
        }
        if self.host.as_deref().is_some_and(is_truncated) {
            return Err("the host was truncated in the record".to_owned());
        }
        let protocol = inventory.compiled.port(workload, port).map(|policy| policy.protocol);
        // A request of another version would have been refused as such.
        let mismatch = self.reason.as_deref() == Some("protocol_mismatch");
        let h2 = match protocol {
            Some(Protocol::Http2 | Protocol::Grpc) => !mismatch,
            Some(Protocol::Http1) => mismatch,
            Some(Protocol::Detect { .. } | Protocol::Opaque | Protocol::Tls) | None => false,
        };
        let grpc = h2 && protocol == Some(Protocol::Grpc);
        let request = QuestionRequest {
            method: method.clone(),
            target: path.clone(),
            host: self.host.clone().filter(|host| !host.is_empty()),
            headers: HeaderMap::new(),
            h2,
            grpc,
        };
        Ok(Question { from, address, request: Some(request) })
    }

    /// The request in words; `None`: the connection itself.
    pub(super) fn request(&self) -> Option<String> {
        Some(format!("{} {}", self.method.as_ref()?, self.path.as_ref()?))
    }

    /// The decision in words: `denied, unauthorized`.
    pub(super) fn verdict(&self) -> String {
        let decision = match self.decision.as_str() {
            "deny" => "denied",
            "audit" => "allowed, audited",
            "allow" => "allowed",
            other => other,
        };
        match &self.reason {
            Some(reason) => format!("{decision}, {reason}"),
            None => decision.to_owned(),
        }
    }

    /// The record in one sentence.
    pub(super) fn words(&self) -> String {
        let what = match (self.connection, self.count) {
            (true, 1) => "connection".to_owned(),
            (true, count) => format!("{count} connections"),
            (false, 1) => "request".to_owned(),
            (false, count) => format!("{count} requests"),
        };
        let subject = match self.outbound {
            true => format!("of {} to {}, port {}", self.workload, self.subject, self.port),
            false => format!("of {} to {}, port {}", self.subject, self.workload, self.port),
        };
        let times = match (&self.first, &self.last) {
            (Some(first), Some(last)) if first != last => format!(", from {first} to {last}"),
            (Some(at), _) | (None, Some(at)) => format!(", at {at}"),
            (None, None) => String::new(),
        };
        let current = match self.current {
            Some(true) => ", which is in force",
            Some(false) => ", which is not in force any more",
            None => "",
        };
        let revision = self.revision.as_ref();
        let revision = revision.map(|own| format!(", by revision {own}{current}"));
        let id = self.id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
        format!("{}: {what} {subject}{times}{}{id}", self.verdict(), revision.unwrap_or_default())
    }

    /// The cause of a refusal of the workload's own connection; `None` of other decisions.
    pub(super) fn outbound_cause(&self) -> Option<String> {
        let reason = self.reason.as_deref().filter(|_| self.outbound)?;
        let known = Refusal::ALL.into_iter().find(|known| known.as_str() == reason);
        let words = known.map_or("the sidecar's version knows why", Refusal::explanation);
        Some(format!("the sidecar of {} refused the connection: {words}", self.workload))
    }
}

/// True for a text that a sidecar truncated.
fn is_truncated(text: &str) -> bool {
    text.len() > MAX_TEXT && text.ends_with("...")
}

/// The address of `address` or `address:port`.
pub(super) fn ip(text: &str) -> Option<IpAddr> {
    let with_port = text.parse::<SocketAddr>().ok().map(|address| address.ip());
    with_port.or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_enforce::record::visible_path;

    #[test]
    fn a_text_that_a_sidecar_truncated_is_not_taken_for_whole() {
        for (length, truncated) in [(MAX_TEXT - 1, false), (MAX_TEXT, true), (5000, true)] {
            let path = visible_path(&format!("/{}", "a".repeat(length)));
            assert_eq!(is_truncated(&path), truncated, "{length}");
        }
        assert!(is_truncated(&visible_path(&"\u{e9}".repeat(100))));
        assert!(!is_truncated("/a..."));
    }
}
