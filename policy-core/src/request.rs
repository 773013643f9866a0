//! The only facts a decision may depend on.

use crate::identity::Identity;
use crate::network::Facts;
use http::{HeaderMap, Method};
use std::net::IpAddr;

/// The connection's half of a decision. Constant for the life of a connection and a revision, so
/// what depends on it alone can be remembered.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// The client's address, folded by [`crate::fold_mapped`].
    pub client: IpAddr,
    /// What is known of TLS.
    pub tls: Tls<'a>,
    /// The workload's facts, which resolve network symbols.
    pub facts: &'a Facts,
}

/// The state of TLS on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls<'a> {
    /// No ClientHello was seen, or nobody looked (opaque ports).
    Absent,
    /// TLS for somebody else, passed through unread.
    Passthrough,
    /// Terminated here; the identity is the client's, if it proved one.
    Terminated(Option<&'a Identity>),
}

/// The request's half of a decision: one canonical view, made once, which is matched, logged and
/// forwarded alike.
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
