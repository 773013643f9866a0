//! Which workloads an object is about besides those whose sidecar says what it has in force, and why it
//! is in force nowhere, where that is so whatever runs.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// What is known of the workloads that an object is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Why it is in force nowhere, whatever runs.
    pub gap: Option<Gap>,
    /// Workloads that run with a proxy that does not say what it has in force.
    pub compatible: u64,
    /// Workloads that run without a sidecar.
    pub bare: u64,
    /// Workloads that do not run, where none does.
    pub idle: u64,
    /// Workloads with a sidecar that some of its ports do not reach.
    pub skipping: Option<Skipping>,
    /// Who owns the rest of what a Server selects, in words.
    pub elsewhere: Option<Arc<str>>,
}

/// Why an object is in force nowhere, whatever runs.
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
    /// How many workloads do.
    pub workloads: u64,
    /// Which of the ports that the object is about.
    pub ports: BTreeSet<NonZeroU16>,
}

/// The reason of what selects or targets nothing.
pub const NO_TARGET: &str = "NoTarget";
/// The reason of an authentication that no policy names.
pub const NOT_REFERENCED: &str = "NotReferenced";
/// The reason of a Server all of whose ports others own, and of what takes effect through it alone.
pub const CONFLICTED: &str = "Conflicted";

impl Reach {
    /// Nothing is known but why it is in force nowhere.
    pub fn nowhere(reason: &'static str, message: impl Into<Arc<str>>) -> Self {
        Self { gap: Some(Gap { reason, message: message.into() }), ..Self::default() }
    }
}
