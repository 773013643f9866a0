//! Deciding allocates nothing, and neither does reading a target that is already canonical.

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

use http::{HeaderMap, Method, Uri, Version};
use policy_core::testing::benchmark::{self, Case};
use policy_core::{Decision, Evaluator, Memo, PathHandling, canonical_target};
use std::sync::Arc;

fn allocations(case: &Case) -> u64 {
    let evaluator = Evaluator::build(Arc::new(case.policy.clone())).unwrap();
    let connection = case.connection.view();
    let mut total = 0;
    for request in &case.requests {
        let view = request.view();
        let wanted = evaluator.decide_request(&connection, &mut Memo::new(), &view);
        assert!(matches!(wanted, Decision::Permit(_)), "{request:?}");
        let counted = allocation_counter::measure(|| {
            let decision = evaluator.decide_request(&connection, &mut Memo::new(), &view);
            assert_eq!(decision, evaluator.decide_request(&connection, &mut Memo::new(), &view));
            let _ = evaluator.decide_connection(&connection);
        });
        total += counted.count_total;
    }
    total
}

#[test]
fn deciding_by_ten_thousand_mixed_routes_allocates_nothing() {
    assert_eq!(allocations(&benchmark::mixed(10_000)), 0);
}

#[test]
fn deciding_by_ten_thousand_delegated_routes_allocates_nothing() {
    assert_eq!(allocations(&benchmark::trees(10_000)), 0);
}

#[test]
fn deciding_by_ten_thousand_parameterised_routes_allocates_nothing() {
    assert_eq!(allocations(&benchmark::groups(10_000)), 0);
}

#[test]
fn deciding_by_ten_thousand_authorizations_allocates_nothing() {
    assert_eq!(allocations(&benchmark::authorizations(10_000)), 0);
}

#[test]
fn the_worst_case_allocates_nothing() {
    assert_eq!(allocations(&benchmark::worst(1_000)), 0);
}

#[test]
fn reading_a_canonical_target_allocates_nothing() {
    let uri = Uri::from_static("/api/v1/items/%2A?q=1");
    let mut headers = HeaderMap::new();
    for host in ["web.example.com:8080", "10.0.0.1", "[fd00::1]:80"] {
        headers.insert("host", host.parse().unwrap());
        let counted = allocation_counter::measure(|| {
            let target = canonical_target(
                &Method::GET,
                &uri,
                Version::HTTP_11,
                &headers,
                PathHandling::Canonical,
            )
            .unwrap();
            assert!(target.rewritten().is_none());
        });
        assert_eq!(counted.count_total, 0, "{host}");
    }
}

#[test]
fn an_arranged_policy_of_ten_thousand_routes_takes_at_most_four_megabytes() {
    let policy = Arc::new(benchmark::mixed(10_000).policy);
    let mut evaluator = None;
    let counted = allocation_counter::measure(|| evaluator = Evaluator::build(policy.clone()).ok());
    assert!(evaluator.is_some());
    assert!(counted.bytes_current < 4_000_000, "{}", counted.bytes_current);
}
