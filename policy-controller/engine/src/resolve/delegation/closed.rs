//! The tree of an invalid root: the paths that it keeps, all of them denied.
//!
//! They are in the tree, because a shorter path of another root, or of a wildcard, would answer them
//! otherwise.

use super::child::fault;
use crate::incremental::Context;
use crate::query::condition::Reason;
use crate::query::delegation::{ActiveClaims, DelegationTree, NodeEffect, TreeNode};
use policy_core::HostPattern;
use policy_crds::resource::PathPrefix;
use policy_crds::{Object, ObjectKey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tree of an invalid object.
pub(super) fn closed(cx: &mut Context<'_>, object: &Object) -> DelegationTree {
    let key = &object.meta.key;
    let mut paths: BTreeMap<PathPrefix, Vec<HostPattern>> = BTreeMap::new();
    for host in object.claimed_hosts() {
        let claims = cx.query(&ActiveClaims(host));
        for claim in claims.iter().filter(|group| group.root == *key).flat_map(|group| group.iter())
        {
            paths.entry(claim.path.clone()).or_default().push(claim.host.clone());
        }
    }
    let chain: Arc<[ObjectKey]> = Arc::from([key.clone()]);
    let node = |(path, hosts): (PathPrefix, Vec<HostPattern>)| {
        let message =
            format!("{key} is invalid, and keeps the path until it is corrected or deleted");
        let effect = NodeEffect::Denied(vec![fault(Reason::Invalid, message, None)]);
        TreeNode { chain: chain.clone(), path, hosts: hosts.into(), effect }
    };
    DelegationTree::new(Arc::default(), paths.into_iter().map(node).collect())
}
