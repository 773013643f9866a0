//! Addresses that slices call a pod's, until the pods of that time are known.

use policy_crds::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Statements of slices that are newer than the pods. Each has the version at which its slice first made
/// it, so that a slice that is written again and again is waited for once; and it is forgotten once the
/// pods have that version, so that later pods cost nothing here.
#[derive(Clone, Debug, Default)]
pub(super) struct AwaitedPods {
    by_address: BTreeMap<IpAddr, BTreeMap<ObjectKey, u64>>,
    by_version: BTreeSet<(u64, IpAddr, ObjectKey)>,
}

impl AwaitedPods {
    /// Notes that a slice calls an address a pod's from this version of it on.
    pub(super) fn insert(&mut self, address: IpAddr, slice: &ObjectKey, version: u64) {
        self.remove(address, slice);
        self.by_address.entry(address).or_default().insert(slice.clone(), version);
        self.by_version.insert((version, address, slice.clone()));
    }

    /// Notes that a slice says so no more.
    pub(super) fn remove(&mut self, address: IpAddr, slice: &ObjectKey) {
        let Some(slices) = self.by_address.get_mut(&address) else { return };
        if let Some(version) = slices.remove(slice) {
            self.by_version.remove(&(version, address, slice.clone()));
        }
        if slices.is_empty() {
            self.by_address.remove(&address);
        }
    }

    /// True if a statement is no newer than this version.
    pub(super) fn has_known(&self, version: u64) -> bool {
        self.by_version.first().is_some_and(|(first, ..)| *first <= version)
    }

    /// Forgets the statements up to a version of the pods, and returns their addresses.
    pub(super) fn take_known(&mut self, version: u64) -> BTreeSet<IpAddr> {
        let mut known = BTreeSet::new();
        while self.has_known(version) {
            let Some((_, address, slice)) = self.by_version.pop_first() else { break };
            self.remove(address, &slice);
            known.insert(address);
        }
        known
    }

    /// The addresses of all statements.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.by_address.keys().copied()
    }

    /// True if a slice says so of an address.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.by_address.contains_key(&address)
    }

    /// True if there is no statement.
    pub(super) fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }
}
