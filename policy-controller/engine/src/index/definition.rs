//! All objects, as tables and edges, and what each batch of changes touches.

use super::awaited::AwaitedPods;
use super::expressions::{ExpressionBudgets, bytes_of};
use super::input::{Edge, Input, edges};
use super::kept::{self, KeptObjects};
use super::table::{EdgeTable, Table};
use crate::source::{Batch, Change};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// All objects. A clone is a snapshot: it costs one pointer per kind and never changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    tables: BTreeMap<Kind, Arc<Table>>,
    edges: Arc<EdgeTable>,
    versions: Arc<BTreeMap<Kind, KindVersion>>,
    kept: Arc<KeptObjects>,
    /// The namespace of the control plane, whose annotation ends kept objects of all namespaces.
    control_plane: Arc<str>,
    awaited: Arc<AwaitedPods>,
    expressions: Arc<ExpressionBudgets>,
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
    /// An empty index of a mesh whose control plane is in this namespace.
    pub(crate) fn new(control_plane: Arc<str>) -> Self {
        Self { control_plane, ..Self::default() }
    }

    /// Applies a batch as one transaction and returns the inputs it touched. An object applied as
    /// it already was touches nothing.
    pub(crate) fn apply(&mut self, batch: &Batch) -> Touched {
        let mut touched = Touched::new();
        if batch.epoch.is_some() {
            self.versions = Arc::default();
            let awaited = std::mem::take(&mut self.awaited);
            touched.extend(awaited.addresses().map(pod_endpoint));
        }
        let knew_pods = self.version(Kind::Pod).is_some();
        for change in &batch.changes {
            match change {
                Change::Apply(object) => self.put(object, &mut touched),
                Change::Delete(key) => self.remove(key, &mut touched),
                Change::Keep(key) => self.keep(key, &mut touched),
                Change::Synced => self.synced = true,
            }
        }
        if !batch.versions.is_empty() {
            let versions = Arc::make_mut(&mut self.versions);
            for (kind, version) in &batch.versions {
                let read = versions.entry(*kind).or_default();
                read.last = read.last.max(Some(*version));
                if std::mem::take(&mut read.unversioned) || read.changed.is_none() {
                    read.changed = read.last;
                }
            }
        }
        self.forget_awaited(knew_pods, &mut touched);
        touched
    }

    /// Applies an object, and ends what its annotation ends.
    fn put(&mut self, object: &Arc<Object>, touched: &mut Touched) {
        let key = &object.meta.key;
        if key.kind == Kind::Namespace && !self.kept.is_empty() {
            let before = self.object(key).map(Arc::as_ref);
            if object.meta.is_ending {
                self.end_kept(Some(&*key.name), touched);
            } else if kept::is_end_requested(before, object) {
                let everywhere = key.name == self.control_plane;
                self.end_kept((!everywhere).then_some(&*key.name), touched);
            }
        }
        if self.kept.contains(key) {
            let former = self.object(key).cloned();
            Arc::make_mut(&mut self.kept).replaced(object, former.as_deref());
        }
        match self.kept.with_former_times(object) {
            Some(object) => self.admit(&Arc::new(object), touched),
            None => self.admit(object, touched),
        }
    }

    /// Applies an object, or what counts in place of it, and of others, where the namespace has no room for its
    /// expressions.
    fn admit(&mut self, object: &Arc<Object>, touched: &mut Touched) {
        let key = &object.meta.key;
        let bytes = bytes_of(object);
        if bytes == 0 {
            self.without_expressions(key, touched);
            return self.replace(key, Some(object), touched);
        }
        for changed in Arc::make_mut(&mut self.expressions).set(key, Some((object, bytes))) {
            self.replace(&changed.meta.key, Some(&changed), touched);
        }
    }

    /// Gives the room of an object for expressions to others.
    fn without_expressions(&mut self, key: &ObjectKey, touched: &mut Touched) {
        if !self.expressions.has(key) {
            return;
        }
        for changed in Arc::make_mut(&mut self.expressions).set(key, None) {
            self.replace(&changed.meta.key, Some(&changed), touched);
        }
    }

    fn remove(&mut self, key: &ObjectKey, touched: &mut Touched) {
        if self.kept.knows(key) {
            Arc::make_mut(&mut self.kept).forget(key);
        }
        if key.kind == Kind::Namespace {
            self.end_kept(Some(&key.name), touched);
        }
        self.without_expressions(key, touched);
        self.replace(key, None, touched);
    }

    /// Keeps an object whose definition is gone, if its namespace is there and stays: who deletes a namespace
    /// has decided about all that is in it.
    fn keep(&mut self, key: &ObjectKey, touched: &mut Touched) {
        let home = self.object(&key.own_namespace());
        let is_homeless = !key.namespace.is_empty() && home.is_none();
        let is_ending = !key.namespace.is_empty() && home.is_some_and(|home| home.meta.is_ending);
        if (self.synced && is_homeless) || is_ending {
            self.remove(key, touched);
        } else if self.object(key).is_some() {
            Arc::make_mut(&mut self.kept).keep(key.clone());
            touched.insert(Input::Object(key.clone()));
        }
    }

    /// Ends the kept objects of a namespace, or of all.
    fn end_kept(&mut self, namespace: Option<&str>, touched: &mut Touched) {
        for key in self.kept.of(namespace) {
            self.remove(&key, touched);
        }
    }

    /// The objects that are in force although the definitions of their kinds are gone.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &ObjectKey> {
        self.kept.keys()
    }

    /// True if an object is in force although the definition of its kind is gone.
    pub(crate) fn is_kept(&self, key: &ObjectKey) -> bool {
        self.kept.contains(key)
    }

    /// Ends the wait for pods that are known by now. Where versions of pods were not stated before, no
    /// address was waited for.
    fn forget_awaited(&mut self, knew_pods: bool, touched: &mut Touched) {
        let Some(known) = self.version(Kind::Pod) else { return };
        if !knew_pods {
            touched.extend(self.awaited.addresses().map(pod_endpoint));
        }
        if self.awaited.has_known(known) {
            let ended = Arc::make_mut(&mut self.awaited).take_known(known);
            touched.extend(ended.into_iter().map(pod_endpoint));
        }
    }

    /// True if a slice says that an address is a pod's, and the pods of that time are not known yet. Its
    /// input is the edge of the address.
    pub(crate) fn awaits_pod(&self, address: IpAddr) -> bool {
        self.version(Kind::Pod).is_some() && self.awaited.contains(address)
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

    /// True if an object counts as invalid although it breaks no rule: its namespace has no room for its
    /// expressions.
    pub(crate) fn lacks_room(&self, key: &ObjectKey) -> bool {
        self.expressions.refuses(key)
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
            let version = new.and_then(|object| slice_version(object));
            self.await_pods(key, version, &before, &after);
        }
    }

    /// Begins to wait for pods at the addresses that a slice calls a pod's from now on.
    fn await_pods(
        &mut self,
        slice: &ObjectKey,
        version: Option<u64>,
        before: &BTreeSet<Edge>,
        after: &BTreeSet<Edge>,
    ) {
        let said = |edge: &Edge| {
            if let Edge::PodEndpoint(address) = edge { Some(*address) } else { None }
        };
        let known = self.version(Kind::Pod);
        if let Some(version) = version.filter(|version| known < Some(*version)) {
            let awaited = Arc::make_mut(&mut self.awaited);
            for address in after.difference(before).filter_map(said) {
                awaited.insert(address, slice, version);
            }
        }
        if !self.awaited.is_empty() {
            for address in before.difference(after).filter_map(said) {
                Arc::make_mut(&mut self.awaited).remove(address, slice);
            }
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

/// The input that says who calls an address a pod's, and which of them are waited for.
fn pod_endpoint(address: IpAddr) -> Input {
    Input::Edge(Edge::PodEndpoint(address))
}

/// The version of an EndpointSlice that states one.
fn slice_version(object: &Object) -> Option<u64> {
    match &object.body {
        Body::Valid(Resource::EndpointSlice(slice)) => slice.version,
        Body::Valid(_) | Body::Invalid(_) => None,
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

    /// An index with a namespace and two Servers in it, of which the definition was deleted.
    fn with_kept_servers() -> Index {
        let mut index = Index::new("mesh".into());
        index.apply(&batch(vec![
            Change::Apply(namespace("shop", "")),
            Change::Apply(namespace("mesh", "")),
            Change::Apply(created("a", "2026-01-01T00:00:00Z", "1")),
            Change::Apply(created("b", "2026-01-01T00:00:00Z", "2")),
            Change::Synced,
            Change::Keep(testing::key(Kind::Server, "shop", "a")),
            Change::Keep(testing::key(Kind::Server, "shop", "b")),
        ]));
        index
    }

    fn namespace(name: &str, annotations: &str) -> Arc<Object> {
        testing::object(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, annotations: \
              {{{annotations}}}}}}}"
        ))
    }

    fn created(name: &str, time: &str, uid: &str) -> Arc<Object> {
        testing::object(&format!(
            "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {{name: {name}, \
              namespace: shop, uid: '{uid}', creationTimestamp: '{time}'}}, \
              spec: {{podSelector: {{}}, port: 80}}}}"
        ))
    }

    fn kept(index: &Index) -> (Vec<String>, usize) {
        (index.kept().map(ToString::to_string).collect(), index.count(Kind::Server, "shop"))
    }

    #[test]
    fn objects_whose_definition_is_gone_stay_until_they_are_replaced_or_ended() {
        let both = (vec!["Server shop/a".to_owned(), "Server shop/b".to_owned()], 2);
        assert_eq!(kept(&with_kept_servers()), both);
        let end = "portcullis.dev/end-kept-objects: once";
        let cases = [
            ("an ordinary update", vec![Change::Apply(namespace("shop", "a: b"))], both.clone()),
            ("another namespace's end", vec![Change::Apply(namespace("other", end))], both),
            ("its end", vec![Change::Apply(namespace("shop", end))], (vec![], 0)),
            ("all of them end", vec![Change::Apply(namespace("mesh", end))], (vec![], 0)),
            (
                "the namespace is gone",
                vec![Change::Delete(testing::key(Kind::Namespace, "", "shop"))],
                (vec![], 0),
            ),
            (
                "one is replaced",
                vec![Change::Apply(created("a", "2026-02-02T00:00:00Z", "3"))],
                (vec!["Server shop/b".to_owned()], 2),
            ),
            (
                "one is replaced, and deleted",
                vec![
                    Change::Apply(created("a", "2026-02-02T00:00:00Z", "3")),
                    Change::Delete(testing::key(Kind::Server, "shop", "a")),
                ],
                (vec!["Server shop/b".to_owned()], 1),
            ),
        ];
        for (what, changes, expected) in cases {
            let mut index = with_kept_servers();
            let touched = index.apply(&batch(changes));
            assert_eq!(kept(&index), expected, "{what}");
            let first = testing::key(Kind::Server, "shop", "a");
            let is_touched = touched.contains(&Input::Object(first));
            assert_eq!(is_touched, !expected.0.contains(&"Server shop/a".to_owned()), "{what}");
        }
    }

    #[test]
    fn an_old_request_to_end_does_not_end_what_is_kept_later() {
        let end = "portcullis.dev/end-kept-objects: once";
        let mut index = Index::new("mesh".into());
        let key = testing::key(Kind::Server, "shop", "a");
        index.apply(&batch(vec![
            Change::Apply(namespace("shop", end)),
            Change::Apply(created("a", "2026-01-01T00:00:00Z", "1")),
            Change::Keep(key.clone()),
            Change::Apply(namespace("shop", end)),
        ]));
        assert!(index.is_kept(&key));
        index.apply(&batch(vec![Change::Apply(namespace("shop", &end.replace("once", "again")))]));
        assert_eq!(kept(&index), (vec![], 0));
    }

    #[test]
    fn an_object_that_replaces_a_kept_one_is_as_old_as_that_was() {
        let mut index = with_kept_servers();
        let key = testing::key(Kind::Server, "shop", "a");
        let age = |index: &Index| index.object(&key).and_then(|object| object.meta.created);
        let first = age(&index);
        for uid in ["3", "3"] {
            index.apply(&batch(vec![Change::Apply(created("a", "2026-02-02T00:00:00Z", uid))]));
            assert_eq!(age(&index), first);
        }
        // Another one of the name is as young as it is.
        index.apply(&batch(vec![Change::Apply(created("a", "2026-03-03T00:00:00Z", "4"))]));
        assert!(age(&index) > first);
    }

    #[test]
    fn what_was_in_a_namespace_that_is_gone_is_not_kept() {
        let mut index = with_kept_servers();
        index.apply(&batch(vec![
            Change::Delete(testing::key(Kind::Namespace, "", "shop")),
            Change::Apply(created("c", "2026-01-01T00:00:00Z", "5")),
            Change::Keep(testing::key(Kind::Server, "shop", "c")),
        ]));
        assert_eq!(kept(&index), (vec![], 0));
    }

    /// A namespace that a finalizer holds back is there for as long as that is, and its pods may be, too.
    #[test]
    fn a_namespace_that_is_being_deleted_keeps_nothing() {
        let ending = testing::object(
            "{apiVersion: v1, kind: Namespace, metadata: {name: shop, deletionTimestamp: \
             '2026-01-02T00:00:00Z'}}",
        );
        let mut index = with_kept_servers();
        index.apply(&batch(vec![Change::Apply(ending)]));
        assert_eq!(kept(&index), (vec![], 0));
        index.apply(&batch(vec![
            Change::Apply(created("c", "2026-01-01T00:00:00Z", "5")),
            Change::Keep(testing::key(Kind::Server, "shop", "c")),
        ]));
        assert_eq!(kept(&index), (vec![], 0));
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
