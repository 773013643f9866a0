//! Property-test strategies of effects.

use super::builders::object;
use super::strategies::{HEADERS, VALUES, any_policy, any_segment_condition};
use crate::condition::{EffectCondition, HeaderCondition, HeaderOperator};
use crate::filter::{Failure, Filter, FilterKind, HeaderChange, HeaderRewrite, Streams, Timeouts};
use crate::name::Source;
use crate::policy::ServerPolicy;
use http::{HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::Arc;
use std::time::Duration;

fn any_header_condition() -> impl Strategy<Value = HeaderCondition> {
    let values = || vec(select(&VALUES[..]).prop_map(Arc::from), 0..3);
    let operator = prop_oneof![
        3 => values().prop_map(HeaderOperator::In),
        2 => values().prop_map(HeaderOperator::NotIn),
        1 => Just(HeaderOperator::Exists),
        1 => Just(HeaderOperator::DoesNotExist),
    ];
    (select(&HEADERS[..]), operator)
        .prop_map(|(name, operator)| HeaderCondition { name: name.into(), operator })
}

fn any_effect_condition() -> impl Strategy<Value = EffectCondition> {
    prop_oneof![
        2 => any_segment_condition().prop_map(EffectCondition::Segment),
        3 => any_header_condition().prop_map(EffectCondition::Header),
    ]
}

/// Any bounds, with few different times.
pub fn any_timeouts() -> impl Strategy<Value = Timeouts> {
    let bound = || option::of((1_u64..4).prop_map(Duration::from_secs));
    let streams = select(vec![Streams::Bounded, Streams::Unbounded]);
    (vec(any_segment_condition(), 0..2), bound(), bound(), bound(), streams).prop_map(
        |(when, request, response, idle, streams)| Timeouts {
            when,
            request,
            response,
            idle,
            streams,
        },
    )
}

/// Any rewriting of few headers.
pub fn any_rewrite() -> impl Strategy<Value = HeaderRewrite> {
    let name = || select(&["x-a", "x-b", "x-c"][..]).prop_map(HeaderName::from_static);
    let value = || select(&["1", "2", ""][..]).prop_map(HeaderValue::from_static);
    let fields = move || vec((name(), value()), 0..3);
    (vec(any_effect_condition(), 0..3), vec(name(), 0..2), fields(), fields(), any::<bool>())
        .prop_map(|(when, clear, set, add, required)| HeaderRewrite {
            when,
            clear,
            set,
            add,
            required,
        })
}

/// The failure that stands for a rewrite that is required and invalid.
pub fn refusal() -> FilterKind {
    FilterKind::Failure(Failure {
        status: 500,
        grpc_status: 13,
        message: "invalid".into(),
        numerator: 1,
        denominator: 1,
        required: true,
    })
}

fn any_effect() -> impl Strategy<Value = Filter> {
    let change =
        HeaderChange { remove: vec![HeaderName::from_static("x-a")], ..HeaderChange::default() };
    let kind = prop_oneof![
        4 => any_timeouts().prop_map(FilterKind::Timeouts),
        4 => any_rewrite().prop_map(FilterKind::Rewrite),
        1 => (1_u64..4).prop_map(|count| FilterKind::Timeout(Duration::from_secs(count))),
        1 => Just(FilterKind::RequestHeaders(change)),
        1 => Just(refusal()),
    ];
    (0_u8..9, kind).prop_map(|(number, kind)| Filter {
        source: Source::Object(object("TimeoutPolicy", &number.to_string())),
        kind,
    })
}

/// Any policy of [`any_policy`], with effects on its rules and on the Server.
pub fn any_policy_with_effects() -> impl Strategy<Value = ServerPolicy> {
    (any_policy(), vec(any_effect(), 0..4), vec(vec(any_effect(), 0..4), 1..4)).prop_map(
        |(mut policy, effects, of_rules)| {
            policy.effects.extend(effects);
            let routes = policy.routes.routes.iter_mut().map(Arc::make_mut);
            let rules = routes.flat_map(|route| route.rules.iter_mut());
            for (rule, effects) in rules.zip(of_rules.into_iter().cycle()) {
                rule.effects = effects.into();
            }
            policy
        },
    )
}
