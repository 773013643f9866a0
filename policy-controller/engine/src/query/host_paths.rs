//! The paths of a host, and what a Server answers of them.

use super::claims::ClaimOrder;
use super::delegation::{DelegationTree, TreeNode};
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The paths of a host with the rule that has each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostPaths {
    /// The trees of the roots that claim the host, by root.
    pub(crate) trees: Vec<(ObjectKey, Arc<DelegationTree>)>,
    /// The place of the rule of each path, which has that path, in the order of the paths.
    pub(crate) table: Box<[RulePlace]>,
    /// Those among them that nobody has: a wildcard's, whose namespace claims a nearer pattern.
    pub(crate) closed: BTreeSet<PathPrefix>,
    /// The host and the wildcards above it, the nearest first; empty if one namespace holds all paths.
    pub(crate) levels: Vec<SharedPattern>,
}

/// The place of a tree, and that of a rule in it.
pub(crate) type RulePlace = (usize, usize);

/// A host, or a wildcard above it, of which several namespaces hold paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedPattern {
    /// The claim that holds each path, with the place of its tree.
    pub(crate) claims: BTreeMap<PathPrefix, (usize, ClaimOrder)>,
    /// The namespaces with a claim on a nearer pattern. Within a namespace that one has all paths.
    pub(crate) nearer: BTreeSet<Arc<str>>,
    /// The rules of each tree, whichever root holds their paths.
    pub(crate) rules: BTreeMap<usize, BTreeMap<PathPrefix, SharedRule>>,
}

/// A rule of a tree on a host that several namespaces hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedRule {
    /// Its place in the tree.
    pub(crate) node: usize,
    /// True if its root lost the claim on the path: the root answers nothing there.
    pub(crate) is_lost: bool,
    /// True if its root is invalid, and keeps the path from everybody.
    pub(crate) is_kept: bool,
}

/// The paths of a host on which what a Server answers may differ from the path above.
pub(crate) struct ServerPaths<'p> {
    paths: &'p HostPaths,
    /// In order, with the rule by which the Server answers each.
    answers: Vec<(&'p PathPrefix, Option<RulePlace>)>,
}

impl HostPaths {
    /// A rule.
    pub(crate) fn node(&self, (tree, node): RulePlace) -> Option<&TreeNode> {
        self.trees.get(tree)?.1.nodes.get(node)
    }

