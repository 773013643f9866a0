//! The wait of a replica that may lag behind what a client has in force.

use crate::publish::SourceProgress;
use policy_core::Revision;

/// A wait for this replica to catch up.
#[derive(Clone, Debug)]
pub struct Hold {
    until: Revision,
    /// How many lists had ended when the client asked.
    lists: u64,
    /// How many had ended when another was last asked for.
    requested: u64,
}

impl Hold {
    /// A wait of a client that has `applied` in force, from what has been seen now. A list has been
    /// asked for.
    pub fn new(applied: &Revision, seen: &SourceProgress) -> Self {
        let (until, lists) = (applied.clone(), seen.lists);
        Self { until, lists, requested: lists }
    }

    /// True once this replica has caught up. A list begun after the client asked shows everything the
    /// client can have seen; the first to end may have begun before, the second has not.
    pub fn has_ended(&self, seen: &SourceProgress) -> bool {
        seen.lists > self.lists.saturating_add(1) || seen.revision.has_caught_up_with(&self.until)
    }

    /// True if a list has ended which may have begun before the client asked, so that one more is
    /// needed; true once for each.
    pub fn asks_again(&mut self, seen: &SourceProgress) -> bool {
        let again = seen.lists > self.requested;
        self.requested = self.requested.max(seen.lists);
        again
    }
}
