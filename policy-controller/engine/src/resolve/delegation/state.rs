//! The state of an InboundRoute for its status: claims, places in trees, rules.

use super::claims::valid;
use super::condition::{MAX_SAID, reason_of, refusals, trees, words_for_child, words_of};
use super::consent::{below, consents};
use super::names_below;
use super::ownership::active_around;
use super::server_hosts::hosts_of;
use crate::incremental::{Context, query};
use crate::query::claims::{ClaimState, HostClaim};
use crate::query::condition::Reason;
use crate::query::delegation::{
    ClaimsOn, DelegationTree, EdgeFault, Labelled, NodeEffect, TreeNode,
};
use crate::query::delegation_state::{
    ClaimEntries, ClaimEntry, DelegationEntry, DelegationState, DelegationStateOf, OrphanReason,
    RouteEntry, RouteState, RuleFault,
};
use crate::resolve::grant::reason;
use crate::resolve::reference::{follow, is_permitted};
use policy_core::HostPattern;
use policy_crds::resource::{Delegate, InboundAction, InboundRoute, PathPrefix, Recorded};
use policy_crds::spec::{ObjectReference, ReferenceTarget};
use policy_crds::{Body, Field, Kind, Object, ObjectKey};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

query!(DelegationStateOf, Arc<DelegationState>, state);

/// The most former parents that a status names.
const MAX_FORMER: usize = 16;

fn state(query: &DelegationStateOf, cx: &mut Context<'_>) -> Arc<DelegationState> {
    let Some(object) = cx.object(&query.0) else { return Arc::default() };
    let Some(route) = valid(object) else {
        let claims = claims(cx, &query.0, &object.claimed_hosts());
        return Arc::new(DelegationState { claims, ..DelegationState::default() });
    };
    let trees = trees(cx, object);
    let own: Vec<&TreeNode> = trees.iter().flat_map(|tree| tree.of(&query.0)).collect();
    let mut faults = faults(cx, object, &own);
    faults.extend(
        names_below::words(cx, route)
            .into_iter()
            .map(|message| RuleFault { reason: Reason::TooLarge, message: message.into() }),
    );
    let routes = routes(route, &own);
    let (claims, delegations) = match &route.virtual_host {
        Some(root) => (claims(cx, &query.0, &root.hosts), Vec::new()),
        None => (ClaimEntries::default(), delegations(cx, object, route, &trees)),
    };
    Arc::new(DelegationState { claims, delegations, routes, faults })
}

/// The rules of an object, each with the best outcome of all trees.
fn routes(route: &InboundRoute, own: &[&TreeNode]) -> Vec<RouteEntry> {
    let mut outcomes: HashMap<&PathPrefix, (RouteState, Option<Reason>)> = HashMap::new();
    for node in own {
        let found = outcome(node);
        let best = outcomes.entry(&node.path).or_insert(found);
        *best = found.max(*best);
    }
    let entry = |path: &PathPrefix| {
        let (state, reason) = outcomes.get(path).copied().unwrap_or((RouteState::Inactive, None));
        RouteEntry { path: path.clone(), state, reason }
    };
    route.routes.iter().map(|rule| entry(&rule.path)).collect()
}

/// The outcome of a rule in one tree.
fn outcome(node: &TreeNode) -> (RouteState, Option<Reason>) {
    let first = |faults: &[EdgeFault]| faults.first().map(|fault| fault.reason);
    match &node.effect {
        NodeEffect::Inactive => (RouteState::Inactive, None),
        NodeEffect::Shadowed => (RouteState::Shadowed, None),
        NodeEffect::Denied(faults) => (RouteState::Blackholed, first(faults)),
        NodeEffect::Delegates { refused, .. } => (RouteState::Delegated, first(refused)),
        NodeEffect::Serves { .. } | NodeEffect::Route { .. } => (RouteState::Programmed, None),
    }
}