    /// The paths of the host as a Server answers them.
    pub(crate) fn on_server(&self, server: &ObjectKey) -> ServerPaths<'_> {
        let answers = if self.levels.is_empty() {
            // Mostly one namespace holds the host.
            let answer = |place: &RulePlace| {
                let node = self.node(*place)?;
                let is_answered =
                    !self.closed.contains(&node.path) && node.servers().contains(server);
                Some((&node.path, is_answered.then_some(*place)))
            };
            self.table.iter().filter_map(answer).collect()
        } else {
            let rules = self.levels.iter().flat_map(|level| level.rules.values());
            let all: BTreeSet<&PathPrefix> = rules.flat_map(BTreeMap::keys).collect();
            all.into_iter().map(|path| (path, self.shared(path, server))).collect()
        };
        ServerPaths { paths: self, answers }
    }

    fn answers(&self, place: RulePlace, server: &ObjectKey) -> bool {
        self.node(place).is_some_and(|node| node.servers().contains(server))
    }

    /// The rule by which a Server answers a path that several namespaces claim: of the trees with a claim on it,
    /// the nearest first, the first one of which the Server has the rule. A claim takes nothing from the pods
    /// of an earlier one in another namespace, so each tree counts that was there before all nearer ones. What
    /// an invalid root keeps might be for any Server of its namespace, so that no earlier tree answers there.
    fn shared(&self, path: &PathPrefix, server: &ObjectKey) -> Option<RulePlace> {
        let mut nearer: Vec<&ClaimOrder> = Vec::new();
        for level in &self.levels {
            let claims = path.and_above().filter_map(|above| level.claims.get(above));
            for (tree, claim) in claims {
                let is_first =
                    |other: &&ClaimOrder| other.namespace != claim.namespace && claim < *other;
                let counts =
                    nearer.iter().all(is_first) && !level.nearer.contains(&claim.namespace);
                nearer.push(claim);
                let rule = level
                    .rules
                    .get(tree)
                    .filter(|_| counts)
                    .and_then(|rules| path.and_above().find_map(|above| rules.get(above)));
                if rule.is_some_and(|rule| rule.is_kept) && claim.namespace == server.namespace {
                    return None;
                }
                let rule = rule.filter(|rule| !rule.is_lost).map(|rule| (*tree, rule.node));
                if let Some(place) = rule.filter(|place| self.answers(*place, server)) {
                    return Some(place);
                }
            }
        }
        None
    }

    /// The place of the rule that has a path.
    fn held(&self, path: &PathPrefix) -> Option<RulePlace> {
        let own = |place: &RulePlace| self.node(*place).map(|node| &node.path);
        let at = self.table.binary_search_by(|place| own(place).cmp(&Some(path))).ok()?;
        self.table.get(at).copied()
    }

    /// The place of a rule of a tree on a path.
    fn rule_of(&self, tree: usize, path: &PathPrefix) -> Option<RulePlace> {
        let mut rules = self.levels.iter().filter_map(|level| level.rules.get(&tree));
        rules.find_map(|rules| rules.get(path)).map(|rule| (tree, rule.node))
    }

    /// The place of the first rule on a path, whichever tree has it.
    fn rule_of_any(&self, path: &PathPrefix) -> Option<RulePlace> {
        (0..self.trees.len()).find_map(|tree| self.rule_of(tree, path))
    }
}

impl<'p> ServerPaths<'p> {
    /// The paths that the Server answers by a rule of their own.
    pub(crate) fn answered(&self) -> impl Iterator<Item = (&'p PathPrefix, RulePlace)> {
        let own = |path: &PathPrefix, place: RulePlace| {
            self.paths.node(place).is_some_and(|node| node.path == *path)
        };
        let all = self.answers.iter().filter_map(|(path, place)| Some((*path, (*place)?)));
        all.filter(move |(path, place)| own(path, *place))
    }

    /// The paths that a shorter one would answer and that the Server may not answer so, each with the place of
    /// the rule for which it is denied.
    pub(crate) fn denied(&self) -> impl Iterator<Item = RulePlace> {
        self.answers.iter().filter_map(|(path, place)| {
            let above = self.above(path)?;
            let own = place.and_then(|place| self.paths.node(place));
            let passes = *place == Some(above) || own.is_some_and(|own| own.path == **path);
            let of_tree = || self.paths.rule_of(above.0, path);
            let held = || self.paths.held(path);
            let of_any = || self.paths.rule_of_any(path);
            (!passes).then(|| of_tree().or_else(held).or_else(of_any)).flatten()
        })
    }

    /// The paths inside that of a rule that the Server does not answer by it.
    pub(crate) fn others(&self, path: &PathPrefix, place: RulePlace) -> BTreeSet<PathPrefix> {
        let below = format!("{}/", path.as_str().trim_end_matches('/'));
        let from = self.answers.partition_point(|(other, _)| other.as_str() < &*below);
        let inside = self.answers.get(from..).unwrap_or_default().iter();
        let inside = inside.take_while(|(other, _)| path.contains(other));
        let others = inside.filter(|(other, by)| *other != path && *by != Some(place));
        others.map(|(other, _)| PathPrefix::clone(other)).collect()
    }

    /// The rule by which the Server answers the nearest path above one.
    fn above(&self, path: &PathPrefix) -> Option<RulePlace> {
        let mut above = path.and_above().skip(1);
        above.find_map(|above| {
            let at = self.answers.binary_search_by(|(other, _)| other.as_str().cmp(above)).ok()?;
            self.answers.get(at).map(|(_, place)| *place)
        })?
    }
}
