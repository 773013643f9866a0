//! The routes that bindings give a Server, with the grants and effects of the policies on them.

use super::binding::{BindingOutcome, bindings_of, lost, outcome};
use super::class::{Class, classes_of};
use super::merge::{Contribution, Merge, MergedRoute};
use crate::incremental::{Context, query};
use crate::query::delegation::TreeHostsOf;
use crate::query::grant::{CreationOrder, RouteGrants};
use crate::query::requests::{BoundRoutes, BoundRoutesOf, DescribedRoute, UnreadBindingsIn};
use crate::resolve::delegation::is_decided;
use crate::resolve::effects::effects_on;
use crate::resolve::grant::constrained;
use policy_core::{
    Authorization, Condition, Origin, Predicate, Route, Rule, SegmentCondition, Source,
    UnresolvedGrant,
};
use policy_crds::{Kind, Object, ObjectKey};
use std::collections::BTreeMap;
use std::sync::Arc;

query!(BoundRoutesOf, Arc<BoundRoutes>, bound);

/// The reason why nothing is granted on the routes of a broken binding.
const BROKEN: &str =
    "a group or service that it names, or that one of these includes, cannot be used";

fn bound(query: &BoundRoutesOf, cx: &mut Context<'_>) -> Arc<BoundRoutes> {
    let server = &query.0;
    let mut found = BoundRoutes {
        bound: cx.query(&UnreadBindingsIn(server.namespace.clone())),
        ..BoundRoutes::default()
    };
    let keys = bindings_of(cx, server);
    if keys.is_empty() {
        return Arc::new(found);
    }
    found.bound = true;
    let mut bindings: Vec<&Arc<Object>> =
        keys.into_iter().filter_map(|key| cx.object(key)).collect();
    bindings.sort_by_key(|object| CreationOrder::of(&object.meta));
    let mut merge = Merge::default();
    for binding in bindings {
        let Some(outcome) = outcome(cx, binding) else { continue };
        let lost = lost(&outcome).to_vec();
        let trees = cx.query(&TreeHostsOf(server.clone()));
        // Within a wildcard of a tree of the Server, the tree decides.
        found.lost.extend(lost.into_iter().filter(|host| !is_decided(&trees, host)));
        let effective = match outcome {
            BindingOutcome::Effective(effective) => effective,
            BindingOutcome::Lost(_) => {
                found.accepted = true;
                continue;
            }
            BindingOutcome::Refused { .. } => continue,
        };
        let permits = effective.routes.faults.is_empty();
        found.accepted |= permits;
        for route in &effective.routes.routes {
            let rank = CreationOrder::of(&binding.meta);
            let (binding, route) = (binding.meta.key.clone(), route.clone());
            let own = Contribution { rank, binding, route, permits };
            merge.add(effective.kind, &effective.hosts, &own);
        }
    }
    let mut classes = Classes::of(cx, server);
    found.routes =
        merge.finish().into_iter().filter_map(|merged| route(cx, merged, &mut classes)).collect();
    Arc::new(found)
}

/// The classes that select among the routes of a Server.
struct Classes<'a> {
    http: Vec<Class<'a>>,
    /// By service, of the namespace of the Server alone: a policy grants nothing in another namespace.
    grpc: BTreeMap<ObjectKey, Vec<Class<'a>>>,
    namespace: Arc<str>,
}

/// A class that selects a route, and the conditions under which it does: one of these lists holds.
type Selected = (ObjectKey, Vec<Vec<SegmentCondition>>);

impl<'a> Classes<'a> {
    fn of(cx: &mut Context<'a>, server: &ObjectKey) -> Self {
        let http = classes_of(cx, server);
        Self { http, grpc: BTreeMap::new(), namespace: server.namespace.clone() }
    }

