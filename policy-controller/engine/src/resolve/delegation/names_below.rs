//! The hosts that roots hold below a wildcard.
//!
//! A Server that a wildcard leads to has each of them, because a name below may have paths of its own. Everybody
//! who may claim hosts may claim names below a wildcard, so their number is bounded. A name of another namespace
//! that was claimed after the wildcard takes no path from it: beyond the bound such names are left out. Of names
//! that were claimed before, none can be left out: with more of them the wildcard is denied as a whole.

use crate::incremental::{Context, query};
use crate::query::claims::{ClaimOrder, HostClaim};
use crate::query::delegation::{ActiveClaims, NamesBelow, NamesBelowOf, RootsUnder};
use policy_core::HostPattern;
use policy_crds::resource::InboundRoute;
use std::collections::BTreeSet;
use std::sync::Arc;

query!(NamesBelowOf, Arc<NamesBelow>, names_below);

/// The most names below a wildcard that other namespaces hold and that a Server has.
pub(super) const MAX_NAMES_BELOW: usize = 1024;

fn names_below(query: &NamesBelowOf, cx: &mut Context<'_>) -> Arc<NamesBelow> {
    let wide = HostPattern::Suffix(query.0.clone());
    let on_wide = cx.query(&ActiveClaims(wide.clone()));
    let owners: BTreeSet<&Arc<str>> = on_wide.iter().map(|group| &group.root.namespace).collect();
    let latest = on_wide.iter().flat_map(|group| group.iter()).max_by(HostClaim::in_order);
    let latest = latest.map(|claim| claim.order());
    let under = cx.query(&RootsUnder(query.0.clone()));
    let below = under.iter().flat_map(|(_, hosts)| hosts);
    let below: BTreeSet<&HostPattern> =
        below.filter(|host| **host != wide && wide.covers(host)).collect();
    let mut found = NamesBelow::default();
    let mut foreign: Vec<(ClaimOrder, &HostPattern)> = Vec::new();
    for host in below {
        // A claim that was lost is none: strangers would close names of the wildcard by it.
        let claims = cx.query(&ActiveClaims(host.clone()));
        if claims.iter().any(|group| owners.contains(&group.root.namespace)) {
            found.listed.insert(host.clone());
            continue;
        }
        let first = claims.iter().flat_map(|group| group.iter()).min_by(HostClaim::in_order);
        foreign.extend(first.map(|first| (first.order(), host)));
    }
    foreign.sort();
    let is_earlier = |(order, _): &&(ClaimOrder, &HostPattern)| {
        latest.as_ref().is_none_or(|latest| order <= latest)
    };
    found.is_crowded = foreign.iter().filter(is_earlier).count() > MAX_NAMES_BELOW;
    if !found.is_crowded {
        let listed = foreign.into_iter().take(MAX_NAMES_BELOW);
        found.listed.extend(listed.map(|(_, host)| host.clone()));
    }
    Arc::new(found)
}

/// True for a wildcard that is denied as a whole.
pub(super) fn is_crowded(cx: &mut Context<'_>, host: &HostPattern) -> bool {
    match host {
        HostPattern::Suffix(suffix) => cx.query(&NamesBelowOf(suffix.clone())).is_crowded,
        HostPattern::Exact(_) => false,
    }
}

/// The messages about the wildcards of a root that are denied as a whole. No object of another namespace is
/// named.
pub(super) fn words(cx: &mut Context<'_>, route: &InboundRoute) -> Vec<String> {
    let own = route.virtual_host.iter().flat_map(|own| &own.hosts);
    let crowded = own.filter(|host| is_crowded(cx, host));
    let words = crowded.map(|host| {
        format!(
            "{host} is denied as a whole: InboundRoutes of other namespaces claimed more than \
             {MAX_NAMES_BELOW} names below it before"
        )
    });
    words.collect()
}
