//! The configuration of `policy-proxy redirect`.

use std::collections::BTreeSet;
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
    /// Ports that are not redirected.
    pub skipped: BTreeSet<NonZeroU16>,
    /// The tool that writes the rules.
    pub mode: Mode,
    /// The action on the rules.
    pub task: Task,
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
