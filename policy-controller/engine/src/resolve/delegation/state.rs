//! The state of an InboundRoute for its status: claims, places in trees, rules.

use super::child::consents;
use super::claims::valid;
use super::condition::{reason_of, trees, words_of};
use super::ownership::active_around;
use super::server_hosts::hosts_of;
use crate::incremental::{Context, query};
use crate::query::condition::Reason;
use crate::query::delegation::{
    ClaimState, ClaimsOn, DelegationTree, HostClaim, NodeEffect, TreeNode,
};
use crate::query::delegation_state::{
    ClaimEntry, DelegationEntry, DelegationState, DelegationStateOf, OrphanReason, RouteEntry,
    RouteState,
};
use crate::resolve::reference::is_permitted;
use policy_core::HostPattern;
use policy_crds::resource::{Delegate, InboundAction, InboundRoute, Recorded, VirtualHost};
use policy_crds::{Body, Field, Kind, Object, ObjectKey};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(DelegationStateOf, Arc<DelegationState>, state);

/// The most former parents that a status names.
const MAX_FORMER: usize = 16;

fn state(query: &DelegationStateOf, cx: &mut Context<'_>) -> Arc<DelegationState> {
    let Some(object) = cx.object(&query.0) else { return Arc::default() };
    let Some(route) = valid(object) else { return Arc::default() };
    let trees = trees(cx, object);
    let routes = route.routes.iter().map(|rule| {
        let own = trees.iter().flat_map(|tree| &tree.nodes);
        let own = own.filter(|node| node.object() == Some(&query.0) && node.path == rule.path);
        let (state, reason) = own.map(outcome).max().unwrap_or((RouteState::Inactive, None));
        RouteEntry { path: rule.path.clone(), state, reason }
    });
    let routes = routes.collect();
    let (claims, delegations) = match &route.virtual_host {
        Some(root) => (claims(cx, &query.0, root), Vec::new()),
        None => (Vec::new(), delegations(cx, object, route, &trees)),
    };
    Arc::new(DelegationState { claims, delegations, routes })
}

/// The outcome of a rule in one tree; the best of all trees is shown.
fn outcome(node: &TreeNode) -> (RouteState, Option<Reason>) {
    match &node.effect {
        NodeEffect::Inactive => (RouteState::Inactive, None),
        NodeEffect::Shadowed => (RouteState::Shadowed, None),
        NodeEffect::Denied(faults) => {
            (RouteState::Blackholed, faults.first().map(|fault| fault.reason))
        }
        NodeEffect::Delegates { .. } => (RouteState::Delegated, None),
        NodeEffect::Serves { .. } | NodeEffect::Route { .. } => (RouteState::Programmed, None),
    }
}

fn claims(cx: &mut Context<'_>, key: &ObjectKey, root: &VirtualHost) -> Vec<ClaimEntry> {
    let mut entries = Vec::new();
    for host in &root.hosts {
        let claims = cx.query(&ClaimsOn(host.clone()));
        let own = |claim: &&HostClaim| claim.root == *key && claim.host == *host;
        let mut own: Vec<&HostClaim> = claims.claims.iter().filter(own).collect();
        own.sort_by(|a, b| a.path.cmp(&b.path));
        for claim in own {
            let after = latest_of_others(cx, claim);
            entries.push(ClaimEntry { after, ..entry(claim) });
        }
    }
    entries
}

/// The latest time of the claims of other roots that are in force on the host of a claim without a time,
/// and on hosts that overlap with it.
fn latest_of_others(cx: &mut Context<'_>, claim: &HostClaim) -> Option<i64> {
    if !claim.order.timeless || !claim.is_admitted() {
        return None;
    }
    let all = active_around(cx, &claim.host);
    let others = all.iter().flat_map(|claims| claims.iter());
    let others = others.filter(|other| !other.order.timeless && other.root != claim.root);
    others.map(|other| other.order.time).max()
}

fn entry(claim: &HostClaim) -> ClaimEntry {
    let (active, reason, message) = match &claim.state {
        ClaimState::Active { shared: false } => (true, None, String::new()),
        ClaimState::Active { shared: true } => {
            let message = "a root in another namespace holds a path above or below it";
            (true, Some(Reason::SubpathClaimedByOther), message.to_owned())
        }
        ClaimState::Inactive(refusal) => {
            (false, Some(reason_of(refusal)), words_of(claim, refusal))
        }
    };
    ClaimEntry {
        host: claim.host.clone(),
        path: claim.path.clone(),
        active,
        admitted: claim.is_admitted(),
        claimed_at: (!claim.order.timeless).then_some(claim.order.time),
        after: None,
        reason,
        message: message.into(),
    }
}

