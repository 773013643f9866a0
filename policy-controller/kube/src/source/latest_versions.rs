//! The latest resource versions that have been read, by storage.

use parking_lot::Mutex;
use policy_crds::Kind;
use std::collections::BTreeMap;

/// The latest versions that have been read in the current epoch. A consistent list that begins later
/// is not older, unless the storage was restored.
#[derive(Debug, Default)]
pub(super) struct LatestVersions(Mutex<VersionTable>);

#[derive(Debug, Default)]
struct VersionTable {
    /// The refresh that the epoch began with.
    since: u64,
    versions: BTreeMap<Storage, u64>,
}

/// A storage that numbers versions. An API server may keep any built-in kind in a storage of its own
/// (`--etcd-servers-overrides`), and keeps all custom resources in one.
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

impl LatestVersions {
    /// Records a version that was read. Ignores a list of a refresh before the epoch began.
    pub(super) fn record(&self, since: u64, kind: Kind, version: u64) {
        let mut table = self.0.lock();
        if since >= table.since {
            let latest = table.versions.entry(Storage::of(kind)).or_default();
            *latest = version.max(*latest);
        }
    }

    /// The latest version of the storage of a kind, for a list of the refresh `since`.
    pub(super) fn get(&self, since: u64, kind: Kind) -> Option<u64> {
        let table = self.0.lock();
        table.versions.get(&Storage::of(kind)).copied().filter(|_| since >= table.since)
    }

    /// True if a read for the refresh `since` belongs to the current epoch.
    pub(super) fn is_current(&self, since: u64) -> bool {
        since >= self.0.lock().since
    }

    /// Clears the versions, because an epoch begins with the refresh `since`.
    pub(super) fn reset(&self, since: u64) {
        *self.0.lock() = VersionTable { since, versions: BTreeMap::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_resources_share_a_numbering_and_built_in_kinds_need_not() {
        let latest = LatestVersions::default();
        latest.record(0, Kind::Server, 9);
        latest.record(0, Kind::Server, 7);
        latest.record(0, Kind::Pod, 3);
        for custom in [Kind::Server, Kind::GrpcRoute, Kind::ReferenceGrant] {
            assert_eq!(latest.get(0, custom), Some(9), "{custom:?}");
        }
        assert_eq!((latest.get(0, Kind::Pod), latest.get(0, Kind::Node)), (Some(3), None));
        latest.record(0, Kind::Deployment, 30);
        latest.record(0, Kind::Job, 40);
        assert_eq!((latest.get(0, Kind::Server), latest.get(0, Kind::ReplicaSet)), (Some(9), None));
    }

    #[test]
    fn of_what_was_read_before_the_epoch_began_nothing_is_left() {
        let latest = LatestVersions::default();
        latest.record(0, Kind::Server, 9);
        latest.reset(4);
        assert_eq!(latest.get(4, Kind::Server), None);
        latest.record(3, Kind::Server, 9);
        latest.record(4, Kind::Server, 2);
        assert_eq!(latest.get(5, Kind::Server), Some(2));
        // A list that began before has nothing to be compared with.
        assert_eq!(latest.get(3, Kind::Server), None);
        assert!(latest.is_current(4) && !latest.is_current(3));
    }
}
