//! The routes that bindings give a Server, with the grants and effects of the policies on them.

use super::binding::{BindingOutcome, EffectiveBinding, lost, oldest_first, outcome_on};
use super::merge::{Contribution, Merge, MergedRoute};
use super::policies::{Classes, Grants, Policies, Selected};
use crate::incremental::{Context, query};
use crate::query::delegation::TreeHostsOf;
use crate::query::grant::CreationOrder;
use crate::query::requests::{BoundRoutes, BoundRoutesOf, DescribedRoute};
use crate::resolve::delegation::is_decided;
use crate::resolve::effects::{EffectsOf, effects_of};
use policy_core::{Origin, Route, RouteLabel, Rule, UnresolvedGrant};
use policy_crds::{Object, ObjectKey};
use std::collections::BTreeMap;
use std::sync::Arc;

query!(BoundRoutesOf, Arc<BoundRoutes>, bound);

/// The reason why nothing is granted on the routes of a broken binding.
const BROKEN: &str = "it is invalid, a group or service that it names, or that one of these includes, cannot be used, \
                      or it has too many routes";

fn bound(query: &BoundRoutesOf, cx: &mut Context<'_>) -> Arc<BoundRoutes> {
    let server = &query.0;
    let bindings = oldest_first(cx, server);
    if bindings.is_empty() {
        return Arc::default();
    }
    let mut found = BoundRoutes { bound: true, ..BoundRoutes::default() };
    let mut merge = Merge::default();
    let mut policies = BTreeMap::new();
    for binding in bindings {
        let Some(outcome) = outcome_on(cx, binding, server) else { continue };
        let lost = lost(&outcome).to_vec();
        let trees = cx.query(&TreeHostsOf(server.clone()));
        // Within a wildcard of a tree of the Server, the tree decides.
        found.lost.extend(lost.into_iter().filter(|host| !is_decided(&trees, host)));
        match outcome {
            BindingOutcome::Effective(effective) => {
                found.accepted |= effective.permits();
                found.first.extend(effective.first.clone());
                contribute(&mut merge, binding, &effective);
                let key = binding.meta.key.clone();
                policies.insert(key.clone(), Policies::on(cx, &key));
            }
            BindingOutcome::Lost(_) => found.accepted = true,
            BindingOutcome::Refused { .. } => {}
        }
    }
    let mut classes = Classes::of(cx, server);
    for merged in merge.finish() {
        found.routes.extend(route(cx, merged, &policies, &mut classes));
    }
    Arc::new(found)
}

/// Adds the routes of a binding, as many as there is room for.
fn contribute(merge: &mut Merge, binding: &Object, effective: &EffectiveBinding) {
    let permits = effective.permits();
    let mut room = effective.room;
    for route in effective.routes.each() {
        let Some(left) = room.checked_sub(route.matches.len()) else { break };
        room = left;
        let rank = CreationOrder::of(&binding.meta);
        let (binding, route) = (binding.meta.key.clone(), Arc::new(route));
        let own = Contribution { rank, binding, route, permits };
        merge.add(effective.kind, &effective.hosts, &own);
    }
}

/// A route of the Server, with all that its bindings and the classes that select it grant on it.
fn route<'a>(
    cx: &mut Context<'a>,
    merged: MergedRoute,
    policies: &BTreeMap<ObjectKey, Policies>,
    classes: &mut Classes<'a>,
) -> Option<(CreationOrder, Arc<Route>)> {
    let MergedRoute { kind, hosts, contributions } = merged;
    let first = contributions.first()?;
    let (rank, origin) = (first.rank.clone(), first.binding.to_ref());
    let permitting: Vec<&Contribution> = contributions.iter().filter(|one| one.permits).collect();
    let routes: Vec<&DescribedRoute> = permitting.iter().map(|one| &*one.route).collect();
    let mut bindings: Vec<&ObjectKey> = permitting.iter().map(|one| &one.binding).collect();
    bindings.dedup();
    let on_bindings: Vec<Selected<'_>> =
        bindings.iter().filter_map(|key| Selected::all(key, policies.get(*key)?)).collect();
    let on_classes = classes.selecting(cx, &routes);
    let mut grants = Grants::default();
    for selected in on_bindings.iter().chain(&on_classes) {
        grants.add(selected);
    }
    let broken = contributions.iter().filter(|one| !one.permits);
    grants.withheld.extend(
        broken.map(|one| UnresolvedGrant { source: one.binding.to_ref(), reason: BROKEN.into() }),
    );
    let applied = |all: &[Selected<'_>]| {
        let one = |selected: &Selected<'_>| EffectsOf {
            policies: selected.policies.effects.clone(),
            requests: selected.requests.clone(),
        };
        effects_of(&all.iter().map(one).collect::<Vec<_>>())
    };
    let effects = [applied(&on_bindings), applied(&on_classes)].concat();
    let matches = first.route.matches.iter().cloned().collect();
    let route = Route {
        origin: Origin::Objects([origin].into()),
        label: Some(RouteLabel::new(first.route.path.as_str())),
        kind,
        created: rank.created(),
        hosts: hosts.into_iter().collect(),
        rules: [Rule { matches, effects: effects.into_iter().collect() }].into(),
        authorizations: grants.authorizations.into(),
        inherits_server: !permitting.is_empty(),
        withheld: grants.withheld.into_iter().collect(),
    };
    Some((rank, Arc::new(route)))
}
