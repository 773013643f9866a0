//! The state of an InboundRoute for its status: claims, places in trees, rules.

use super::child::consents;
use super::claims::valid;
use super::condition::{Holder, reason_of, refusals, trees, words_of};
use crate::incremental::{Context, query};
use crate::query::condition::Reason;
use crate::query::delegation::{
    ClaimState, ClaimsOn, DelegationTree, EdgeFault, HostClaim, NodeEffect, TreeNode,
};
use crate::query::delegation_state::{
    ClaimEntry, DelegationEntry, DelegationState, DelegationStateOf, OrphanReason, RouteEntry,
    RouteState, RuleFault,
};
use crate::resolve::grant::reason;
use crate::resolve::reference::{follow, is_permitted};
use policy_core::HostPattern;
use policy_crds::resource::{
    Delegate, InboundAction, InboundRoute, PathPrefix, Recorded, VirtualHost,
};
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
    let Some(route) = valid(object) else { return Arc::default() };
    let trees = trees(cx, object);
    let own: Vec<&TreeNode> = trees.iter().flat_map(|tree| tree.of(&query.0)).collect();
    let faults = faults(cx, object, &own);
    let routes = routes(route, &own);
    let (claims, delegations) = match &route.virtual_host {
        Some(root) => (claims(cx, &query.0, root), Vec::new()),
        None => (Vec::new(), delegations(cx, object, route, &trees)),
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
    let mut seen = HashSet::new();
    let mut told = HashSet::new();
    let mut faults = Vec::new();
    for (node, fault) in own.iter().flat_map(|node| node.faults().iter().map(move |f| (node, f))) {
        let message: Arc<str> = words(node, fault).into();
        if seen.insert(message.clone()) {
            faults.push(RuleFault { reason: fault.reason, message });
        }
        told.extend(&fault.child);
    }
    for ObjectReference { field, what } in object.references() {
        let (Field::Serving, ReferenceTarget::One(server)) = (field, what) else { continue };
        if let Err(fault) = follow(cx, &object.meta.key, field, &server)
            && !told.contains(&server)
        {
            let message: Arc<str> = format!("{server} {}", fault.as_str()).into();
            if seen.insert(message.clone()) {
                faults.push(RuleFault { reason: reason(fault), message });
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

fn claims(cx: &mut Context<'_>, key: &ObjectKey, root: &VirtualHost) -> Vec<ClaimEntry> {
    let mut entries = Vec::new();
    for host in &root.hosts {
        let claims = cx.query(&ClaimsOn(host.clone()));
        let own = |claim: &&HostClaim| claim.root == *key && claim.host == *host;
        let mut own: Vec<&HostClaim> = claims.claims.iter().filter(own).collect();
        own.sort_by(|a, b| a.path.cmp(&b.path));
        entries.extend(own.into_iter().map(|claim| entry(claim, Holder::Hidden)));
    }
    entries
}

/// A claim for readers who may see its holder, whichever namespace that is in, or may not.
fn entry(claim: &HostClaim, holder: Holder) -> ClaimEntry {
    let (active, reason, message) = match &claim.state {
        ClaimState::Active { shared: false } => (true, None, String::new()),
        ClaimState::Active { shared: true } => {
            let message = "a root in another namespace holds a path above or below it";
            (true, Some(Reason::SubpathClaimedByOther), message.to_owned())
        }
        ClaimState::Inactive(refusal) => {
            (false, Some(reason_of(refusal)), words_of(claim, refusal, holder))
        }
    };
    ClaimEntry {
        host: claim.host.clone(),
        path: claim.path.clone(),
        active,
        admitted: claim.is_admitted(),
        claimed_at: (!claim.order.timeless).then_some(claim.order.time),
        reason,
        message: message.into(),
    }
}

impl HostClaim {
    /// The claim as its status shows it, with the name of the root that holds the path even if that
    /// is in another namespace: for readers who may list that root.
    pub fn entry_with_holder(&self) -> ClaimEntry {
        entry(self, Holder::Named)
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
    let (mut connected, mut refused) = (Vec::new(), Vec::new());
    let mut parents = BTreeSet::new();
    let naming = trees.iter().flat_map(|tree| tree.naming(key));
    for (node, parent) in naming.filter_map(|node| Some((node, node.object()?))) {
        if let NodeEffect::Delegates { children, .. } = &node.effect
            && children.contains(key)
            && let Some(fqdn) = fqdn(cx, node)
        {
            parents.insert(parent.clone());
            let connected_at = recorded.and_then(|it| it.connected_at(parent, &node.path));
            connected.push(DelegationEntry::Connected {
                parent: parent.clone(),
                prefix: node.path.clone(),
                fqdn,
                hosts: consented(route, parent, &node.hosts),
                connected_at,
            });
        }
        for entry in rejected(key, route, parent, node) {
            parents.insert(parent.clone());
            refused.push(entry);
        }
    }
    // What a status has no room for is left out at the end: others can add refusals.
    let mut seen = HashSet::new();
    let mut entries = connected;
    entries.extend(orphaned(cx, key, route, recorded, &parents));
    entries.extend(refused);
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
    refusals(node, key).filter(move |_| consents).map(move |fault| DelegationEntry::Rejected {
        parent: parent.clone(),
        prefix: node.path.clone(),
        reason: fault.reason,
        message: fault.message.clone(),
    })
}

/// The parents that the status names and that delegate no more, the last first.
fn orphaned(
    cx: &mut Context<'_>,
    key: &ObjectKey,
    route: &InboundRoute,
    recorded: Option<&Recorded>,
    parents: &BTreeSet<ObjectKey>,
) -> Vec<DelegationEntry> {
    let former = recorded.into_iter().flat_map(Recorded::former_parents);
    let mut former: Vec<_> = former.filter(|(parent, _)| !parents.contains(parent)).collect();
    // One without a time was connected until now.
    former.sort_by_key(|(_, since)| Reverse((since.is_none(), *since)));
    let latest = former.into_iter().take(MAX_FORMER);
    latest
        .map(|(parent, since)| {
            let reason = orphan_reason(cx, key, route, &parent);
            DelegationEntry::Orphaned { last_parent: Some(parent), reason, since }
        })
        .collect()
}

fn orphan_reason(
    cx: &mut Context<'_>,
    key: &ObjectKey,
    route: &InboundRoute,
    parent: &ObjectKey,
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
    } else if delegator.virtual_host.is_some() {
        OrphanReason::RootInactive
    } else {
        OrphanReason::ParentOrphaned
    }
}
