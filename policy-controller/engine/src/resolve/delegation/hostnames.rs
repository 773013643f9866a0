//! The hostnames of a route that roots take from it.
//!
//! A claim closes only what is younger: a route that was attached to a Server of its own namespace with a
//! hostname before a root of another namespace claimed it keeps it there.

use super::attached::attached_at;
use super::claims::is_strict;
use super::ownership::{is_foreign, owned_by_others};
use crate::incremental::{Context, query};
use crate::query::claims::HostClaim;
use crate::query::delegation::{ActiveClaims, AdmissionRules, RootsUnder, TreeHosts, TreeHostsOf};
use crate::query::hostnames::{ClaimedBelow, ClaimedBelowOf, CrowdedHostnamesOf};
use policy_core::HostPattern;
use policy_crds::{ObjectKey, ObjectMeta};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(ClaimedBelowOf, Arc<[ClaimedBelow]>, claimed_below);

/// The most names below the hostnames of a Server's routes that are closed one by one, because the Server has
/// each of them.
pub(super) const MAX_CLOSED_BELOW: usize = 1024;

/// The hostnames that a route loses on a Server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostHosts {
    /// Hostnames, in the order of the route.
    pub(crate) whole: Vec<HostPattern>,
    /// Hosts below wildcards that the route keeps.
    pub(crate) below: BTreeSet<HostPattern>,
    /// The hostnames that it keeps and that others claimed later, or claimed hosts below of.
    pub(crate) contested: Vec<HostPattern>,
    /// The wildcards among those that it loses below which others claimed more hosts than a Server has.
    pub(crate) crowded: Vec<HostPattern>,
    /// The hostnames that it keeps, each with the time of the latest claim that it is behind.
    pub(crate) kept: Vec<(HostPattern, Option<i64>)>,
}

/// The claims of others on one hostname.
#[derive(Default)]
pub(super) struct Foreign {
    pub(super) is_lost: bool,
    /// True if there are more claims below than a Server has.
    is_crowded: bool,
    is_contested: bool,
    pub(super) below: BTreeSet<HostPattern>,
    after: Option<i64>,
}

/// The hostnames of a route or binding that another namespace owns, or on which the trees of a Server
/// decide alone.
pub(crate) fn lost_hosts(
    cx: &mut Context<'_>,
    hosts: &[HostPattern],
    server: &ObjectKey,
    of: &ObjectMeta,
) -> LostHosts {
    let mut lost = LostHosts::default();
    if hosts.is_empty() {
        return lost;
    }
    let trees = cx.query(&TreeHostsOf(server.clone()));
    let keeps = of.key.kind.is_route() && of.key.namespace == server.namespace;
    for host in hosts {
        let found = if is_decided(&trees, host) {
            Foreign { is_lost: true, ..Foreign::default() }
        } else if keeps {
            foreign(cx, host, server, of)
        } else {
            let is_lost = is_foreign(cx, host, &of.key.namespace);
            Foreign { is_lost, ..Foreign::default() }
        };
        let is_crowded = found.is_crowded
            || (!found.below.is_empty()
                && cx.query(&CrowdedHostnamesOf(server.clone())).contains(host));
        lost.crowded.extend(is_crowded.then(|| host.clone()));
        if found.is_lost || is_crowded {
            lost.whole.push(host.clone());
            continue;
        }
        lost.kept.push((host.clone(), found.after));
        lost.contested.extend(found.is_contested.then(|| host.clone()));
        lost.below.extend(found.below);
    }
    lost.below.retain(|host| !is_decided(&trees, host));
    lost
}

