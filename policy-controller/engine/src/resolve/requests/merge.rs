//! Routes of several bindings with the same match: one route, which all of them contribute to.

use crate::query::grant::CreationOrder;
use crate::query::requests::DescribedRoute;
use http::Method;
use policy_core::matching::Segment;
use policy_core::{HostPattern, RouteKind};
use policy_crds::ObjectKey;
use policy_crds::resource::GroupPath;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All that distinguishes the requests of one route from those of another. The names of parameters are
/// no part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MatchKey {
    is_grpc: bool,
    segments: Vec<Option<Arc<str>>>,
    rest: bool,
    method: Option<String>,
    /// Predicates over headers and query parameters, sorted, because their order says nothing.
    predicates: (Vec<String>, Vec<String>),
}

/// A route that a binding brings.
#[derive(Clone, PartialEq)]
pub(super) struct Contribution {
    /// The place of the binding.
    pub(super) rank: CreationOrder,
    /// The binding.
    pub(super) binding: ObjectKey,
    /// The route.
    pub(super) route: Arc<DescribedRoute>,
    /// False if the binding has a broken reference: then it grants nothing.
    pub(super) permits: bool,
}

/// A route with all that contribute to it.
pub(super) struct MergedRoute {
    /// The API of the route.
    pub(super) kind: RouteKind,
    /// Its hosts; empty: every host.
    pub(super) hosts: Vec<HostPattern>,
    /// The contributions, oldest binding first; never empty.
    pub(super) contributions: Vec<Contribution>,
}

/// The contributions on each host, or on every host.
type ByHost = BTreeMap<Option<HostPattern>, Vec<Contribution>>;

/// Collects routes, and unites those with the same match.
#[derive(Default)]
pub(super) struct Merge {
    /// In the order in which matches were first seen.
    found: Vec<(RouteKind, ByHost)>,
    places: BTreeMap<MatchKey, usize>,
}

impl Merge {
    /// Adds a route on these hosts; none: on every host. Bindings are added oldest first.
    pub(super) fn add(&mut self, kind: RouteKind, hosts: &[HostPattern], own: &Contribution) {
        let key = MatchKey::of(kind, &own.route);
        let place = *self.places.entry(key).or_insert(self.found.len());
        if self.found.len() <= place {
            self.found.push((kind, ByHost::new()));
        }
        let Some((_, by_host)) = self.found.get_mut(place) else { return };
        let every = hosts.is_empty().then_some(None);
        for host in hosts.iter().cloned().map(Some).chain(every) {
            let all = by_host.entry(host).or_default();
            if !all.contains(own) {
                all.push(own.clone());
            }
        }
    }

    /// The routes. Hosts with the same contributions share one.
    pub(super) fn finish(self) -> Vec<MergedRoute> {
        self.found.into_iter().flat_map(|(kind, by_host)| shared(kind, by_host)).collect()
    }
}

fn shared(kind: RouteKind, by_host: ByHost) -> Vec<MergedRoute> {
    let mut routes: Vec<MergedRoute> = Vec::new();
    for (host, contributions) in by_host {
        let same = |route: &&mut MergedRoute| {
            host.is_some() && !route.hosts.is_empty() && route.contributions == contributions
        };
        match routes.iter_mut().find(same) {
            Some(route) => route.hosts.extend(host),
            None => {
                let hosts = host.into_iter().collect();
                routes.push(MergedRoute { kind, hosts, contributions });
            }
        }
    }
    routes
}

impl MatchKey {
    fn of(kind: RouteKind, route: &DescribedRoute) -> Self {
        let segments = |path: &GroupPath| {
            let segments = path.segments().iter().map(|segment| match segment {
                Segment::Literal(text) => Some(text.clone()),
                Segment::Parameter(_) => None,
            });
            segments.collect()
        };
        Self {
            is_grpc: kind == RouteKind::Grpc,
            segments: segments(&route.path),
            rest: route.path.has_rest(),
            method: route.method.as_ref().map(Method::to_string),
            predicates: (sorted(&route.headers), sorted(&route.query)),
        }
    }
}

fn sorted<T: std::fmt::Debug>(predicates: &[T]) -> Vec<String> {
    let mut texts: Vec<String> = predicates.iter().map(|one| format!("{one:?}")).collect();
    texts.sort();
    texts
}
