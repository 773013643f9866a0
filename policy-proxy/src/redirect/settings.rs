//! The configuration of `policy-proxy redirect`.

use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};

/// Configuration of `policy-proxy redirect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectConfig {
    /// The sidecar's inbound port.
    pub inbound: NonZeroU16,
    /// Its admin port.
    pub admin: NonZeroU16,
    /// The sidecar's user.
    pub user: NonZeroU32,
    /// Inbound ports that are not redirected.
    pub skipped: BTreeSet<NonZeroU16>,
    /// Redirection of the pod's own connections; absent if they are left alone.
    pub outbound: Option<OutboundRedirect>,
    /// The tool that writes the rules.
    pub mode: Mode,
    /// The action on the rules.
    pub task: Task,
}

/// Redirection of the pod's own connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundRedirect {
    /// The sidecar's outbound port, on loopback.
    pub port: NonZeroU16,
    /// Destination ports that are not redirected.
    pub skipped: BTreeSet<NonZeroU16>,
    /// Destination networks that are not redirected.
    pub skipped_networks: Vec<IpNet>,
    /// The address that is redirected for every user, the sidecar's included.
    pub canary: Option<SocketAddr>,
}

/// The tool that writes the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// nft, or iptables where nft cannot be used.
    Auto,
    /// nft.
    Nft,
    /// iptables, on nf_tables or iptables-legacy.
    Iptables,
}

/// Action on the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Write the rules, replace those of an earlier run, and read them back.
    Apply,
    /// Read and compare the rules.
    Check,
    /// Remove the rules.
    Undo,
}
