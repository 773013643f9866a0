//! The workloads that an object applies to besides those whose sidecar acknowledges it, and the
//! reason why it is in force nowhere, if that holds whatever runs.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The workloads that an object applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The reason why it is in force nowhere, whatever runs.
    pub gap: Option<Gap>,
    /// Workloads that run with a proxy that does not acknowledge policies.
    pub compatible: u64,
    /// Workloads that run without a sidecar.
    pub bare: u64,
    /// Workloads that do not run, where none does.
    pub idle: u64,
    /// Workloads with a sidecar that some of its ports do not reach.
    pub skipping: Option<Skipping>,
    /// The owners of the other ports that a Server selects, in words.
    pub elsewhere: Option<Arc<str>>,
}

/// The reason why an object is in force nowhere, whatever runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// For programs.
    pub reason: &'static str,
    /// For people.
    pub message: Arc<str>,
}

/// Ports that workloads take out of redirection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipping {
    /// Number of such workloads.
    pub workloads: u64,
    /// The skipped ports among those that the object applies to.
    pub ports: BTreeSet<NonZeroU16>,
}

/// The reason of what selects or targets nothing.
pub const NO_TARGET: &str = "NoTarget";
/// The reason of an authentication that no policy names.
pub const NOT_REFERENCED: &str = "NotReferenced";
/// The reason of a Server whose ports are all owned by others, and of objects that take effect
/// through it alone.
pub const CONFLICTED: &str = "Conflicted";

impl Reach {
    /// Nothing is known but why it is in force nowhere.
    pub fn nowhere(reason: &'static str, message: impl Into<Arc<str>>) -> Self {
        Self { gap: Some(Gap { reason, message: message.into() }), ..Self::default() }
    }
}
