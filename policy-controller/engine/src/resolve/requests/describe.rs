//! The routes that a group describes, with those of the groups that it includes, and those of a service.

use super::part::{ReadGroup, service_of};
use super::walk::{Walk, denies_through};
use crate::incremental::{Context, query};
use crate::query::requests::{
    BindingRoutesOf, DescribedPart, DescribedRoutes, DescribedRoutesOf, GroupSummary,
    GroupSummaryOf, IncludeFault,
};
use crate::resolve::grant::reason;
use crate::resolve::reference::follow;
use policy_crds::{Body, Claims, Field, Invalid, ObjectKey, Resource};
use std::sync::Arc;

/// The most references of a binding or group that its condition says in full.
const MAX_FAULTS: usize = 16;

query!(DescribedRoutesOf, Arc<DescribedRoutes>, described);
query!(GroupSummaryOf, Arc<GroupSummary>, summary);
query!(BindingRoutesOf, Arc<DescribedRoutes>, of_binding);

fn described(query: &DescribedRoutesOf, cx: &mut Context<'_>) -> Arc<DescribedRoutes> {
    let Some(object) = cx.object(&query.0) else { return Arc::default() };
    if let Some(group) = ReadGroup::of(&object.body) {
        return Arc::new(Walk::through(cx, object, group, true).found);
    }
    let Some(service) = service_of(object) else { return Arc::new(unreadable(&object.body)) };
    let (object, around, entries) = (object.clone(), Arc::default(), service.methods.len());
    let matches = entries.max(1);
    let parts = vec![DescribedPart { object: object.clone(), around, entries }];
    Arc::new(DescribedRoutes { parts, matches, ..unreadable(&object.body) })
}

/// The conditions that can be read of an invalid service.
fn unreadable(body: &Body) -> DescribedRoutes {
    let unreadable = match body {
        Body::Invalid(Invalid { claims: Claims::GrpcService(claims), .. }) => {
            claims.unreadable.clone()
        }
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    };
    DescribedRoutes { unreadable, ..DescribedRoutes::default() }
}

fn summary(query: &GroupSummaryOf, cx: &mut Context<'_>) -> Arc<GroupSummary> {
    let Some(object) = cx.object(&query.0) else { return Arc::default() };
    let Body::Valid(Resource::HttpRouteGroup(group)) = &object.body else { return Arc::default() };
    let walk = Walk::through(cx, object, ReadGroup::whole(group), false);
    Arc::new(GroupSummary { count: walk.count, faults: walk.found.faults })
}

fn of_binding(query: &BindingRoutesOf, cx: &mut Context<'_>) -> Arc<DescribedRoutes> {
    let mut all = DescribedRoutes::default();
    let Named { described, faults } = named_by(cx, &query.0);
    for key in described {
        let one = cx.query(&DescribedRoutesOf(key.clone()));
        all.parts.extend(one.parts.iter().cloned());
        all.matches = all.matches.saturating_add(one.matches);
        all.unreadable.extend(one.unreadable.iter().cloned());
    }
    all.faults = faults;
    Arc::new(all)
}

/// The groups or services that a binding names.
pub(super) struct Named<'a> {
    /// Those that it may use, and those that cannot be used and deny what can be read of them.
    described: Vec<&'a ObjectKey>,
    /// The errors of each.
    pub(super) faults: Vec<IncludeFault>,
}

/// The groups or services that a binding names, valid or not, and what is wrong with them.
pub(super) fn named_by<'a>(cx: &mut Context<'a>, binding: &ObjectKey) -> Named<'a> {
    let (mut described, mut all) = (Vec::new(), DescribedRoutes::default());
    let named = match cx.object(binding).map(|object| &object.body) {
        Some(Body::Valid(Resource::HttpRouteBinding(own))) => &own.groups[..],
        Some(Body::Valid(Resource::GrpcServiceBinding(own))) => &own.services[..],
        Some(Body::Invalid(Invalid { claims: Claims::Binding(claims), .. })) => &claims.named,
        Some(Body::Valid(_) | Body::Invalid(_)) | None => &[],
    };
    for key in named {
        if let Err(error) = follow(cx, binding, Field::Include, key) {
            let message = format!("{key} {}", error.as_str()).into();
            all.fault(IncludeFault { reason: reason(error), message });
            if denies_through(cx, binding, key) {
                described.push(key);
            }
            continue;
        }
        described.push(key);
        let summary = cx.query(&GroupSummaryOf(key.clone()));
        if let Some(first) = summary.faults.first() {
            // What is wrong inside of another namespace is said there.
            let message = match key.namespace == binding.namespace {
                true => format!("{key}: {}", first.message),
                false => format!("{key} is broken: its conditions say why"),
            };
            all.fault(IncludeFault { reason: first.reason, message: message.into() });
        }
    }
    // Where there is no room for all, those of others are left out first.
    described.sort_by_key(|key| key.namespace != binding.namespace);
    Named { described, faults: all.faults }
}

impl DescribedRoutes {
    /// Adds a fault, unless there are enough of them, or it is known.
    pub(super) fn fault(&mut self, fault: IncludeFault) {
        if self.faults.len() < MAX_FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }
}
