//! The wait of a replica that may lag behind what a client has in force.

use crate::publish::SourceProgress;
use policy_core::Revision;

/// A wait for this replica to catch up.
#[derive(Clone, Debug)]
pub struct Hold {
    until: Revision,
    /// Number of lists that had ended when the client connected.
    lists: u64,
    /// Number that had ended when the last list was requested.
    requested: u64,
}

impl Hold {
    /// Creates the wait of a client that has `applied` in force, given the current progress. The
    /// caller has requested a list.
    pub fn new(applied: &Revision, seen: &SourceProgress) -> Self {
        let (until, lists) = (applied.clone(), seen.lists);
        Self { until, lists, requested: lists }
    }

    /// True once this replica has caught up. A list begun after the client connected contains
    /// everything the client can have seen; the first to end may have begun before, the second has
    /// not.
    pub fn has_ended(&self, seen: &SourceProgress) -> bool {
        seen.lists > self.lists.saturating_add(1) || seen.revision.has_caught_up_with(&self.until)
    }

    /// True if a list has ended that may have begun before the client connected, so that another
    /// list is needed; true once for each list.
    pub fn asks_again(&mut self, seen: &SourceProgress) -> bool {
        let again = seen.lists > self.requested;
        self.requested = self.requested.max(seen.lists);
        again
    }
}
