//! Settings of leader election.

use std::sync::Arc;
use std::time::Duration;

/// The default name of the Lease.
pub const LEASE_NAME: &str = "portcullis-policy-controller";

/// Settings of leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// How long a holder that does not renew is waited for.
    pub duration: Duration,
}
