//! Settings of a table.

use std::time::Duration;

/// Bounds of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSettings {
    /// The largest number of entries.
    pub max_entries: usize,
    /// Time for which the entry of a Service stays without connections.
    pub keep_services: Duration,
    /// Time for which any other entry stays without connections.
    pub keep_addresses: Duration,
    /// Time for which "not meshed" stays known after the controller was lost.
    pub stale_unmeshed: Duration,
}

impl Default for TableSettings {
    fn default() -> Self {
        Self {
            max_entries: 4096,
            keep_services: Duration::from_secs(600),
            keep_addresses: Duration::from_secs(60),
            stale_unmeshed: Duration::from_secs(10),
        }
    }
}
