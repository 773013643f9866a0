//! The claims on hosts, and their order ([`super::ownership`] decides them). They are decided by the
//! time of the claim, not by the age of the object, because an old object can claim another host at
//! any time.

use super::service_names;
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::claims::{ClaimGroup, ClaimRefusal, ClaimState, HostClaims, PathClaim};
use crate::query::delegation::{AdmissionRules, ClaimsOn, OverlappingClaims, RootClaims};
use policy_core::HostPattern;
use policy_crds::resource::{
    InboundRoute, NamespaceOwnership, PathPrefix, Recorded, RouteAdmission,
};
use policy_crds::{Body, Object, ObjectKey, ObjectMeta, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

query!(RootClaims, Arc<[Arc<ClaimGroup>]>, root_claims);
query!(OverlappingClaims, Arc<HostClaims>, overlapping);

/// The claims of a root before others are looked at, in the order of its hosts.
fn root_claims(query: &RootClaims, cx: &mut Context<'_>) -> Arc<[Arc<ClaimGroup>]> {
    let rules = cx.query(&AdmissionRules);
    let Some(object) = cx.object(&query.0) else { return Arc::default() };
    let mut groups = Groups::default();
    if let Some(route) = valid(object) {
        let paths: BTreeSet<&PathPrefix> = route.routes.iter().map(|rule| &rule.path).collect();
        for host in route.virtual_host.iter().flat_map(|own| &own.hosts) {
            let claims = of_host(cx, &object.meta, (host, &paths), &rules);
            groups.add(&query.0, host, claims);
        }
        return groups.0.into();
    }
    // The claims that an invalid root keeps, with the times that its status records. One that the rules
    // do not admit has no time any more, and is gone.
    let mut kept: BTreeMap<&HostPattern, BTreeSet<&PathPrefix>> = BTreeMap::new();
    for (host, path) in object.kept_claims() {
        kept.entry(host).or_default().insert(path);
    }
    for (host, paths) in &kept {
        let mut claims = of_host(cx, &object.meta, (host, paths), &rules);
        claims.retain(|claim| claim.state.is_active());
        if !claims.is_empty() {
            groups.add(&query.0, host, claims);
        }
    }
    groups.0.into()
}

/// The groups of a root. Those with the same claims share a list.
#[derive(Default)]
struct Groups(Vec<Arc<ClaimGroup>>);

impl Groups {
    fn add(&mut self, root: &ObjectKey, host: &HostPattern, claims: Vec<PathClaim>) {
        let equal = self.0.iter().find(|group| *group.claims == *claims);
        let claims = equal.map_or_else(|| claims.into(), |equal| equal.claims.clone());
        self.0.push(Arc::new(ClaimGroup { root: root.clone(), host: host.clone(), claims }));
    }
}

/// The claims on a host and on all hosts of its family.
fn overlapping(query: &OverlappingClaims, cx: &mut Context<'_>) -> Arc<HostClaims> {
    let rules = cx.query(&AdmissionRules);
    let roots = roots_on(cx, &query.0, rules.wildcards);
    let hosts: BTreeSet<HostPattern> = roots.into_iter().flat_map(|(_, hosts)| hosts).collect();
    let mut groups = Vec::new();
    for host in hosts {
        groups.extend(cx.query(&ClaimsOn(host)).groups.iter().cloned());
    }
    Arc::new(HostClaims { groups, strict: is_strict(&rules) })
}

/// True if the namespace of an active claim owns its host as a whole.
pub(super) fn is_strict(rules: &RouteAdmission) -> bool {
    rules.ownership == NamespaceOwnership::Strict
}

/// The content of a valid InboundRoute. An invalid one has claims at most.
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
        let mut hosts = object.claimed_hosts();
        hosts.retain(belongs);
        found.push((root, hosts));
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

/// The claims on the paths of a host before others are looked at.
fn of_host(
    cx: &mut Context<'_>,
    meta: &ObjectMeta,
    (host, paths): (&HostPattern, &BTreeSet<&PathPrefix>),
    rules: &RouteAdmission,
) -> Vec<PathClaim> {
    let recorded = meta.recorded.as_deref();
    let is_recorded =
        |path: &PathPrefix| recorded.is_some_and(|all| all.claimed_at(host, path).is_some());
    let times = Times::of(meta, host, rules);
    let allowed = &rules.root_namespaces;
    let assumed = cx.config.assumed_claims.as_ref();
    let of_host = if !allowed.is_empty() && !allowed.contains(&meta.key.namespace) {
        Some(ClaimRefusal::NamespaceNotAllowed)
    } else if matches!(host, HostPattern::Suffix(_)) && !rules.wildcards {
        Some(ClaimRefusal::WildcardNotAllowed)
    } else if assumed.is_some_and(|assumed| !assumed.contains(host)) {
        Some(ClaimRefusal::NotAssumed)
    } else {
        None
    };
    let of_host = of_host.map(Arc::new);
    // Most claims on a host have the same time.
    let mut of_service: Option<(Option<i64>, Option<Arc<ClaimRefusal>>)> = None;
    let mut claim = |path: &PathPrefix| {
        let time = times.at(host, path);
        let refusal = if rules.recorded_only && !is_recorded(path) {
            Some(Arc::new(ClaimRefusal::PolicyInvalid))
        } else if of_host.is_some() {
            of_host.clone()
        } else if let Some((of, refusal)) = &of_service
            && *of == time
        {
            refusal.clone()
        } else {
            let is_taken = service_names::is_of_others(cx, host, &meta.key.namespace, time);
            let refusal = is_taken.then(|| Arc::new(ClaimRefusal::ServiceName));
            of_service = Some((time, refusal.clone()));
            refusal
        };
        // A claim that is not admitted waits nowhere: an edit of the policy would give it a host that
        // somebody else holds by then.
        let (time, state) = match refusal {
            Some(refusal) => (None, ClaimState::Inactive(refusal)),
            None => (time, ClaimState::ACTIVE),
        };
        PathClaim { path: path.clone(), time, state }
    };
    paths.iter().map(|path| claim(path)).collect()
}

/// The times of claims on a host: the one that the status records; otherwise that of the object's creation,
/// if the object was never edited since, and valid and admitted whenever its status was written. The
/// claim of another object waits until it is recorded, so that a lost status can postpone a claim and
/// never advance it.
struct Times<'o> {
    recorded: Option<&'o Recorded>,
    created: Option<i64>,
    /// The time of a path that has none of its own.
    other: Option<i64>,
}