fn delegations(
    cx: &mut Context<'_>,
    object: &Object,
    route: &InboundRoute,
    trees: &[Arc<DelegationTree>],
) -> Vec<DelegationEntry> {
    let key = &object.meta.key;
    let recorded = object.meta.recorded.as_deref();
    let mut entries = Vec::new();
    let mut connected = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for tree in trees {
        for node in &tree.nodes {
            let Some(parent) = node.object() else { continue };
            if let NodeEffect::Delegates { children, .. } = &node.effect
                && children.contains(key)
            {
                connected.insert(parent.clone());
                let connected_at = recorded.and_then(|it| it.connected_at(parent, &node.path));
                let entry = DelegationEntry::Connected {
                    parent: parent.clone(),
                    prefix: node.path.clone(),
                    hosts: consented(route, parent, &node.hosts),
                    connected_at,
                };
                push(&mut entries, entry);
            }
            for entry in rejected(key, route, parent, node) {
                refused.insert(parent.clone());
                push(&mut entries, entry);
            }
        }
    }
    // A parent whose delegation is refused is a former one, too: it would be forgotten otherwise.
    let former = recorded.into_iter().flat_map(Recorded::former_parents);
    let former: Vec<_> = former.filter(|(parent, _)| !connected.contains(parent)).collect();
    // The oldest come first.
    let forgotten = former.len().saturating_sub(MAX_FORMER);
    for (parent, since) in former.into_iter().skip(forgotten) {
        let reason = orphan_reason(cx, key, route, &parent, refused.contains(&parent));
        let last_parent = Some(parent);
        entries.push(DelegationEntry::Orphaned { last_parent, reason, since });
    }
    if entries.is_empty() {
        let reason = OrphanReason::NeverDelegated;
        entries.push(DelegationEntry::Orphaned { last_parent: None, reason, since: None });
    }
    entries
}

fn push(entries: &mut Vec<DelegationEntry>, entry: DelegationEntry) {
    if !entries.contains(&entry) {
        entries.push(entry);
    }
}

/// The hosts of which a vertex consents to a delegator.
fn consented(route: &InboundRoute, parent: &ObjectKey, hosts: &[HostPattern]) -> Vec<HostPattern> {
    hosts.iter().filter(|host| consents(route, parent, host)).cloned().collect()
}

/// The refusals of a rule that names a vertex. A delegator to which the vertex did not consent is
/// left out, so that strangers cannot fill its status.
fn rejected<'a>(
    key: &'a ObjectKey,
    route: &InboundRoute,
    parent: &'a ObjectKey,
    node: &'a TreeNode,
) -> impl Iterator<Item = DelegationEntry> {
    let consents = !consented(route, parent, &node.hosts).is_empty();
    let own =
        node.faults().iter().filter(move |fault| consents && fault.child.as_ref() == Some(key));
    own.map(move |fault| DelegationEntry::Rejected {
        parent: parent.clone(),
        prefix: node.path.clone(),
        reason: fault.reason,
        message: fault.message.clone(),
    })
}

/// The reason why a former parent connects a vertex no more. `refused`: a tree says that its
/// delegation is.
fn orphan_reason(
    cx: &mut Context<'_>,
    key: &ObjectKey,
    route: &InboundRoute,
    parent: &ObjectKey,
    refused: bool,
) -> OrphanReason {
    let named = |consent: &policy_crds::resource::Consent| consents(route, parent, &consent.host);
    if !route.delegated_from.iter().any(named) {
        return OrphanReason::NotPermitted;
    }
    let Some(object) = cx.object(parent) else { return OrphanReason::ParentRemoved };
    let Some(delegator) = valid(object) else {
        return match object.body {
            Body::Invalid(_) => OrphanReason::ParentInvalid,
            Body::Valid(_) => OrphanReason::ParentRemoved,
        };
    };
    let of_parent = hosts_of(object);
    if !of_parent.iter().any(|host| consents(route, parent, host)) {
        return OrphanReason::NotPermitted;
    }
    let labels = cx.object(key).map(|own| &own.meta.labels);
    let delegates = delegator.routes.iter().any(|rule| match &rule.action {
        InboundAction::Delegate(Delegate::One(child)) => child == key,
        InboundAction::Delegate(Delegate::Selected { namespace, labels: wanted }) => {
            *namespace == key.namespace
                && labels.is_some_and(|own| wanted.iter().all(|(k, v)| own.get(k) == Some(v)))
        }
        InboundAction::Servers(_) | InboundAction::Serve => false,
    });
    if !delegates {
        OrphanReason::DelegationRemoved
    } else if parent.kind != Kind::InboundRoute || !is_permitted(cx, parent, Field::Delegate, key) {
        OrphanReason::GrantRevoked
    } else if refused {
        OrphanReason::DelegationRefused
    } else if delegator.virtual_host.is_some() {
        OrphanReason::RootInactive
    } else {
        OrphanReason::ParentOrphaned
    }
}
