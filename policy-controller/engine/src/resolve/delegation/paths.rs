//! The paths of a host with the rule that has each, over all trees.

use crate::incremental::{Context, query};
use crate::query::delegation::{
    ClaimsOn, DelegationTree, HostPaths, ObjectsIn, PathTable, PathsOf, TreeOf,
};
use policy_core::HostPattern;
use policy_crds::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

query!(ObjectsIn, Arc<BTreeSet<ObjectKey>>, objects_in);
query!(PathsOf, Arc<HostPaths>, paths_of);

/// The objects that the tree of a root says something about.
fn objects_in(query: &ObjectsIn, cx: &mut Context<'_>) -> Arc<BTreeSet<ObjectKey>> {
    let tree = cx.query(&TreeOf(query.0.clone()));
    Arc::new(tree.objects().cloned().collect())
}

/// The roots that hold paths of a host.
type Holders<'c> = BTreeMap<&'c str, &'c ObjectKey>;

fn paths_of(query: &PathsOf, cx: &mut Context<'_>) -> Arc<HostPaths> {
    let host = &query.0;
    let claims = cx.query(&ClaimsOn(host.clone()));
    let active = claims.claims.iter().filter(|claim| claim.is_active());
    let held: Holders<'_> = active.map(|claim| (claim.path.as_str(), &claim.root)).collect();
    let roots: BTreeSet<&ObjectKey> = held.values().copied().collect();
    let trees = roots.into_iter().map(|root| (root.clone(), cx.query(&TreeOf(root.clone()))));
    let trees: Vec<_> = trees.collect();
    let table = table(host, &trees, &held);
    Arc::new(HostPaths { trees, table })
}

/// The paths of a host with the rule that has each: a path is that of the root with the longest
/// claim that contains it, whatever another root hands down there; within a tree the child has it
/// before the rule that delegates to it.
fn table(
    host: &HostPattern,
    trees: &[(ObjectKey, Arc<DelegationTree>)],
    held: &Holders<'_>,
) -> PathTable {
    let mut table = PathTable::new();
    for (t, (root, tree)) in trees.iter().enumerate() {
        for (n, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.has_path()) {
            let holder = || node.path.and_above().find_map(|path| held.get(path));
            if node.hosts.contains(host) && holder() == Some(&root) {
                table.insert(node.path.clone(), (t, n));
            }
        }
    }
    table
}
