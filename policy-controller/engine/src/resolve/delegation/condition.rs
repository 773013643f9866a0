//! The state of InboundRoutes and of the routes that are their children.

use super::claims::valid;
use super::consent::consents_to;
use super::origin::is_child;
use super::ownership::wildcards_above;
use super::server_hosts::hosts_of;
use crate::incremental::Context;
use crate::index::{Edge, parents};
use crate::query::claims::{ClaimRefusal, HostClaim};
use crate::query::condition::Reason;
use crate::query::delegation::{
    ActiveClaims, DelegationTree, EdgeFault, ObjectsIn, RootsUnder, TreeNode, TreeOf,
};
use crate::query::delegation_state::{
    ClaimEntry, DelegationEntry, DelegationState, DelegationStateOf, RouteEntry,
};
use policy_core::HostPattern;
use policy_crds::resource::InboundRoute;
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most refusals of one object that its condition says in full; of the rest it says how many.
pub(super) const MAX_SAID: usize = 16;

/// The outcome of `Accepted` for an InboundRoute: accepted with a remark, or refused.
pub(crate) type Acceptance = Result<String, (Reason, String)>;

/// The roots of the hosts of an object.
fn roots(cx: &mut Context<'_>, object: &Object) -> BTreeSet<ObjectKey> {
    let mut roots = BTreeSet::new();
    for host in hosts_of(object) {
        if let HostPattern::Suffix(suffix) = &host {
            let under = cx.query(&RootsUnder(suffix.clone()));
            roots.extend(under.iter().map(|(root, _)| root.clone()));
        }
        // A root of a wildcard may refuse an object that consents to a name below alone. A root that may
        // claim nothing is none: its events cost other trees nothing.
        for wildcard in wildcards_above(cx, &host) {
            let claims = cx.query(&ActiveClaims(wildcard));
            roots.extend(claims.iter().map(|group| group.root.clone()));
        }
        roots.extend(cx.edge(Edge::Host(host)).into_iter().cloned());
    }
    roots
}

/// The trees that have rules of an object, or refuse it.
pub(super) fn trees(cx: &mut Context<'_>, object: &Object) -> Vec<Arc<DelegationTree>> {
    if valid(object).is_some_and(|route| route.virtual_host.is_some()) {
        return vec![cx.query(&TreeOf(object.meta.key.clone()))];
    }
    let mut trees = Vec::new();
    for root in roots(cx, object) {
        // Below a wildcard most trees say nothing about it.
        if cx.query(&ObjectsIn(root.clone())).contains(&object.meta.key) {
            trees.push(cx.query(&TreeOf(root)));
        }
    }
    trees
}

/// The Servers that answer for an object in trees.
pub(crate) fn served_by(cx: &mut Context<'_>, object: &Object) -> BTreeSet<ObjectKey> {
    let trees = trees_of_child(cx, object);
    let own = trees.iter().flat_map(|tree| tree.of(&object.meta.key));
    own.flat_map(TreeNode::servers).cloned().collect()
}

/// The Servers that answer for an object, or for those that it delegates to.
pub(crate) fn served_through(cx: &mut Context<'_>, object: &Object) -> BTreeSet<ObjectKey> {
    let trees = trees_of_child(cx, object);
    trees.iter().flat_map(|tree| tree.servers_through(&object.meta.key)).cloned().collect()
}

/// The trees that may have rules of an object. Most routes are no children, and there may be many.
fn trees_of_child(cx: &mut Context<'_>, object: &Object) -> Vec<Arc<DelegationTree>> {
    let key = &object.meta.key;
    if key.kind.is_route() && !is_child(parents(object), key) {
        return Vec::new();
    }
    trees(cx, object)
}

/// If an InboundRoute takes effect: a root by its claims, a vertex by the trees that it is part of.
pub(crate) fn acceptance(route: &InboundRoute, state: &DelegationState) -> Acceptance {
    if route.virtual_host.is_none() {
        if state.routes.iter().any(RouteEntry::is_reached) {
            return Ok(String::new());
        }
        let refused = state.delegations.iter().find_map(DelegationEntry::refusal);
        let orphaned = || "no root delegates to it at present: it takes no effect".to_owned();
        return Ok(refused.unwrap_or_else(orphaned));
    }
    let (shared, lost): (Vec<ClaimEntry>, Vec<ClaimEntry>) =
        state.claims.iter().partition(|claim| claim.active);
    let words = lost.iter().chain(&shared).map(|claim| &*claim.message);
    let words = said(words.filter(|words| !words.is_empty()).collect());
    match lost.first().and_then(|claim| claim.reason) {
        Some(reason) if lost.len() == state.claims.len() => Err((reason, words)),
        Some(_) | None => Ok(words),
    }
}

/// The claims that an invalid root keeps, in words; `None` if it keeps none.
pub(crate) fn kept_words(cx: &mut Context<'_>, object: &Object) -> Option<String> {
    object.kept_claims().next()?;
    let state = cx.query(&DelegationStateOf(object.meta.key.clone()));
    let active = state.claims.iter().filter(|claim| claim.active);
    let hosts: BTreeSet<String> = active.map(|claim| claim.host.to_string()).collect();
    let more = hosts.len().saturating_sub(MAX_SAID);
    let mut named: Vec<String> = hosts.into_iter().take(MAX_SAID).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    let words = "it keeps what it claimed of these hosts, denied, until it is corrected or deleted";
    (!named.is_empty()).then(|| format!("{words}: {}", named.join(", ")))
}

