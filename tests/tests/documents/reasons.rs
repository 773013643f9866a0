//! docs/reasons.md explains every reason to refuse, with the answer that it gets.

use http::{Method, Request};
use policy_core::{DefaultPolicy, Denial, Denied};
use policy_enforce::Telemetry;
use policy_enforce::limiter::{RateLimitExceeded, Scope};
use policy_enforce::respond::{Answer, RefusalDetail, ResponseFormat, respond};
use policy_tests::sources::root;
use std::collections::BTreeMap;
use std::fs;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

/// The rows of the tables: the reason, and the other cells.
fn rows() -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("docs/reasons.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<String> =
            line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        (cells[0].trim_matches('`').to_owned(), cells[1..].to_vec())
    })
    .collect()
}

fn asker(grpc: bool) -> ResponseFormat {
    asker_in(grpc, false)
}

fn asker_in(grpc: bool, meshed: bool) -> ResponseFormat {
    let mut request = Request::builder().method(Method::POST);
    if grpc {
        request = request.version(http::Version::HTTP_2).header("content-type", "application/grpc");
    }
    ResponseFormat::of(&request.body(()).unwrap().into_parts().0, meshed, RefusalDetail::Reason)
}

/// HTTP status and gRPC code of a refusal.
fn answered(reason: Denied) -> (String, String) {
    let answer = Answer::Denied(reason);
    let plain = respond(&answer, &asker(false)).status().as_u16().to_string();
    let grpc = respond(&answer, &asker(true)).headers()["grpc-status"].to_str().unwrap().to_owned();
    (plain, grpc)
}

/// Value of `l5d-proxy-error` for a meshed caller.
fn told(answer: &Answer, grpc: bool) -> String {
    let response = respond(answer, &asker_in(grpc, true));
    response.headers()["l5d-proxy-error"].to_str().unwrap().to_owned()
}

#[test]
fn meshed_callers_and_metrics_are_told_each_reason_word_for_word() {
    let telemetry = Telemetry::new(1);
    let port = NonZeroU16::new(8080).unwrap();
    let policy = policy_core::testing::default_policy(DefaultPolicy::Deny);
    let counters = telemetry.counters(port, &Arc::new(policy), &Arc::default());
    let caller = telemetry.caller(&policy_core::Tls::Absent);
    for reason in rows().into_keys() {
        let reason = Denied::parse(&reason).unwrap_or_else(|| panic!("no reason: {reason}"));
        for grpc in [false, true] {
            assert_eq!(told(&Answer::Denied(reason), grpc), reason.as_str());
        }
        counters.http_denied(0, caller, &Denial { reason, route: None });
    }
    let rate = NonZeroU32::MIN;
    let limited = Answer::Limited(RateLimitExceeded { scope: Scope::Total, rate });
    assert_eq!(told(&limited, false), Denied::RateLimited.as_str());
    let metrics = telemetry.encode(&[]).unwrap();
    for reason in Denied::all() {
        let label = format!("reason=\"{}\"", reason.as_str());
        let counted = |line: &str| line.starts_with("inbound_http_") && line.contains(&label);
        assert!(metrics.lines().any(counted), "{label} in {metrics}");
    }
}

#[test]
fn every_reason_is_explained_with_the_answer_it_gets() {
    let mut rows = rows();
    for reason in Denied::all() {
        let row = rows.remove(reason.as_str()).unwrap_or_else(|| panic!("no row for {reason:?}"));
        let stated = match reason {
            Denied::Target(_) => ("400".to_owned(), "3".to_owned()),
            _ => (row[0].clone(), row[1].split(' ').next().unwrap().to_owned()),
        };
        assert_eq!(stated, answered(reason), "{reason:?}");
    }
    assert!(rows.is_empty(), "reasons that do not exist: {rows:?}");
}
