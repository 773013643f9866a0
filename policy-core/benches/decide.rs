//! How long one decision takes, and that it does not depend on what does not match.
//!
//! `cargo bench -p policy-core --bench decide`

#![allow(missing_docs, reason = "the macros make public items")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "a benchmark stops at the first surprise"
)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use http::{HeaderMap, Method, Uri, Version};
use policy_core::testing::benchmark::{self, Case};
use policy_core::{Evaluator, Memo, PathHandling, canonical_target};
use std::hint::black_box;
use std::sync::Arc;

/// Each request of the case in turn; the figure is that of one decision.
fn measure(criterion: &mut Criterion, name: &str, size: usize, case: &Case) {
    let evaluator = Evaluator::build(Arc::new(case.policy.clone())).expect("the case is valid");
    let connection = case.connection.view();
    let mut group = criterion.benchmark_group(name);
    let mut next = case.requests.iter().cycle();
    let mut memo = Memo::new();
    group.bench_function(BenchmarkId::new("known connection", size), |bencher| {
        bencher.iter(|| {
            let request = next.next().expect("the case has requests");
            evaluator.decide_request(black_box(&connection), &mut memo, &request.view())
        });
    });
    group.bench_function(BenchmarkId::new("new connection", size), |bencher| {
        bencher.iter(|| {
            let request = next.next().expect("the case has requests");
            evaluator.decide_request(black_box(&connection), &mut Memo::new(), &request.view())
        });
    });
    group.finish();
}

fn decisions(criterion: &mut Criterion) {
    measure(criterion, "one rule", 1, &benchmark::one());
    for size in [100, 10_000] {
        measure(criterion, "mixed routes", size, &benchmark::mixed(size));
        measure(criterion, "authorizations", size, &benchmark::authorizations(size));
    }
    measure(criterion, "worst case", 1_000, &benchmark::worst(1_000));
    measure(criterion, "worst case", 10_000, &benchmark::worst(10_000));
}

fn targets(criterion: &mut Criterion) {
    let mut headers = HeaderMap::new();
    headers.insert("host", "web.example.com:8080".parse().expect("a valid value"));
    for (name, target) in
        [("canonical", "/api/v1/items/17?q=1"), ("to be rewritten", "/api/v1/%69tems/17?q=1")]
    {
        let uri = Uri::from_static(target);
        criterion.bench_function(&format!("target {name}"), |bencher| {
            bencher.iter(|| {
                canonical_target(
                    &Method::GET,
                    black_box(&uri),
                    Version::HTTP_11,
                    black_box(&headers),
                    PathHandling::Canonical,
                )
            });
        });
    }
}

fn building(criterion: &mut Criterion) {
    let policy = Arc::new(benchmark::mixed(10_000).policy);
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    group.bench_function("mixed routes/10000", |bencher| {
        bencher.iter(|| Evaluator::build(policy.clone()).expect("the case is valid"));
    });
    group.finish();
}

criterion_group!(benches, decisions, targets, building);
criterion_main!(benches);