/// Messages in one, of many the first ones and the number of the rest.
fn said(words: BTreeSet<&str>) -> String {
    let more = words.len().saturating_sub(MAX_SAID);
    let said = words.into_iter().take(MAX_SAID).collect::<Vec<_>>().join("; ");
    if more == 0 { said } else { format!("{said}; and {more} more") }
}

pub(super) fn reason_of(refusal: &ClaimRefusal) -> Reason {
    match refusal {
        ClaimRefusal::AlreadyClaimed(_) | ClaimRefusal::Overlaps(..) => Reason::HostAlreadyClaimed,
        ClaimRefusal::NamespaceNotAllowed | ClaimRefusal::PolicyInvalid => {
            Reason::RootNotAllowedInNamespace
        }
        ClaimRefusal::WildcardNotAllowed => Reason::WildcardNotAllowed,
        ClaimRefusal::NotAssumed => Reason::HostNotAssumed,
        ClaimRefusal::ServiceName => Reason::ServiceOfAnotherNamespace,
    }
}

/// The loss of a claim in words. Of another namespace no object is named.
pub(super) fn words_of(claim: HostClaim<'_>, refusal: &ClaimRefusal) -> String {
    let host = claim.host;
    match refusal {
        ClaimRefusal::AlreadyClaimed(holder) if holder.namespace == claim.root.namespace => {
            let path = claim.path.as_str();
            format!("{holder} holds {host} {path} and claimed it earlier")
        }
        ClaimRefusal::AlreadyClaimed(_) => {
            format!("a root in another namespace holds {host} and claimed it earlier")
        }
        // The name is one that anybody may try to claim, and learn so that it is taken.
        ClaimRefusal::Overlaps(_, other) => format!(
            "a root in another namespace holds {other}, which overlaps with {host}, and claimed it \
             earlier"
        ),
        ClaimRefusal::ServiceName => format!(
            "Services of another namespace are called by {host}: their names cannot be claimed"
        ),
        ClaimRefusal::NamespaceNotAllowed => {
            "the RouteAdmissionPolicy allows no roots in the namespace".to_owned()
        }
        ClaimRefusal::PolicyInvalid => {
            "the RouteAdmissionPolicy is invalid: until it is corrected no \
                                        claim counts that its rules did not admit before"
                .to_owned()
        }
        ClaimRefusal::WildcardNotAllowed => {
            format!("the RouteAdmissionPolicy allows no wildcards such as {host}")
        }
        ClaimRefusal::NotAssumed => format!(
            "the controller watches some namespaces alone and does not know who claims {host} \
             elsewhere: name it in --assume-claims"
        ),
    }
}

/// The outcome of a route's reference to an InboundRoute as its parent.
pub(crate) fn child_acceptance(
    cx: &mut Context<'_>,
    object: &Object,
    parent: &ObjectKey,
) -> Acceptance {
    let key = &object.meta.key;
    let trees = trees(cx, object);
    let own = trees.iter().flat_map(|tree| tree.of(key));
    let own = own.filter(|node| node.chain.iter().rev().nth(1) == Some(parent));
    let own: Vec<&TreeNode> = own.collect();
    if own.iter().any(|node| node.has_path()) {
        let denying = match &object.body {
            Body::Valid(Resource::Route(route)) => route.denies_because(),
            Body::Valid(_) | Body::Invalid(_) => None,
        };
        return denying.map_or(Ok(String::new()), |reason| Err((Reason::UnsupportedValue, reason)));
    }
    let naming = trees.iter().flat_map(|tree| tree.naming(key));
    let mut naming = naming.filter(|node| node.object() == Some(parent));
    // A route that consented learns what else is wrong with it.
    let fault = naming.find_map(|node| {
        let consents = node.hosts.iter().any(|host| consents_to(object, parent, host));
        refusals(node, key).next().filter(|_| consents)
    });
    Err(match fault {
        Some(fault) => {
            let why = words_for_child(key, parent, fault);
            (fault.reason, format!("{parent} delegates to it, which is refused: {why}"))
        }
        None if !own.is_empty() => {
            let message = format!("another object has the path that {parent} delegates to it");
            (Reason::NotAllowedByListeners, message)
        }
        None => {
            let message = format!("{parent} does not delegate to it: it takes no effect there");
            (Reason::NotAllowedByListeners, message)
        }
    })
}

/// A refusal for the object that is refused, which consented. It exists, so that across namespaces the grant
/// alone is missing: the delegator must not be told that, its own namespace may.
pub(super) fn words_for_child(
    child: &ObjectKey,
    parent: &ObjectKey,
    fault: &EdgeFault,
) -> Arc<str> {
    if fault.reason != Reason::RefNotPermitted || child.namespace == parent.namespace {
        return fault.message.clone();
    }
    let (own, from) = (&child.namespace, &parent.namespace);
    let kind = child.kind.as_str();
    format!(
        "no ReferenceGrant of namespace `{own}` lets InboundRoutes of namespace `{from}` refer to this \
         {kind}"
    )
    .into()
}

/// The faults for which an object takes no part in what a rule delegates.
pub(super) fn refusals<'n>(
    node: &'n TreeNode,
    child: &'n ObjectKey,
) -> impl Iterator<Item = &'n EdgeFault> {
    let own = node.faults().iter().filter(move |fault| fault.child.as_ref() == Some(child));
    own.filter(|fault| fault.hosts.is_empty())
}
