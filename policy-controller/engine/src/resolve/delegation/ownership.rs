//! The decision of claims, each by earlier ones alone.
//!
//! A host is decided by its own claims and by the owners of hosts that overlap with it, so that a
//! claim costs what it touches: not every host below a wildcard.

use super::claims::{in_order, is_strict};
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::delegation::{
    ActiveClaims, AdmissionRules, ClaimOrder, ClaimRefusal, ClaimState, ClaimedWildcard, ClaimsOn,
    DecidedClaims, HoldersOf, HostClaim, HostClaims, HostOwner, OwnedBelow, OwnerTable,
    OwnersAround, OwnersUnder, RootClaims, RootsUnder,
};
use crate::query::hostnames::AttachedTo;
use policy_core::HostPattern;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

query!(ClaimedWildcard, bool, is_claimed);
query!(OwnersUnder, Arc<OwnerTable>, owners_under);
query!(OwnedBelow, bool, is_owned_below);
query!(OwnersAround, Arc<[HostOwner]>, owners_around);
query!(DecidedClaims, Arc<HostClaims>, decided);
query!(ActiveClaims, Arc<[Arc<HostClaim>]>, active_claims);
query!(ClaimsOn, Arc<HostClaims>, claims_on);

fn wildcard(suffix: &Arc<str>) -> HostPattern {
    HostPattern::Suffix(suffix.clone())
}

/// True if a root claims the wildcard that may. Others are not looked at any further, so that they
/// cost nobody else anything.
fn is_claimed(query: &ClaimedWildcard, cx: &mut Context<'_>) -> bool {
    let host = wildcard(&query.0);
    let roots = cx.edge(Edge::Host(host.clone()));
    roots.into_iter().any(|root| {
        let claims = cx.query(&RootClaims(root.clone()));
        claims.iter().any(|claim| claim.host == host && claim.is_active())
    })
}

/// The wildcards that cover a host, itself included, and that are claimed; the nearest first.
fn claimed_wildcards(cx: &mut Context<'_>, host: &HostPattern) -> Vec<Arc<str>> {
    if !cx.query(&AdmissionRules).wildcards {
        return Vec::new();
    }
    let own = matches!(host, HostPattern::Suffix(_)).then(|| host.name());
    let all = own.into_iter().chain(host.names_above()).map(Arc::<str>::from);
    all.filter(|suffix| cx.query(&ClaimedWildcard(suffix.clone()))).collect()
}

/// The claimed wildcards that cover a host and are another pattern, the nearest first.
pub(super) fn wildcards_above(cx: &mut Context<'_>, host: &HostPattern) -> Vec<HostPattern> {
    let all = claimed_wildcards(cx, host);
    all.iter().map(wildcard).filter(|above| above != host).collect()
}

/// The claims of all roots on a wildcard and on hosts below it.
fn claims_under(cx: &mut Context<'_>, suffix: &Arc<str>) -> Vec<Arc<[Arc<HostClaim>]>> {
    let mut roots: BTreeSet<_> = cx.edge(Edge::HostBelow(suffix.clone())).into_iter().collect();
    roots.extend(cx.edge(Edge::Host(wildcard(suffix))));
    roots.into_iter().map(|root| cx.query(&RootClaims(root.clone()))).collect()
}

