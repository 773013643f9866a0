//! Which Lease, and how long it lasts.

use std::sync::Arc;
use std::time::Duration;

/// The Lease of this controller, unless another is named.
pub const LEASE_NAME: &str = "portcullis-policy-controller";

/// Which Lease, and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// How long a silent holder is waited for.
    pub duration: Duration,
}
