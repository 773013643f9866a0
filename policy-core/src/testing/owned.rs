//! Connections and requests that own what they lend to the evaluator.

use crate::identity::Identity;
use crate::network::Facts;
use crate::request::{Connection, RequestView, Tls};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::net::{IpAddr, Ipv4Addr};

/// A connection that owns what it lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedConnection {
    /// The client's address.
    pub client: IpAddr,
    /// The state of TLS.
    pub tls: OwnedTls,
    /// The workload's facts.
    pub facts: Facts,
}

/// The state of TLS on an [`OwnedConnection`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedTls {
    /// As [`Tls::Absent`].
    Absent,
    /// As [`Tls::Passthrough`].
    Passthrough,
    /// As [`Tls::Terminated`].
    Terminated(Option<Identity>),
}

impl OwnedConnection {
    /// Plaintext from an IPv4 address, without facts.
    pub fn plaintext(client: [u8; 4]) -> Self {
        Self {
            client: Ipv4Addr::from(client).into(),
            tls: OwnedTls::Absent,
            facts: Facts::default(),
        }
    }

    /// Mesh TLS with a DNS identity, from 10.0.0.1.
    pub fn meshed(name: &str) -> Self {
        let tls = OwnedTls::Terminated(Some(Identity::Dns(name.into())));
        Self { tls, ..Self::plaintext([10, 0, 0, 1]) }
    }

    /// Returns the evaluator's view.
    pub fn view(&self) -> Connection<'_> {
        let tls = match &self.tls {
            OwnedTls::Absent => Tls::Absent,
            OwnedTls::Passthrough => Tls::Passthrough,
            OwnedTls::Terminated(identity) => Tls::Terminated(identity.as_ref()),
        };
        Connection { client: self.client, tls, facts: &self.facts }
    }
}

/// A request that owns what it lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    /// Method.
    pub method: Method,
    /// Host.
    pub host: Option<String>,
    /// Path.
    pub path: String,
    /// Query without `?`.
    pub query: Option<String>,
    /// Header lines.
    pub headers: HeaderMap,
}

impl OwnedRequest {
    /// `GET path`, where `path` may have a query, without host and headers.
    pub fn get(path: &str) -> Self {
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (path, None),
        };
        Self {
            method: Method::GET,
            host: None,
            path: path.to_owned(),
            query,
            headers: HeaderMap::new(),
        }
    }

    /// The same with another method.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// The same for a host.
    #[must_use]
    pub fn host(self, host: &str) -> Self {
        Self { host: Some(host.to_owned()), ..self }
    }

    /// The same with one more header line. A name or value that HTTP does not allow is left out.
    #[must_use]
    pub fn header(mut self, name: &str, value: &[u8]) -> Self {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            self.headers.append(name, value);
        }
        self
    }

    /// Returns the evaluator's view.
    pub fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &self.method,
            host: self.host.as_deref(),
            path: &self.path,
            query: self.query.as_deref(),
            headers: &self.headers,
        }
    }
}
