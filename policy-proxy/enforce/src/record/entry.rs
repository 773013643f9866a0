//! One decision and its subject, as recorders receive it.

use policy_core::{DecisionId, Denied, Origin, Source};
use policy_tls::peer::Peer;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Receives one record per decision. Called on the worker's thread: it must not block for long.
pub trait Recorder: Send + Sync {
    /// Returns true if records are wanted now. Else they are not built.
    fn is_recording(&self) -> bool {
        true
    }

    /// Receives a decision. Called for a permitted request when its response head is known; for a
    /// connection when it is decided on.
    fn record(&self, record: &Record<'_>);

    /// Receives a refusal of one of the workload's own connections; ignored unless implemented.
    fn record_outbound(&self, _: &OutboundRecord<'_>) {}
}

/// A decision of the sidecar's outbound half, for its record.
#[derive(Clone, Copy, Debug)]
pub struct OutboundRefusal<'a> {
    /// The Service, by namespace and name; `None`: the address belongs to none that is known.
    pub service: Option<(&'a Arc<str>, &'a Arc<str>)>,
    /// The address that the application dialled, if the system says it.
    pub address: Option<SocketAddr>,
    /// The reason.
    pub reason: &'static str,
}

/// A connection of the workload that its sidecar refused.
#[derive(Clone, Copy, Debug)]
pub struct OutboundRecord<'a> {
    /// Time of the refusal.
    pub at: SystemTime,
    /// The workload, as the sidecar's configuration names it.
    pub workload: &'a str,
    /// The refusal.
    pub refused: OutboundRefusal<'a>,
    /// The id of the group that it is recorded in, if it is.
    pub id: Option<DecisionId>,
}

/// A decision and its subject.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Time when the request or connection arrived.
    pub at: SystemTime,
    /// The workload, as the sidecar's configuration names it.
    pub workload: &'a str,
    /// The workload's port.
    pub port: NonZeroU16,
    /// The client.
    pub peer: &'a Peer,
    /// The decision.
    pub verdict: Verdict,
    /// The route that matched; `None` for a connection, and if none matched.
    pub route: Option<&'a Origin>,
    /// The route's name among those of its origin, if it has one.
    pub http_route: Option<&'a str>,
    /// The authorization that granted a permit.
    pub authorization: Option<&'a Source>,
    /// The id of the group that the decision is recorded in, if it is.
    pub id: Option<DecisionId>,
    /// True if the authorization requests an audit.
    pub audited: bool,
    /// The request; `None` for a connection.
    pub request: Option<RequestRecord<'a>>,
}

/// The decision, for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Permitted.
    Allowed,
    /// Denied for this reason.
    Denied(Denied),
}

/// The request part of a [`Record`].
#[derive(Clone, Debug)]
pub struct RequestRecord<'a> {
    /// The method.
    pub method: &'a http::Method,
    /// The canonical host, or the host as sent if it has no canonical form.
    pub host: Option<&'a str>,
    /// The canonical path and query, or the target as sent where it has no canonical form.
    pub target: &'a str,
    /// The HTTP version of the client's side.
    pub version: http::Version,
    /// The status of the response.
    pub status: http::StatusCode,
    /// The request's `content-length`, if there was one.
    pub request_bytes: Option<u64>,
    /// The response's `content-length`, if there was one.
    pub response_bytes: Option<u64>,
    /// The `user-agent`.
    pub user_agent: Option<&'a str>,
    /// The first of `x-b3-traceid`, `x-request-id`, `x-amzn-trace-id`.
    pub trace_id: Option<&'a str>,
    /// The time from the request's head to the response's.
    pub total: Duration,
    /// The part of `total` that was spent in the proxy.
    pub processing: Duration,
}

impl Record<'_> {
    /// Returns the client's address and port.
    pub fn client(&self) -> SocketAddr {
        self.peer.address()
    }

    /// Returns the client's identity as logs write it.
    pub fn client_id(&self) -> Option<&str> {
        self.peer.identity().map(policy_core::Identity::as_str)
    }
}

impl Verdict {
    /// Returns `allow` or `deny`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allow",
            Self::Denied(_) => "deny",
        }
    }

    /// Returns the reason of a denial.
    pub fn reason(self) -> Option<Denied> {
        match self {
            Self::Allowed => None,
            Self::Denied(reason) => Some(reason),
        }
    }
}