impl<'o> Times<'o> {
    fn of(meta: &'o ObjectMeta, host: &HostPattern, rules: &RouteAdmission) -> Self {
        let recorded = meta.recorded.as_deref();
        let created = meta.created;
        let mut times = Self { recorded, created, other: None };
        // The holder of a host as a whole does not lose it by another path.
        let strict = rules.ownership == NamespaceOwnership::Strict;
        let of_host = recorded.filter(|_| strict).and_then(|recorded| {
            let of_host = recorded.claims.iter().filter(|((own, _), _)| own == host);
            of_host.map(|(_, time)| *time).filter(|time| times.is_plausible(*time)).min()
        });
        let unedited = meta.generation.is_none_or(|generation| generation == 1);
        let from_creation = unedited && recorded.is_none_or(|status| !status.postponed);
        let created = created.filter(|_| from_creation);
        // A status that is too long leaves claims out, which began with those that it has.
        let latest = recorded.and_then(Recorded::latest_claim);
        times.other = of_host.or(created.max(created.and(latest)));
        times
    }

    /// Nothing is claimed before the object exists.
    fn is_plausible(&self, time: i64) -> bool {
        self.created.is_none_or(|created| time >= created)
    }

    /// The time of the claim on a path.
    fn at(&self, host: &HostPattern, path: &PathPrefix) -> Option<i64> {
        let own = self.recorded.and_then(|recorded| recorded.claimed_at(host, path));
        own.filter(|time| self.is_plausible(*time)).or(self.other)
    }
}
