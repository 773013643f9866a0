//! The request that the application behind a sidecar is expected to receive.

use super::header_values::{ExpectedHeaders, differences};
use crate::echo::http::ReceivedRequest;
use crate::request::{ClientResponse, Protocol};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The request as the application receives it; absent fields are not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedArrival {
    /// Method.
    pub method: Option<String>,
    /// Path and query.
    pub path: Option<String>,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: Option<String>,
    /// `:authority`, or `Host` of HTTP/1.
    pub host: Option<String>,
    /// Headers; `null`: absent.
    #[serde(default)]
    pub headers: ExpectedHeaders,
}

impl ExpectedArrival {
    /// True if it states what the response to a gRPC call does not tell.
    pub(super) fn is_of_http(&self) -> bool {
        self.method.is_some() || self.version.is_some() || self.host.is_some()
    }

    /// Differences of the request that the application describes in its response; empty if there
    /// are none.
    pub(super) fn differs(&self, response: &ClientResponse) -> Vec<String> {
        let arrival = match response.protocol {
            Protocol::Grpc => Arrival::of_call(response),
            Protocol::Http1 | Protocol::Http2 | Protocol::Tcp => Arrival::of_request(response),
        };
        match arrival {
            Some(arrival) => self.compare(&arrival),
            None => vec!["the response is not the application's".to_owned()],
        }
    }

    fn compare(&self, found: &Arrival) -> Vec<String> {
        let mut all = Vec::new();
        let parts = [
            ("method", &self.method, &found.method),
            ("path", &self.path, &found.path),
            ("version", &self.version, &found.version),
            ("host", &self.host, &found.host),
        ];
        for (what, expected, found) in parts {
            if expected.is_some() && expected != found {
                all.push(format!(
                    "the application received {what} {found:?}, expected {expected:?}"
                ));
            }
        }
        all.extend(differences(&self.headers, |name| {
            let lines = found.headers.get(&name.to_ascii_lowercase());
            lines.into_iter().flatten().map(String::as_str).collect()
        }));
        all
    }
}

/// A request as the echo application describes it.
struct Arrival {
    method: Option<String>,
    path: Option<String>,
    version: Option<String>,
    host: Option<String>,
    headers: BTreeMap<String, Vec<String>>,
}

impl Arrival {
    /// The JSON body of a response.
    fn of_request(response: &ClientResponse) -> Option<Self> {
        let received: ReceivedRequest = serde_json::from_str(&response.body).ok()?;
        let line = received.headers.get("host").and_then(|lines| lines.first());
        Some(Self {
            method: Some(received.method),
            path: Some(received.path),
            version: Some(received.version),
            host: received.authority.or(line.cloned()),
            headers: received.headers,
        })
    }

    /// The response headers of a call that begin with `echo-`.
    fn of_call(response: &ClientResponse) -> Option<Self> {
        let path = response.header("echo-path")?.to_owned();
        let mut headers = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in &response.headers {
            if let Some(name) = name.strip_prefix("echo-") {
                headers.entry(name.to_owned()).or_default().push(value.clone());
            }
        }
        Some(Self { method: None, path: Some(path), version: None, host: None, headers })
    }
}
