//! The claims on hosts, and their order ([`super::ownership`] decides them). They are decided by the
//! time of the claim, not by the age of the object, because an old object can claim another host at
//! any time.

use super::service_names;
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::delegation::{
    AdmissionRules, ClaimOrder, ClaimRefusal, ClaimState, ClaimsOn, HostClaim, HostClaims,
    OverlappingClaims, RootClaims,
};
use policy_core::HostPattern;
use policy_crds::resource::{InboundRoute, NamespaceOwnership, PathPrefix, RouteAdmission};
use policy_crds::{Body, Object, ObjectKey, ObjectMeta, Resource};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

query!(RootClaims, Arc<[Arc<HostClaim>]>, root_claims);
query!(OverlappingClaims, Arc<HostClaims>, overlapping);

/// The claims of a root before others are looked at, in order.
fn root_claims(query: &RootClaims, cx: &mut Context<'_>) -> Arc<[Arc<HostClaim>]> {
    let rules = cx.query(&AdmissionRules);
    let Some(object) = cx.object(&query.0) else { return Arc::default() };
    let Some(route) = valid(object) else { return kept(cx, object, &rules) };
    let mut claims = Vec::new();
    for host in route.virtual_host.iter().flat_map(|own| &own.hosts) {
        for path in route.routes.iter().map(|rule| &rule.path) {
            claims.push(Arc::new(claim(cx, &object.meta, host, path, &rules)));
        }
    }
    claims.sort_by(|a, b| in_order(a, b));
    claims.into()
}

/// The claims that an invalid root keeps, with the times that its status records. One that the rules
/// do not admit has no time any more, and is gone.
fn kept(cx: &mut Context<'_>, object: &Object, rules: &RouteAdmission) -> Arc<[Arc<HostClaim>]> {
    let claims = object.kept_claims();
    let claims = claims.map(|(host, path)| claim(cx, &object.meta, host, path, rules));
    let mut claims: Vec<Arc<HostClaim>> =
        claims.filter(HostClaim::is_active).map(Arc::new).collect();
    claims.sort_by(|a, b| in_order(a, b));
    claims.into()
}

/// The order in which claims are decided.
pub(super) fn in_order(a: &HostClaim, b: &HostClaim) -> Ordering {
    (&a.order, &a.host, &a.path).cmp(&(&b.order, &b.host, &b.path))
}

/// The claims on a host and on all hosts of its family.
fn overlapping(query: &OverlappingClaims, cx: &mut Context<'_>) -> Arc<HostClaims> {
    let rules = cx.query(&AdmissionRules);
    let roots = roots_on(cx, &query.0, rules.wildcards);
    let hosts: BTreeSet<HostPattern> = roots.into_iter().flat_map(|(_, hosts)| hosts).collect();
    let mut claims = Vec::new();
    for host in hosts {
        claims.extend(cx.query(&ClaimsOn(host)).claims.iter().cloned());
    }
    claims.sort_by(|a, b| in_order(a, b));
    Arc::new(HostClaims { claims, strict: is_strict(&rules) })
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

/// A claim before others are looked at.
fn claim(
    cx: &mut Context<'_>,
    meta: &ObjectMeta,
    host: &HostPattern,
    path: &PathPrefix,
    rules: &RouteAdmission,
) -> HostClaim {
    let allowed = &rules.root_namespaces;
    let is_recorded = || {
        let recorded = meta.recorded.as_ref();
        recorded.is_some_and(|recorded| recorded.claimed_at(host, path).is_some())
    };
    let time = time_of(meta, host, path, rules);
    let assumed = cx.config.assumed_claims.as_ref();
    let state = if rules.recorded_only && !is_recorded() {
        ClaimState::Inactive(ClaimRefusal::PolicyInvalid)
    } else if !allowed.is_empty() && !allowed.contains(&meta.key.namespace) {
        ClaimState::Inactive(ClaimRefusal::NamespaceNotAllowed)
    } else if matches!(host, HostPattern::Suffix(_)) && !rules.wildcards {
        ClaimState::Inactive(ClaimRefusal::WildcardNotAllowed)
    } else if assumed.is_some_and(|assumed| !assumed.contains(host)) {
        ClaimState::Inactive(ClaimRefusal::NotAssumed)
    } else if service_names::is_of_others(cx, host, &meta.key.namespace, time) {
        ClaimState::Inactive(ClaimRefusal::ServiceName)
    } else {
        ClaimState::Active { shared: false, attached: false }
    };
    // A claim that is not admitted waits nowhere: an edit of the policy would give it a host that
    // somebody else holds by then.
    let admitted = matches!(state, ClaimState::Active { .. });
    let time = time.filter(|_| admitted);
    let order = ClaimOrder {
        timeless: time.is_none(),
        time: time.unwrap_or_default(),
        namespace: meta.key.namespace.clone(),
        name: meta.key.name.clone(),
    };
    HostClaim { root: meta.key.clone(), host: host.clone(), path: path.clone(), order, state }
}

/// The time of a claim: the one that the status records; otherwise that of the object's creation,
/// if the object was never edited since, and valid and admitted whenever its status was written. The
/// claim of another object waits until it is recorded, so that a lost status can postpone a claim and
/// never advance it.
fn time_of(
    meta: &ObjectMeta,
    host: &HostPattern,
    path: &PathPrefix,
    rules: &RouteAdmission,
) -> Option<i64> {
    let status = meta.recorded.as_ref();
    // The holder of a host as a whole does not lose it by another path.
    let strict = rules.ownership == NamespaceOwnership::Strict;
    // Nothing is claimed before the object exists.
    let plausible = |time: &i64| meta.created.is_none_or(|created| *time >= created);
    let valid = status.and_then(|recorded| {
        let of_host = recorded.claims.iter().filter(|((own, _), _)| strict && own == host);
        let of_host = of_host.map(|(_, time)| *time).filter(plausible).min();
        recorded.claimed_at(host, path).filter(plausible).or(of_host)
    });
    let unedited = meta.generation.is_none_or(|generation| generation == 1);
    let from_creation = unedited && status.is_none_or(|status| !status.postponed);
    let created = meta.created.filter(|_| from_creation);
    // A status that is too long leaves claims out, which began with those that it has.
    let began = created.max(created.and(status.and_then(|status| status.latest_claim())));
    valid.or(began)
}
