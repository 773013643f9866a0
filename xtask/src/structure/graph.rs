//! Strongly connected components, by Tarjan's algorithm.

use std::collections::{BTreeMap, BTreeSet};

/// The nodes that each node has an edge to.
pub(crate) type Edges<T> = BTreeMap<T, BTreeSet<T>>;

/// The components of more than one node, each sorted, sorted by their first nodes.
pub(crate) fn loops<T: Ord + Clone>(edges: &Edges<T>) -> Vec<Vec<T>> {
    let mut search = Search {
        edges,
        index: BTreeMap::new(),
        low: BTreeMap::new(),
        stack: vec![],
        found: vec![],
    };
    for node in edges.keys() {
        if !search.index.contains_key(node) {
            search.visit(node);
        }
    }
    let mut found = search.found;
    found.sort();
    found
}

struct Search<'a, T> {
    edges: &'a Edges<T>,
    /// Order in which nodes were visited first.
    index: BTreeMap<&'a T, usize>,
    /// The earliest visited node on the stack that each node reaches.
    low: BTreeMap<&'a T, usize>,
    /// The nodes whose component is not complete yet.
    stack: Vec<&'a T>,
    found: Vec<Vec<T>>,
}

impl<'a, T: Ord + Clone> Search<'a, T> {
    fn visit(&mut self, node: &'a T) -> usize {
        let index = self.index.len();
        self.index.insert(node, index);
        self.stack.push(node);
        let mut low = index;
        for next in self.edges.get(node).into_iter().flatten() {
            let reached = match self.index.get(next) {
                None => self.visit(next),
                Some(visited) if self.stack.contains(&next) => *visited,
                Some(_) => continue,
            };
            low = low.min(reached);
        }
        self.low.insert(node, low);
        if low == index {
            self.complete(node);
        }
        low
    }

    /// Takes the component off the stack that begins with `first`.
    fn complete(&mut self, first: &T) {
        let begin = self.stack.iter().rposition(|node| *node == first).unwrap_or_default();
        let mut component: Vec<T> = self.stack.split_off(begin).into_iter().cloned().collect();
        if component.len() > 1 {
            component.sort();
            self.found.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(u8, u8)]) -> Edges<u8> {
        let mut edges = Edges::new();
        for (from, to) in pairs {
            edges.entry(*from).or_insert_with(BTreeSet::new).insert(*to);
        }
        edges
    }

    #[test]
    fn a_chain_has_no_loops() {
        assert!(loops(&edges(&[(1, 2), (2, 3), (1, 3), (4, 3)])).is_empty());
    }

    #[test]
    fn components_are_found_apart() {
        let edges = edges(&[(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 6), (6, 5), (7, 1)]);
        assert_eq!(loops(&edges), [vec![1, 2, 3], vec![5, 6]]);
    }

    #[test]
    fn two_loops_through_one_node_are_one_component() {
        assert_eq!(loops(&edges(&[(1, 2), (2, 1), (2, 3), (3, 2)])), [vec![1, 2, 3]]);
    }
}
