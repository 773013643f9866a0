//! A stream that is held, and counted as such.

use crate::serve::metrics::OpenGauge;
use policy_core::Revision;
use policy_engine::hold;
use policy_engine::publish::Seen;

/// A wait for this replica to catch up.
pub(crate) struct Hold {
    wait: hold::Hold,
    _gauge: Option<OpenGauge>,
}

impl Hold {
    /// A wait of a client that has `applied` in force, from what has been seen now. A list has been
    /// asked for.
    pub(crate) fn new(applied: &Revision, seen: &Seen, gauge: Option<OpenGauge>) -> Self {
        Self { wait: hold::Hold::new(applied, seen), _gauge: gauge }
    }

    /// True once this replica has caught up.
    pub(crate) fn has_ended(&self, seen: &Seen) -> bool {
        self.wait.has_ended(seen)
    }

    /// True if one more list is needed; true once for each that ended.
    pub(crate) fn asks_again(&mut self, seen: &Seen) -> bool {
        self.wait.asks_again(seen)
    }
}
