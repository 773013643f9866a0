//! The dependency graph: queries and inputs are nodes, each with a number, and edges are reads.

use crate::index::{Input, KindSet};
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash};

/// The most readers kept in a list, which is searched linearly; more are kept in a hash set.
const MAX_LISTED_READERS: usize = 16;

/// The number of a node. It stays the same until the node is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(u32);

/// Something that was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum NodeKey<Q> {
    /// Of the index.
    Input(Input),
    /// An answer.
    Query(Q),
}

/// A node. There are two for every pod that is watched, so it is kept small.
#[derive(Clone, Debug)]
struct Node<Q> {
    key: NodeKey<Q>,
    /// In order, each once.
    reads: Box<[Id]>,
    readers: Readers,
    kinds: KindSet,
}

/// Nodes by key and by number. An input has a node as long as it has readers.
#[derive(Clone)]
pub(super) struct Graph<Q> {
    nodes: Vec<Option<Node<Q>>>,
    vacant: Vec<Id>,
    ids: HashTable<Id>,
    hasher: DefaultHashBuilder,
    queries: usize,
}

impl<Q> Default for Graph<Q> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            vacant: Vec::new(),
            ids: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            queries: 0,
        }
    }
}

impl<Q: Eq + Hash> Graph<Q> {
    /// The number of a node, made if there is none.
    pub(super) fn id(&mut self, key: NodeKey<Q>) -> Id {
        let Self { nodes, vacant, ids, hasher, queries } = self;
        let hash = hasher.hash_one(&key);
        let is_key = |id: &Id| node(nodes, *id).is_some_and(|node| node.key == key);
        let rehash = |id: &Id| node(nodes, *id).map_or(0, |node| hasher.hash_one(&node.key));
        let entry = match ids.entry(hash, is_key, rehash) {
            Entry::Occupied(entry) => return *entry.get(),
            Entry::Vacant(entry) => entry,
        };
        let id = vacant.pop().unwrap_or_else(|| {
            // Four thousand million nodes do not fit into memory.
            Id(u32::try_from(nodes.len()).unwrap_or(u32::MAX))
        });
        entry.insert(id);
        *queries = queries.saturating_add(usize::from(matches!(key, NodeKey::Query(_))));
        let made = Node {
            key,
            reads: Box::default(),
            readers: Readers::default(),
            kinds: KindSet::default(),
        };
        match nodes.get_mut(at(id)) {
            Some(place) => *place = Some(made),
            None => {
                if nodes.len() == nodes.capacity() {
                    // Grow by 1/8 instead of doubling: on large clusters half of a doubled table
                    // would stay unused.
                    nodes.reserve_exact((nodes.len() / 8).max(64));
                }
                nodes.push(Some(made));
            }
        }
        id
    }

    /// The number of a node, if there is one.
    pub(super) fn find(&self, key: &NodeKey<Q>) -> Option<Id> {
        let hash = self.hasher.hash_one(key);
        let is_key = |id: &Id| node(&self.nodes, *id).is_some_and(|node| node.key == *key);
        self.ids.find(hash, is_key).copied()
    }

    /// The query of a node; `None` for inputs.
    pub(super) fn key(&self, id: Id) -> Option<&Q> {
        match &node(&self.nodes, id)?.key {
            NodeKey::Query(query) => Some(query),
            NodeKey::Input(_) => None,
        }
    }

    /// All queries.
    pub(super) fn queries(&self) -> impl Iterator<Item = (Id, &Q)> {
        self.nodes.iter().zip(0..).filter_map(|(node, id)| match &node.as_ref()?.key {
            NodeKey::Query(query) => Some((Id(id), query)),
            NodeKey::Input(_) => None,
        })
    }

    /// Number of queries.
    pub(super) fn len(&self) -> usize {
        self.queries
    }

