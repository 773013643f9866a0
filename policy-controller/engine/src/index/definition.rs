//! All objects, as tables and edges, and what each batch of changes touches.

use super::input::{Edge, Input, edges};
use super::table::{EdgeTable, Table};
use crate::source::{Batch, Change};
use policy_crds::{Kind, Object, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All objects. A clone is a snapshot: it costs one pointer per kind and never changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    tables: BTreeMap<Kind, Arc<Table>>,
    edges: Arc<EdgeTable>,
    versions: Arc<BTreeMap<Kind, KindVersion>>,
    synced: bool,
}

/// The versions of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct KindVersion {
    /// The version of the last event, whether or not it changed anything.
    last: Option<u64>,
    /// The version of the last that changed an object; at first, of the first list.
    changed: Option<u64>,
    /// True if objects have changed since a version was last stated.
    unversioned: bool,
}

/// The inputs that a batch touched.
pub(crate) type Touched = BTreeSet<Input>;

impl Index {
    /// Applies a batch as one transaction and returns the inputs it touched. An object applied as
    /// it already was touches nothing.
    pub(crate) fn apply(&mut self, batch: &Batch) -> Touched {
        let mut touched = Touched::new();
        if batch.epoch.is_some() {
            let read = std::mem::take(&mut self.versions);
            touched.extend(read.keys().map(|kind| Input::Version(*kind)));
        }
        for change in &batch.changes {
            match change {
                Change::Apply(object) => self.replace(&object.meta.key, Some(object), &mut touched),
                Change::Delete(key) => self.replace(key, None, &mut touched),
                Change::Synced => self.synced = true,
            }
        }
        if !batch.versions.is_empty() {
            let versions = Arc::make_mut(&mut self.versions);
            for (kind, version) in &batch.versions {
                let read = versions.entry(*kind).or_default();
                if read.last < Some(*version) {
                    read.last = Some(*version);
                    touched.insert(Input::Version(*kind));
                }
                if std::mem::take(&mut read.unversioned) || read.changed.is_none() {
                    read.changed = read.last;
                }
            }
        }
        touched
    }

    /// True if every kind has been listed completely.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    /// The version of the last event of a kind.
    pub(crate) fn version(&self, kind: Kind) -> Option<u64> {
        self.versions.get(&kind)?.last
    }

    /// The version of the last event that changed an object of a kind. A reader that has seen this
    /// version has the objects of this index, or newer ones.
    pub(crate) fn changed(&self, kind: Kind) -> Option<u64> {
        self.versions.get(&kind)?.changed
    }

