//! The claims on hosts. They are decided by the time of the claim, not by the age of the object,
//! because an old object can claim another host at any time.

use crate::config::ControllerConfig;
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::delegation::{
    AdmissionRules, ClaimOrder, ClaimRefusal, ClaimState, ClaimsOn, HostClaim, HostClaims,
};
use policy_core::HostPattern;
use policy_crds::resource::{InboundRoute, NamespaceOwnership, PathPrefix, RouteAdmission};
use policy_crds::{Body, Object, ObjectKey, ObjectMeta, Resource};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

query!(ClaimsOn, Arc<HostClaims>, claims_on);

/// The claims on a host and all that overlap with it, decided in the order of time. Each decision
/// depends on earlier claims alone.
fn claims_on(query: &ClaimsOn, cx: &mut Context<'_>) -> Arc<HostClaims> {
    let rules = cx.query(&AdmissionRules);
    let mut claims = Vec::new();
    for (root, hosts) in roots_on(cx, &query.0, rules.wildcards) {
        let Some(object) = cx.object(root) else { continue };
        let Some(route) = valid(object) else { continue };
        for host in hosts {
            for path in route.routes.iter().map(|rule| &rule.path) {
                claims.push(claim(cx.config, &object.meta, &host, path, &rules));
            }
        }
    }
    claims.sort_by(|a, b| (&a.order, &a.host, &a.path).cmp(&(&b.order, &b.host, &b.path)));
    let strict = rules.ownership == NamespaceOwnership::Strict;
    decide(&mut claims, strict);
    Arc::new(HostClaims { claims, strict })
}

/// The content of a valid InboundRoute.
pub(super) fn valid(object: &Object) -> Option<&InboundRoute> {
    match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => Some(route),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The roots that claim a host or one that overlaps with it, each with those hosts. Hosts overlap
/// through wildcards: all below the widest one that is claimed belong together.
fn roots_on<'a>(
    cx: &mut Context<'a>,
    host: &HostPattern,
    wildcards: bool,
) -> Vec<(&'a ObjectKey, Vec<HostPattern>)> {
    let widest = if wildcards { widest_wildcard(cx, host) } else { None };
    let mut roots: BTreeSet<&'a ObjectKey> = BTreeSet::new();
    roots.extend(cx.edge(Edge::Host(host.clone())));
    if let Some(above) = &widest {
        roots.extend(cx.edge(Edge::Host(HostPattern::Suffix(above.clone()))));
        roots.extend(cx.edge(Edge::HostBelow(above.clone())));
    }
    let belongs = |own: &HostPattern| {
        own == host
            || widest.as_ref().is_some_and(|above| {
                let wildcard = HostPattern::Suffix(above.clone());
                *own == wildcard || wildcard.overlaps(own)
            })
    };
    let mut found = Vec::new();
    for root in roots {
        let Some(object) = cx.object(root) else { continue };
        let own = valid(object).and_then(|route| route.virtual_host.as_ref());
        let hosts = own.map(|own| own.hosts.iter().filter(|own| belongs(own)).cloned().collect());
        found.extend(hosts.map(|hosts: Vec<HostPattern>| (root, hosts)));
    }
    found
}

/// The widest wildcard that covers a host and that some root claims.
fn widest_wildcard(cx: &mut Context<'_>, host: &HostPattern) -> Option<Arc<str>> {
    let mut widest = None;
    let own = match host {
        HostPattern::Suffix(suffix) => Some(suffix.clone()),
        HostPattern::Exact(_) => None,
    };
    let above = host.names_above().map(Arc::<str>::from);
    for suffix in own.into_iter().chain(above) {
        if !cx.edge(Edge::Host(HostPattern::Suffix(suffix.clone()))).is_empty() {
            widest = Some(suffix);
        }
    }
    widest
}

/// A claim before others are looked at.
fn claim(
    config: &ControllerConfig,
    meta: &ObjectMeta,
    host: &HostPattern,
    path: &PathPrefix,
    rules: &RouteAdmission,
) -> HostClaim {
    let allowed = &rules.root_namespaces;
    let state = if !allowed.is_empty() && !allowed.contains(&meta.key.namespace) {
        ClaimState::Inactive(ClaimRefusal::NamespaceNotAllowed)
    } else if matches!(host, HostPattern::Suffix(_)) && !rules.wildcards {
        ClaimState::Inactive(ClaimRefusal::WildcardNotAllowed)
    } else if config.assumed_claims.as_ref().is_some_and(|assumed| !assumed.contains(host)) {
        ClaimState::Inactive(ClaimRefusal::NotAssumed)
    } else {
        ClaimState::Active { shared: false }
    };
    let time = time_of(meta, host, path, rules);
    let order = ClaimOrder {
        timeless: time.is_none(),
        time: time.unwrap_or_default(),
        namespace: meta.key.namespace.clone(),
        name: meta.key.name.clone(),
    };
    HostClaim { root: meta.key.clone(), host: host.clone(), path: path.clone(), order, state }
}

