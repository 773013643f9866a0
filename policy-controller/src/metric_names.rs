//! The metrics of the controller that no library of it has: their names and what they say. Names that
//! Linkerd's policy controller has too are spelled as there (controller-semantics 6.4).

pub(crate) use policy_engine::metric_names::Metric;

/// Connections and requests that the guard of the controller's own ports refused.
pub(crate) const GUARD_REFUSED: Metric = Metric {
    name: "policy_guard_refused",
    help: "Connections and requests refused on the controller's own ports, by port and reason",
};
/// Whether the guard follows the cluster's Servers.
pub(crate) const GUARD_FOLLOWS: Metric = Metric {
    name: "policy_guard_follows",
    help: "Whether the controller's own ports follow the cluster's Servers; 0: the local policy holds",
};

#[cfg(test)]
mod tests;
