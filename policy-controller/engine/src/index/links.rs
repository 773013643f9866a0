//! Who is on which edge, in parts: a snapshot that is held costs a copy of the part that changes, and not
//! of everything.

use super::edge::Edge;
use policy_crds::ObjectKey;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

/// Parts that edges are divided among. Ten thousand edges are forty in a part.
const PARTS: usize = 256;

type Part = BTreeMap<Edge, Arc<BTreeSet<ObjectKey>>>;

/// The objects on every edge. Cloning shares the parts.
#[derive(Clone, Debug)]
pub(super) struct Links(Vec<Arc<Part>>);

impl Default for Links {
    fn default() -> Self {
        Self(vec![Arc::default(); PARTS])
    }
}

impl Links {
    /// The objects on an edge, in order.
    pub(super) fn on(&self, edge: &Edge) -> impl Iterator<Item = &ObjectKey> {
        let members = self.0.get(place(edge)).and_then(|part| part.get(edge));
        members.into_iter().flat_map(|members| members.iter())
    }

    /// Puts an object on an edge.
    pub(super) fn insert(&mut self, edge: &Edge, key: &ObjectKey) {
        let Some(part) = self.0.get_mut(place(edge)) else { return };
        let members = Arc::make_mut(part).entry(edge.clone()).or_default();
        Arc::make_mut(members).insert(key.clone());
    }

    /// Takes an object off an edge.
    pub(super) fn remove(&mut self, edge: &Edge, key: &ObjectKey) {
        let Some(part) = self.0.get_mut(place(edge)) else { return };
        let part = Arc::make_mut(part);
        let Some(members) = part.get_mut(edge) else { return };
        let left = Arc::make_mut(members);
        left.remove(key);
        if left.is_empty() {
            part.remove(edge);
        }
    }

    /// How many edges are in parts that `other` does not share, and how many objects are on edges that
    /// it does not share.
    #[cfg(test)]
    pub(super) fn apart_from(&self, other: &Self) -> (usize, usize) {
        let parts = self.0.iter().zip(&other.0).filter(|(own, other)| !Arc::ptr_eq(own, other));
        parts.fold((0, 0), |(edges, objects), (own, other)| {
            let shared = |(edge, members): &(&Edge, &Arc<BTreeSet<ObjectKey>>)| {
                other.get(*edge).is_some_and(|other| Arc::ptr_eq(members, other))
            };
            let copied = own.iter().filter(|entry| !shared(entry));
            let copied: usize = copied.map(|(_, members)| members.len()).sum();
            (edges.saturating_add(own.len()), objects.saturating_add(copied))
        })
    }
}

/// The part that an edge is in.
fn place(edge: &Edge) -> usize {
    let mut hasher = DefaultHasher::new();
    edge.hash(&mut hasher);
    let parts = u64::try_from(PARTS).unwrap_or(u64::MAX);
    usize::try_from(hasher.finish().checked_rem(parts).unwrap_or(0)).unwrap_or(0)
}
