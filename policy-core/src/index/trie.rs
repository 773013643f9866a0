//! Path patterns as a tree of segments: one hash look-up per segment of the request's path.

use super::bounds::{BuildError, MAX_SEGMENTS};
use crate::index::candidates::{Best, MatchContext, Slot};
use crate::index::{at, next_id};
use crate::matching::Segment;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;

/// No child, and no parent.
const NONE: u32 = u32::MAX;

/// The trees of all tables of a policy.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    /// The numbers of nodes that a literal leads to, by the node before and the literal.
    literals: HashTable<u32>,
}

/// One node.
#[derive(Debug)]
struct Node {
    /// The literal that leads here, and from where; from nowhere: it is a root or a parameter.
    text: Option<Arc<str>>,
    from: u32,
    parameter: u32,
    exact: Slot,
    rest: Slot,
    /// The best rank here and below, so that a worse subtree is not entered.
    best: u32,
}

impl Node {
    fn after(from: u32, text: Option<Arc<str>>) -> Self {
        let (exact, rest) = (Slot::EMPTY, Slot::EMPTY);
        Self { text, from, parameter: NONE, exact, rest, best: u32::MAX }
    }
}

impl Trie {
    /// A new, empty tree; its root.
    pub(crate) fn root(&mut self) -> Result<u32, BuildError> {
        self.node(Node::after(NONE, None))
    }

    fn node(&mut self, node: Node) -> Result<u32, BuildError> {
        let id = next_id(self.nodes.len(), "path table")?;
        self.nodes.push(node);
        Ok(id)
    }

    /// Returns the slot of a pattern, inserting it if it is missing.
    pub(crate) fn slot(
        &mut self,
        root: u32,
        (segments, rest): (&[Segment], bool),
        rank: u32,
    ) -> Result<&mut Slot, BuildError> {
        if segments.len() > MAX_SEGMENTS {
            return Err(BuildError::TooDeep(segments.len()));
        }
        let mut node = root;
        self.improve(node, rank);
        for segment in segments {
            node = match segment {
                Segment::Literal(text) => self.literal(node, text)?,
                Segment::Parameter(_) => self.parameter(node)?,
            };
            self.improve(node, rank);
        }
        // Every number that was given out has its node.
        let node = self.node_mut(node).ok_or(BuildError::TooMany("path table"))?;
        Ok(if rest { &mut node.rest } else { &mut node.exact })
    }

    fn node_mut(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(usize::try_from(node).ok()?)
    }

    fn improve(&mut self, node: u32, rank: u32) {
        if let Some(node) = self.node_mut(node) {
            node.best = node.best.min(rank);
        }
    }

    fn literal(&mut self, from: u32, text: &Arc<str>) -> Result<u32, BuildError> {
        if let Some(known) = self.follow(from, text) {
            return Ok(known);
        }
        let to = self.node(Node::after(from, Some(Arc::clone(text))))?;
        let Self { nodes, literals } = self;
        literals.insert_unique(hash(from, text), to, |node| rehash(nodes, *node));
        Ok(to)
    }

    fn parameter(&mut self, from: u32) -> Result<u32, BuildError> {
        let known = at(&self.nodes, from).map_or(NONE, |node| node.parameter);
        if known != NONE {
            return Ok(known);
        }
        let to = self.root()?;
        if let Some(node) = self.node_mut(from) {
            node.parameter = to;
        }
        Ok(to)
    }

    fn follow(&self, from: u32, text: &str) -> Option<u32> {
        let same = |node: &Node| node.from == from && node.text.as_deref() == Some(text);
        let same = |number: &u32| at(&self.nodes, *number).is_some_and(same);
        self.literals.find(hash(from, text), same).copied()
    }

    /// Finds the first match of the tree at `node` that is not `NoMatch`, if it is better than
    /// `best`. `path` is the rest of the path after a `/`; absent at the end of the path.
    ///
    /// Literals are followed before parameters and deeper prefixes are tried before shorter ones,
    /// so that the best is mostly found first; the ranks decide.
    pub(crate) fn find(
        &self,
        node: u32,
        path: Option<&str>,
        context: MatchContext<'_>,
        best: &mut Best,
    ) {
        let Some(here) = at(&self.nodes, node) else { return };
        if here.best >= best.rank {
            return;
        }
        match path {
            Some(path) => {
                let (segment, after) = match path.split_once('/') {
                    Some((segment, after)) => (segment, Some(after)),
                    None => (path, None),
                };
                if let Some(next) = self.follow(node, segment) {
                    self.find(next, after, context, best);
                }
                if here.parameter != NONE && !segment.is_empty() {
                    self.find(here.parameter, after, context, best);
                }
            }
            None => {
                context.check(here.exact, best);
            }
        }
        context.check(here.rest, best);
    }

    /// Returns the slot of the pattern that matches every path.
    pub(crate) fn everything(&self, root: u32) -> Slot {
        at(&self.nodes, root).map_or(Slot::EMPTY, |root| root.rest)
    }

    pub(crate) fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        let Self { nodes, literals } = self;
        literals.shrink_to_fit(|node| rehash(nodes, *node));
    }
}

fn rehash(nodes: &[Node], node: u32) -> u64 {
    let node = at(nodes, node);
    node.map_or(0, |node| hash(node.from, node.text.as_deref().unwrap_or_default()))
}

fn hash(from: u32, text: &str) -> u64 {
    FixedState::default().hash_one((from, text))
}
