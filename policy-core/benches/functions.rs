//! Cost of a decision, of compiling a policy, and of a target.
//!
//! `bench/functions` runs it; `cargo bench -p policy-core` measures time alone.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first surprise"
)]

use http::{HeaderMap, Method, Uri, Version};
use policy_core::change::{ListDiff, RouteChange};
use policy_core::testing::benchmark::{self, Case};
use policy_core::{Evaluator, Memo, PathHandling, ServerPolicy, canonical_path, canonical_target};
use policy_measure::Function;
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

/// Decides on every request of a case, each on a connection of which nothing is known yet.
fn decide(name: &str, case: fn() -> Case) -> Function {
    Function::shared(
        name,
        move || ready(case()),
        |ready| {
            let connection = ready.case.connection.view();
            let mut last = None;
            for request in &ready.case.requests {
                let (mut memo, view) = (Memo::new(), request.view());
                let connection = black_box(&connection);
                last = Some(ready.evaluator.decide_request(connection, &mut memo, &view));
            }
            last
        },
    )
}

/// The same of one request, on a connection that has been decided on before.
fn decide_again() -> Function {
    let setup = || {
        let ready = ready(benchmark::one());
        let mut memo = Memo::new();
        {
            let connection = ready.case.connection.view();
            let view = ready.case.requests[0].view();
            let _ = ready.evaluator.decide_request(&connection, &mut memo, &view);
        }
        (ready, memo)
    };
    Function::new("decide-1-rule-known-connection", setup, |(ready, memo)| {
        let connection = ready.case.connection.view();
        ready.evaluator.decide_request(black_box(&connection), memo, &ready.case.requests[0].view())
    })
}

fn build(name: &str, case: fn() -> Case) -> Function {
    Function::new(name, move || Arc::new(case().policy), |policy| Evaluator::build(policy.clone()))
}

/// Arranges a policy that has one route less, in the middle, than one that is arranged already.
fn change(name: &str, case: fn() -> Case) -> Function {
    let setup = move || {
        let evaluator = ready(case()).evaluator;
        let before = evaluator.policy();
        let (mut less, count) = (ServerPolicy::clone(before), before.routes.routes.len());
        less.routes.routes.remove(count / 2);
        let mut draft = ListDiff::builder(count);
        (0..count).filter(|place| *place != count / 2).for_each(|place| draft.retain(place));
        let places = draft.finish().expect("one route differs");
        let change = RouteChange::new(Arc::clone(before), places).expect("of this length");
        (evaluator, Arc::new(less), change)
    };
    Function::shared(name, setup, |(evaluator, less, change)| {
        evaluator.changed_to(Arc::clone(less), change)
    })
}

fn target(name: &str, target: &'static str) -> Function {
    let head = move || {
        let mut headers = HeaderMap::new();
        headers.insert("host", "web.example.com:8080".parse().expect("a valid value"));
        (Uri::from_static(target), headers)
    };
    Function::shared(name, head, |(uri, headers)| {
        let paths = PathHandling::Canonical;
        canonical_target(&Method::GET, black_box(uri), Version::HTTP_11, headers, paths).is_ok()
    })
}

fn path(name: &str, path: &'static str) -> Function {
    Function::shared(name, move || path, |path| canonical_path(black_box(path)).is_ok())
}

fn main() {
    policy_measure::main(vec![
        decide("decide-1-rule", benchmark::one),
        decide_again(),
        decide("decide-7-of-10000-mixed-routes", || benchmark::mixed(10_000)),
        decide("decide-10000-delegated-routes", || benchmark::trees(10_000)),
        decide("decide-2-of-10000-parameterised-routes", || benchmark::groups(10_000)),
        decide("decide-10000-authorizations", || benchmark::authorizations(10_000)),
        decide("decide-worst-of-1000", || benchmark::worst(1_000)),
        decide("decide-worst-of-10000", || benchmark::worst(10_000)),
        build("build-1-rule", benchmark::one),
        build("build-10000-mixed-routes", || benchmark::mixed(10_000)),
        build("build-10000-delegated-routes", || benchmark::trees(10_000)),
        change("build-change-of-10000-mixed-routes", || benchmark::mixed(10_000)),
        target("target-canonical", "/api/v1/items/17?q=1"),
        target("target-rewritten", "/api/v1/%69tems/17?q=1"),
        path("path-canonical", "/api/v1/items/17"),
        path("path-rewritten", "/api/v1/%69tems/17"),
    ]);
}
