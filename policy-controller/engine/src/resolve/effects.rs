//! The effects of policies on requests: timeouts, and changes of headers (docs/spec/requests.md,
//! *Effects*).
//!
//! An invalid policy has no effect but one: a HeaderRewritePolicy without whose changes requests must
//! not be forwarded makes them fail. Where its target cannot be read it may be any Server of the
//! namespace; so it may where the target itself is invalid, valid as the policy may be.

mod requests;

use super::reference::referrers;
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::effects::{
    EffectPoliciesOn, EffectPolicy, PolicyEffect, Refusal, UnreadRewritesIn,
};
use crate::query::grant::CreationOrder;
use policy_core::filter::Failure;
use policy_core::{Filter, FilterKind, Source};
use policy_crds::resource::PolicyTarget;
use policy_crds::{Body, Claims, Invalid, Kind, Object, ObjectKey, Resource};
use std::sync::Arc;

pub(crate) use requests::Requests;

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
    let all: Vec<_> = cx.list(Kind::HeaderRewritePolicy, &query.0).collect();
    let refused = all.into_iter().filter_map(|object| {
        let why = unread(cx, object)?;
        Some(with_effect(object, PolicyEffect::Refuses(why)))
    });
    refused.collect()
}

/// True for the kinds whose policies have effects on requests.
fn has_effects(kind: Kind) -> bool {
    matches!(kind, Kind::TimeoutPolicy | Kind::HeaderRewritePolicy)
}

/// The reason why the policy makes all requests of its namespace fail: nobody can say which it is about,
/// and they must not be forwarded without its changes. `None` if it does not.
pub(crate) fn unread(cx: &mut Context<'_>, object: &Object) -> Option<Refusal> {
    let (target, required) = match &object.body {
        Body::Valid(Resource::HeaderRewritePolicy(own)) => (Some(&own.target), own.required),
        Body::Invalid(Invalid { claims: Claims::HeaderRewrite { target, required }, .. }) => {
            (target.as_ref(), *required)
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    if !required {
        return None;
    }
    let Some(target) = target else { return Some(Refusal::Invalid) };
    let PolicyTarget::Route { kind, .. } = target else { return None };
    let key = target.key(&object.meta.key);
    let found = match kind.is_route() {
        // Names of routes are compared without case.
        true => cx.edge(Edge::named(&key)).first().copied().and_then(|route| cx.object(route)),
        false => cx.object(&key),
    };
    // An InboundRoute that is invalid keeps its hosts, whose requests are denied.
    let is_lost = *kind != Kind::InboundRoute
        && found.is_some_and(|found| matches!(found.body, Body::Invalid(_)));
    is_lost.then_some(Refusal::TargetInvalid)
}

/// The policy that an object is; `None` if it has no effect.
fn policy(object: &Object) -> Option<EffectPolicy> {
    let effect = match &object.body {
        Body::Valid(Resource::TimeoutPolicy(own)) => PolicyEffect::Timeouts(Arc::new(own.clone())),
        Body::Valid(Resource::HeaderRewritePolicy(own)) => {
            PolicyEffect::Rewrites(Arc::new(own.clone()))
        }
        Body::Invalid(Invalid { claims: Claims::HeaderRewrite { required: true, .. }, .. }) => {
            PolicyEffect::Refuses(Refusal::Invalid)
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    Some(with_effect(object, effect))
}

fn with_effect(object: &Object, effect: PolicyEffect) -> EffectPolicy {
    let (rank, key) = (CreationOrder::of(&object.meta), object.meta.key.clone());
    EffectPolicy { rank, key, effect }
}

/// The effects of the policies on an object, in their order.
pub(crate) fn effects_on(cx: &mut Context<'_>, target: &ObjectKey) -> Vec<Filter> {
    let policies = cx.query(&EffectPoliciesOn(target.clone()));
    effects_of(&[EffectsOf { policies, requests: Requests::all() }])
}

/// The policies on an object, and the requests that they are about.
pub(crate) struct EffectsOf {
    /// The policies.
    pub(crate) policies: Arc<[EffectPolicy]>,
    /// The requests.
    pub(crate) requests: Requests,
}

/// The effects of policies on several objects, in the order of the policies.
pub(crate) fn effects_of(all: &[EffectsOf]) -> Vec<Filter> {
    let mut found: Vec<(&EffectPolicy, &Requests)> = Vec::new();
    for EffectsOf { policies, requests } in all {
        found.extend(policies.iter().map(|policy| (policy, requests)));
    }
    found.sort_by(|(a, _), (b, _)| a.rank.cmp(&b.rank));
    found.into_iter().flat_map(|(policy, requests)| effects(policy, requests)).collect()
}

fn effects(policy: &EffectPolicy, requests: &Requests) -> Vec<Filter> {
    let refused = |why| vec![FilterKind::Failure(refusal(&policy.key, why))];
    let kinds = match &policy.effect {
        // Of several bounds the smallest holds, so that one may be there twice.
        PolicyEffect::Timeouts(own) => {
            let each = requests.alternatives().iter();
            each.map(|when| FilterKind::Timeouts(own.timeouts(when.clone()))).collect()
        }
        PolicyEffect::Rewrites(own) => match requests.disjoint() {
            Some(parts) if !(own.required && requests.is_partial()) => {
                let rewrites = parts.iter().flat_map(|when| own.rewrites(when));
                rewrites.map(FilterKind::Rewrite).collect()
            }
            Some(_) | None if own.required => refused(Refusal::RequestsUnknown),
            Some(_) | None => Vec::new(),
        },
        // A failure has no conditions: of a part of the requests it takes all.
        PolicyEffect::Refuses(why) => refused(*why),
    };
    let source = Source::Object(policy.key.to_ref());
    kinds.into_iter().map(|kind| Filter { source: source.clone(), kind }).collect()
}

/// The failure of every request, in place of the changes.
fn refusal(policy: &ObjectKey, why: Refusal) -> Failure {
    let (status, grpc_status) = REFUSED;
    let message = match why {
        Refusal::Invalid => format!("{policy} is invalid and its changes are required"),
        Refusal::TargetInvalid => {
            format!("the target of {policy} is invalid and its changes are required")
        }
        Refusal::RequestsUnknown => format!(
            "a condition of the target of {policy} cannot be evaluated and its changes are required"
        ),
    };
    Failure {
        status,
        grpc_status,
        message: message.into(),
        numerator: 1,
        denominator: 1,
        required: true,
    }
}
