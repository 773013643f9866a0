//! The state of InboundRoutes and of the routes that are their children.

use super::child::inbound_parent;
use super::claims::valid;
use super::on_server::{covers, hosts_of};
use super::tree::is_child;
use crate::incremental::Context;
use crate::index::{Edge, parents};
use crate::query::condition::Reason;
use crate::query::delegation::{
    ClaimRefusal, ClaimState, ClaimsOn, DelegatedRoutes, DelegatedRoutesOf, DelegationTree,
    HostClaim, NodeEffect, TreeNode, TreeOf,
};
use crate::query::grant::RefFault;
use policy_core::HostPattern;
use policy_crds::resource::InboundRoute;
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The outcome of `Accepted` for an InboundRoute: accepted with a remark, or refused.
pub(crate) type Acceptance = Result<String, (Reason, String)>;

/// The roots of the hosts of an object.
fn roots<'a>(cx: &mut Context<'a>, object: &Object) -> BTreeSet<&'a ObjectKey> {
    let mut roots = BTreeSet::new();
    for host in hosts_of(object) {
        if let HostPattern::Suffix(_) = host {
            for root in cx.edge(Edge::HostBelow(host.name().into())) {
                let own = cx.object(root).and_then(|root| valid(root)?.virtual_host.as_ref());
                let overlaps = |own: &HostPattern| own.overlaps(&host);
                if own.is_some_and(|own| own.hosts.iter().any(overlaps)) {
                    roots.insert(root);
                }
            }
        }
        roots.extend(cx.edge(Edge::Host(host)));
    }
    roots
}

/// The trees that may have rules of an object.
pub(super) fn trees(cx: &mut Context<'_>, object: &Object) -> Vec<Arc<DelegationTree>> {
    if valid(object).is_some_and(|route| route.virtual_host.is_some()) {
        return vec![cx.query(&TreeOf(object.meta.key.clone()))];
    }
    let roots = roots(cx, object);
    roots.into_iter().map(|root| cx.query(&TreeOf(root.clone()))).collect()
}

/// The rules of an object in these trees.
fn own<'t>(
    trees: &'t [Arc<DelegationTree>],
    key: &'t ObjectKey,
) -> impl Iterator<Item = &'t TreeNode> {
    trees.iter().flat_map(|tree| &tree.nodes).filter(move |node| node.object() == Some(key))
}

/// The Servers that answer for an object in trees.
pub(crate) fn served_by(cx: &mut Context<'_>, object: &Object) -> BTreeSet<ObjectKey> {
    // Most routes are no children, and there may be many.
    if object.meta.key.kind.is_route() && !is_child(parents(object), &object.meta.key) {
        return BTreeSet::new();
    }
    let trees = trees(cx, object);
    own(&trees, &object.meta.key).flat_map(TreeNode::servers).cloned().collect()
}

/// The hosts of a route, in its order, that another namespace owns, or on which the trees of a Server
/// decide alone.
pub(crate) fn lost_hosts(
    cx: &mut Context<'_>,
    hosts: &[HostPattern],
    server: &ObjectKey,
    namespace: &str,
) -> Vec<HostPattern> {
    if hosts.is_empty() {
        return Vec::new();
    }
    let trees = cx.query(&DelegatedRoutesOf(server.clone()));
    let mut lost = Vec::new();
    for host in hosts {
        if is_decided(&trees, host) || cx.query(&ClaimsOn(host.clone())).is_foreign(host, namespace)
        {
            lost.push(host.clone());
        }
    }
    lost
}

/// True if the trees of a Server alone decide about a host.
pub(crate) fn is_decided(trees: &DelegatedRoutes, host: &HostPattern) -> bool {
    trees.hosts.iter().any(|decided| covers(decided, host))
}

