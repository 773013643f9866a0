//! The effects of policies on requests: timeouts, and changes of headers (docs/spec/requests.md,
//! *Effects*).
//!
//! An invalid policy has no effect but one: a HeaderRewritePolicy without whose changes requests must
//! not be forwarded makes them fail. Where its target cannot be read it may be any Server of the
//! namespace.

use super::reference::referrers;
use crate::incremental::{Context, query};
use crate::query::effects::{EffectPoliciesOn, EffectPolicy, PolicyEffect, UnreadRewritesIn};
use crate::query::grant::CreationOrder;
use policy_core::filter::Failure;
use policy_core::{Filter, FilterKind, SegmentCondition, Source};
use policy_crds::{Body, Claims, Invalid, Kind, Object, ObjectKey, Resource};
use std::sync::Arc;

query!(EffectPoliciesOn, Arc<[EffectPolicy]>, policies_on);
query!(UnreadRewritesIn, Arc<[EffectPolicy]>, unread_rewrites);

/// The status of requests that must not be forwarded, and the code of gRPC for it (`INTERNAL`).
const REFUSED: (u16, u16) = (500, 13);

fn policies_on(query: &EffectPoliciesOn, cx: &mut Context<'_>) -> Arc<[EffectPolicy]> {
    let target = &query.0;
    let mut keys = referrers(cx, target);
    keys.retain(|key| has_effects(key.kind));
    let objects = keys.into_iter().filter_map(|key| cx.object(key));
    let mut policies: Vec<EffectPolicy> = objects.filter_map(|object| policy(object)).collect();
    if target.kind == Kind::Server {
        let namespace = target.namespace.clone();
        policies.extend(cx.query(&UnreadRewritesIn(namespace)).iter().cloned());
    }
    policies.sort_by(|a, b| a.rank.cmp(&b.rank));
    policies.into()
}

/// A query of its own, so that a policy that does not belong here touches no Server.
fn unread_rewrites(query: &UnreadRewritesIn, cx: &mut Context<'_>) -> Arc<[EffectPolicy]> {
    let all = cx.list(Kind::HeaderRewritePolicy, &query.0);
    all.filter(|object| is_unread(object)).filter_map(|object| policy(object)).collect()
}

/// True for the kinds whose policies have effects on requests.
fn has_effects(kind: Kind) -> bool {
    matches!(kind, Kind::TimeoutPolicy | Kind::HeaderRewritePolicy)
}

/// True for a policy that may be about any Server of its namespace, and without whose changes requests
/// must not be forwarded.
pub(crate) fn is_unread(object: &Object) -> bool {
    let Body::Invalid(Invalid { claims, .. }) = &object.body else { return false };
    matches!(claims, Claims::HeaderRewrite { target: None, required: true })
}

/// The policy that an object is; `None` if it has no effect.
fn policy(object: &Object) -> Option<EffectPolicy> {
    let effect = match &object.body {
        Body::Valid(Resource::TimeoutPolicy(own)) => PolicyEffect::Timeouts(Arc::new(own.clone())),
        Body::Valid(Resource::HeaderRewritePolicy(own)) => {
            PolicyEffect::Rewrites(Arc::new(own.clone()))
        }
        Body::Invalid(Invalid { claims: Claims::HeaderRewrite { required: true, .. }, .. }) => {
            PolicyEffect::Refuses
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    let (rank, key) = (CreationOrder::of(&object.meta), object.meta.key.clone());
    Some(EffectPolicy { rank, key, effect })
}

/// The effects of the policies on these objects, in the order of the policies, each for the requests that
/// meet the conditions beside its object.
pub(crate) fn effects_on(cx: &mut Context<'_>, targets: &[ConditionalTarget]) -> Vec<Filter> {
    let mut found: Vec<(EffectPolicy, &[SegmentCondition])> = Vec::new();
    for (target, when) in widest(targets) {
        let policies = cx.query(&EffectPoliciesOn(target.clone()));
        found.extend(policies.iter().map(|policy| (policy.clone(), when.as_slice())));
    }
    found.sort_by(|(a, _), (b, _)| a.rank.cmp(&b.rank));
    found.iter().flat_map(|(policy, when)| effects(policy, when)).collect()
}

/// A target, with the conditions of the requests that it is about.
type ConditionalTarget = (ObjectKey, Vec<SegmentCondition>);

/// The targets without those that are there with fewer conditions too, or before with the same ones:
/// their effects would apply twice.
fn widest(targets: &[ConditionalTarget]) -> Vec<&ConditionalTarget> {
    let within = |one: &[_], other: &[_]| one.iter().all(|item| other.contains(item));
    let mut kept = targets.iter().enumerate().collect::<Vec<_>>();
    kept.retain(|(number, (target, when))| {
        let mut others = targets.iter().enumerate().filter(|(_, (other, _))| other == target);
        !others.any(|(other, (_, wide))| {
            other != *number && within(wide, when) && (other < *number || !within(when, wide))
        })
    });
    kept.into_iter().map(|(_, target)| target).collect()
}

fn effects(policy: &EffectPolicy, when: &[SegmentCondition]) -> Vec<Filter> {
    let kinds = match &policy.effect {
        PolicyEffect::Timeouts(own) => vec![FilterKind::Timeouts(own.timeouts(when.to_vec()))],
        PolicyEffect::Rewrites(own) => {
            own.rewrites(when).into_iter().map(FilterKind::Rewrite).collect()
        }
        // A failure has no conditions: of a part of the requests it takes all.
        PolicyEffect::Refuses => vec![FilterKind::Failure(refusal(&policy.key))],
    };
    let source = Source::Object(policy.key.to_ref());
    kinds.into_iter().map(|kind| Filter { source: source.clone(), kind }).collect()
}

/// The failure of every request.
fn refusal(policy: &ObjectKey) -> Failure {
    let (status, grpc_status) = REFUSED;
    let message = format!("{policy} is invalid and its changes are required");
    Failure { status, grpc_status, message: message.into(), numerator: 1, denominator: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::SegmentOperator;

    #[test]
    fn an_object_counts_once_for_a_request() {
        let key = |name| crate::testing::key(Kind::HttpRouteClass, "shop", name);
        let is = |text: &str| SegmentCondition::new("id", 1, SegmentOperator::In, [text]);
        let targets = [
            (key("a"), vec![is("1"), is("2")]),
            (key("a"), vec![is("1")]),
            (key("a"), vec![is("3")]),
            (key("b"), vec![]),
            (key("b"), vec![is("1")]),
            (key("b"), vec![]),
            (key("c"), vec![is("1"), is("2")]),
            (key("c"), vec![is("2"), is("1")]),
        ];
        let wanted = [1, 2, 3, 6].map(|number: usize| &targets[number]);
        assert_eq!(widest(&targets), wanted);
    }
}