/// The claims of other namespaces on a hostname of a route on a Server of the route's namespace.
pub(super) fn foreign(
    cx: &mut Context<'_>,
    host: &HostPattern,
    server: &ObjectKey,
    of: &ObjectMeta,
) -> Foreign {
    if !is_strict(&cx.query(&AdmissionRules)) {
        return Foreign::default();
    }
    let namespace = &of.key.namespace;
    let since = attached_at(&cx.config.controller_name, of, server, host);
    let owned = owned_by_others(cx, host, namespace);
    let is_lost = owned.iter().any(|claim| claim.is_not_after(since));
    let mut found = Foreign { is_lost, is_contested: !owned.is_empty(), ..Foreign::default() };
    if let (false, HostPattern::Suffix(suffix)) = (is_lost, host) {
        let (suffix, namespace) = (suffix.clone(), namespace.clone());
        let claims = cx.query(&ClaimedBelowOf { suffix, namespace });
        let (older, younger): (Vec<&ClaimedBelow>, Vec<_>) =
            claims.iter().partition(|claim| claim.order.is_not_after(since));
        found.is_crowded = older.len() > MAX_CLOSED_BELOW;
        found.is_lost = found.is_crowded;
        found.is_contested |= !younger.is_empty();
        found.after = older.iter().filter_map(|claim| claim.order.time()).max();
        let closed = older.into_iter().take(MAX_CLOSED_BELOW);
        found.below.extend(closed.map(|claim| claim.host.clone()));
    }
    found
}

/// True if a route of a Server keeps a host there through a hostname that covers it; `None`: a route of a
/// binding.
pub(crate) fn keeps_through(
    cx: &mut Context<'_>,
    (hostname, host): (&HostPattern, &HostPattern),
    server: &ObjectKey,
    of: Option<&ObjectMeta>,
) -> bool {
    let namespace = of.map_or(&server.namespace, |of| &of.key.namespace);
    let Some(of) = of.filter(|_| *namespace == server.namespace) else {
        return !is_foreign(cx, host, namespace);
    };
    let since = attached_at(&cx.config.controller_name, of, server, hostname);
    let owned = owned_by_others(cx, host, namespace);
    !owned.iter().any(|claim| claim.is_not_after(since))
}

/// The hosts below a name that other namespaces claim.
fn claimed_below(query: &ClaimedBelowOf, cx: &mut Context<'_>) -> Arc<[ClaimedBelow]> {
    let wide = HostPattern::Suffix(query.suffix.clone());
    let under = cx.query(&RootsUnder(query.suffix.clone()));
    let foreign = under.iter().filter(|(root, _)| root.namespace != query.namespace);
    let hosts: BTreeSet<&HostPattern> = foreign.flat_map(|(_, hosts)| hosts.iter()).collect();
    let mut found = Vec::new();
    for host in hosts.into_iter().filter(|host| **host != wide && wide.covers(host)) {
        let claims = cx.query(&ActiveClaims(host.clone()));
        let others = claims.iter().filter(|group| group.root.namespace != query.namespace);
        let first = others.flat_map(|group| group.iter()).min_by(HostClaim::in_order);
        found.extend(first.map(|first| ClaimedBelow { host: host.clone(), order: first.order() }));
    }
    found.into()
}

/// True if the trees of a Server alone decide about a host.
pub(crate) fn is_decided(trees: &TreeHosts, host: &HostPattern) -> bool {
    let mut above = host.names_above().map(|above| HostPattern::Suffix(above.into()));
    !trees.hosts.is_empty()
        && (trees.hosts.contains(host) || above.any(|above| trees.hosts.contains(&above)))
}

/// A route that keeps hostnames although others claim them, or that has lost some of them, in words; of another
/// namespace no object is named, nor a host below a wildcard. Empty: there is nothing to say.
pub(crate) fn words(lost: &LostHosts) -> String {
    let listed = |hosts: &[HostPattern]| {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        hosts.join(", ")
    };
    let mut words = Vec::new();
    if !lost.contested.is_empty() {
        words.push(format!(
            "InboundRoutes of another namespace claimed {}, or a host below, after the route was attached: \
             the Server goes on answering it",
            listed(&lost.contested)
        ));
    }
    if !lost.below.is_empty() {
        words.push(
            "InboundRoutes of another namespace claimed hosts below a wildcard of the route before it was \
             attached: these are denied"
                .to_owned(),
        );
    }
    if !lost.crowded.is_empty() {
        words.push(format!(
            "the Server denies {} as a whole: InboundRoutes of another namespace claimed hosts below before \
             the route was attached, and a Server has at most {MAX_CLOSED_BELOW} such hosts of all its routes",
            listed(&lost.crowded)
        ));
    }
    words.join("; ")
}
