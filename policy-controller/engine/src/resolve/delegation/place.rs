//! The places at which a walk through a tree reaches objects.

use super::kept::RuleSet;
use crate::incremental::Context;
use crate::query::delegation::{ActiveClaims, NodeEffect, TreeNode};
use policy_core::HostPattern;
use policy_crds::ObjectKey;
use policy_crds::resource::{InboundRoute, InboundRule, PathPrefix, VirtualHost};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rules of a root, each with the hosts of which it holds the path; `None` if it holds none.
pub(super) fn of_root<'r>(
    cx: &mut Context<'_>,
    key: &ObjectKey,
    root: &'r InboundRoute,
    own: &VirtualHost,
) -> Vec<(&'r InboundRule, Option<ReachedPlace>)> {
    let mut places: Vec<(&InboundRule, Option<ReachedPlace>)> =
        root.routes.iter().map(|rule| (rule, None)).collect();
    for host in &own.hosts {
        let claims = cx.query(&ActiveClaims(host.clone()));
        for claim in claims.iter().filter(|claim| claim.root == *key) {
            let Some((_, place)) = places.iter_mut().find(|(rule, _)| rule.path == claim.path)
            else {
                continue;
            };
            match place {
                Some(place) => place.hosts.push(host.clone()),
                None => {
                    let (chain, hosts) = (Arc::from([key.clone()]), vec![host.clone()]);
                    *place = Some(ReachedPlace { chain, by: None, hosts, kept: Arc::default() });
                }
            }
        }
    }
    places
}

/// A rule whose path the root holds on no host.
pub(super) fn inactive(root: &ObjectKey, rule: &InboundRule) -> TreeNode {
    TreeNode {
        chain: Arc::from([root.clone()]),
        path: rule.path.clone(),
        hosts: Vec::new(),
        effect: NodeEffect::Inactive,
    }
}

/// The place at which an object is reached.
#[derive(Clone)]
pub(super) struct ReachedPlace {
    /// The objects from the root to it.
    pub(super) chain: Arc<[ObjectKey]>,
    /// The number of the node that delegates to it; `None` for the root.
    pub(super) by: Option<usize>,
    /// The hosts that reach it.
    pub(super) hosts: Vec<HostPattern>,
    /// Paths that ancestors keep, although they are inside what is delegated.
    pub(super) kept: Arc<BTreeSet<PathPrefix>>,
}

impl ReachedPlace {
    /// The place from which a rule of a set hands its path down, on the hosts of the set; `None` if it
    /// has none of them.
    pub(super) fn handing(&self, set: &RuleSet<'_>, path: &PathPrefix) -> Option<Self> {
        let hosts = self.hosts.iter().filter(|host| set.hosts.contains(host));
        let hosts: Vec<HostPattern> = hosts.cloned().collect();
        let inside = set.paths.iter().copied().filter(|own| *own != path);
        let kept = self.kept.iter().chain(inside).filter(|kept| path.contains(kept));
        let kept = Arc::new(kept.cloned().collect());
        (!hosts.is_empty()).then(|| Self { chain: self.chain.clone(), by: self.by, hosts, kept })
    }
}
