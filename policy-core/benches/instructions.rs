//! Instructions per case: of one decision on each of its requests. They do not depend on the machine's
//! load.
//!
//! Needs valgrind and `gungraun-runner` when run: `cargo bench -p policy-core --bench instructions`

#![allow(missing_docs, unreachable_pub, reason = "the macros make public items")]
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

use gungraun::prelude::*;
use http::{HeaderMap, Method, Uri, Version};
use policy_core::testing::benchmark::{self, Case};
use policy_core::{Decision, Evaluator, Memo, PathHandling, canonical_path, canonical_target};
use std::hint::black_box;
use std::sync::Arc;

struct Ready {
    evaluator: Evaluator,
    case: Case,
}

fn ready(case: Case) -> Ready {
    let evaluator = Evaluator::build(Arc::new(case.policy.clone())).expect("the case is valid");
    Ready { evaluator, case }
}

#[library_benchmark(setup = ready)]
#[bench::one_rule(benchmark::one())]
#[bench::mixed_routes(benchmark::mixed(10_000))]
#[bench::authorizations(benchmark::authorizations(10_000))]
fn decide(ready: Ready) -> (Option<Decision>, Ready) {
    let connection = ready.case.connection.view();
    let mut last = None;
    for request in &ready.case.requests {
        let mut memo = Memo::new();
        let view = request.view();
        last = Some(ready.evaluator.decide_request(black_box(&connection), &mut memo, &view));
    }
    // Given back, so that taking it apart is not measured.
    (last, ready)
}

fn head(target: &'static str) -> (Uri, HeaderMap) {
    let mut headers = HeaderMap::new();
    headers.insert("host", "web.example.com:8080".parse().expect("a valid value"));
    (Uri::from_static(target), headers)
}

#[library_benchmark(setup = head)]
#[bench::canonical("/api/v1/items/17?q=1")]
#[bench::rewritten("/api/v1/%69tems/17?q=1")]
fn target((uri, headers): (Uri, HeaderMap)) -> (Uri, HeaderMap) {
    let _ = black_box(canonical_target(
        &Method::GET,
        black_box(&uri),
        Version::HTTP_11,
        &headers,
        PathHandling::Canonical,
    ));
    (uri, headers)
}

#[library_benchmark]
fn path() -> bool {
    black_box(canonical_path(black_box("/api/v1/items/17"))).is_ok()
}

library_benchmark_group!(name = benches; benchmarks = decide, target, path);
main!(library_benchmark_groups = benches);
