//! One decision and what it was about, as recorders get it.

use policy_core::{Denied, Origin, Source};
use policy_tls::peer::Peer;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::{Duration, SystemTime};

/// Takes one record per decision. Called on the worker's thread: it must not block for long.
pub trait Recorder: Send + Sync {
    /// Whether records are taken now. What is not asked for is not put together.
    fn is_recording(&self) -> bool {
        true
    }

    /// Takes note of a decision. For a permitted request this is called once its response head is
    /// known; for a connection, when it was decided on.
    fn record(&self, record: &Record<'_>);
}

/// A decision and what it was about.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// When the request or connection arrived.
    pub at: SystemTime,
    /// The workload that was asked for, as the sidecar's configuration names it.
    pub workload: &'a str,
    /// Its port.
    pub port: NonZeroU16,
    /// The client.
    pub peer: &'a Peer,
    /// What was decided.
    pub verdict: Verdict,
    /// The route that matched; none for a connection and where none matched.
    pub route: Option<&'a Origin>,
    /// The grant that settled a permit.
    pub authorization: Option<&'a Source>,
    /// Whether the grant asks for the permit to be logged.
    pub audited: bool,
    /// The request; none for a connection.
    pub request: Option<RequestRecord<'a>>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Let through.
    Allowed,
    /// Refused for this reason.
    Denied(Denied),
}

/// The request half of a [`Record`].
#[derive(Clone, Debug)]
pub struct RequestRecord<'a> {
    /// Method.
    pub method: &'a http::Method,
    /// The canonical host, or what was sent where it has none.
    pub host: Option<&'a str>,
    /// The canonical path and query, or the target as sent where it has no canonical form.
    pub target: &'a str,
    /// HTTP version of the client's side.
    pub version: http::Version,
    /// Status of the answer.
    pub status: http::StatusCode,
    /// The request's `content-length`, if it said one.
    pub request_bytes: Option<u64>,
    /// The response's `content-length`, if it said one.
    pub response_bytes: Option<u64>,
    /// `user-agent`.
    pub user_agent: Option<&'a str>,
    /// The first of `x-b3-traceid`, `x-request-id`, `x-amzn-trace-id`.
    pub trace_id: Option<&'a str>,
    /// From the request's head to the response's.
    pub total: Duration,
    /// Of that, what was spent here rather than waiting for the application.
    pub processing: Duration,
}

impl Record<'_> {
    /// The client's address and port.
    pub fn client(&self) -> SocketAddr {
        self.peer.address()
    }

    /// The client's identity as logs write it.
    pub fn client_id(&self) -> Option<&str> {
        self.peer.identity().map(policy_core::Identity::as_str)
    }
}

impl Verdict {
    /// `allow` or `deny`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allow",
            Self::Denied(_) => "deny",
        }
    }

    /// The reason of a refusal.
    pub fn reason(self) -> Option<Denied> {
        match self {
            Self::Allowed => None,
            Self::Denied(reason) => Some(reason),
        }
    }
}
