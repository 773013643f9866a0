//! State that the services of one server share.

use super::applied::AckRegistry;
use super::authz::Authorizer;
use super::caller::ConnectionInfo;
use super::config::ServeConfig;
use super::denied::RefusalRegistry;
use super::metrics::ServeMetrics;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::{Denied, Owner, Protocol, ServerPolicy, Unmatched};
use policy_engine::DestinationClient;
use policy_engine::handles::Policies;
use policy_server::log::ClientLines;
use policy_server::{
    Allowance, AllowancePermit, ClientGroup, Limit, Limiter, Peer, SharedCapacity,
};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tonic::Status;

/// State that all services share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) policies: Policies,
    pub(super) config: ServeConfig,
    pub(super) streams: Allowance,
    /// Bytes of what clients report of ports that their workloads do not declare.
    pub(super) reported: SharedCapacity,
    /// Lookups of destinations.
    pub(super) lookups: Allowance,
    pub(super) access: Authorizer,
    pub(super) metrics: ServeMetrics,
    /// Lines that clients cause.
    pub(super) lines: ClientLines,
    pub(super) applied: AckRegistry,
    /// The refusals that clients report.
    pub(super) denied: RefusalRegistry,
    /// Lists of everything that holds cause.
    pub(super) lists: Limit<Peer>,
    /// Numbers of native streams.
    pub(super) sessions: AtomicU64,
}

/// Returns what the destinations that a peer follows count for.
pub(super) fn destination_client(peer: &Peer) -> DestinationClient {
    let group = match ClientGroup::of(peer) {
        ClientGroup::Identity(identity) => identity,
        ClientGroup::Network(address) => address.to_string().into(),
    };
    DestinationClient { group, address: peer.address }
}

/// Lists of everything that one peer's holds may cause: in a row, and after how long one more. What a
/// client says it has in force cannot be proved, and a hold ends without a list, too, when the watches
/// deliver what was missed. A hold takes two lists at most.
const LIST_LIMIT: (u32, Duration) = (6, Duration::from_secs(300));

impl Core {
    /// Creates the limit on lists caused by the holds of each peer.
    pub(super) fn lists_per_peer() -> Limit<Peer> {
        let (burst, interval) = LIST_LIMIT;
        Limit::of(Limiter::every(interval, burst))
    }

    /// Requests a full list, unless the holds of `peer` have used up its limit.
    pub(super) fn list_for(&self, peer: &Peer) -> bool {
        let may = self.lists.take(peer, Instant::now());
        if may {
            self.policies.refresh();
        }
        may
    }

    /// The connection a request came on.
    pub(super) fn connected(extensions: &http::Extensions) -> Result<ConnectionInfo, Status> {
        let connected = extensions.get::<ConnectionInfo>().cloned();
        connected.ok_or_else(|| Status::internal("the connection is not known"))
    }

    /// Room for one more watch of `peer`.
    pub(super) fn take_stream(&self, peer: &Peer) -> Result<AllowancePermit, Status> {
        self.streams.take(peer).ok_or_else(|| {
            self.metrics.refused_stream();
            let limit = self.streams.limit();
            let who = match &peer.identity {
                Some(identity) => format!("identity `{identity}` at this address"),
                None => "this address".to_owned(),
            };
            Status::resource_exhausted(format!("{who} has {limit} open watches, the most allowed"))
                .because(StatusReason::TooManyWatches)
        })
    }

    /// `policy` with everything refused for `reason`.
    pub(super) fn denial(policy: &ServerPolicy, reason: Denied) -> ServerPolicy {
        ServerPolicy {
            protocol: policy.protocol,
            paths: policy.paths,
            informational_headers: policy.informational_headers,
            upstream_reuse: policy.upstream_reuse,
            ..Self::denied(policy.owner.clone(), reason)
        }
    }

    /// A policy that refuses everything for `reason`.
    pub(super) fn denied(owner: Owner, reason: Denied) -> ServerPolicy {
        let mut policy = ServerPolicy::without_grants(owner, Protocol::Opaque);
        policy.deny = Some(reason);
        policy.routes.otherwise = Unmatched::Deny(reason);
        policy
    }
}
