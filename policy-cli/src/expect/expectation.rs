//! The file of expectations: requests and their expected results.

use super::cluster::ClusterSettings;
use super::conditions::ExpectedCondition;
use super::effects::ExpectedTimeouts;
use super::error::ExpectError;
use super::header_values::HeaderValues;
use super::received::ExpectedArrival;
use super::response::ExpectedResponse;
use super::workload_port::WorkloadPort;
use crate::sidecar_view::ClientTls;
use crate::verdict::Verdict;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// A file of expectations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Expectations {
    /// Settings of the controller; absent ones have their defaults.
    #[serde(default)]
    pub cluster: ClusterSettings,
    /// The requests. An empty list is an error, because it would test nothing.
    pub requests: Vec<Expectation>,
    /// Conditions of objects.
    #[serde(default)]
    pub conditions: Vec<ExpectedCondition>,
}

/// A request and its expected result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Expectation {
    /// Name of the promise, as reports print it.
    pub name: String,
    /// The client.
    pub from: Client,
    /// The workload and port.
    pub to: WorkloadPort,
    /// A request: method and target, for example `GET /path?query`.
    pub http: Option<String>,
    /// A gRPC call: `package.Service/Method`.
    pub grpc: Option<String>,
    /// A connection that carries other bytes.
    #[serde(default)]
    pub tcp: bool,
    /// `Host` or `:authority`; absent: the workload's name.
    pub host: Option<String>,
    /// Headers; several lines of one name as a list.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderValues>,
    /// HTTP version of an `http` request.
    #[serde(default)]
    pub version: Version,
    /// The expected decision.
    pub decision: Verdict,
    /// The stable reason of a denial. Required for `deny`.
    pub reason: Option<String>,
    /// The route that matched, `Kind namespace/name`.
    pub route: Option<String>,
    /// The grant that permitted the request, `Kind namespace/name` or `default name`.
    pub authorization: Option<String>,
    /// The response that the client receives. Only a real client has one, so that the evaluator
    /// alone does not compare it.
    pub response: Option<ExpectedResponse>,
    /// The request as the application receives it. Of this the evaluator alone compares the headers that
    /// policies decide on.
    pub received: Option<ExpectedArrival>,
    /// The bounds on the exchange. Only the evaluator tells them; a real client sees what becomes of it.
    pub timeouts: Option<ExpectedTimeouts>,
    /// The request is sent so many times at once. Of those that exceed a rate limit at least one is
    /// denied as expected; a permit is expected of all.
    pub burst: Option<NonZeroU32>,
}

/// The HTTP version of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2 with prior knowledge.
    H2,
}

/// The client of a request. At most one of `serviceAccount` and `identity`, and of `address` and
/// `node`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Client {
    /// Meshed, with the identity of this ServiceAccount (`namespace/name`), from inside the cluster
    /// unless `address` differs.
    pub service_account: Option<String>,
    /// Meshed, with this identity: a DNS name or a `spiffe://` URI.
    pub identity: Option<String>,
    /// Its address; absent: one inside the cluster's networks.
    pub address: Option<IpAddr>,
    /// From the pod's own node, as the kubelet.
    #[serde(default)]
    pub node: bool,
    /// TLS; absent: `mesh` with an identity, else `none`.
    pub tls: Option<ClientTls>,
}

impl Expectations {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// The file, and line and column if the YAML is invalid.
    pub fn read(path: &Path) -> Result<Self, ExpectError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ExpectError::Unreadable { path: path.to_owned(), error })?;
        Self::parse(&text).map_err(|error| match error {
            ExpectError::Malformed { message, .. } => {
                ExpectError::Malformed { path: path.to_owned(), message }
            }
            ExpectError::Unreadable { .. }
            | ExpectError::InvalidRequest { .. }
            | ExpectError::Setup(_) => error,
        })
    }

    /// Parses and validates a text.
    ///
    /// # Errors
    /// [`ExpectError::Malformed`] without a path, [`ExpectError::InvalidRequest`].
    pub fn parse(text: &str) -> Result<Self, ExpectError> {
        let malformed = |message: String| ExpectError::Malformed { path: PathBuf::new(), message };
        let expectations: Self =
            serde_saphyr::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let vague =
            |expected: &&ExpectedCondition| expected.status.is_none() && expected.reason.is_some();
        if let Some(vague) = expectations.conditions.iter().find(vague) {
            return Err(malformed(format!("conditions: {}: status is missing", vague.object)));
        }
        if expectations.requests.is_empty() {
            return Err(malformed("requests: the list is empty and promises nothing".to_owned()));
        }
        for request in &expectations.requests {
            let check = request.check();
            check.map_err(|message| ExpectError::InvalidRequest {
                name: request.name.clone(),
                message: message.to_owned(),
            })?;
        }
        Ok(expectations)
    }
}

