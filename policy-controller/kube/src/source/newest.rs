//! The newest resource versions that have been read, by what numbers them.

use parking_lot::Mutex;
use policy_crds::Kind;
use std::collections::BTreeMap;

/// The newest versions that have been read since the epoch began. A consistent list that is begun
/// afterwards is not older, unless the storage was restored.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The refresh that the epoch began with.
    since: u64,
    versions: BTreeMap<Storage, u64>,
}

/// A numbering of versions. An API server may keep any of the kinds that are built into it in a storage
/// of its own (`--etcd-servers-overrides`), and keeps all custom resources in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Storage {
    Custom,
    BuiltIn(Kind),
}

impl Storage {
    fn of(kind: Kind) -> Self {
        match kind.group() {
            "policy.linkerd.io" | "gateway.networking.k8s.io" | "workload.linkerd.io" => {
                Self::Custom
            }
            _ => Self::BuiltIn(kind),
        }
    }
}

impl Newest {
    /// Notes a version that was read of a kind. What was listed for a refresh before the epoch began
    /// says nothing of it.
    pub(super) fn note(&self, since: u64, kind: Kind, version: u64) {
        let mut known = self.0.lock();
        if since >= known.since {
            let newest = known.versions.entry(Storage::of(kind)).or_default();
            *newest = version.max(*newest);
        }
    }

    /// The newest version of the storage that a kind is in, for a list of the refresh `since`.
    pub(super) fn of(&self, since: u64, kind: Kind) -> Option<u64> {
        let known = self.0.lock();
        known.versions.get(&Storage::of(kind)).copied().filter(|_| since >= known.since)
    }

    /// True if what was read for the refresh `since` belongs to the epoch that goes on.
    pub(super) fn is_current(&self, since: u64) -> bool {
        since >= self.0.lock().since
    }

    /// Forgets everything, because an epoch begins with the refresh `since`.
    pub(super) fn restart(&self, since: u64) {
        *self.0.lock() = Known { since, versions: BTreeMap::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_resources_share_a_numbering_and_built_in_kinds_need_not() {
        let newest = Newest::default();
        newest.note(0, Kind::Server, 9);
        newest.note(0, Kind::Server, 7);
        newest.note(0, Kind::Pod, 3);
        for custom in [Kind::Server, Kind::GrpcRoute, Kind::ReferenceGrant] {
            assert_eq!(newest.of(0, custom), Some(9), "{custom:?}");
        }
        assert_eq!((newest.of(0, Kind::Pod), newest.of(0, Kind::Node)), (Some(3), None));
        newest.note(0, Kind::Deployment, 30);
        newest.note(0, Kind::Job, 40);
        assert_eq!((newest.of(0, Kind::Server), newest.of(0, Kind::ReplicaSet)), (Some(9), None));
    }

    #[test]
    fn of_what_was_read_before_the_epoch_began_nothing_is_left() {
        let newest = Newest::default();
        newest.note(0, Kind::Server, 9);
        newest.restart(4);
        assert_eq!(newest.of(4, Kind::Server), None);
        newest.note(3, Kind::Server, 9);
        newest.note(4, Kind::Server, 2);
        assert_eq!(newest.of(5, Kind::Server), Some(2));
        // A list that began before has nothing to be compared with.
        assert_eq!(newest.of(3, Kind::Server), None);
        assert!(newest.is_current(4) && !newest.is_current(3));
    }
}
