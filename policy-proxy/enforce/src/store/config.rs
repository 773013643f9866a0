//! Settings of the store.

use policy_core::{Facts, ServerPolicy};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// Settings of the store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The policy while nothing has been received (`--pending-policy=default`); `None`: connections
    /// wait, with a timeout, and are refused as `policy_pending`.
    pub pending: Option<Arc<ServerPolicy>>,
    /// Ports on which `pending` is opaque: their bytes are not inspected.
    pub pending_opaque: BTreeSet<NonZeroU16>,
    /// Maximum age of a stale policy before its port refuses as `policy_expired`; `None` for no
    /// limit.
    pub maximum_age: Option<Duration>,
    /// The workload's facts until the controller sends them.
    pub facts: Arc<Facts>,
    /// Maximum number of undeclared ports with a policy.
    pub on_demand_ports: usize,
    /// Time that an undeclared port is kept after its last use.
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
