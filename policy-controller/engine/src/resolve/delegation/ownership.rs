//! The decision of claims, each by earlier ones alone.
//!
//! A host is decided by its own claims and by the owners of hosts that overlap with it, so that a
//! claim costs what it touches: not every host below a wildcard.

use super::claims::is_strict;
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::claims::{
    ClaimGroup, ClaimOrder, ClaimRefusal, ClaimState, HostClaim, HostClaims, PathClaim,
};
use crate::query::delegation::{
    ActiveClaims, AdmissionRules, ClaimedWildcard, ClaimsOn, DecidedClaims, HoldersOf, HostOwner,
    OwnedBelow, OwnerTable, OwnersAround, OwnersUnder, RootClaims, RootsUnder,
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
query!(ActiveClaims, Arc<[Arc<ClaimGroup>]>, active_claims);
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
        claims.iter().any(|group| group.host == host && group.has_active())
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
fn claims_under(cx: &mut Context<'_>, suffix: &Arc<str>) -> Vec<Arc<[Arc<ClaimGroup>]>> {
    let mut roots: BTreeSet<_> = cx.edge(Edge::HostBelow(suffix.clone())).into_iter().collect();
    roots.extend(cx.edge(Edge::Host(wildcard(suffix))));
    roots.into_iter().map(|root| cx.query(&RootClaims(root.clone()))).collect()
}

/// The owners of hosts under a wildcard if ownership is strict: of each host the namespace of the
/// first claim that no earlier owner refuses. Further claims of a namespace change no owner.
fn owners_under(query: &OwnersUnder, cx: &mut Context<'_>) -> Arc<OwnerTable> {
    let all = claims_under(cx, &query.0);
    let wide = wildcard(&query.0);
    let covered = all.iter().flat_map(|groups| groups.iter());
    let covered = covered.filter(|group| wide.covers(&group.host));
    let mut firsts: Vec<HostClaim<'_>> =
        covered.filter_map(|group| group.active().min_by(HostClaim::in_order)).collect();
    firsts.sort_by(HostClaim::in_order);
    let mut owned: HashSet<&HostPattern> = HashSet::new();
    let mut owners = OwnerTable::default();
    for claim in firsts {
        if owned.contains(claim.host) {
            continue;
        }
        let foreign = |owner: &HostOwner| owner.is_foreign(&claim.root.namespace);
        let covered = claim.host.names_above().filter_map(|above| owners.wildcards.get(above));
        let below = match claim.host {
            HostPattern::Suffix(name) => owners.below.get(name),
            HostPattern::Exact(_) => None,
        };
        if covered.chain(below.into_iter().flatten()).any(foreign) {
            continue;
        }
        owned.insert(claim.host);
        let owner =
            HostOwner { root: claim.root.clone(), host: claim.host.clone(), order: claim.order() };
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
        if let HostPattern::Suffix(name) = claim.host {
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
    let mut groups: Vec<Arc<ClaimGroup>> = Vec::new();
    for root in cx.edge(Edge::Host(host.clone())) {
        let own = cx.query(&RootClaims(root.clone()));
        groups.extend(own.iter().filter(|group| group.host == *host).cloned());
    }
    let around = if strict { cx.query(&OwnersAround(host.clone())) } else { Arc::default() };
    decide(&mut groups, strict, &around);
    Arc::new(HostClaims { groups, strict })
}

/// The refusals of the claims of a group, each with the place of the claim.
type Refusals = Vec<(usize, Arc<ClaimRefusal>)>;

/// Decides the claims on one host.
fn decide(groups: &mut [Arc<ClaimGroup>], strict: bool, around: &[HostOwner]) {
    for (group, refused) in groups_refused(groups, strict, around) {
        if let Some(group) = groups.get_mut(group) {
            let mut refused = refused.into_iter().peekable();
            let claims = group.claims.iter().enumerate().map(|(at, claim)| {
                match refused.next_if(|(refused, _)| *refused == at) {
                    Some((_, refusal)) => {
                        PathClaim { state: ClaimState::Inactive(refusal), ..claim.clone() }
                    }
                    None => claim.clone(),
                }
            });
            *group = Arc::new(group.with(claims.collect()));
        }
    }
}

/// The claims on one host that are lost, by the place of their group.
fn groups_refused(
    groups: &[Arc<ClaimGroup>],
    strict: bool,
    around: &[HostOwner],
) -> HashMap<usize, Refusals> {
    let places = groups.iter().enumerate();
    let mut claims: Vec<(HostClaim<'_>, (usize, usize))> = places
        .flat_map(|(n, group)| group.iter().enumerate().map(move |(at, claim)| (claim, (n, at))))
        .filter(|(claim, _)| claim.is_active())
        .collect();
    claims.sort_by(|(one, _), (other, _)| one.in_order(other));
    let mut refused: HashMap<usize, Refusals> = HashMap::new();
    let mut owner: Option<HostClaim<'_>> = None;
    let mut holders: HashMap<&str, HostClaim<'_>> = HashMap::new();
    for (claim, (group, at)) in claims {
        let namespace = &claim.root.namespace;
        let own = owner.filter(|owner| strict && owner.root.namespace != *namespace);
        let foreign =
            |other: &&HostOwner| other.is_foreign(namespace) && claim.is_after(&other.order);
        let claimed = |other: HostClaim<'_>| ClaimRefusal::AlreadyClaimed(other.root.clone());
        let overlaps =
            |other: &HostOwner| ClaimRefusal::Overlaps(other.root.clone(), other.host.clone());
        let elsewhere = || around.iter().find(foreign).map(overlaps);
        let earlier = holders.get(claim.path.as_str()).filter(|other| other.root != claim.root);
        let earlier = || earlier.map(|other| claimed(*other));
        match own.map(claimed).or_else(elsewhere).or_else(earlier) {
            Some(refusal) => {
                let refused = refused.entry(group).or_default();
                // Mostly all claims of a group are refused for one.
                let same = refused.last().map(|(_, last)| last).filter(|last| ***last == refusal);
                let refusal = same.cloned().unwrap_or_else(|| Arc::new(refusal));
                refused.push((at, refusal));
            }
            None => {
                owner = owner.or(Some(claim));
                holders.entry(claim.path.as_str()).or_insert(claim);
            }
        }
    }
    refused.values_mut().for_each(|refused| refused.sort_by_key(|(at, _)| *at));
    refused
}

/// The groups without claims that are lost. Mostly none is.
fn active_claims(query: &ActiveClaims, cx: &mut Context<'_>) -> Arc<[Arc<ClaimGroup>]> {
    let decided = cx.query(&DecidedClaims(query.0.clone()));
    let active = |group: &Arc<ClaimGroup>| {
        if group.is_all_active() {
            return Some(group.clone());
        }
        let active = group.claims.iter().filter(|claim| claim.state.is_active());
        group.has_active().then(|| Arc::new(group.with(active.cloned().collect())))
    };
    decided.groups.iter().filter_map(active).collect()
}

/// The hosts below a wildcard that roots claim; none below a name.
fn claimed_below(cx: &mut Context<'_>, host: &HostPattern) -> BTreeSet<HostPattern> {
    let HostPattern::Suffix(name) = host else { return BTreeSet::new() };
    let claims = claims_under(cx, name);
    let claimed = claims.iter().flat_map(|groups| groups.iter()).map(|group| &group.host);
    claimed.filter(|other| *other != host && host.covers(other)).cloned().collect()
}

/// The active claims on each of these hosts.
fn active_on(
    cx: &mut Context<'_>,
    hosts: impl IntoIterator<Item = HostPattern>,
) -> Vec<Arc<[Arc<ClaimGroup>]>> {
    hosts.into_iter().map(|host| cx.query(&ActiveClaims(host))).collect()
}

/// The active claims on a host, on claimed wildcards above it, and on hosts below it.
pub(super) fn active_around(
    cx: &mut Context<'_>,
    host: &HostPattern,
) -> Vec<Arc<[Arc<ClaimGroup>]>> {
    let (above, below) = (wildcards_above(cx, host), claimed_below(cx, host));
    active_on(cx, above.into_iter().chain([host.clone()]).chain(below))
}

fn claims_on(query: &ClaimsOn, cx: &mut Context<'_>) -> Arc<HostClaims> {
    let decided = cx.query(&DecidedClaims(query.0.clone()));
    if decided.groups.is_empty() {
        return decided;
    }
    if decided.strict {
        return beside_routes(cx, &query.0, decided);
    }
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
    for claim in each(&above).chain(each(&own)) {
        holding.add(claim.path.as_str(), &claim.root.namespace);
    }
    for claim in each(&below).chain(each(&own)) {
        claim.path.and_above().for_each(|path| inside.add(path, &claim.root.namespace));
    }
    let is_shared = |claim: HostClaim<'_>| {
        let namespace = &claim.root.namespace;
        claim.path.and_above().any(|path| holding.has_other(path, namespace))
            || inside.has_other(claim.path.as_str(), namespace)
    };
    let groups = marked(&decided.groups, true, is_shared);
    Arc::new(HostClaims { groups, strict: false })
}

/// The claims of several answers, each in force.
fn each(all: &[Arc<[Arc<ClaimGroup>]>]) -> impl Iterator<Item = HostClaim<'_>> {
    all.iter().flat_map(|groups| groups.iter()).flat_map(|group| group.iter())
}

/// The groups with a mark on those of their claims in force that are so: that they are `shared`, or else that
/// routes of other namespaces had their hosts before.
fn marked(
    groups: &[Arc<ClaimGroup>],
    shared: bool,
    is: impl Fn(HostClaim<'_>) -> bool,
) -> Vec<Arc<ClaimGroup>> {
    let mark = |group: &Arc<ClaimGroup>| {
        if !group.active().any(&is) {
            return group.clone();
        }
        let claims = group.iter().zip(group.claims.iter()).map(|(claim, own)| {
            match claim.is_active() && is(claim) {
                true => {
                    let state = ClaimState::Active { shared, attached: !shared };
                    PathClaim { state, ..own.clone() }
                }
                false => own.clone(),
            }
        });
        Arc::new(group.with(claims.collect()))
    };
    groups.iter().map(mark).collect()
}

/// Marks the claims on a host that routes of other namespaces had before. Where paths are shared a claim takes
/// no hostname of a route.
fn beside_routes(
    cx: &mut Context<'_>,
    host: &HostPattern,
    decided: Arc<HostClaims>,
) -> Arc<HostClaims> {
    let attached = cx.query(&AttachedTo(host.clone()));
    let keeps = |claim: HostClaim<'_>| {
        let mut others = attached.iter().filter(|one| one.namespace != claim.root.namespace);
        others.any(|one| claim.time.is_none_or(|time| time > one.since))
    };
    if attached.is_empty() || !decided.groups.iter().any(|group| group.active().any(keeps)) {
        return decided;
    }
    Arc::new(HostClaims { groups: marked(&decided.groups, false, keeps), strict: decided.strict })
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
    let own = own.iter().filter(|group| *group.root.namespace != *namespace);
    let mut found: Vec<ClaimOrder> =
        own.flat_map(|group| group.iter()).map(|claim| claim.order()).collect();
    let around = cx.query(&OwnersAround(host.clone()));
    let covering = around.iter().filter(|owner| owner.host.covers(host));
    found.extend(covering.filter(|one| one.is_foreign(namespace)).map(|one| one.order.clone()));
    found
}

/// True if another namespace owns a host, or a host that overlaps with it.
pub(super) fn is_foreign(cx: &mut Context<'_>, host: &HostPattern, namespace: &str) -> bool {
    let own = cx.query(&ClaimsOn(host.clone()));
    let elsewhere =
        |group: &Arc<ClaimGroup>| *group.root.namespace != *namespace && group.has_active();
    let is_owned_below = |cx: &mut Context<'_>| match host {
        HostPattern::Suffix(suffix) => {
            let (suffix, namespace) = (suffix.clone(), namespace.into());
            cx.query(&OwnedBelow { suffix, namespace })
        }
        HostPattern::Exact(_) => false,
    };
    own.strict
        && (own.groups.iter().any(elsewhere)
            || cx
                .query(&OwnersAround(host.clone()))
                .iter()
                .any(|owner| owner.is_foreign(namespace))
            || is_owned_below(cx))
}
