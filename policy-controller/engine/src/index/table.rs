//! The tables of objects and references. Cloning shares their parts, so that a change while a
//! snapshot is held copies the changed part only.

use super::input::Edge;
use policy_crds::{Object, ObjectKey};
use std::collections::btree_map::Entry;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

type ObjectsByName = BTreeMap<Arc<str>, Arc<Object>>;

/// Objects of one kind by namespace and name. Cloning shares the namespaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    namespaces: BTreeMap<Arc<str>, Arc<ObjectsByName>>,
}

impl Table {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.namespaces.get(namespace)?.get(name)
    }

    pub(super) fn list(&self, namespace: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.namespaces.get(namespace).into_iter().flat_map(|named| named.values())
    }

    pub(super) fn count(&self, namespace: &str) -> usize {
        self.namespaces.get(namespace).map_or(0, |named| named.len())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.namespaces.values().flat_map(|named| named.values())
    }

    /// Inserts an object. Returns the one it replaces.
    pub(super) fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let key = &object.meta.key;
        let named = self.namespaces.entry(key.namespace.clone()).or_default();
        Arc::make_mut(named).insert(key.name.clone(), object)
    }

    /// Removes an object and returns it. A namespace without objects is dropped.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let named = Arc::make_mut(self.namespaces.get_mut(namespace)?);
        let removed = named.remove(name);
        if named.is_empty() {
            self.namespaces.remove(namespace);
        }
        removed
    }
}

/// Parts that edges are divided among. Ten thousand edges are forty in a part.
const PARTS: usize = 256;

type Part = BTreeMap<Edge, Members>;

/// The objects on an edge, at least one. On that of an address there is hardly ever another.
#[derive(Clone, Debug)]
enum Members {
    One(ObjectKey),
    Many(Arc<BTreeSet<ObjectKey>>),
}

impl Members {
    fn iter(&self) -> impl Iterator<Item = &ObjectKey> {
        let (one, many) = match self {
            Self::One(key) => (Some(key), None),
            Self::Many(keys) => (None, Some(keys.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(keys) => keys.len(),
        }
    }

    fn insert(&mut self, key: &ObjectKey) {
        match self {
            Self::One(own) if own == key => {}
            Self::One(own) => {
                *self = Self::Many(Arc::new([own.clone(), key.clone()].into()));
            }
            Self::Many(keys) => {
                Arc::make_mut(keys).insert(key.clone());
            }
        }
    }

    /// Takes a key away. False if it was the last one.
    fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            Self::One(own) => own != key,
            Self::Many(keys) => {
                let left = Arc::make_mut(keys);
                left.remove(key);
                !left.is_empty()
            }
        }
    }

    #[cfg(test)]
    fn is_shared_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(own), Self::One(other)) => own == other,
            (Self::Many(own), Self::Many(other)) => Arc::ptr_eq(own, other),
            (Self::One(_), Self::Many(_)) | (Self::Many(_), Self::One(_)) => false,
        }
    }
}

/// The objects on every edge. Cloning shares the parts.
#[derive(Clone, Debug)]
pub(super) struct EdgeTable(Vec<Arc<Part>>);

impl Default for EdgeTable {
    fn default() -> Self {
        Self(vec![Arc::default(); PARTS])
    }
}

impl EdgeTable {
    /// The objects on an edge, in order.
    pub(super) fn on(&self, edge: &Edge) -> impl Iterator<Item = &ObjectKey> {
        let members = self.0.get(place(edge)).and_then(|part| part.get(edge));
        members.into_iter().flat_map(|members| members.iter())
    }

    /// Number of objects on an edge.
    pub(super) fn len(&self, edge: &Edge) -> usize {
        let members = self.0.get(place(edge)).and_then(|part| part.get(edge));
        members.map_or(0, |members| members.len())
    }

    /// Puts an object on an edge.
    pub(super) fn insert(&mut self, edge: &Edge, key: &ObjectKey) {
        let Some(part) = self.0.get_mut(place(edge)) else { return };
        match Arc::make_mut(part).entry(edge.clone()) {
            Entry::Occupied(mut members) => members.get_mut().insert(key),
            Entry::Vacant(place) => {
                place.insert(Members::One(key.clone()));
            }
        }
    }

    /// Takes an object off an edge.
    pub(super) fn remove(&mut self, edge: &Edge, key: &ObjectKey) {
        let Some(part) = self.0.get_mut(place(edge)) else { return };
        let part = Arc::make_mut(part);
        let Some(members) = part.get_mut(edge) else { return };
        if !members.remove(key) {
            part.remove(edge);
        }
    }

    /// Number of edges in parts that `other` does not share, and number of objects on edges that it
    /// does not share.
    #[cfg(test)]
    pub(super) fn apart_from(&self, other: &Self) -> (usize, usize) {
        let parts = self.0.iter().zip(&other.0).filter(|(own, other)| !Arc::ptr_eq(own, other));
        parts.fold((0, 0), |(edges, objects), (own, other)| {
            let shared = |(edge, members): &(&Edge, &Members)| {
                other.get(*edge).is_some_and(|other| members.is_shared_with(other))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::server;

    #[test]
    fn tables_remember_and_forget() {
        let mut table = Table::default();
        assert!(table.insert(server("a", "x", 1)).is_none());
        assert!(table.insert(server("b", "x", 2)).is_none());
        assert!(table.insert(server("a", "x", 3)).is_some());
        assert_eq!(table.all().count(), 2);
        assert_eq!(table.list("a").count(), 1);
        assert!(table.remove("a", "y").is_none());
        assert!(table.remove("a", "x").is_some());
        assert!(table.remove("a", "x").is_none());
        assert!(!table.namespaces.contains_key("a"));
        assert!(table.get("b", "x").is_some());
    }
}