/// If an InboundRoute takes effect: a root by its claims, a vertex by the trees that it is part of.
pub(crate) fn acceptance(
    cx: &mut Context<'_>,
    object: &Object,
    route: &InboundRoute,
) -> Acceptance {
    let key = &object.meta.key;
    let Some(root) = &route.virtual_host else {
        let trees = trees(cx, object);
        let connected = own(&trees, key).any(TreeNode::has_path);
        let orphaned = "no root delegates to it at present: it takes no effect";
        return Ok(if connected { String::new() } else { orphaned.to_owned() });
    };
    let mut lost = Vec::new();
    let mut active = 0_usize;
    for host in &root.hosts {
        let claims = cx.query(&ClaimsOn(host.clone()));
        let own = |claim: &&HostClaim| claim.root == *key && claim.host == *host;
        for claim in claims.claims.iter().filter(own) {
            match &claim.state {
                ClaimState::Active { .. } => active = active.saturating_add(1),
                ClaimState::Inactive(refusal) => {
                    lost.push((reason_of(refusal), words_of(claim, refusal)));
                }
            }
        }
    }
    let words: BTreeSet<&str> = lost.iter().map(|(_, message)| &**message).collect();
    let words = words.into_iter().collect::<Vec<_>>().join("; ");
    match lost.first() {
        Some((reason, _)) if active == 0 => Err((*reason, words)),
        Some(_) | None => Ok(words),
    }
}

pub(super) fn reason_of(refusal: &ClaimRefusal) -> Reason {
    match refusal {
        ClaimRefusal::AlreadyClaimed(_) => Reason::HostAlreadyClaimed,
        ClaimRefusal::NamespaceNotAllowed => Reason::RootNotAllowedInNamespace,
        ClaimRefusal::WildcardNotAllowed => Reason::WildcardNotAllowed,
        ClaimRefusal::NotAssumed => Reason::HostNotAssumed,
    }
}

/// The loss of a claim in words. Of another namespace no object is named.
pub(super) fn words_of(claim: &HostClaim, refusal: &ClaimRefusal) -> String {
    let host = &claim.host;
    match refusal {
        ClaimRefusal::AlreadyClaimed(holder) if holder.namespace == claim.root.namespace => {
            let path = claim.path.as_str();
            format!("{holder} holds {host} {path} and claimed it earlier")
        }
        ClaimRefusal::AlreadyClaimed(_) => {
            format!("a root in another namespace holds {host} and claimed it earlier")
        }
        ClaimRefusal::NamespaceNotAllowed => {
            "the RouteAdmissionPolicy allows no roots in the namespace".to_owned()
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

/// The delegations of an InboundRoute that are refused.
pub(crate) fn refused(cx: &mut Context<'_>, object: &Object) -> Vec<RefFault> {
    let trees = trees(cx, object);
    let mut faults: Vec<RefFault> = Vec::new();
    for node in own(&trees, &object.meta.key) {
        let (words, refused) = match &node.effect {
            NodeEffect::Denied(refused) => ("is denied", refused),
            NodeEffect::Delegates { refused, .. } => ("goes to fewer objects", refused),
            NodeEffect::Serves { .. }
            | NodeEffect::Route { .. }
            | NodeEffect::Shadowed
            | NodeEffect::Inactive => continue,
        };
        for fault in refused {
            let message = format!("`{}` {words}: {}", node.path.as_str(), fault.message).into();
            let fault = RefFault { reason: fault.reason, message };
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    faults
}

/// The outcome of a route's reference to an InboundRoute as its parent.
pub(crate) fn child_acceptance(
    cx: &mut Context<'_>,
    object: &Object,
    parent: &ObjectKey,
) -> Acceptance {
    let trees = trees(cx, object);
    let connected = own(&trees, &object.meta.key).any(|node| {
        let delegator = node.chain.iter().rev().nth(1);
        delegator == Some(parent) && node.has_path()
    });
    if connected {
        let denying = match &object.body {
            Body::Valid(Resource::Route(route)) => route.denies_because(),
            Body::Valid(_) | Body::Invalid(_) => None,
        };
        return denying.map_or(Ok(String::new()), |reason| Err((Reason::UnsupportedValue, reason)));
    }
    // A route that consented learns what else is wrong with it.
    let faults = own(&trees, parent).flat_map(TreeNode::faults);
    let mut faults = faults.filter(|fault| fault.child.as_ref() == Some(&object.meta.key));
    let message = match faults.find(|fault| fault.reason != Reason::RefNotPermitted) {
        Some(fault) => format!("{parent} does not delegate to it: {}", fault.message),
        None => format!("{parent} does not delegate to it: it takes no effect there"),
    };
    Err((Reason::NotAllowedByListeners, message))
}

/// The InboundRoutes among the parents of a route.
pub(crate) fn inbound_parents(object: &Object) -> Vec<ObjectKey> {
    let own = parents(object).iter();
    own.filter_map(|parent| inbound_parent(parent, &object.meta.key)).collect()
}