    /// The classes that select a route, oldest first.
    fn selecting(&mut self, cx: &mut Context<'a>, routes: &[&DescribedRoute]) -> Vec<Selected> {
        let mut found: BTreeMap<(CreationOrder, ObjectKey), Vec<Vec<SegmentCondition>>> =
            BTreeMap::new();
        for route in routes {
            let classes = if route.holder.kind != Kind::GrpcService {
                &self.http
            } else if route.holder.namespace == self.namespace {
                let known = self.grpc.entry(route.holder.clone());
                known.or_insert_with(|| classes_of(cx, &route.holder))
            } else {
                continue;
            };
            for class in classes {
                let Some(conditions) = class.selects(route) else { continue };
                let all = found.entry((class.rank.clone(), class.key.clone())).or_default();
                if !all.contains(&conditions) {
                    all.push(conditions);
                }
            }
        }
        found.into_iter().map(|((_, key), conditions)| (key, conditions)).collect()
    }
}

/// A route of the Server, with all that its bindings and the classes that select it grant on it.
fn route<'a>(
    cx: &mut Context<'a>,
    merged: MergedRoute,
    classes: &mut Classes<'a>,
) -> Option<(CreationOrder, Arc<Route>)> {
    let MergedRoute { kind, hosts, contributions } = merged;
    let first = contributions.first()?;
    let (rank, origin) = (first.rank.clone(), first.binding.to_ref());
    let permitting: Vec<&Contribution> = contributions.iter().filter(|one| one.permits).collect();
    let routes: Vec<&DescribedRoute> = permitting.iter().map(|one| &*one.route).collect();
    let mut bindings: Vec<&ObjectKey> = permitting.iter().map(|one| &one.binding).collect();
    bindings.dedup();
    let selected = classes.selecting(cx, &routes);
    let mut grants = Grants::default();
    for binding in &bindings {
        grants.add(cx, binding, &[]);
    }
    for (class, alternatives) in &selected {
        for conditions in alternatives {
            grants.add(cx, class, conditions);
        }
    }
    let broken = contributions.iter().filter(|one| !one.permits);
    grants.withheld.extend(
        broken.map(|one| UnresolvedGrant { source: one.binding.to_ref(), reason: BROKEN.into() }),
    );
    let on_bindings: Vec<_> = bindings.iter().map(|key| ((*key).clone(), Vec::new())).collect();
    let of_class = |(class, alternatives): &Selected| {
        let each = alternatives.iter().map(|conditions| (class.clone(), conditions.clone()));
        each.collect::<Vec<_>>()
    };
    let on_classes: Vec<_> = selected.iter().flat_map(of_class).collect();
    let mut effects = effects_on(cx, &on_bindings);
    effects.extend(effects_on(cx, &on_classes));
    let matches = first.route.matches.iter().cloned().collect();
    let route = Route {
        origin: Origin::Objects([origin].into()),
        kind,
        created: rank.created(),
        hosts: hosts.into(),
        rules: [Rule { matches, effects: effects.into_iter().collect() }].into(),
        authorizations: grants.authorizations.into(),
        inherits_server: !permitting.is_empty(),
        withheld: grants.withheld.into_iter().collect(),
    };
    Some((rank, Arc::new(route)))
}

/// The grants on a route.
#[derive(Default)]
struct Grants {
    authorizations: Vec<Arc<Authorization>>,
    withheld: Vec<UnresolvedGrant>,
}

impl Grants {
    /// Adds the grants of the policies on an object, for requests that meet these conditions too.
    fn add(&mut self, cx: &mut Context<'_>, target: &ObjectKey, when: &[SegmentCondition]) {
        let granted = cx.query(&RouteGrants(target.clone()));
        let source = Source::Object(target.to_ref());
        let condition = |own: &SegmentCondition| Condition {
            source: source.clone(),
            test: Predicate::Segment(own.clone()),
        };
        let conditions: Vec<Condition> = when.iter().map(condition).collect();
        for grant in &granted.authorizations {
            let grant = match conditions.is_empty() {
                true => grant.clone(),
                false => Arc::new(constrained(grant, &conditions)),
            };
            if !self.authorizations.contains(&grant) {
                self.authorizations.push(grant);
            }
        }
        for withheld in &granted.withheld {
            if !self.withheld.contains(withheld) {
                self.withheld.push(withheld.clone());
            }
        }
    }
}