impl Expectation {
    fn check(&self) -> Result<(), &'static str> {
        let kinds = [self.http.is_some(), self.grpc.is_some(), self.tcp];
        if kinds.into_iter().filter(|kind| *kind).count() != 1 {
            return Err("exactly one of http, grpc and tcp is required");
        }
        if self.from.service_account.is_some() && self.from.identity.is_some() {
            return Err("from: serviceAccount and identity exclude each other");
        }
        if self.from.address.is_some() && self.from.node {
            return Err("from: address and node exclude each other");
        }
        let named = self.from.service_account.is_some() || self.from.identity.is_some();
        if named && self.from.tls.is_some_and(|tls| tls != ClientTls::Mesh) {
            return Err("from: an identity needs tls: mesh");
        }
        if (self.decision == Verdict::Deny) != self.reason.is_some() {
            return Err("reason belongs to decision: deny, and to nothing else");
        }
        if self.http.as_deref().is_some_and(|http| !http.contains(' ')) {
            return Err("http: write `METHOD /path`");
        }
        self.check_outcome()
    }

    fn check_outcome(&self) -> Result<(), &'static str> {
        if self.tcp && (self.response.is_some() || self.received.is_some() || self.burst.is_some())
        {
            return Err("response, received and burst belong to http and grpc");
        }
        if self.timeouts.is_some() && (self.tcp || self.decision == Verdict::Deny) {
            return Err("timeouts: there are none of a connection, nor of what is denied");
        }
        if self.received.is_some() && self.decision == Verdict::Deny {
            return Err("received: the application receives nothing that is denied");
        }
        let grpc = self.grpc.is_some();
        if self.response.as_ref().is_some_and(|response| response.is_of_grpc() && !grpc) {
            return Err("response: grpcStatus and trailersOnly belong to grpc");
        }
        if self.received.as_ref().is_some_and(|arrival| arrival.is_of_http() && grpc) {
            return Err("received: the application tells path and headers of a call, nothing else");
        }
        Ok(())
    }

    /// Method and target of the request; none for a connection.
    pub(crate) fn request(&self) -> Option<(&str, String)> {
        if let Some(call) = &self.grpc {
            return Some(("POST", format!("/{}", call.trim_start_matches('/'))));
        }
        self.http.as_deref()?.split_once(' ').map(|(method, target)| (method, target.to_owned()))
    }

    /// TLS mode of its client.
    pub(crate) fn tls(&self) -> ClientTls {
        let named = self.from.service_account.is_some() || self.from.identity.is_some();
        self.from.tls.unwrap_or(if named { ClientTls::Mesh } else { ClientTls::None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let request = "requests: [{name: n, from: {address: 10.0.0.1}, to: a/b:1, ";
        for (rest, expected) in [
            ("decision: allow}]", "exactly one of"),
            ("http: GET /, tcp: true, decision: allow}]", "exactly one of"),
            ("http: GET /, decision: deny}]", "reason belongs"),
            ("http: GET /, decision: allow, reason: unauthorized}]", "reason belongs"),
            ("http: GET, decision: allow}]", "METHOD /path"),
            ("http: GET /, decision: perhaps}]", "perhaps"),
            ("http: GET /, decision: allow, rout: x}]", "rout"),
            ("tcp: true, decision: allow, burst: 3}]", "belong to http"),
            ("http: GET /, decision: deny, reason: x, received: {path: /}}]", "receives nothing"),
            ("http: GET /, decision: allow, response: {grpcStatus: 0}}]", "belong to grpc"),
            ("grpc: a.B/C, decision: allow, received: {method: POST}}]", "nothing else"),
            ("tcp: true, decision: allow, timeouts: {idle: 1s}}]", "none of a connection"),
        ] {
            let error = Expectations::parse(&format!("{request}{rest}")).unwrap_err().to_string();
            assert!(error.contains(expected), "{rest}: {error}");
        }
        let error = Expectations::parse("requests: []").unwrap_err().to_string();
        assert!(error.contains("promises nothing"), "{error}");
    }
}