    /// The object of this name.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.tables.get(&key.kind)?.get(&key.namespace, &key.name)
    }

    /// The objects of a kind in a namespace, by name.
    pub(crate) fn list(&self, kind: Kind, namespace: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.tables.get(&kind).into_iter().flat_map(move |table| table.list(namespace))
    }

    /// Number of objects of a kind in a namespace.
    pub(crate) fn count(&self, kind: Kind, namespace: &str) -> usize {
        self.tables.get(&kind).map_or(0, |table| table.count(namespace))
    }

    /// Every object of a kind, by namespace and name.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.tables.get(&kind).into_iter().flat_map(|table| table.all())
    }

    /// The objects on this edge, in order.
    pub(crate) fn edge(&self, edge: &Edge) -> impl Iterator<Item = &ObjectKey> {
        self.edges.on(edge)
    }

    /// Number of objects on this edge.
    pub(crate) fn edge_len(&self, edge: &Edge) -> usize {
        self.edges.len(edge)
    }

    fn replace(&mut self, key: &ObjectKey, new: Option<&Arc<Object>>, touched: &mut Touched) {
        let table = Arc::make_mut(self.tables.entry(key.kind).or_default());
        let old = match new {
            Some(object) => table.insert(object.clone()),
            None => table.remove(&key.namespace, &key.name),
        };
        if old.as_ref() == new {
            return;
        }
        Arc::make_mut(&mut self.versions).entry(key.kind).or_default().unversioned = true;
        touched.insert(Input::Object(key.clone()));
        touched.insert(Input::List(key.kind, key.namespace.clone()));
        let before = old.as_deref().map(edges).unwrap_or_default();
        let after = new.map(|object| edges(object)).unwrap_or_default();
        for edge in before.union(&after) {
            touched.insert(Input::Edge(edge.clone()));
        }
        if before != after {
            self.relink(key, &before, &after);
        }
    }

    fn relink(&mut self, key: &ObjectKey, before: &BTreeSet<Edge>, after: &BTreeSet<Edge>) {
        let edges = Arc::make_mut(&mut self.edges);
        for edge in before.difference(after) {
            edges.remove(edge, key);
        }
        for edge in after.difference(before) {
            edges.insert(edge, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, server};

    fn batch(changes: Vec<Change>) -> Batch {
        let versions = BTreeMap::from([(Kind::Server, 7)]);
        Batch { changes, versions, ..Batch::default() }
    }

    #[test]
    fn a_snapshot_does_not_change() {
        let mut index = Index::default();
        index.apply(&batch(vec![Change::Apply(server("ns", "a", 80))]));
        let snapshot = index.clone();
        let key = testing::key(Kind::Server, "ns", "a");
        index.apply(&batch(vec![Change::Delete(key.clone())]));
        assert!(snapshot.object(&key).is_some());
        assert!(index.object(&key).is_none());
        assert_eq!(index.version(Kind::Server), Some(7));
    }

    /// Each review of an object that is to be applied holds one.
    #[test]
    fn a_snapshot_that_is_held_costs_a_copy_of_what_changes_alone() {
        let mut index = Index::default();
        let policy = |n: usize| {
            let (name, target) = (format!("p{n}"), format!("s{}", n % 5000));
            Change::Apply(testing::policy_on_server("ns", &name, &target))
        };
        index.apply(&batch((0..10_000).map(policy).collect()));
        let snapshot = index.clone();
        assert_eq!(index.edges.apart_from(&snapshot.edges), (0, 0));
        index.apply(&batch(vec![policy(10_001)]));
        let (edges, objects) = index.edges.apart_from(&snapshot.edges);
        assert!((1..100).contains(&edges) && objects == 3, "{edges} edges, {objects} objects");
        let target = Edge::Target(testing::key(Kind::Server, "ns", "s1"));
        assert_eq!((index.edge(&target).count(), snapshot.edge(&target).count()), (3, 2));
    }

    #[test]
    fn an_equal_object_touches_nothing() {
        let mut index = Index::default();
        let change = || batch(vec![Change::Apply(server("ns", "a", 80))]);
        assert!(!index.apply(&change()).is_empty());
        assert!(index.apply(&change()).is_empty());
        assert!(!index.is_synced());
        index.apply(&batch(vec![Change::Synced]));
        assert!(index.is_synced());
    }

    #[test]
    fn what_changed_nothing_is_no_version_that_others_have_to_catch_up_with() {
        let mut index = Index::default();
        let mut apply = |changes, version: Option<u64>| {
            let versions = version.map(|version| (Kind::Server, version)).into_iter().collect();
            index.apply(&Batch { changes, versions, ..Batch::default() });
            (index.version(Kind::Server), index.changed(Kind::Server))
        };
        let other = |port| vec![Change::Apply(server("ns", "a", port))];
        assert_eq!(apply(vec![], Some(3)), (Some(3), Some(3)), "nothing was listed: that is news");
        assert_eq!(apply(vec![], Some(4)), (Some(4), Some(3)));
        assert_eq!(apply(other(80), Some(5)), (Some(5), Some(5)));
        assert_eq!(apply(other(80), Some(6)), (Some(6), Some(5)), "an object as it was");
        assert_eq!(apply(other(81), None), (Some(6), Some(5)));
        assert_eq!(apply(vec![], Some(7)), (Some(7), Some(7)), "stated later");
    }

    #[test]
    fn versions_of_the_epoch_before_count_for_nothing() {
        let mut index = Index::default();
        let mut apply = |changes, version, epoch: Option<&str>| {
            let (versions, epoch) = ([(Kind::Server, version)].into(), epoch.map(Arc::from));
            index.apply(&Batch { changes, versions, epoch, ..Batch::default() });
            (index.version(Kind::Server), index.changed(Kind::Server))
        };
        let server = |port| vec![Change::Apply(server("ns", "a", port))];
        assert_eq!(apply(server(80), 90, None), (Some(90), Some(90)));
        assert_eq!(apply(server(80), 7, Some("second")), (Some(7), Some(7)));
        assert_eq!(apply(server(81), 8, None), (Some(8), Some(8)));
    }

    #[test]
    fn an_object_that_moves_touches_where_it_was_and_where_it_is() {
        let mut index = Index::default();
        let policy = |target| Change::Apply(testing::policy_on_server("ns", "p", target));
        index.apply(&batch(vec![policy("a")]));
        let touched = index.apply(&batch(vec![policy("b")]));
        for name in ["a", "b"] {
            let edge = Edge::Target(testing::key(Kind::Server, "ns", name));
            assert!(touched.contains(&Input::Edge(edge.clone())), "{name}");
            assert_eq!(index.edge(&edge).count(), usize::from(name == "b"));
        }
    }
}
