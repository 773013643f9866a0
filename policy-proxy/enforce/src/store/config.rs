//! Settings of the store.

use policy_core::{Facts, ServerPolicy};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// What the proxy's operator decides about the store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Decides while nothing has been received (`--pending-policy=default`); absent: connections
    /// wait, bounded, and are refused as `policy_pending`.
    pub pending: Option<Arc<ServerPolicy>>,
    /// Ports on which `pending` is opaque: what is said there need not be looked at.
    pub pending_opaque: BTreeSet<NonZeroU16>,
    /// How long a policy may be stale before its port refuses as `policy_expired`; absent: for ever.
    pub maximum_age: Option<Duration>,
    /// The workload's facts until the controller states them.
    pub facts: Arc<Facts>,
    /// How many ports that nothing declares may have a policy at a time.
    pub on_demand_ports: usize,
    /// How long such a port is kept after its last use.
    pub on_demand_idle: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            pending: None,
            pending_opaque: BTreeSet::new(),
            maximum_age: None,
            facts: Arc::new(Facts::default()),
            on_demand_ports: 256,
            on_demand_idle: Duration::from_secs(90),
        }
    }
}