/// The owners of hosts under a wildcard if ownership is strict: of each host the namespace of the
/// first claim that no earlier owner refuses. Further claims of a namespace change no owner.
fn owners_under(query: &OwnersUnder, cx: &mut Context<'_>) -> Arc<OwnerTable> {
    let all = claims_under(cx, &query.0);
    let wide = wildcard(&query.0);
    let mut firsts: Vec<&HostClaim> = Vec::new();
    for claims in &all {
        let mut seen: HashSet<&HostPattern> = HashSet::new();
        let own = claims.iter().map(|claim| &**claim);
        let own = own.filter(|claim| claim.is_active() && wide.covers(&claim.host));
        firsts.extend(own.filter(|claim| seen.insert(&claim.host)));
    }
    firsts.sort_by(|a, b| in_order(a, b));
    let mut owned: HashSet<&HostPattern> = HashSet::new();
    let mut owners = OwnerTable::default();
    for claim in firsts {
        if owned.contains(&claim.host) {
            continue;
        }
        let foreign = |owner: &HostOwner| owner.is_foreign(&claim.root.namespace);
        let covered = claim.host.names_above().filter_map(|above| owners.wildcards.get(above));
        let below = match &claim.host {
            HostPattern::Suffix(name) => owners.below.get(name),
            HostPattern::Exact(_) => None,
        };
        if covered.chain(below.into_iter().flatten()).any(foreign) {
            continue;
        }
        owned.insert(&claim.host);
        let owner = HostOwner {
            root: claim.root.clone(),
            host: claim.host.clone(),
            order: claim.order.clone(),
        };
        for above in claim.host.names_above() {
            let below = match owners.below.get_mut(above) {
                Some(below) => below,
                None => owners.below.entry(above.into()).or_default(),
            };
            // Of two namespaces one is foreign to any third.
            if below.len() < 2 && below.iter().all(|other| other.is_foreign(&owner.root.namespace))
            {
                below.push(owner.clone());
            }
        }
        if let HostPattern::Suffix(name) = &claim.host {
            owners.wildcards.insert(name.clone(), owner);
        }
    }
    Arc::new(owners)
}

/// The owners of other hosts that overlap with a host, if ownership is strict: of the wildcards that
/// cover it, the nearest first, and the first ones of two namespaces below it.
fn owners_around(query: &OwnersAround, cx: &mut Context<'_>) -> Arc<[HostOwner]> {
    let host = &query.0;
    let Some(widest) = claimed_wildcards(cx, host).pop() else { return Arc::default() };
    let owners = cx.query(&OwnersUnder(widest));
    let covering = host.names_above().filter_map(|above| owners.wildcards.get(above));
    let below = match host {
        HostPattern::Suffix(name) => owners.below.get(name),
        HostPattern::Exact(_) => None,
    };
    covering.chain(below.into_iter().flatten()).cloned().collect()
}

/// The claims on a host, decided; none is marked as shared yet.
fn decided(query: &DecidedClaims, cx: &mut Context<'_>) -> Arc<HostClaims> {
    let host = &query.0;
    let strict = is_strict(&cx.query(&AdmissionRules));
    let mut claims: Vec<Arc<HostClaim>> = Vec::new();
    for root in cx.edge(Edge::Host(host.clone())) {
        let own = cx.query(&RootClaims(root.clone()));
        claims.extend(own.iter().filter(|claim| claim.host == *host).cloned());
    }
    claims.sort_by(|a, b| in_order(a, b));
    let around = if strict { cx.query(&OwnersAround(host.clone())) } else { Arc::default() };
    decide(&mut claims, strict, &around);
    Arc::new(HostClaims { claims, strict })
}

/// Decides the claims on one host, which are in order.
fn decide(claims: &mut [Arc<HostClaim>], strict: bool, around: &[HostOwner]) {
    let mut refused = Vec::new();
    let mut owner: Option<&HostClaim> = None;
    let mut holders: HashMap<&str, &HostClaim> = HashMap::new();
    for (at, claim) in claims.iter().enumerate().filter(|(_, claim)| claim.is_active()) {
        let namespace = &claim.root.namespace;
        let own = owner.filter(|owner| strict && owner.root.namespace != *namespace);
        let foreign = |other: &&HostOwner| other.is_foreign(namespace) && other.order < claim.order;
        let claimed = |other: &HostClaim| ClaimRefusal::AlreadyClaimed(other.root.clone());
        let overlaps =
            |other: &HostOwner| ClaimRefusal::Overlaps(other.root.clone(), other.host.clone());
        let elsewhere = || around.iter().find(foreign).map(overlaps);
        let earlier = holders.get(claim.path.as_str()).filter(|other| other.root != claim.root);
        let earlier = || earlier.map(|other| claimed(other));
        match own.map(claimed).or_else(elsewhere).or_else(earlier) {
            Some(refusal) => refused.push((at, refusal)),
            None => {
                owner = owner.or(Some(claim));
                holders.entry(claim.path.as_str()).or_insert(claim);
            }
        }
    }
    for (at, refusal) in refused {
        if let Some(claim) = claims.get_mut(at) {
            Arc::make_mut(claim).state = ClaimState::Inactive(refusal);
        }
    }
}