/// The time of a claim: the one that the status records; otherwise that of the object's creation,
/// if the object was never edited since. The claim of an edited object waits until it is recorded,
/// so that a lost status can postpone a claim and never advance it.
fn time_of(
    meta: &ObjectMeta,
    host: &HostPattern,
    path: &PathPrefix,
    rules: &RouteAdmission,
) -> Option<i64> {
    let recorded = meta.recorded.as_ref();
    // Who holds a host as a whole does not lose it by another path.
    let strict = rules.ownership == NamespaceOwnership::Strict;
    let recorded = recorded.and_then(|recorded| {
        let of_host = recorded.claims.iter().filter(|((own, _), _)| strict && own == host);
        recorded.claimed_at(host, path).or(of_host.map(|(_, time)| *time).min())
    });
    // Nothing is claimed before the object exists.
    let valid = recorded.filter(|time| meta.created.is_none_or(|created| *time >= created));
    let unedited = meta.generation.is_none_or(|generation| generation == 1);
    valid.or(meta.created.filter(|_| unedited))
}

/// Decides claims that are in order.
fn decide(claims: &mut [HostClaim], strict: bool) {
    let mut refused: Vec<(usize, ObjectKey)> = Vec::new();
    // The first active claim on each host, and on each path of it.
    let mut owners: BTreeMap<&HostPattern, &HostClaim> = BTreeMap::new();
    let mut holders: Holders<'_> = HashMap::new();
    for (at, claim) in claims.iter().enumerate().filter(|(_, claim)| claim.is_active()) {
        let owner = if strict { foreign_owner(&owners, claim) } else { None };
        let held = holders.entry(&claim.host).or_default();
        let earlier = held.get(claim.path.as_str()).copied();
        let earlier = || earlier.filter(|other| other.root != claim.root);
        if let Some(earlier) = owner.or_else(earlier) {
            refused.push((at, earlier.root.clone()));
        } else {
            owners.entry(&claim.host).or_insert(claim);
            held.entry(claim.path.as_str()).or_insert(claim);
        }
    }
    let refused_places: BTreeSet<usize> = refused.iter().map(|(at, _)| *at).collect();
    let shared = if strict { Vec::new() } else { shared(claims, &refused_places, &holders) };
    for (at, holder) in refused {
        if let Some(claim) = claims.get_mut(at) {
            claim.state = ClaimState::Inactive(ClaimRefusal::AlreadyClaimed(holder));
        }
    }
    for at in shared {
        if let Some(claim) = claims.get_mut(at) {
            claim.state = ClaimState::Active { shared: true };
        }
    }
}

/// The first active claim on each path of each host.
type Holders<'a> = HashMap<&'a HostPattern, HashMap<&'a str, &'a HostClaim>>;

/// The owner of a host that overlaps with that of a claim, in another namespace.
fn foreign_owner<'a>(
    owners: &BTreeMap<&HostPattern, &'a HostClaim>,
    claim: &HostClaim,
) -> Option<&'a HostClaim> {
    let foreign = |owner: &&HostClaim| owner.root.namespace != claim.root.namespace;
    let exact = owners.get(&claim.host).copied();
    if let Some(owner) = exact.filter(foreign) {
        return Some(owner);
    }
    let covering =
        covering(&claim.host).find_map(|host| owners.get(&host).copied().filter(foreign));
    if covering.is_some() || matches!(claim.host, HostPattern::Exact(_)) {
        return covering;
    }
    owners.values().copied().find(|owner| foreign(owner) && owner.host.overlaps(&claim.host))
}

/// The wildcards that cover a host.
fn covering(host: &HostPattern) -> impl Iterator<Item = HostPattern> {
    host.names_above().map(|suffix| HostPattern::Suffix(suffix.into()))
}

/// The active claims that hold a path above or below one that another namespace holds.
fn shared(claims: &[HostClaim], refused: &BTreeSet<usize>, holders: &Holders<'_>) -> Vec<usize> {
    let mut touching: HashSet<(&HostPattern, &str)> = HashSet::new();
    let active = || {
        claims.iter().enumerate().filter(|(at, claim)| claim.is_active() && !refused.contains(at))
    };
    for (_, claim) in active() {
        let own = std::iter::once(claim.host.clone());
        for host in own.chain(covering(&claim.host)) {
            for path in claim.path.and_above() {
                let other = holders.get(&host).and_then(|held| held.get(path).copied());
                let elsewhere = |other: &&HostClaim| other.root.namespace != claim.root.namespace;
                if let Some(other) = other.filter(elsewhere) {
                    touching.insert((&other.host, other.path.as_str()));
                    touching.insert((&claim.host, claim.path.as_str()));
                }
            }
        }
    }
    let touches = |claim: &HostClaim| touching.contains(&(&claim.host, claim.path.as_str()));
    active().filter(|(_, claim)| touches(claim)).map(|(at, _)| at).collect()
}

/// True if every name of `host` has the pattern `wide`.
pub(super) fn covers(wide: &HostPattern, host: &HostPattern) -> bool {
    wide == host || (matches!(wide, HostPattern::Suffix(_)) && wide.admits(host.name()))
}
