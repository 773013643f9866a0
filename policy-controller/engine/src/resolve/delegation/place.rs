//! The places at which a walk through a tree reaches objects.

use super::kept::RuleSet;
use crate::incremental::Context;
use crate::query::claims::ClaimGroup;
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
    let held = own.hosts.iter().map(|host| {
        let claims = cx.query(&ActiveClaims(host.clone()));
        (host, claims.iter().find(|group| group.root == *key).cloned())
    });
    let held: Vec<(&HostPattern, Option<Arc<ClaimGroup>>)> = held.collect();
    let mut last: Arc<[HostPattern]> = Arc::default();
    let chain: Arc<[ObjectKey]> = Arc::from([key.clone()]);
    let mut place = |rule: &InboundRule| {
        let holds = |claims: &Option<Arc<ClaimGroup>>| {
            claims.as_ref().is_some_and(|claims| claims.holds(&rule.path))
        };
        let hosts = held.iter().filter(|(_, claims)| holds(claims)).map(|(host, _)| *host);
        let hosts: Vec<&HostPattern> = hosts.collect();
        // Mostly a root holds all paths of all its hosts.
        if !last.iter().eq(hosts.iter().copied()) {
            last = hosts.into_iter().cloned().collect();
        }
        let (chain, hosts) = (chain.clone(), last.clone());
        (!hosts.is_empty()).then(|| ReachedPlace { chain, by: None, hosts, kept: Arc::default() })
    };
    root.routes.iter().map(|rule| (rule, place(rule))).collect()
}

/// A rule whose path the root holds on no host.
pub(super) fn inactive(root: &ObjectKey, rule: &InboundRule) -> TreeNode {
    TreeNode {
        chain: Arc::from([root.clone()]),
        path: rule.path.clone(),
        hosts: Arc::default(),
        effect: NodeEffect::Inactive,
    }
}

/// The hosts for which something holds. Where it holds for all, the list is shared, because many rules have the
/// same hosts.
pub(super) fn those(
    hosts: &Arc<[HostPattern]>,
    holds: impl Fn(&HostPattern) -> bool,
) -> Arc<[HostPattern]> {
    let found: Vec<&HostPattern> = hosts.iter().filter(|host| holds(host)).collect();
    match found.len() == hosts.len() {
        true => hosts.clone(),
        false => found.into_iter().cloned().collect(),
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
    pub(super) hosts: Arc<[HostPattern]>,
    /// Paths that ancestors keep, although they are inside what is delegated.
    pub(super) kept: Arc<BTreeSet<PathPrefix>>,
}

impl ReachedPlace {
    /// The place from which a rule of a set hands its path down, on the hosts of the set; `None` if it
    /// has none of them.
    pub(super) fn handing(&self, set: &RuleSet<'_>, path: &PathPrefix) -> Option<Self> {
        let hosts = those(&self.hosts, |host| set.hosts.contains(host));
        let inside = set.paths.iter().copied().filter(|own| *own != path);
        let kept = self.kept.iter().chain(inside).filter(|kept| path.contains(kept));
        let kept = Arc::new(kept.cloned().collect());
        (!hosts.is_empty()).then(|| Self { chain: self.chain.clone(), by: self.by, hosts, kept })
    }
}
