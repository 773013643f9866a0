//! The wait of a replica that may lag behind what a client has in force.

use crate::publish::Seen;
use policy_core::Revision;

/// A wait for this replica to catch up.
#[derive(Clone, Debug)]
pub struct Hold {
    until: Revision,
    /// How many lists had ended when the client asked.
    lists: u64,
    /// How many had ended when another was last asked for.
    asked: u64,
}

impl Hold {
    /// A wait of a client that has `applied` in force, from what has been seen now. A list has been
    /// asked for.
    pub fn new(applied: &Revision, seen: &Seen) -> Self {
        let (until, lists) = (applied.clone(), seen.lists);
        Self { until, lists, asked: lists }
    }

    /// True once this replica has caught up. A list begun after the client asked shows everything the
    /// client can have seen; the first to end may have begun before, the second has not.
    pub fn has_ended(&self, seen: &Seen) -> bool {
        seen.lists > self.lists.saturating_add(1) || seen.revision.has_caught_up_with(&self.until)
    }

    /// True if a list has ended which may have begun before the client asked, so that one more is
    /// needed; true once for each.
    pub fn asks_again(&mut self, seen: &Seen) -> bool {
        let again = seen.lists > self.asked;
        self.asked = self.asked.max(seen.lists);
        again
    }
}