    /// Number of nodes, inputs included.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.ids.len()
    }

    /// The kinds that an answer was made from.
    pub(super) fn kinds(&self, id: Id) -> KindSet {
        node(&self.nodes, id).map(|node| node.kinds).unwrap_or_default()
    }

    /// The nodes that an answer read.
    pub(super) fn reads(&self, id: Id) -> &[Id] {
        node(&self.nodes, id).map(|node| &*node.reads).unwrap_or_default()
    }

    /// The readers of a node.
    pub(super) fn readers(&self, id: Id) -> impl Iterator<Item = Id> {
        node(&self.nodes, id).into_iter().flat_map(|node| node.readers.iter())
    }

    /// Notes that `reader` reads a node.
    pub(super) fn read(&mut self, reader: Id, id: Id) {
        if let Some(Some(node)) = self.nodes.get_mut(at(id)) {
            node.readers.insert(reader);
        }
    }

    /// Records the complete reads of an answer, and removes it from the readers of nodes that it no
    /// longer reads.
    pub(super) fn record(&mut self, id: Id, mut reads: Vec<Id>, kinds: KindSet) {
        reads.sort_unstable();
        reads.dedup();
        let Some(Some(node)) = self.nodes.get_mut(at(id)) else { return };
        node.kinds = kinds;
        if *node.reads == *reads {
            return;
        }
        let before = std::mem::replace(&mut node.reads, reads.clone().into());
        let gone = before.iter().filter(|read| reads.binary_search(read).is_err());
        for read in gone {
            self.unread(id, *read);
        }
    }

    /// Removes an answer. No remaining node may read it.
    pub(super) fn remove(&mut self, id: Id) {
        let Some(node) = self.take(id) else { return };
        for read in node.reads {
            self.unread(id, read);
        }
    }

    /// Notes that `reader` reads a node no more.
    fn unread(&mut self, reader: Id, id: Id) {
        let Some(Some(node)) = self.nodes.get_mut(at(id)) else { return };
        node.readers.remove(reader);
        if matches!(node.key, NodeKey::Input(_)) && node.readers.is_empty() {
            self.take(id);
        }
    }

    fn take(&mut self, id: Id) -> Option<Node<Q>> {
        let node = self.nodes.get_mut(at(id))?.take()?;
        let hash = self.hasher.hash_one(&node.key);
        if let Ok(entry) = self.ids.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
        let query = usize::from(matches!(node.key, NodeKey::Query(_)));
        self.queries = self.queries.saturating_sub(query);
        self.vacant.push(id);
        Some(node)
    }
}

fn at(id: Id) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

fn node<Q>(nodes: &[Option<Node<Q>>], id: Id) -> Option<&Node<Q>> {
    nodes.get(at(id))?.as_ref()
}

/// A set of readers: of most nodes there is one, of some there is one for every pod.
#[derive(Clone, Debug)]
enum Readers {
    Few(SmallVec<[Id; 4]>),
    Many(Box<HashSet<Id>>),
}

impl Default for Readers {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Readers {
    fn insert(&mut self, id: Id) {
        match self {
            Self::Few(few) if few.contains(&id) => {}
            Self::Few(few) if few.len() < MAX_LISTED_READERS => few.push(id),
            Self::Few(few) => {
                let many = few.iter().copied().chain([id]).collect();
                *self = Self::Many(Box::new(many));
            }
            Self::Many(many) => {
                many.insert(id);
            }
        }
    }

    fn remove(&mut self, id: Id) {
        match self {
            Self::Few(few) => few.retain(|other| *other != id),
            Self::Many(many) => {
                many.remove(&id);
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(many) => many.is_empty(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = Id> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        few.into_iter().flatten().chain(many.into_iter().flat_map(|many| many.iter())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_crds::Kind;

    fn input(key: &str) -> NodeKey<&str> {
        NodeKey::Input(Input::List(Kind::Pod, key.into()))
    }

    fn query(key: &str) -> NodeKey<&str> {
        NodeKey::Query(key)
    }

    #[test]
    fn a_topic_is_kept_while_somebody_reads_it() {
        let mut graph = Graph::default();
        let (reader, a, b) = (graph.id(query("q")), graph.id(input("a")), graph.id(input("b")));
        assert_eq!(graph.id(input("a")), a, "one node for one name");
        let mut answer = |reads: &[Id]| {
            for read in reads {
                graph.read(reader, *read);
            }
            graph.record(reader, reads.to_vec(), KindSet::default());
            (graph.find(&input("a")), graph.find(&input("b")))
        };
        assert_eq!(answer(&[a, b, a]), (Some(a), Some(b)));
        assert_eq!(answer(&[b]), (None, Some(b)));
        assert_eq!(graph.readers(b).collect::<Vec<_>>(), [reader]);
        graph.remove(reader);
        assert_eq!((graph.find(&input("b")), graph.len()), (None, 0));
        assert_eq!(graph.ids.len(), 0);
        assert_eq!(graph.vacant.len(), graph.nodes.len(), "numbers are given again");
    }

    #[test]
    fn readers_are_a_set_however_many_there_are() {
        for count in [1, 4, 16, 17, 400] {
            let mut readers = Readers::default();
            for id in (0..count).chain(0..count) {
                readers.insert(Id(id));
            }
            let mut all: Vec<_> = readers.iter().collect();
            all.sort();
            assert_eq!(all, (0..count).map(Id).collect::<Vec<_>>());
            for id in 0..count {
                assert!(!readers.is_empty(), "{id} of {count}");
                readers.remove(Id(id));
            }
            assert!(readers.is_empty());
        }
    }
}