fn active_claims(query: &ActiveClaims, cx: &mut Context<'_>) -> Arc<[Arc<HostClaim>]> {
    let decided = cx.query(&DecidedClaims(query.0.clone()));
    decided.claims.iter().filter(|claim| claim.is_active()).cloned().collect()
}

/// The hosts below a wildcard that roots claim; none below a name.
fn claimed_below(cx: &mut Context<'_>, host: &HostPattern) -> BTreeSet<HostPattern> {
    let HostPattern::Suffix(name) = host else { return BTreeSet::new() };
    let claims = claims_under(cx, name);
    let claimed = claims.iter().flat_map(|claims| claims.iter()).map(|claim| &claim.host);
    claimed.filter(|other| *other != host && host.covers(other)).cloned().collect()
}

/// The active claims on each of these hosts.
fn active_on(
    cx: &mut Context<'_>,
    hosts: impl IntoIterator<Item = HostPattern>,
) -> Vec<Arc<[Arc<HostClaim>]>> {
    hosts.into_iter().map(|host| cx.query(&ActiveClaims(host))).collect()
}

/// The active claims on a host, on claimed wildcards above it, and on hosts below it.
pub(super) fn active_around(
    cx: &mut Context<'_>,
    host: &HostPattern,
) -> Vec<Arc<[Arc<HostClaim>]>> {
    let (above, below) = (wildcards_above(cx, host), claimed_below(cx, host));
    active_on(cx, above.into_iter().chain([host.clone()]).chain(below))
}

fn claims_on(query: &ClaimsOn, cx: &mut Context<'_>) -> Arc<HostClaims> {
    let decided = cx.query(&DecidedClaims(query.0.clone()));
    if decided.claims.is_empty() {
        return decided;
    }
    if decided.strict {
        return beside_routes(cx, &query.0, decided);
    }
    let mut claims = decided.claims.clone();
    let own = active_on(cx, [query.0.clone()]);
    let wildcards = claimed_wildcards(cx, &query.0);
    let above = wildcards.iter().map(wildcard).filter(|above| *above != query.0);
    let above = active_on(cx, above.collect::<Vec<_>>());
    // Hosts overlap by a claimed wildcard alone.
    let below = match wildcards.is_empty() {
        true => BTreeSet::new(),
        false => claimed_below(cx, &query.0),
    };
    let below = active_on(cx, below);
    // The namespaces that hold each path, and those that hold a path in it.
    let (mut holding, mut inside) = (Namespaces::default(), Namespaces::default());
    for claim in above.iter().chain(&own).flat_map(|claims| claims.iter()) {
        holding.add(claim.path.as_str(), &claim.root.namespace);
    }
    for claim in below.iter().chain(&own).flat_map(|claims| claims.iter()) {
        claim.path.and_above().for_each(|path| inside.add(path, &claim.root.namespace));
    }
    for claim in claims.iter_mut().filter(|claim| claim.is_active()) {
        let namespace = &claim.root.namespace;
        let is_shared = claim.path.and_above().any(|path| holding.has_other(path, namespace))
            || inside.has_other(claim.path.as_str(), namespace);
        if is_shared {
            Arc::make_mut(claim).state = ClaimState::Active { shared: true, attached: false };
        }
    }
    Arc::new(HostClaims { claims, strict: false })
}

