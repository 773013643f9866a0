//! The only facts a decision may depend on.

use crate::identity::Identity;
use crate::network::Facts;
use http::{HeaderMap, Method};
use std::net::IpAddr;

/// The connection's half of a decision. Constant for the life of a connection and a revision, so
/// results that depend on it alone can be cached.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// The client's address, folded by [`crate::fold_mapped`].
    pub client: IpAddr,
    /// The state of TLS.
    pub tls: Tls<'a>,
    /// The workload's facts, which resolve network symbols.
    pub facts: &'a Facts,
}

/// The subject of a grant's conditions: a client's connection, and a request on it.
///
/// The two parts have different lifetimes. A connection carries many requests, so a result that
/// depends on `request` must never be cached across requests ([`crate::authorization::Scope`]).
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The connection's half.
    pub connection: &'a Connection<'a>,
    /// The request's half; absent on a connection that is not HTTP.
    pub request: Option<&'a RequestView<'a>>,
}

impl<'a> Subject<'a> {
    /// The client of a connection that is not HTTP.
    #[inline]
    pub fn of_connection(connection: &'a Connection<'a>) -> Self {
        Self { connection, request: None }
    }

    /// The client of a request.
    #[inline]
    pub fn of_request(connection: &'a Connection<'a>, request: &'a RequestView<'a>) -> Self {
        Self { connection, request: Some(request) }
    }
}

/// The state of TLS on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls<'a> {
    /// No ClientHello was seen, or TLS is not detected (opaque ports).
    Absent,
    /// TLS that the workload terminates, passed through unread.
    Passthrough,
    /// Terminated here; the identity is the client's, if it proved one.
    Terminated(Option<&'a Identity>),
}

/// The request's half of a decision: one canonical view, made once, which is matched, logged and
/// forwarded alike. To decide on an open request again after the policy changed, the caller needs
/// every field as it was.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// Method.
    pub method: &'a Method,
    /// Canonical host (lower-case, no port, no userinfo, no trailing dot); absent if the request
    /// names none. Host patterns never match an absent host.
    pub host: Option<&'a str>,
    /// Canonical path, which begins with `/`. Without query and fragment. The evaluator makes the
    /// match form of it.
    pub path: &'a str,
    /// Raw query, without the `?`.
    pub query: Option<&'a str>,
    /// Header fields as received.
    pub headers: &'a HeaderMap,
}
