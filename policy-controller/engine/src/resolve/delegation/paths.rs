//! The paths of a host with the rule that has each, over all trees.

use super::ownership::wildcards_above;
use crate::incremental::{Context, query};
use crate::query::delegation::{
    ActiveClaims, DelegationTree, HostPaths, ObjectsIn, PathTable, PathsOf, TreeOf,
};
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
type Holders<'c> = BTreeMap<&'c str, &'c ObjectKey>;

/// The active claims on a host, and on the wildcards that cover it, the nearest first. A wildcard has
/// the paths of a host that no claim on the host itself has, unless its namespace claims the host, too:
/// within a namespace the nearest pattern has all paths.
struct Held<'c>(Vec<(&'c HostPattern, Holders<'c>)>);

impl<'c> Held<'c> {
    /// The root that holds a path, and the pattern by which it does: the longest claim that contains
    /// the path, of the nearest pattern that has one. True if nobody has the path instead.
    fn holder(&self, path: &PathPrefix) -> Option<(&'c HostPattern, &'c ObjectKey, bool)> {
        let (level, pattern, root) =
            self.0.iter().enumerate().find_map(|(level, (pattern, holders))| {
                let root = path.and_above().find_map(|path| holders.get(path))?;
                Some((level, *pattern, *root))
            })?;
        let mut nearer = self.0.iter().take(level).flat_map(|(_, holders)| holders.values());
        let is_closed = nearer.any(|nearer| nearer.namespace == root.namespace);
        Some((pattern, root, is_closed))
    }
}

fn paths_of(query: &PathsOf, cx: &mut Context<'_>) -> Arc<HostPaths> {
    let host = &query.0;
    let mut patterns = vec![host.clone()];
    patterns.extend(wildcards_above(cx, host));
    let claims: Vec<_> = patterns.iter().map(|one| cx.query(&ActiveClaims(one.clone()))).collect();
    let levels = patterns.iter().zip(&claims).map(|(pattern, claims)| {
        let active = claims.iter();
        (pattern, active.map(|claim| (claim.path.as_str(), &claim.root)).collect())
    });
    let held = Held(levels.collect());
    let roots = held.0.iter().flat_map(|(_, holders)| holders.values().copied());
    let roots: BTreeSet<&ObjectKey> = roots.collect();
    let trees = roots.into_iter().map(|root| (root.clone(), cx.query(&TreeOf(root.clone()))));
    let trees: Vec<_> = trees.collect();
    let (table, closed) = table(&trees, &held);
    Arc::new(HostPaths { trees, table, closed })
}

/// The paths of a host with the rule that has each: a path is that of the root with the longest
/// claim that contains it, whatever another root hands down there; within a tree the child has it
/// before the rule that delegates to it. A path that nobody has is in the table, too, because a shorter
/// one of another namespace would answer it.
fn table(
    trees: &[(ObjectKey, Arc<DelegationTree>)],
    held: &Held<'_>,
) -> (PathTable, BTreeSet<PathPrefix>) {
    let (mut table, mut closed) = (PathTable::new(), BTreeSet::new());
    for (t, (root, tree)) in trees.iter().enumerate() {
        for (n, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.has_path()) {
            let Some((pattern, holder, is_closed)) = held.holder(&node.path) else { continue };
            if holder == root && node.hosts.contains(pattern) {
                table.insert(node.path.clone(), (t, n));
                if is_closed {
                    closed.insert(node.path.clone());
                }
            }
        }
    }
    (table, closed)
}
