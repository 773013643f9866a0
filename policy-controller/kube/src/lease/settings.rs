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
    /// Time after which a holder that does not renew may be replaced.
    pub duration: Duration,
}
