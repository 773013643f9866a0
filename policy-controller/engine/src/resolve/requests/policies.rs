//! The policies on bindings and classes, and what they grant on one route.

use super::class::{Class, classes_of};
use crate::incremental::Context;
use crate::query::effects::{EffectPoliciesOn, EffectPolicy};
use crate::query::grant::{GrantSet, RouteGrants};
use crate::query::requests::DescribedRoute;
use crate::resolve::effects::Requests;
use crate::resolve::grant::constrained;
use policy_core::{Authorization, Condition, Predicate, SegmentCondition, Source, UnresolvedGrant};
use policy_crds::resource::Selection;
use policy_crds::{Kind, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The policies on a binding or a class.
pub(super) struct Policies {
    grants: Arc<GrantSet>,
    pub(super) effects: Arc<[EffectPolicy]>,
}

impl Policies {
    pub(super) fn on(cx: &mut Context<'_>, target: &ObjectKey) -> Self {
        Self {
            grants: cx.query(&RouteGrants(target.clone())),
            effects: cx.query(&EffectPoliciesOn(target.clone())),
        }
    }

    fn is_empty(&self) -> bool {
        self.grants.authorizations.is_empty()
            && self.grants.withheld.is_empty()
            && self.effects.is_empty()
    }
}

/// A binding or class with policies, and the requests of a route that they are about.
pub(super) struct Selected<'p> {
    key: &'p ObjectKey,
    pub(super) policies: &'p Policies,
    pub(super) requests: Requests,
}

impl<'p> Selected<'p> {
    /// Policies on all requests of a route; `None` if there are none.
    pub(super) fn all(key: &'p ObjectKey, policies: &'p Policies) -> Option<Self> {
        (!policies.is_empty()).then(|| Self { key, policies, requests: Requests::all() })
    }
}

/// The classes that select among the routes of a Server. Those without policies are left out.
pub(super) struct Classes<'a> {
    http: Vec<(Class<'a>, Policies)>,
    /// By service, of the namespace of the Server alone: a policy grants nothing in another namespace.
    grpc: BTreeMap<ObjectKey, Vec<(Class<'a>, Policies)>>,
    namespace: Arc<str>,
}

impl<'a> Classes<'a> {
    pub(super) fn of(cx: &mut Context<'a>, server: &ObjectKey) -> Self {
        let http = with_policies(cx, server);
        Self { http, grpc: BTreeMap::new(), namespace: server.namespace.clone() }
    }

    /// The classes that select a route, which several groups or services describe, oldest first.
    pub(super) fn selecting(
        &mut self,
        cx: &mut Context<'a>,
        routes: &[&DescribedRoute],
    ) -> Vec<Selected<'_>> {
        let services: BTreeSet<&ObjectKey> = routes
            .iter()
            .map(|route| &route.holder)
            .filter(|key| key.kind == Kind::GrpcService && key.namespace == self.namespace)
            .collect();
        for service in &services {
            if !self.grpc.contains_key(*service) {
                self.grpc.insert((*service).clone(), with_policies(cx, service));
            }
        }
        let mut found = Vec::new();
        let of_groups = |route: &&&DescribedRoute| route.holder.kind != Kind::GrpcService;
        let groups: Vec<&DescribedRoute> = routes.iter().filter(of_groups).copied().collect();
        add(&mut found, &self.http, &groups);
        for service in services {
            let of_service = |route: &&&DescribedRoute| route.holder == *service;
            let own: Vec<&DescribedRoute> = routes.iter().filter(of_service).copied().collect();
            add(&mut found, self.grpc.get(service).map_or(&[], Vec::as_slice), &own);
        }
        found.sort_by(|(one, _), (other, _)| one.rank.cmp(&other.rank));
        found.into_iter().map(|(_, selected)| selected).collect()
    }
}

fn with_policies<'a>(cx: &mut Context<'a>, target: &ObjectKey) -> Vec<(Class<'a>, Policies)> {
    let classes = classes_of(cx, target).into_iter();
    let with = classes.map(|class| {
        let policies = Policies::on(cx, class.key);
        (class, policies)
    });
    with.filter(|(_, policies)| !policies.is_empty()).collect()
}

/// Adds the classes that select one of these routes, which have the same match.
fn add<'p>(
    found: &mut Vec<(&'p Class<'p>, Selected<'p>)>,
    classes: &'p [(Class<'_>, Policies)],
    routes: &[&DescribedRoute],
) {
    for (class, policies) in classes.iter().filter(|_| !routes.is_empty()) {
        let (mut alternatives, mut is_partial) = (Vec::new(), false);
        for route in routes {
            match class.selects(route) {
                Selection::Always => alternatives.push(Vec::new()),
                Selection::When(conditions) => alternatives.push(conditions),
                Selection::Never => {}
                Selection::Inexpressible(_) => is_partial = true,
            }
        }
        if !alternatives.is_empty() || is_partial {
            let requests = Requests::of(alternatives, is_partial);
            found.push((class, Selected { key: class.key, policies, requests }));
        }
    }
}

/// The grants on a route. A policy has one target, so that each is there once.
#[derive(Default)]
pub(super) struct Grants {
    pub(super) authorizations: Vec<Arc<Authorization>>,
    pub(super) withheld: Vec<UnresolvedGrant>,
}

impl Grants {
    /// Adds the grants of the policies on an object, for the requests that it stands for.
    pub(super) fn add(&mut self, selected: &Selected<'_>) {
        let granted = &selected.policies.grants;
        let source = Source::Object(selected.key.to_ref());
        let condition = |own: &SegmentCondition| Condition {
            source: source.clone(),
            test: Predicate::Segment(own.clone()),
        };
        for alternative in selected.requests.alternatives() {
            let conditions: Vec<Condition> = alternative.iter().map(condition).collect();
            let constrained = |grant: &Arc<Authorization>| match conditions.is_empty() {
                true => grant.clone(),
                false => Arc::new(constrained(grant, &conditions)),
            };
            self.authorizations.extend(granted.authorizations.iter().map(constrained));
        }
        if !selected.requests.alternatives().is_empty() {
            self.withheld.extend(granted.withheld.iter().cloned());
        }
    }
}
