//! Objects of one kind: written and tested once for every kind.

use policy_crds::Object;
use std::collections::BTreeMap;
use std::sync::Arc;

type Named = BTreeMap<Arc<str>, Arc<Object>>;

/// Objects of one kind by namespace and name. Cloning shares the namespaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    namespaces: BTreeMap<Arc<str>, Arc<Named>>,
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

    /// Returns what was there.
    pub(super) fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let key = &object.meta.key;
        let named = self.namespaces.entry(key.namespace.clone()).or_default();
        Arc::make_mut(named).insert(key.name.clone(), object)
    }

    /// Returns what was there. A namespace without objects is forgotten.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let named = Arc::make_mut(self.namespaces.get_mut(namespace)?);
        let removed = named.remove(name);
        if named.is_empty() {
            self.namespaces.remove(namespace);
        }
        removed
    }
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
