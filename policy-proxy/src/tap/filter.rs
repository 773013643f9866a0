//! Filters of a stream of decisions.

use crate::outbound::plan::Refusal;
use ipnet::IpNet;
use policy_core::{Denied, IdentityMatch};
use policy_enforce::record::{OutboundRecord, Record, Verdict};
use std::num::NonZeroU16;

/// The parameters of a stream.
pub const PARAMETERS: [&str; 6] = ["client", "reason", "route", "decision", "port", "rate"];

/// The conditions of a stream: of each kind, one has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapFilter {
    /// Clients; empty: all of them.
    pub clients: Vec<TapClient>,
    /// Reasons of denials; empty: all of them, and permits.
    pub reasons: Vec<TapReason>,
    /// Routes, by `Kind namespace/name`, `namespace/name`, name or label; empty: all of them.
    pub routes: Vec<String>,
    /// Decisions; empty: all of them.
    pub decisions: Vec<TapDecision>,
    /// Ports, of the workload's own connections those that it dials; empty: all of them.
    pub ports: Vec<NonZeroU16>,
    /// Maximum number of decisions per second.
    pub rate: u32,
}

/// A condition on the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapClient {
    /// Its identity, as policies write it.
    Identity(IdentityMatch),
    /// Its address.
    Network(IpNet),
}

/// The reason of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapReason {
    /// Of a client's connection or request.
    Inbound(Denied),
    /// Of a connection of the workload itself.
    Outbound(Refusal),
}

impl TapReason {
    /// The reasons of this name; none if it is not known. Both halves may have a reason of one name.
    pub fn parse(text: &str) -> Vec<Self> {
        let inbound = Denied::parse(text).map(Self::Inbound);
        let outbound = Refusal::ALL.into_iter().find(|reason| reason.as_str() == text);
        inbound.into_iter().chain(outbound.map(Self::Outbound)).collect()
    }
}

/// A decision, as a stream names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapDecision {
    /// Permitted.
    Allow,
    /// Permitted by an authorization that requests an audit.
    Audit,
    /// Denied.
    Deny,
}

impl TapDecision {
    /// Every value, in the order of the variants.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Audit, Self::Deny];

    /// The value as parameters and lines spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Audit => "audit",
            Self::Deny => "deny",
        }
    }

    pub(super) fn of(record: &Record<'_>) -> Self {
        match (record.verdict, record.audited) {
            (Verdict::Denied(_), _) => Self::Deny,
            (Verdict::Allowed, true) => Self::Audit,
            (Verdict::Allowed, false) => Self::Allow,
        }
    }
}

impl TapClient {
    /// Reads an address, a network, or an identity: `*`, `*.suffix` or a name.
    pub fn parse(text: &str) -> Self {
        let network = text.parse::<IpNet>().ok();
        let network = network.or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from));
        match network {
            Some(network) => Self::Network(network),
            None => Self::Identity(IdentityMatch::parse(text)),
        }
    }
}

impl TapFilter {
    pub(super) fn passes(&self, record: &Record<'_>) -> bool {
        let Self { clients, reasons, routes, decisions, ports, rate: _ } = self;
        let is_client = |wanted: &TapClient| match wanted {
            TapClient::Identity(name) => record.peer.identity().is_some_and(|own| name.admits(own)),
            TapClient::Network(network) => network.contains(&record.peer.ip()),
        };
        let reason = record.verdict.reason();
        (decisions.is_empty() || decisions.contains(&TapDecision::of(record)))
            && (ports.is_empty() || ports.contains(&record.port))
            && (reasons.is_empty()
                || reason.is_some_and(|own| reasons.contains(&TapReason::Inbound(own))))
            && (clients.is_empty() || clients.iter().any(is_client))
            && (routes.is_empty() || routes.iter().any(|wanted| is_route(record, wanted)))
    }

    /// True for a refusal of the workload's own connection, which has neither client nor route.
    pub(super) fn passes_outbound(&self, record: &OutboundRecord<'_>) -> bool {
        let Self { clients, reasons, routes, decisions, ports, rate: _ } = self;
        let is_reason = |wanted: &TapReason| match wanted {
            TapReason::Inbound(_) => false,
            TapReason::Outbound(reason) => reason.as_str() == record.refused.reason,
        };
        let port = record.refused.address.and_then(|address| NonZeroU16::new(address.port()));
        clients.is_empty()
            && routes.is_empty()
            && (decisions.is_empty() || decisions.contains(&TapDecision::Deny))
            && (ports.is_empty() || port.is_some_and(|port| ports.contains(&port)))
            && (reasons.is_empty() || reasons.iter().any(is_reason))
    }
}

fn is_route(record: &Record<'_>, wanted: &str) -> bool {
    let origin = record.route.map(ToString::to_string).unwrap_or_default();
    let object = origin.split_once(' ').map_or("", |(_, object)| object);
    let name = object.rsplit('/').next().unwrap_or_default();
    record.http_route == Some(wanted) || [origin.as_str(), object, name].contains(&wanted)
}
