//! What `policy-proxy redirect` is told to do.

use std::collections::BTreeSet;
use std::num::{NonZeroU16, NonZeroU32};

/// What `policy-proxy redirect` is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectConfig {
    /// Where the sidecar listens.
    pub inbound: NonZeroU16,
    /// Its admin port.
    pub admin: NonZeroU16,
    /// Its user.
    pub user: NonZeroU32,
    /// Ports that are left alone.
    pub skipped: BTreeSet<NonZeroU16>,
    /// What the rules are written with.
    pub mode: Mode,
    /// Whether they are written.
    pub task: Task,
}

/// What the rules are written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// nft, or iptables where nft cannot be used.
    Auto,
    /// nft.
    Nft,
    /// iptables, on nf_tables or on the older interface of the kernel.
    Iptables,
}

/// What is done with the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Written, whatever was there of ours before, and read back.
    Apply,
    /// Read and compared.
    Check,
    /// Removed.
    Undo,
}
