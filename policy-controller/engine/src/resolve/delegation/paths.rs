//! The paths of a host with the rule that has each, over all trees.

use super::ownership::wildcards_above;
use crate::incremental::{Context, query};
use crate::query::claims::HostClaim;
use crate::query::delegation::{ActiveClaims, DelegationTree, ObjectsIn, PathsOf, TreeOf};
use crate::query::host_paths::{HostPaths, RulePlace, SharedPattern, SharedRule};
use policy_core::HostPattern;
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

query!(ObjectsIn, Arc<BTreeSet<ObjectKey>>, objects_in);
query!(PathsOf, Arc<HostPaths>, paths_of);

/// The objects that the tree of a root says something about.
fn objects_in(query: &ObjectsIn, cx: &mut Context<'_>) -> Arc<BTreeSet<ObjectKey>> {
    let tree = cx.query(&TreeOf(query.0.clone()));
    Arc::new(tree.objects().cloned().collect())
}

/// The roots that hold paths of a pattern.
type Holders<'c> = BTreeMap<&'c str, HostClaim<'c>>;

/// The active claims on a host, and on the wildcards that cover it, the nearest first. A wildcard has
/// the paths of a host that no claim on the host itself has, unless its namespace claims the host, too:
/// within a namespace the nearest pattern has all paths.
struct Held<'c>(Vec<Level<'c>>);

/// One of these patterns.
struct Level<'c> {
    pattern: &'c HostPattern,
    holders: Holders<'c>,
    /// The namespaces that hold a nearer one.
    nearer: BTreeSet<&'c str>,
}

impl<'c> Held<'c> {
    /// The root that holds a path, and the pattern by which it does: the longest claim that contains
    /// the path, of the nearest pattern that has one. True if nobody has the path instead.
    fn holder(&self, path: &PathPrefix) -> Option<Holder<'c>> {
        self.0.iter().find_map(|Level { pattern, holders, nearer }| {
            let claim = *path.and_above().find_map(|path| holders.get(path))?;
            let is_closed = nearer.contains(&*claim.root.namespace);
            Some(Holder { pattern, claim, is_closed })
        })
    }

    /// True if several namespaces hold paths.
    fn is_shared(&self) -> bool {
        let mut all = self.0.iter().flat_map(|level| level.holders.values());
        let first = all.next();
        first.is_some_and(|first| all.any(|other| other.root.namespace != first.root.namespace))
    }
}

/// The claim by which a path is held.
struct Holder<'c> {
    pattern: &'c HostPattern,
    claim: HostClaim<'c>,
    /// True if nobody has the path instead.
    is_closed: bool,
}

fn paths_of(query: &PathsOf, cx: &mut Context<'_>) -> Arc<HostPaths> {
    let host = &query.0;
    let mut patterns = vec![host.clone()];
    patterns.extend(wildcards_above(cx, host));
    let claims: Vec<_> = patterns.iter().map(|one| cx.query(&ActiveClaims(one.clone()))).collect();
    let mut nearer = BTreeSet::new();
    let levels = patterns.iter().zip(&claims).map(|(pattern, claims)| {
        let claims = claims.iter().flat_map(|group| group.iter());
        let holders = claims.map(|claim| (claim.path.as_str(), claim)).collect();
        let level = Level { pattern, holders, nearer: nearer.clone() };
        nearer.extend(level.holders.values().map(|claim| &*claim.root.namespace));
        level
    });
    let held = Held(levels.collect());
    let roots = held.0.iter().flat_map(|level| level.holders.values().map(|claim| claim.root));
    let roots: BTreeSet<&ObjectKey> = roots.collect();
    let trees = roots.into_iter().map(|root| (root.clone(), cx.query(&TreeOf(root.clone()))));
    let trees: Vec<_> = trees.collect();
    let mut paths = HostPaths { trees, ..HostPaths::default() };
    fill(&mut paths, &held);
    Arc::new(paths)
}

/// The paths of a host with the rule that has each: a path is that of the root with the longest
/// claim that contains it, whatever another root hands down there; within a tree the child has it
/// before the rule that delegates to it. A path that nobody has is in the table, too, because a shorter
/// one of another namespace would answer it.
fn fill(paths: &mut HostPaths, held: &Held<'_>) {
    let HostPaths { trees, table, closed, levels } = paths;
    let mut places: BTreeMap<&PathPrefix, RulePlace> = BTreeMap::new();
    for (t, (root, tree)) in trees.iter().enumerate() {
        for (n, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.has_path()) {
            let Some(Holder { pattern, claim, is_closed }) = held.holder(&node.path) else {
                continue;
            };
            if claim.root != root || !node.hosts.contains(pattern) {
                continue;
            }
            places.insert(&node.path, (t, n));
            if is_closed {
                closed.insert(node.path.clone());
            }
        }
    }
    *table = places.into_values().collect();
    if held.is_shared() {
        let mut nearer = BTreeSet::new();
        for level in &held.0 {
            let found = shared(trees, level.pattern, &level.holders);
            let own = found.claims.values().map(|(_, claim)| claim.namespace.clone());
            let own: Vec<Arc<str>> = own.collect();
            levels.push(SharedPattern { nearer: nearer.clone(), ..found });
            nearer.extend(own);
        }
    }
}

/// The claims on a pattern, and the rules of each tree that has one.
fn shared(
    trees: &[(ObjectKey, Arc<DelegationTree>)],
    pattern: &HostPattern,
    holders: &Holders<'_>,
) -> SharedPattern {
    let mut found = SharedPattern::default();
    for (t, (root, tree)) in trees.iter().enumerate() {
        let own = holders.values().filter(|claim| claim.root == root);
        let own = own.map(|claim| (claim.path.clone(), (t, claim.order())));
        let before = found.claims.len();
        found.claims.extend(own);
        if found.claims.len() == before {
            continue;
        }
        let mut rules = BTreeMap::new();
        for (node, rule) in tree.nodes.iter().enumerate() {
            let reaches = rule.hosts.contains(pattern);
            // A rule of the root that has not the path there.
            let is_lost = rule.chain.len() == 1 && !reaches;
            if is_lost || (reaches && rule.has_path()) {
                let is_kept = rule.chain.len() == 1 && rule.is_invalid();
                rules.insert(rule.path.clone(), SharedRule { node, is_lost, is_kept });
            }
        }
        found.rules.insert(t, rules);
    }
    found
}