/// Marks the claims on a host that routes of other namespaces had before. Where paths are shared a claim takes
/// no hostname of a route.
fn beside_routes(
    cx: &mut Context<'_>,
    host: &HostPattern,
    decided: Arc<HostClaims>,
) -> Arc<HostClaims> {
    let attached = cx.query(&AttachedTo(host.clone()));
    let keeps = |claim: &HostClaim| {
        let mut others = attached.iter().filter(|one| one.namespace != claim.root.namespace);
        claim.is_active() && others.any(|one| !claim.order.is_not_after(Some(one.since)))
    };
    if !decided.claims.iter().any(|claim| keeps(claim)) {
        return decided;
    }
    let mut marked = HostClaims::clone(&decided);
    for claim in marked.claims.iter_mut().filter(|claim| keeps(claim)) {
        Arc::make_mut(claim).state = ClaimState::Active { shared: false, attached: true };
    }
    Arc::new(marked)
}

/// The namespaces of a path, of which two are kept: one of two is not the third.
#[derive(Default)]
struct Namespaces<'c>(HashMap<&'c str, (&'c str, Option<&'c str>)>);

impl<'c> Namespaces<'c> {
    fn add(&mut self, path: &'c str, namespace: &'c str) {
        let (first, second) = self.0.entry(path).or_insert((namespace, None));
        if *first != namespace && second.is_none() {
            *second = Some(namespace);
        }
    }

    fn has_other(&self, path: &str, namespace: &str) -> bool {
        self.0.get(path).is_some_and(|(first, second)| *first != namespace || second.is_some())
    }
}

/// True if a host below a name belongs to another namespace. One bit, so that the routes with a wildcard
/// neither learn of hosts nor depend on how many there are.
fn is_owned_below(query: &OwnedBelow, cx: &mut Context<'_>) -> bool {
    let under = cx.query(&RootsUnder(query.suffix.clone()));
    let mut foreign = under.iter().filter(|(root, _)| root.namespace != query.namespace);
    foreign.any(|(root, hosts)| {
        hosts.iter().any(|host| cx.query(&HoldersOf(host.clone())).contains(root))
    })
}

/// The claims by which other namespaces have a host as a whole: those on it, and on wildcards that cover it.
pub(super) fn owned_by_others(
    cx: &mut Context<'_>,
    host: &HostPattern,
    namespace: &str,
) -> Vec<ClaimOrder> {
    let own = cx.query(&ActiveClaims(host.clone()));
    let own = own.iter().filter(|claim| *claim.root.namespace != *namespace);
    let mut found: Vec<ClaimOrder> = own.map(|claim| claim.order.clone()).collect();
    let around = cx.query(&OwnersAround(host.clone()));
    let covering = around.iter().filter(|owner| owner.host.covers(host));
    found.extend(covering.filter(|one| one.is_foreign(namespace)).map(|one| one.order.clone()));
    found
}

/// True if another namespace owns a host, or a host that overlaps with it.
pub(super) fn is_foreign(cx: &mut Context<'_>, host: &HostPattern, namespace: &str) -> bool {
    let own = cx.query(&ClaimsOn(host.clone()));
    let elsewhere =
        |claim: &Arc<HostClaim>| claim.is_active() && *claim.root.namespace != *namespace;
    let is_owned_below = |cx: &mut Context<'_>| match host {
        HostPattern::Suffix(suffix) => {
            let (suffix, namespace) = (suffix.clone(), namespace.into());
            cx.query(&OwnedBelow { suffix, namespace })
        }
        HostPattern::Exact(_) => false,
    };
    own.strict
        && (own.claims.iter().any(elsewhere)
            || cx
                .query(&OwnersAround(host.clone()))
                .iter()
                .any(|owner| owner.is_foreign(namespace))
            || is_owned_below(cx))
}
