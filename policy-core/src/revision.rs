//! Revisions: the state of the source, a cluster or a directory, that a policy was compiled from.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Identifies a policy and the events it reflects. Comparable across replicas of one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Revision {
    /// The numbering that `versions` belongs to: the uid of the Lease and how many times the storage
    /// was restored since, or a random text per start where objects come from a directory. Revisions
    /// of different epochs are not comparable.
    pub epoch: Arc<str>,
    /// Hash of the encoded policy.
    pub content: u64,
    /// Per kind (`group/kind`) that this policy is made from, a resource version that no watcher
    /// can have passed without the last event that it reflects.
    pub versions: BTreeMap<Arc<str>, u64>,
}

impl Revision {
    /// Returns true if a source that has seen `self` has seen everything `other` reflects. False
    /// across epochs.
    pub fn has_caught_up_with(&self, other: &Revision) -> bool {
        self.epoch == other.epoch
            && other
                .versions
                .iter()
                .all(|(kind, version)| self.versions.get(kind).is_some_and(|own| own >= version))
    }
}
