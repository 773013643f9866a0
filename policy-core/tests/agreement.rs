//! The evaluator that runs and the one that reads like the specification say the same.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "a test stops at the first surprise"
)]

use policy_core::change::{ListDiff, RouteChange};
use policy_core::effect::{PossibleBound, PossibleEffects, TimeoutBound};
use policy_core::explain::{MAX_CONSIDERED, explain};
use policy_core::testing::{
    any_client, any_policy, any_policy_with_effects, any_request, any_timeouts,
};
use policy_core::{
    Decision, Denied, EffectiveTimeouts, Evaluator, Filter, FilterKind, Memo, ServerPolicy,
    Timeouts, naive,
};
use proptest::prelude::*;
use std::sync::Arc;

fn build(policy: &ServerPolicy) -> Evaluator {
    Evaluator::build(Arc::new(policy.clone())).expect("a small policy can be arranged")
}

fn is_permit(decision: &Decision) -> bool {
    matches!(decision, Decision::Permit(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_evaluators_decide_alike(
        policy in any_policy(),
        clients in prop::collection::vec(any_client(), 1..4),
        requests in prop::collection::vec(any_request(), 1..8),
    ) {
        let evaluator = build(&policy);
        for client in &clients {
            let connection = client.view();
            prop_assert_eq!(
                evaluator.decide_connection(&connection),
                naive::decide_connection(&policy, &connection)
            );
            let mut memo = Memo::new();
            for request in &requests {
                let indexed = evaluator.decide_request(&connection, &mut memo, &request.view());
                let naive = naive::decide_request(&policy, &connection, &request.view());
                prop_assert_eq!(indexed, naive, "{:?}", request);
            }
        }
    }

    #[test]
    fn a_policy_that_was_changed_step_by_step_decides_like_one_made_at_once(
        first in any_policy(),
        // Where, how many routes make room, the policy that others are taken from, and how many.
        steps in prop::collection::vec(
            (any::<prop::sample::Index>(), 0_usize..3, any_policy(), 0_usize..3),
            1..4,
        ),
        clients in prop::collection::vec(any_client(), 1..3),
        requests in prop::collection::vec(any_request(), 1..8),
    ) {
        let mut evaluator = build(&first);
        let mut policy = first;
        for (at, gone, other, more) in steps {
            let routes = &mut policy.routes.routes;
            let (count, at) = (routes.len(), at.index(routes.len() + 1));
            let end = count.min(at + gone);
            let more: Vec<_> = other.routes.routes.into_iter().take(more).collect();
            let mut places = ListDiff::builder(count);
            (0..at).for_each(|place| places.retain(place));
            more.iter().for_each(|_| places.insert());
            (end..count).for_each(|place| places.retain(place));
            routes.splice(at..end, more);
            let places = places.finish().expect("few differ");
            let change = RouteChange::new(evaluator.policy().clone(), places).expect("of its length");
            evaluator = evaluator.changed_to(Arc::new(policy.clone()), &change).expect("small");
            prop_assert_eq!(evaluator.matched_headers(), naive::matched_headers(&policy));
            for client in &clients {
                let connection = client.view();
                let mut memo = Memo::new();
                for request in &requests {
                    let indexed = evaluator.decide_request(&connection, &mut memo, &request.view());
                    let naive = naive::decide_request(&policy, &connection, &request.view());
                    prop_assert_eq!(indexed, naive, "{:?}", request);
                }
            }
        }
    }

    #[test]
    fn both_evaluators_apply_the_same_effects(
        policy in any_policy_with_effects(),
        client in any_client(),
        requests in prop::collection::vec(any_request(), 1..6),
    ) {
        let (evaluator, connection) = (build(&policy), client.view());
        for request in &requests {
            let view = request.view();
            let decision = evaluator.decide_request(&connection, &mut Memo::new(), &view);
            let Decision::Permit(permit) = decision else { continue };
            let applied = evaluator.effects_on(&permit, &view);
            prop_assert_eq!(&applied, &naive::effects(&policy, &permit, &view), "{:?}", request);
            let mut timeouts = EffectiveTimeouts::default();
            applied.iter().for_each(|effect| timeouts.add(&effect.kind));
            prop_assert_eq!(timeouts, naive::timeouts(&applied));
            let explained = explain(&policy, &connection, Some(&view)).effects;
            prop_assert_eq!(explained.applied.iter().collect::<Vec<_>>(), applied);
            if explained.answer.is_some() {
                // Nothing is forwarded that could be bounded.
                prop_assert_eq!(explained.timeouts, []);
                continue;
            }
            let bound = |wanted| {
                explained.timeouts.iter().find(|one| one.bound == wanted).map(|one| one.after)
            };
            prop_assert_eq!(bound(TimeoutBound::Complete), timeouts.complete);
            prop_assert_eq!(bound(TimeoutBound::Head), timeouts.head);
            prop_assert_eq!(bound(TimeoutBound::Response), timeouts.response);
            prop_assert_eq!(bound(TimeoutBound::Idle), timeouts.idle);
        }
    }

    #[test]
    fn what_is_told_of_a_rule_comes_to_the_bounds_of_each_request(
        policy in any_policy_with_effects(),
        client in any_client(),
        requests in prop::collection::vec(any_request(), 1..6),
    ) {
        let (evaluator, connection) = (build(&policy), client.view());
        let of_server = PossibleEffects::of(&policy.effects, &[]);
        for request in &requests {
            let view = request.view();
            let explained = explain(&policy, &connection, Some(&view));
            let Decision::Permit(permit) = explained.decision else { continue };
            if explained.effects.answer.is_some() {
                continue;
            }
            let rule = permit.route().and_then(|id| evaluator.rule(id));
            let own = rule.map(|(_, rule)| PossibleEffects::of(&rule.effects, &policy.effects));
            let own = own.unwrap_or_default();
            let holds = |one: &&PossibleBound| {
                // An effect that has nothing but the conditions applies where they hold.
                let timeouts = Timeouts { when: one.when.clone(), ..Timeouts::default() };
                let source = one.bound.source.clone();
                let mut alone = policy.clone();
                alone.effects = vec![Filter { source, kind: FilterKind::Timeouts(timeouts) }];
                alone.routes.routes.iter_mut().for_each(|route| {
                    Arc::make_mut(route).rules.iter_mut().for_each(|r| r.effects = Vec::new().into());
                });
                !naive::effects(&alone, &permit, &view).is_empty()
            };
            let told: Vec<_> =
                own.timeouts.iter().chain(&of_server.timeouts).filter(holds).collect();
            for part in TimeoutBound::ALL {
                let times = told.iter().filter(|one| one.bound.bound == part);
                let held = explained.effects.timeouts.iter().find(|one| one.bound == part);
                prop_assert_eq!(times.map(|one| one.bound.after).min(), held.map(|one| one.after));
            }
        }
    }

    #[test]
    fn the_order_of_policies_never_changes_a_bound(
        timeouts in prop::collection::vec(any_timeouts(), 1..6),
        turn in any::<prop::sample::Index>(),
    ) {
        let sum = |all: &[Timeouts]| {
            let mut sum = EffectiveTimeouts::default();
            all.iter().for_each(|one| sum.add(&FilterKind::Timeouts(one.clone())));
            sum
        };
        let mut turned = timeouts.clone();
        turned.rotate_left(turn.index(timeouts.len()));
        prop_assert_eq!(sum(&turned), sum(&timeouts));
        turned.reverse();
        prop_assert_eq!(sum(&turned), sum(&timeouts));
    }

    #[test]
    fn an_explanation_agrees_with_the_decision(
        policy in any_policy(),
        client in any_client(),
        request in any_request(),
    ) {
        let connection = client.view();
        let explanation = explain(&policy, &connection, Some(&request.view()));
        prop_assert_eq!(explanation.decision, naive::decide_request(&policy, &connection, &request.view()));
        prop_assert!(explanation.considered.len() <= MAX_CONSIDERED);
        let holds = explanation.considered.iter().find(|entry| entry.failed.is_none());
        match explanation.decision {
            Decision::Permit(permit) => {
                prop_assert_eq!(holds.map(|entry| entry.id), Some(permit.authorization()));
            }
            Decision::Deny(_) => prop_assert!(holds.is_none(), "{:?}", explanation),
        }
        if let Decision::Deny(denial) = explanation.decision && denial.reason != Denied::Unauthorized {
            prop_assert!(explanation.considered.is_empty());
        }
        let failures: Vec<usize> = explanation.considered.iter().map(|entry| entry.failures).collect();
        prop_assert!(failures.is_sorted());
    }

    #[test]
    fn taking_a_grant_away_never_permits_more(
        policy in any_policy(),
        client in any_client(),
        request in any_request(),
        which in any::<prop::sample::Index>(),
    ) {
        let connection = client.view();
        let before = naive::decide_request(&policy, &connection, &request.view());
        let mut less = policy.clone();
        if less.authorizations.is_empty() {
            return Ok(());
        }
        let gone = which.index(less.authorizations.len());
        let kept = less.authorizations.iter().enumerate().filter(|(at, _)| *at != gone);
        less.authorizations = kept.map(|(_, grant)| grant.clone()).collect();
        let after = build(&less).decide_request(&connection, &mut Memo::new(), &request.view());
        prop_assert!(is_permit(&before) || !is_permit(&after));
    }

    #[test]
    fn a_client_without_tls_is_never_permitted_more_than_with_it(
        policy in any_policy(),
        client in any_client(),
        request in any_request(),
    ) {
        use policy_core::testing::OwnedTls;
        let mut plain = client.clone();
        plain.tls = OwnedTls::Absent;
        if client.tls == OwnedTls::Passthrough {
            return Ok(());
        }
        let evaluator = build(&policy);
        let view = request.view();
        let without = evaluator.decide_request(&plain.view(), &mut Memo::new(), &view);
        let with = evaluator.decide_request(&client.view(), &mut Memo::new(), &view);
        prop_assert!(is_permit(&with) || !is_permit(&without));
    }
}

/// If the strategies stopped reaching a verdict, the tests above would prove nothing about it.
#[test]
fn the_generated_cases_reach_every_verdict() {
    use policy_core::AuthorizationId;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    use std::collections::BTreeMap;

    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..6000 {
        let cases = (any_policy(), any_client(), any_request());
        let (policy, client, request) = cases.new_tree(&mut runner).unwrap().current();
        let verdict = match naive::decide_request(&policy, &client.view(), &request.view()) {
            Decision::Deny(denial) => denial.reason.as_str(),
            Decision::Permit(permit) => match (permit.route(), permit.authorization()) {
                (_, AuthorizationId::Exemption(_)) => "exempted",
                (_, AuthorizationId::Route(..)) => "permitted by the route",
                (Some(_), AuthorizationId::Server(_)) => "permitted by the Server for a route",
                (None, AuthorizationId::Server(_)) => "permitted by the Server",
            },
        };
        *counts.entry(verdict).or_default() += 1;
    }
    for expected in [
        "no_route",
        "unauthorized",
        "cannot_tell",
        "header_obs_text",
        "server_invalid",
        "routes_invalid",
        "proxy_unsupported",
        "not_delegated",
        "route_invalid",
        "exempted",
        "permitted by the route",
        "permitted by the Server for a route",
        "permitted by the Server",
    ] {
        assert!(counts.get(expected).copied().unwrap_or(0) >= 15, "{expected}: {counts:?}");
    }
}
