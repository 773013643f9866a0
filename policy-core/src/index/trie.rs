//! Path patterns as a tree of segments: one hash look-up per segment of the request's path.

use super::bounds::{BuildError, MAX_SEGMENTS};
use crate::index::candidates::{Best, List, Trial};
use crate::index::{at, next_id};
use crate::matching::Segment;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;

/// No child, no list.
const NONE: u32 = u32::MAX;

/// The trees of all tables of a policy.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    edges: HashTable<Edge>,
}

/// One node; `exact` and `rest` are numbers of lists.
#[derive(Debug)]
struct Node {
    parameter: u32,
    exact: u32,
    rest: u32,
    /// The best rank here and below, so that a worse subtree is not entered.
    best: u32,
}

/// A literal segment that leads from one node to another.
#[derive(Debug)]
struct Edge {
    from: u32,
    to: u32,
    text: Arc<str>,
}

impl Trie {
    /// A new, empty tree; its root.
    pub(crate) fn root(&mut self) -> Result<u32, BuildError> {
        let id = next_id(self.nodes.len(), "path table")?;
        self.nodes.push(Node { parameter: NONE, exact: NONE, rest: NONE, best: u32::MAX });
        Ok(id)
    }

    /// The list of a pattern, which is added with the number `new` if it is not there.
    pub(crate) fn list(
        &mut self,
        root: u32,
        (segments, rest): (&[Segment], bool),
        rank: u32,
        new: u32,
    ) -> Result<u32, BuildError> {
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
        let Some(node) = self.node_mut(node) else { return Ok(new) };
        let list = if rest { &mut node.rest } else { &mut node.exact };
        if *list == NONE {
            *list = new;
        }
        Ok(*list)
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
        let to = self.root()?;
        let edge = Edge { from, to, text: text.clone() };
        self.edges.insert_unique(hash(from, text), edge, |edge| hash(edge.from, &edge.text));
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
        let same = |edge: &Edge| edge.from == from && *edge.text == *text;
        self.edges.find(hash(from, text), same).map(|edge| edge.to)
    }

    /// Finds the first match of the tree at `node` that is not a plain no, if it is better than
    /// `best`. `path` is what is left of the path after a `/`; absent: nothing is left.
    ///
    /// Literals are followed before parameters and deeper prefixes are tried before shorter ones,
    /// so that the best is mostly found first; the ranks decide.
    pub(crate) fn find(&self, node: u32, path: Option<&str>, trial: Trial<'_>, best: &mut Best) {
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
                    self.find(next, after, trial, best);
                }
                if here.parameter != NONE && !segment.is_empty() {
                    self.find(here.parameter, after, trial, best);
                }
            }
            None => {
                if let Some(list) = at(trial.lists, here.exact) {
                    list.find(trial, best);
                }
            }
        }
        if let Some(list) = at(trial.lists, here.rest) {
            list.find(trial, best);
        }
    }

    /// The list of the pattern that matches every path, if the tree has one.
    pub(crate) fn everything<'a>(&self, root: u32, lists: &'a [List]) -> Option<&'a List> {
        at(lists, at(&self.nodes, root)?.rest)
    }

    pub(crate) fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        self.edges.shrink_to_fit(|edge| hash(edge.from, &edge.text));
    }
}

fn hash(from: u32, text: &str) -> u64 {
    FixedState::default().hash_one((from, text))
}