/// The objects that the rules of an object name and that cannot be used: as the trees have it, and
/// Servers that no tree has asked for.
fn faults(cx: &mut Context<'_>, object: &Object, own: &[&TreeNode]) -> Vec<RuleFault> {
    let (mut seen, mut told) = (HashSet::new(), HashSet::new());
    let (mut faults, mut more) = (Vec::new(), None::<(Reason, usize)>);
    for (node, fault) in own.iter().flat_map(|node| node.faults().iter().map(move |f| (node, f))) {
        told.extend(&fault.child);
        // A tree can reach the object, and refuse what it delegates to, in many ways.
        let effect = std::mem::discriminant(&node.effect);
        if !seen.insert((&node.path, effect, fault.reason, &fault.message, &fault.hosts)) {
            continue;
        }
        if faults.len() >= MAX_SAID {
            more = Some(more.map_or((fault.reason, 1), |(it, n)| (it, n.saturating_add(1))));
            continue;
        }
        faults.push(RuleFault { reason: fault.reason, message: words(node, fault).into() });
    }
    faults.extend(more.map(|(reason, more)| {
        let message = format!("and {more} more delegations are refused").into();
        RuleFault { reason, message }
    }));
    for ObjectReference { field, what } in object.references() {
        let (Field::Serving, ReferenceTarget::One(server)) = (field, what) else { continue };
        if let Err(fault) = follow(cx, &object.meta.key, field, &server)
            && !told.contains(&server)
        {
            let message = format!("{server} {}", fault.as_str()).into();
            let fault = RuleFault { reason: reason(fault), message };
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    faults
}

fn words(node: &TreeNode, fault: &EdgeFault) -> String {
    let (path, why) = (node.path.as_str(), &fault.message);
    let hosts: Vec<String> = fault.hosts.iter().map(ToString::to_string).collect();
    match &node.effect {
        NodeEffect::Delegates { .. } if !hosts.is_empty() => {
            format!("`{path}` is denied on {}: {why}", hosts.join(", "))
        }
        NodeEffect::Delegates { .. } => format!("`{path}` goes to fewer objects: {why}"),
        NodeEffect::Serves { .. } => format!("`{path}` is answered by fewer Servers: {why}"),
        NodeEffect::Denied(_)
        | NodeEffect::Route { .. }
        | NodeEffect::Shadowed
        | NodeEffect::Inactive => format!("`{path}` is denied: {why}"),
    }
}

/// The claims of a root on its hosts.
fn claims(cx: &mut Context<'_>, key: &ObjectKey, hosts: &[HostPattern]) -> ClaimEntries {
    let mut entries = Vec::new();
    for host in hosts {
        let claims = cx.query(&ClaimsOn(host.clone()));
        let Some(own) = claims.groups.iter().find(|group| group.root == *key) else { continue };
        let begins = |claim: &HostClaim<'_>| claim.time.is_none() && claim.is_admitted();
        let is_begun = own.iter().any(|claim| begins(&claim));
        let latest = is_begun.then(|| latest_of_others(cx, host, key)).flatten();
        entries.extend(own.iter().map(|claim| {
            let after = latest.filter(|_| begins(&claim));
            ClaimEntry { after, ..entry(claim) }
        }));
    }
    entries.into_iter().collect()
}

/// The latest time of the claims of other roots that are in force on a host, and on hosts that overlap
/// with it.
fn latest_of_others(cx: &mut Context<'_>, host: &HostPattern, root: &ObjectKey) -> Option<i64> {
    let all = active_around(cx, host);
    let others = all.iter().flat_map(|groups| groups.iter()).filter(|group| group.root != *root);
    others.flat_map(|group| group.iter()).filter_map(|claim| claim.time).max()
}

fn entry(claim: HostClaim<'_>) -> ClaimEntry {
    let (active, reason, message) = match claim.state {
        ClaimState::Active { shared: false, attached: false } => (true, None, String::new()),
        ClaimState::Active { shared: false, attached: true } => {
            let message = format!(
                "routes of another namespace were attached with {}, or a name that overlaps with it, earlier: \
                 the Servers of that namespace go on answering it",
                claim.host
            );
            (true, Some(Reason::HostnameAttachedEarlier), message)
        }
        ClaimState::Active { shared: true, attached: _ } => {
            let (host, path) = (claim.host, claim.path);
            let message = format!(
                "{host} {path} is shared: a root in another namespace holds a path above or below it. \
                 The Servers of the earlier claim answer the longer path, too"
            );
            (true, Some(Reason::SubpathClaimedByOther), message)
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
        claimed_at: claim.time,
        after: None,
        reason,
        // One for all that have none.
        message: if message.is_empty() { Arc::default() } else { message.into() },
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
    let (mut connected, mut rejections) = (Vec::new(), Vec::new());
    let (mut connecting, mut refusing) = (BTreeSet::new(), BTreeSet::new());
    let naming = trees.iter().flat_map(|tree| tree.naming(key));
    for (node, parent) in naming.filter_map(|node| Some((node, node.object()?))) {
        if let NodeEffect::Delegates { children, .. } = &node.effect
            && children.contains(key)
            && let Some(fqdn) = fqdn(cx, node)
        {
            connecting.insert(parent.clone());
            let connected_at = recorded.and_then(|it| it.connected_at(parent, &node.path));
            connected.push(DelegationEntry::Connected {
                parent: parent.clone(),
                prefix: node.path.clone(),
                fqdn,
                hosts: consented(route, parent, &node.hosts),
                connected_at,
            });
        }
        for entry in rejected(object, route, parent, node) {
            refusing.insert(parent.clone());
            rejections.push(entry);
        }
    }
    // What a status has no room for is left out at the end: others can add refusals.
    let mut seen = HashSet::new();
    let mut entries = connected;
    // A parent whose delegation is refused is a former one, too: it would be forgotten otherwise.
    for (parent, since) in former(recorded, &connecting) {
        let reason = orphan_reason(cx, key, route, &parent, refusing.contains(&parent));
        let last_parent = Some(parent);
        entries.push(DelegationEntry::Orphaned { last_parent, reason, since });
    }
    entries.extend(rejections);
    entries.retain(|entry| seen.insert(entry.clone()));
    if entries.is_empty() {
        let reason = OrphanReason::NeverDelegated;
        entries.push(DelegationEntry::Orphaned { last_parent: None, reason, since: None });
    }
    entries
}

/// The fqdn of the root of a rule.
fn fqdn(cx: &mut Context<'_>, node: &TreeNode) -> Option<HostPattern> {
    let root = cx.object(node.chain.first()?)?;
    valid(root)?.virtual_host.as_ref()?.hosts.first().cloned()
}

/// The hosts of which a vertex consents to a delegator.
fn consented(route: &InboundRoute, parent: &ObjectKey, hosts: &[HostPattern]) -> Vec<HostPattern> {
    hosts.iter().filter(|host| consents(&route.delegated_from, parent, host)).cloned().collect()
}

/// The refusals of a rule that names a vertex. A delegator to which the vertex did not consent is
/// left out, so that strangers cannot fill its status.
fn rejected<'a>(
    object: &'a Object,
    route: &InboundRoute,
    parent: &'a ObjectKey,
    node: &'a TreeNode,
) -> impl Iterator<Item = DelegationEntry> {
    let key = &object.meta.key;
    let in_part = || node.hosts.iter().any(|host| below(object, parent, host).is_some());
    let consents = !consented(route, parent, &node.hosts).is_empty() || in_part();
    refusals(node, key).filter(move |_| consents).map(move |fault| DelegationEntry::Rejected {
        parent: parent.clone(),
        prefix: node.path.clone(),
        reason: fault.reason,
        message: words_for_child(key, parent, fault),
    })
}

/// The parents that the status names and that connect no more, the last first.
fn former(
    recorded: Option<&Recorded>,
    connecting: &BTreeSet<ObjectKey>,
) -> impl Iterator<Item = (ObjectKey, Option<i64>)> {
    let former = recorded.into_iter().flat_map(Recorded::former_parents);
    let mut former: Vec<_> = former.filter(|(parent, _)| !connecting.contains(parent)).collect();
    let until_now = |parent: &ObjectKey| {
        recorded.is_some_and(|it| it.connected.iter().any(|own| own.parent == *parent))
    };
    former.sort_by_key(|(parent, since)| Reverse((since.is_none() && until_now(parent), *since)));
    former.into_iter().take(MAX_FORMER)
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
    let named = |consent: &policy_crds::resource::Consent| {
        consents(&route.delegated_from, parent, &consent.host)
    };
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
    if !of_parent.iter().any(|host| consents(&route.delegated_from, parent, host)) {
        return OrphanReason::NotPermitted;
    }
    let delegates = delegator.routes.iter().any(|rule| match &rule.action {
        InboundAction::Delegate(Delegate::One(child)) => child == key,
        InboundAction::Delegate(Delegate::Selected { namespace, labels }) => {
            let (namespace, labels) = (namespace.clone(), labels.clone());
            namespace == key.namespace && cx.query(&Labelled { namespace, labels }).contains(key)
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
